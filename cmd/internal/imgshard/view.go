package imgshard

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
	"github.com/imgfeed/imgfeed/internal/page"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/transform"
)

const (
	// thumbnailSide is the longer side of a picture on a sheet, in pixels, unless a larger one is beside it;
	// thumbnailSideMax limits any picture.
	thumbnailSide    = 160
	thumbnailSideMax = 320
	// viewSamplesMax bounds a sheet: each picture takes some kilobytes in it.
	viewSamplesMax = 20000
	viewDrawsMax   = 100
)

// viewFlags are the flags of imgshard view.
type viewFlags struct {
	output, transform, find, class string
	samples, draws                 int
	indices                        []int
	seed                           int64
	epoch                          int
}

func newViewCommand() *cobra.Command {
	f := viewFlags{samples: 100}
	cmd := &cobra.Command{
		Use:   "view SET",
		Short: "Make a contact sheet of samples: a page of HTML",
		Long: `Make a contact sheet of samples of the shard set SET. It shows the picture, key, label, class, size and location of each.
--transform adds the results of a transform, drawn --draws times. Boxes and masks are drawn over the pictures.

-o FILE.html writes a self-contained page, searchable by class, key and index. Samples are spread evenly over the set, or
chosen by --class, --find and --index.
To view a dataset that is not packed, index it first: imgshard index SRC -o SET.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(cliutil.Usage(f.check()), checkPage(cmd, f.output)); err != nil {
				return err
			}
			return f.run(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "sheet.html", "file to write: .html; - is standard output")
	flags.VarP(cliutil.Int(&f.samples, 1, viewSamplesMax), "samples", "n", "number of samples")
	flags.StringVar(&f.class, "class", "", "only samples of this class, by name")
	flags.StringVar(&f.find, "find", "", "only samples with this text in their key")
	flags.IntSliceVar(&f.indices, "index", nil, "only samples with these indices in the set")
	flags.StringVar(&f.transform, "transform", "", "also show the results of this preset or JSON list of operations")
	flags.Var(cliutil.Int(&f.draws, 0, viewDrawsMax), "draws", "results per sample (default 8, or 1 if the transform is not random)")
	flags.Var(cliutil.Seed(&f.seed), "seed", "seed of the random parameters, the same as a loader's")
	flags.Var(cliutil.Int(&f.epoch, 0, math.MaxInt), "epoch", "epoch of the first result; the others come from the following epochs")
	return cmd
}

func (f *viewFlags) check() error {
	switch {
	case f.draws > 0 && f.transform == "":
		return fmt.Errorf("--draws needs --transform")
	case f.output != "-" && !strings.HasSuffix(f.output, ".html"):
		return fmt.Errorf("-o %s: want a file that ends in .html, or - for standard output", f.output)
	}
	return nil
}

func (f *viewFlags) run(cmd *cobra.Command, path string) error {
	v := viewer{flags: f, engine: transform.NewEngine(transform.ActiveLevel())}
	if f.transform != "" {
		var err error
		if v.spec, err = transform.Parse(f.transform); err != nil {
			return cliutil.Usage(err)
		}
		if f.draws == 0 {
			f.draws = 1
			if v.spec.Random() {
				f.draws = 8
			}
		}
	}
	set, err := openSet(cmd, path)
	if err != nil {
		return err
	}
	defer set.Close()
	sheet, err := v.sheet(cmd.Context(), set)
	if err != nil {
		return err
	}
	if len(sheet.Samples) == 0 {
		return fmt.Errorf("%s: no sample matches", path)
	}
	samples := bytesize.Counted(len(sheet.Samples), "sample", "samples")
	return writeFile(cmd, f.output, sheet.writePage, fmt.Sprintf("%s of %s on %s", samples, bytesize.Grouped(sheet.All), f.output))
}

// A viewSheet is the content of a sheet.
type viewSheet struct {
	Title     string
	All       int // samples found
	Transform string
	Samples   []viewSample // sorted by class, then by index
}

// A viewSample is a sample on the sheet.
type viewSample struct {
	lsLine
	Original *thumbnail.Picture
	Draws    []*thumbnail.Picture
	Done     []string // what each draw did, a JSON list of operations
	Error    string
}

// A viewer makes the pictures.
type viewer struct {
	flags  *viewFlags
	engine *transform.Engine
	spec   *transform.Spec // nil without --transform
	pix    []byte

	fields  shard.Fields
	targets targets
	follow  bool // the transform can move the set's targets
}

// sheet makes the sheet of a set's chosen samples.
func (v *viewer) sheet(ctx context.Context, set *shard.Set) (*viewSheet, error) {
	encoding, err := registry.Open(set.Manifest().Encoding)
	if err != nil {
		return nil, err
	}
	chosen, err := v.choose(ctx, set)
	if err != nil {
		return nil, err
	}
	v.fields = set.Manifest().Fields
	if v.spec != nil {
		v.follow = transform.Views{v.spec}.CheckTargets(v.fields.Has(shard.Objects), v.fields.Has(shard.Mask)) == nil
	}
	sheet := &viewSheet{Title: set.Dir(), All: set.Len()}
	if v.spec != nil {
		sheet.Transform = v.spec.String()
	}
	for _, i := range chosen {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		line, err := describe(set, i)
		if err != nil {
			return nil, err
		}
		sample := viewSample{lsLine: line}
		record, _, err := set.Read(i, nil)
		if err == nil {
			err = v.targets.read(v.fields, &record)
		}
		if err == nil {
			err = v.render(&sample, transform.Source{Format: record.Format, Image: record.Image, Aux: record.Aux, Encoding: encoding})
		}
		if err != nil {
			sample.Error = err.Error()
		}
		sheet.Samples = append(sheet.Samples, sample)
	}
	slices.SortStableFunc(sheet.Samples, func(a, b viewSample) int { return int(a.Label) - int(b.Label) })
	return sheet, nil
}

// choose returns the indices of the samples to show: those of --index, or those that match --class and --find, evenly spread.
func (v *viewer) choose(ctx context.Context, set *shard.Set) ([]int, error) {
	wanted := v.flags.indices
	if wanted == nil {
		err := eachEntry(ctx, set, func(i int, e *shard.Entry) error {
			if v.flags.class != "" && set.Manifest().Class(e.Label) != v.flags.class {
				return nil
			}
			key, err := set.Key(i)
			if strings.Contains(key, v.flags.find) {
				wanted = append(wanted, i)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	n := min(len(wanted), v.flags.samples)
	chosen := make([]int, n)
	for k := range chosen {
		chosen[k] = wanted[k*len(wanted)/n]
	}
	return chosen, nil
}

// render makes the pictures of a sample: the stored image, and the transform's results.
func (v *viewer) render(sample *viewSample, src transform.Source) error {
	side := thumbnailSide
	if v.spec != nil { // the same size as the results beside it
		height, width := v.spec.OutputSize()
		side = min(max(side, height, width), thumbnailSideMax)
	}
	fit := func(w, h int) (int, int, error) {
		sample.Width, sample.Height = int32(w), int32(h)
		w, h = thumbnail.Fit(w, h, side)
		return w, h, nil
	}
	pix, w, h, err := v.engine.DecodeResized(src, fit, transform.Bilinear, transform.Pillow13)
	if err != nil {
		return err
	}
	v.targets.of(int(sample.Width), int(sample.Height)).Draw(pix, w, h)
	if sample.Original, err = thumbnail.New(pix, w, h, side); err != nil || v.spec == nil {
		return err
	}
	v.pix = append(v.pix[:0], make([]byte, v.spec.OutputBytes())...)
	h, w = v.spec.OutputSize()
	for draw := range v.flags.draws {
		rng := transform.NewRNG(v.flags.seed, v.flags.epoch+draw, sample.Index)
		view := transform.View{Spec: v.spec, Dst: transform.Output{Pix: v.pix}, RNG: rng}
		if v.follow {
			view.Targets = v.targets.begin(w * h)
		}
		done, err := v.engine.RecordView(&view, src)
		if err != nil {
			return err
		}
		if v.follow {
			v.targets.after(w, h).Draw(v.pix, w, h)
		}
		t, err := thumbnail.New(v.pix, w, h, thumbnailSideMax)
		if err != nil {
			return err
		}
		sample.Draws, sample.Done = append(sample.Draws, t), append(sample.Done, done)
	}
	return nil
}

//go:embed view.js
var viewScript string

// writePage writes the sheet as a page.
func (s *viewSheet) writePage(out io.Writer) error {
	p := page.Begin(out, s.Title, "view", viewScript)
	p.Add("<header>\n<h1>%s</h1>\n"+`<label>Class, key or index: <input id="search" type="search" autofocus></label> `+
		`<span id="shown" class="faint" role="status">%d samples of %d</span>`+"\n</header>\n", s.Title, len(s.Samples), s.All)
	if s.Transform != "" {
		addTransform(p, s.Transform)
	}
	words := ""
	for i, sample := range s.Samples {
		if i == 0 || sample.Label != s.Samples[i-1].Label {
			if i > 0 {
				p.Add("</div>\n</section>\n")
			}
			words = wordnet.Words(sample.Class)
			addClass(p, sample.Label, sample.Class, words)
		}
		addSample(p, sample, words)
	}
	p.Add("</div>\n</section>\n")
	return p.End()
}

// addClass begins the section of a class. words are WordNet's words for it.
func addClass(p page.Page, label int32, class, words string) {
	p.Add("<section>\n<h2>")
	if label >= 0 {
		p.Add("%d: ", label)
	}
	p.Add("%s", class)
	if words != "" {
		p.Add(` <span class="faint">%s</span>`, words)
	}
	p.Add("</h2>\n<div class=\"samples\">\n")
}

// addSample adds the pictures of a sample and their caption. words are WordNet's words for its class.
func addSample(p page.Page, s viewSample, words string) {
	p.Add(`<figure data-search="%s">`+"\n"+`<div class="pictures">`, fmt.Sprint(s.Class, " ", s.Key, " ", s.Index, " ", words))
	if s.Original != nil {
		addPicture(p, s.Original, "stored image", "stored image")
	}
	p.Add(`<div class="pictures">`)
	for i, draw := range s.Draws {
		name := "draw " + strconv.Itoa(i)
		addPicture(p, draw, name, name+": "+s.Done[i])
	}
	p.Add("</div></div>\n"+`<figcaption>%d · %s<br><span class="faint">%d × %d, %s, %s<br>%s</span>`, s.Index, s.Key, s.Width,
		s.Height, s.Format,
		bytesize.Format(int64(s.Bytes)), s.Shard)
	if s.Error != "" {
		p.Add(`<br><span class="warn">%s</span>`, s.Error)
	}
	p.Add("</figcaption>\n</figure>\n")
}

// addTransform adds a table of the operations, which text lists in JSON, and of their parameters.
func addTransform(p page.Page, text string) {
	var ops []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &ops); err != nil {
		p.Add("<p><code>%s</code></p>\n", text)
		return
	}
	var rows [][]any
	for _, op := range ops {
		var parameters []string
		for _, name := range slices.Sorted(maps.Keys(op)) {
			if name != "op" {
				parameters = append(parameters, name+" "+string(op[name]))
			}
		}
		rows = append(rows, []any{strings.Trim(string(op["op"]), `"`), page.Markup("<code>%s</code>", strings.Join(parameters, ", "))})
	}
	p.Table([]string{"operation", "parameters"}, rows)
}

func addPicture(p page.Page, picture *thumbnail.Picture, name, title string) {
	p.Add(`<img src="%s" width="%d" height="%d" alt="%s" title="%s" loading="lazy" decoding="async">`,
		picture.URL, picture.Width, picture.Height, name, title)
}

// checkPage refuses to overwrite a file that this command did not write.
func checkPage(cmd *cobra.Command, path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 256)
	n, err := io.ReadFull(f, head)
	if mark := string(page.Mark(cmd.Name())); !strings.Contains(string(head[:n]), mark) {
		err = fmt.Errorf("imgshard %s did not write %s, and leaves it: choose another file with -o", cmd.Name(), path)
	} else if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return err
}

// writeFile writes a file, and prints what it holds then; "-" is standard output.
func writeFile(cmd *cobra.Command, path string, write func(io.Writer) error, content string) error {
	if path == "-" {
		return write(cmd.OutOrStdout())
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	fmt.Fprintln(outcome(cmd), content)
	return nil
}
