package imgshard

import (
	"fmt"
	"io"
	"slices"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/page"
)

// writePage writes the statistics as a page.
func (st *setStats) writePage(out io.Writer) error {
	p := page.Begin(out, st.Path, "stats", "")
	p.Add("<h1>%s</h1>\n<p>", st.Path)
	for _, fact := range st.summary() {
		p.Add("%s<br>\n", fact)
	}
	p.Add("</p>\n<div class=\"plots\">\n")
	for _, row := range st.Rows() {
		if row.Of.Count > 0 {
			addHistogram(p, row)
		}
	}
	p.Add("</div>\n<div class=\"plots\">\n")
	addClasses(p, "Rarest classes", st.Rarest)
	if len(st.Rarest) < st.Classes {
		addClasses(p, "Most frequent classes", st.Commonest)
	}
	p.Add("</div>\n<h2>Formats</h2>\n")
	var formats, reasons [][]any
	for _, f := range st.Formats {
		formats = append(formats, []any{f.Format, f.Samples, page.Number(bytesize.Format(f.Bytes))})
	}
	p.Table([]string{"format", "images", "bytes"}, formats)
	p.Add("<h2>Left out by the build</h2>\n")
	if st.Rejects.Samples == 0 {
		p.Add("<p>Nothing.</p>\n")
	}
	for _, r := range st.Rejects.Reasons {
		reasons = append(reasons, []any{r.Reason, r.Samples, r.Example})
	}
	p.Table([]string{"reason", "images", "example"}, reasons)
	return p.End()
}

// addHistogram adds a plot of a distribution: bars in an SVG of 400 × 100.
func addHistogram(p page.Page, row namedDistribution) {
	d := row.Of
	p.Add("<figure>\n<figcaption>%s: median %s, from %s to %s</figcaption>\n",
		row.Name, row.Write(d.Median), row.Write(d.Min), row.Write(d.Max))
	p.Add(`<svg viewBox="0 0 400 100" preserveAspectRatio="none" role="img" aria-label="histogram of %s">`, row.Name)
	highest := slices.Max(append([]int{1}, d.Histogram...))
	step := (d.High - d.Low) / histogramBins
	for i, n := range d.Histogram {
		height := 100 * float64(n) / float64(highest)
		title := fmt.Sprintf("%s to %s: %d", row.Write(d.Low+float64(i)*step), row.Write(d.Low+float64(i+1)*step), n)
		p.Add(`<rect x="%d" y="%.4g" width="9" height="%.4g"><title>%s</title></rect>`, 10*i, 100-height, height, title)
	}
	p.Add("</svg>\n"+`<div class="ends"><span>%s</span><span>1st to 99th percentile</span><span>%s</span></div>`+"\n</figure>\n",
		row.Write(d.Low), row.Write(d.High))
}

// addClasses adds a table of classes, if there are any, each with a bar relative to the largest one.
func addClasses(p page.Page, title string, list []classCount) {
	if len(list) == 0 {
		return
	}
	p.Add("<section><h2>%s</h2>", title)
	largest := max(1, list[0].Samples, list[len(list)-1].Samples)
	var rows [][]any
	for _, c := range list {
		name := page.Markup("%s", c.Class)
		if word := firstWord(c.Class); word != "" {
			name += page.Markup(` <span class="faint">%s</span>`, word)
		}
		bar := page.Markup(`<span class="bar" style="width:%.4g%%"></span>`, 100*float64(c.Samples)/float64(largest))
		rows = append(rows, []any{name, c.Label, c.Samples, bar})
	}
	p.Table([]string{"class", "label", "samples", ""}, rows)
	p.Add("</section>\n")
}
