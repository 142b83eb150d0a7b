package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/seed"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/transform"
)

const (
	// thumbnailSide is the longer side of a picture on a sheet, in pixels, where nothing larger stands beside it, and thumbnailSideMax that
	// of any.
	thumbnailSide    = 160
	thumbnailSideMax = 320
	// viewLimit is how long the samples of a dataset that is not packed are looked for.
	viewLimit = 3 * time.Second
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
	source                         source.Options
}

func newViewCommand() *cobra.Command {
	f := viewFlags{samples: 100}
	cmd := &cobra.Command{
		Use:   "view SET|SRC",
		Short: "Make a sheet of samples to look at: HTML or PNG",
		Long: `Make a sheet of samples of the shard set SET, or of the dataset SRC before it is packed: each with its picture, key, label, class, size
and where it lies; and beside it, with --transform, what a training would get, drawn --draws times.

-o FILE.html is a page that is complete in itself, with a field that searches by class, key and index; -o FILE.png one picture;
-o - the page on standard output. Samples are spread evenly over the set, or are those that --class, --find and --index name.
Of a dataset that is not packed those count that three seconds of looking find.`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return usageError{err}
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "sheet.html", "file to write: .html or .png; - is standard output")
	flags.IntVarP(&f.samples, "samples", "n", f.samples, "how many samples")
	flags.StringVar(&f.class, "class", "", "samples of this class only, by name")
	flags.StringVar(&f.find, "find", "", "samples whose key contains this")
	flags.IntSliceVar(&f.indices, "index", nil, "these samples of a set, by index")
	flags.StringVar(&f.transform, "transform", "", "show what it gives too: a preset, or a JSON list of operations")
	flags.IntVar(&f.draws, "draws", 0, "how often the transform is drawn (default 8, or 1 if it draws nothing)")
	flags.Var((*seed.Draws)(&f.seed), "seed", "seed of the draws, as the loader's")
	flags.IntVar(&f.epoch, "epoch", 0, "epoch of the first draw; the others are those of the epochs after it")
	addSourceFlags(flags, &f.source)
	return cmd
}

func (f *viewFlags) check(args []string) error {
	switch {
	case f.samples < 1 || f.samples > viewSamplesMax:
		return fmt.Errorf("--samples %d: a sheet has from 1 to %d samples", f.samples, viewSamplesMax)
	case f.draws < 0 || f.draws > viewDrawsMax:
		return fmt.Errorf("--draws %d: a sample is drawn up to %d times", f.draws, viewDrawsMax)
	case f.draws > 0 && f.transform == "":
		return errors.New("--draws needs --transform")
	case f.epoch < 0:
		return fmt.Errorf("--epoch %d: epochs begin at 0", f.epoch)
	case args[0] == source.StandardInput:
		return errors.New("standard input would be used up by looking at it: save it as a file")
	case f.output != "-" && !strings.HasSuffix(f.output, ".html") && !strings.HasSuffix(f.output, ".png"):
		return fmt.Errorf("-o %s: a sheet is a file that ends in .html or .png, or - for the page on standard output", f.output)
	}
	return checkSourceFlags(f.source)
}

func (f *viewFlags) run(ctx context.Context, out io.Writer, path string) error {
	v := viewer{flags: f, engine: transform.NewEngine(transform.ActiveLevel())}
	if f.transform != "" {
		var err error
		if v.spec, err = transform.Parse(f.transform); err != nil {
			return usageError{err}
		}
		if f.draws == 0 {
			f.draws = 1
			if v.spec.Random() {
				f.draws = 8
			}
		}
	}
	sheet, err := v.look(ctx, path)
	if err != nil {
		return err
	}
	if len(sheet.Samples) == 0 {
		return fmt.Errorf("%s: no sample of that kind is there", path)
	}
	write := sheet.writeHTML
	if strings.HasSuffix(f.output, ".png") {
		write = sheet.writePNG
	}
	if err := writeFile(f.output, out, write); err != nil {
		return err
	}
	if f.output != "-" {
		fmt.Fprintf(out, "%s of %s on %s\n", bytesize.Counted(len(sheet.Samples), "sample", "samples"), bytesize.Grouped(sheet.All), f.output)
	}
	return nil
}

// A viewSheet is what is shown.
type viewSheet struct {
	Title     string
	All       int // samples that there are, as far as was looked
	Transform string
	Samples   []viewSample // by class, then by index
}

// A viewSample is a sample on the sheet.
type viewSample struct {
	Index    int // in the set; -1 when it is not packed
	Key      string
	Label    int32
	Class    string
	Width    int
	Height   int
	Bytes    int
	Format   string
	Where    string
	Original *thumbnail.Picture
	Draws    []*thumbnail.Picture
	Error    string
}

