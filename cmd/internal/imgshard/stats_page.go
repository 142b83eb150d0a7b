package imgshard

import (
	"bufio"
	"fmt"
	"io"
	"slices"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/pack"
)

// writePage writes the statistics as a page.
func (st *setStats) writePage(out io.Writer) error {
	p := page{bufio.NewWriter(out)}
	p.begin(st.Set, "stats.css", "")
	p.add("<h1>%s</h1>\n<p>Split %s: samples %d, classes %d, partitions %d, stored as %s; images %s, row indexes and fields %s.\n",
		st.Set, st.Split, st.Samples, st.Classes, st.Partitions, registry.Describe(st.Encoding),
		bytesize.Format(st.ImageBytes), bytesize.Format(st.ExtraBytes))
	for _, fact := range st.facts() {
		p.add("<br>%s\n", fact)
	}
	p.add("</p>\n<div class=\"plots\">\n")
	for _, row := range st.Rows() {
		if row.Of.Count > 0 {
			p.histogram(row)
		}
	}
	p.add("</div>\n<div class=\"plots\">\n")
	p.classes("Rarest classes", st.Rarest)
	if len(st.Rarest) < st.Classes {
		p.classes("Most frequent classes", st.Commonest)
	}
	p.add("</div>\n<h2>Formats</h2>\n")
	p.add(`<div class="scroll"><table><tr><th>format<th class="number">images<th class="number">bytes</tr>`)
	for _, f := range st.Formats {
		p.add(`<tr><td>%s<td class="number">%d<td class="number">%s</tr>`, f.Format, f.Samples, bytesize.Format(f.Bytes))
	}
	p.add("</table></div>\n")
	p.add("<h2>Left out by the build</h2>\n")
	if st.Rejects.Samples == 0 {
		p.add("<p>Nothing.</p>\n")
	}
	p.reasons(st.Rejects.Reasons)
	return p.end("")
}

// histogram adds a plot of a distribution: bars in an SVG of 400 × 100.
func (p page) histogram(row namedDistribution) {
	d := row.Of
	p.add("<figure>\n<figcaption>%s: median %s, from %s to %s</figcaption>\n",
		row.Name, row.Write(d.Median), row.Write(d.Min), row.Write(d.Max))
	p.add(`<svg viewBox="0 0 400 100" preserveAspectRatio="none" role="img" aria-label="histogram of %s">`, row.Name)
	highest := slices.Max(append([]int{1}, d.Histogram...))
	step := (d.High - d.Low) / histogramBins
	for i, n := range d.Histogram {
		height := 100 * float64(n) / float64(highest)
		title := fmt.Sprintf("%s to %s: %d", row.Write(d.Low+float64(i)*step), row.Write(d.Low+float64(i+1)*step), n)
		p.add(`<rect x="%d" y="%.4g" width="9" height="%.4g"><title>%s</title></rect>`, 10*i, 100-height, height, title)
	}
	p.add("</svg>\n"+`<div class="ends"><span>%s</span><span>1st to 99th percentile</span><span>%s</span></div>`+"\n</figure>\n",
		row.Write(d.Low), row.Write(d.High))
}

// classes adds a table of classes, if there are any, each with a bar relative to the largest one.
func (p page) classes(title string, list []classCount) {
	if len(list) == 0 {
		return
	}
	p.add(`<section><h2>%s</h2><div class="scroll"><table><tr><th>class<th class="number">label<th class="number">samples<th></tr>`, title)
	largest := max(1, list[0].Samples, list[len(list)-1].Samples)
	for _, c := range list {
		p.add("<tr><td>%s", c.Class)
		if word := firstWord(c.Class); word != "" {
			p.add(` <span class="faint">%s</span>`, word)
		}
		p.add(`<td class="number">%d<td class="number">%d<td class="share"><span class="bar" style="width:%.4g%%"></span></tr>`,
			c.Label, c.Samples, 100*float64(c.Samples)/float64(largest))
	}
	p.add("</table></div></section>\n")
}

// reasons adds a table of reasons, if there are any.
func (p page) reasons(list []pack.Reason) {
	if len(list) == 0 {
		return
	}
	p.add(`<div class="scroll"><table><tr><th>reason<th class="number">images<th>example</tr>`)
	for _, r := range list {
		p.add(`<tr><td>%s<td class="number">%d<td>%s</tr>`, r.Reason, r.Samples, r.Example)
	}
	p.add("</table></div>\n")
}
