package imgshard

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
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
			err = v.draw(&sample, transform.Source{Format: record.Format, Image: record.Image, Aux: record.Aux, Encoding: encoding})
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

// draw makes the pictures of a sample: the stored image, and the transform's results.
func (v *viewer) draw(sample *viewSample, src transform.Source) error {
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
		draws := transform.NewRNG(v.flags.seed, v.flags.epoch+draw, sample.Index)
		view := transform.View{Spec: v.spec, Dst: transform.Output{Pix: v.pix}, RNG: draws}
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