// A viewer makes the pictures.
type viewer struct {
	flags  *viewFlags
	engine *transform.Engine
	spec   *transform.Spec // nil without --transform
	pix    []byte
}

// look finds a set at path, or else a dataset.
func (v *viewer) look(ctx context.Context, path string) (*viewSheet, error) {
	var sheet *viewSheet
	set, err := openSet(path)
	switch {
	case err == nil:
		defer set.Close()
		sheet, err = v.lookAtSet(ctx, set)
	case errors.Is(err, shard.ErrNotSet) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrNotExist):
		splits, why := source.OpenAll([]string{path}, v.flags.source)
		if why != nil {
			return nil, fmt.Errorf("%w; and no dataset: %w", err, why)
		}
		sheet, err = v.lookAtSource(ctx, splits)
	}
	if err != nil {
		return nil, err
	}
	if v.spec != nil {
		sheet.Transform = v.spec.String()
	}
	slices.SortStableFunc(sheet.Samples, func(a, b viewSample) int { return int(a.Label) - int(b.Label) })
	return sheet, nil
}

// lookAtSet shows samples of a set.
func (v *viewer) lookAtSet(ctx context.Context, set *shard.Set) (*viewSheet, error) {
	encoding, err := registry.Open(set.Manifest().Encoding)
	if err != nil {
		return nil, err
	}
	wanted := v.flags.indices
	if wanted == nil {
		if err := eachHere(ctx, set, func(i int) error {
			takes, err := v.takes(set, i)
			if takes {
				wanted = append(wanted, i)
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	sheet := &viewSheet{Title: set.Dir(), All: set.Len()}
	for _, i := range spread(wanted, v.flags.samples) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		entry, err := set.Entry(i)
		if err != nil {
			return nil, err
		}
		line, err := describe(set, i, &entry)
		if err != nil {
			return nil, err
		}
		sample := viewSample{
			Index: i, Key: line.Key, Label: line.Label, Class: line.Class, Width: int(line.Width), Height: int(line.Height), Bytes: int(line.Bytes),
			Format: line.Format, Where: line.Shard,
		}
		record, _, err := set.Read(i, nil)
		if err == nil {
			err = v.draw(&sample, transform.Source{Format: record.Format, Image: record.Image, Aux: record.Aux, Encoding: encoding})
		}
		if err != nil {
			sample.Error = err.Error()
		}
		sheet.Samples = append(sheet.Samples, sample)
	}
	return sheet, nil
}

// takes reports whether sample i is one of those that were asked for.
func (v *viewer) takes(set *shard.Set, i int) (bool, error) {
	if v.flags.class != "" {
		if label, err := set.Label(i); err != nil || set.Manifest().Class(label) != v.flags.class {
			return false, err
		}
	}
	if v.flags.find == "" {
		return true, nil
	}
	key, err := set.Key(i)
	return err == nil && strings.Contains(key, v.flags.find), err
}

// spread returns n of the items, evenly spread.
func spread[T any](items []T, n int) []T {
	if len(items) <= n {
		return items
	}
	list := make([]T, n)
	for k := range list {
		list[k] = items[k*len(items)/n]
	}
	return list
}

// draw makes the pictures of a sample: as it is stored, and what the transform gives.
func (v *viewer) draw(sample *viewSample, src transform.Source) error {
	side := thumbnailSide
	if v.spec != nil { // as large as what stands beside it
		height, width := v.spec.OutputSize()
		side = min(max(side, height, width), thumbnailSideMax)
	}
	small := func(w, h int) (int, int, error) {
		sample.Width, sample.Height = w, h
		w, h = thumbnail.Fit(w, h, side)
		return w, h, nil
	}
	pix, w, h, err := v.engine.DecodeResized(src, small, transform.Bilinear, transform.Pillow13)
	if err != nil {
		return err
	}
	if sample.Original, err = thumbnail.New(pix, w, h, side); err != nil || v.spec == nil {
		return err
	}
	v.pix = append(v.pix[:0], make([]byte, v.spec.OutputBytes())...)
	h, w = v.spec.OutputSize()
	for draw := range v.flags.draws {
		draws := transform.NewRNG(v.flags.seed, v.flags.epoch+draw, max(sample.Index, 0))
		if _, err := v.engine.Apply(v.spec, transform.Output{Pix: v.pix}, src, draws); err != nil {
			return err
		}
		t, err := thumbnail.New(v.pix, w, h, thumbnailSideMax)
		if err != nil {
			return err
		}
		sample.Draws = append(sample.Draws, t)
	}
	return nil
}
