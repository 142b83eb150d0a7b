package imgshard

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/page"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
)

// print writes the statistics as text.
func (st *setStats) print(out io.Writer) {
	fmt.Fprintf(out, "%s: %s\n\n", st.Path, strings.Join(st.summary(), "\n  "))

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tmin\t5 %\tmedian\t95 %\tmax\t")
	for _, row := range st.Rows() {
		d := row.Of
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Name,
			row.Write(d.Min), row.Write(d.P5), row.Write(d.Median), row.Write(d.P95), row.Write(d.Max), sparkline(d.Histogram))
	}
	table.Flush()

	fmt.Fprintln(out)
	for _, f := range st.Formats {
		fmt.Fprintf(out, "%s: %s, %s\n", f.Format, bytesize.Counted(f.Samples, "image", "images"), bytesize.Format(f.Bytes))
	}
	if n := len(st.Rarest); n > 0 && n == st.Classes {
		fmt.Fprintf(out, "classes, rarest first: %s\n", classList(st.Rarest))
	} else if n > 0 {
		fmt.Fprintf(out, "rarest classes: %s\nmost frequent classes: %s\n", classList(st.Rarest), classList(st.Commonest))
	}
	if st.Objects != nil {
		fmt.Fprintf(out, "objects: %s, %s without any\nclasses of objects: %s\n", bytesize.Grouped(st.Objects.Count),
			bytesize.Counted(st.Objects.Empty, "image", "images"), classList(st.Objects.Classes))
	}
	for _, c := range st.Pixels {
		fmt.Fprintf(out, "label %d %s: %.3f %% of the pixels, in %s\n", c.Label, termsafe.Text(c.Class), 100*c.Share,
			bytesize.Counted(c.Samples, "image", "images"))
	}
	fmt.Fprintf(out, "left out by the build: %s\n", bytesize.Grouped(st.Rejects.Samples))
	printReasons(out, st.Rejects.Reasons)
}

// summary describes the set, one fact in each line.
func (st *setStats) summary() []string {
	list := []string{
		fmt.Sprintf("split %s, %s of %s in %s, stored as %s", st.Split, bytesize.Counted(st.Samples, "sample", "samples"),
			bytesize.Counted(st.Classes, "class", "classes"), bytesize.Counted(st.Partitions, "partition", "partitions"),
			registry.Describe(st.Encoding)),
		"data " + st.Data,
	}
	if st.Here != st.Samples {
		list = append(list, fmt.Sprintf("statistics of the %s on this machine", bytesize.Counted(st.Here, "sample", "samples")))
	}
	if st.Unlabelled > 0 {
		list = append(list, bytesize.Counted(st.Unlabelled, "sample has", "samples have")+" no label")
	}
	if st.Empty > 0 {
		list = append(list, bytesize.Counted(st.Empty, "class has", "classes have")+" no sample")
	}
	return append(list, fmt.Sprintf("images %s, row indexes and fields %s", bytesize.Format(st.ImageBytes), bytesize.Format(st.ExtraBytes)))
}

// A namedDistribution is a row of the table of distributions.
type namedDistribution struct {
	Name  string
	Of    distribution
	Write func(float64) string // formats a value
}

// Rows are the distributions in the order of the table and the page.
func (st *setStats) Rows() []namedDistribution {
	rows := []namedDistribution{
		{"samples per class", st.PerClass, number}, {"width", st.Width, number}, {"height", st.Height, number},
		{"width / height", st.Aspect, number}, {"size of an image", st.Bytes, func(n float64) string { return bytesize.Format(int64(n)) }},
	}
	if st.Objects != nil {
		rows = append(rows, namedDistribution{"objects per image", st.Objects.PerImage, number},
			namedDistribution{"width of a box", st.Objects.Width, number}, namedDistribution{"height of a box", st.Objects.Height, number})
	}
	return rows
}

func classList(classes []classCount) string {
	parts := make([]string, len(classes))
	for i, c := range classes {
		parts[i] = fmt.Sprintf("%s %d", termsafe.Text(c.Class), c.Samples)
		if word := firstWord(c.Class); word != "" {
			parts[i] = fmt.Sprintf("%s (%s) %d", termsafe.Text(c.Class), word, c.Samples)
		}
	}
	return strings.Join(parts, ", ")
}

// firstWord returns the first of the words for a wnid, "" for other classes.
func firstWord(class string) string {
	first, _, _ := strings.Cut(wordnet.Words(class), ",")
	return first
}

// number formats a number without superfluous digits.
func number(x float64) string {
	if x == float64(int64(x)) || x >= 1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// sparkline draws a histogram in a line of text.
func sparkline(histogram []int) string {
	const bars = "▁▂▃▄▅▆▇█"
	highest := slices.Max(append([]int{1}, histogram...))
	var b strings.Builder
	for _, n := range histogram {
		if n == 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune([]rune(bars)[(n*8-1)/highest])
	}
	return strings.TrimRight(b.String(), " ")
}

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
