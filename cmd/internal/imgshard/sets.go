package imgshard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/mask"
	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/transform"
)

// openSet opens the one set at path: path itself, or the only set in it. It reports each second on stderr how many shards are open.
func openSet(cmd *cobra.Command, path string) (*shard.Set, error) {
	return cliutil.Interruptible(cmd.Context(), func() (*shard.Set, error) {
		found, err := shard.FindAll(path)
		if err = cmp.Or(err, found.Err()); err != nil {
			return nil, err
		}
		splits, dirs := slices.Sorted(maps.Keys(found.Sets)), slices.Sorted(maps.Values(found.Sets))
		if len(dirs) > 1 {
			return nil, cliutil.Usagef("%s holds %d sets, choose one: %s", path, len(dirs), strings.Join(dirs, ", "))
		}
		set, err := found.Open(splits[0], func(opened, shards int) {
			if !quiet {
				total := bytesize.Counted(shards, "shard", "shards")
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s of %s opened\n", dirs[0], bytesize.Grouped(opened), total)
			}
		})
		if err == nil && set.Err() != nil {
			set.Close()
			return nil, set.Err()
		}
		return set, err
	})
}

// setFacts are the facts about a set in every report in JSON.
type setFacts struct {
	Split       string         `json:"split"`
	Path        string         `json:"path"`
	Data        string         `json:"data"` // shard.Identity
	Fingerprint string         `json:"fingerprint"`
	Content     string         `json:"content,omitempty"`
	Encoding    shard.Encoding `json:"encoding"`
	Samples     int            `json:"samples"` // total of the set
	Classes     int            `json:"classes"`
	Partitions  int            `json:"partitions"`
	Shards      int            `json:"shards"`
	Fields      shard.Fields   `json:"fields,omitempty"`
}

func factsOf(m *shard.Manifest, path string) setFacts {
	return setFacts{
		m.Split, path, shard.Identity(m.Fingerprint, m.Content), m.Fingerprint, m.Content, registry.Named(m.Encoding),
		m.Samples, len(m.Classes), m.Partitions, len(m.Shards), m.Fields,
	}
}

// eachEntry calls do for every sample on this machine, in the order of their index, with the sample's entry in the shard's index.
func eachEntry(ctx context.Context, set *shard.Set, do func(i int, e *shard.Entry) error) error {
	for i := range set.Len() {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !set.Has(i % set.Partitions()) {
			continue
		}
		e, err := set.Entry(i)
		if err == nil {
			err = do(i, &e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fieldValues reads the values of a sample's fields.
func fieldValues(set *shard.Set, i int) ([][]byte, error) {
	record, _, err := set.Read(i, nil)
	if err != nil {
		return nil, err
	}
	values, err := set.Manifest().Fields.Split(record.Fields, nil)
	if err != nil {
		return nil, set.Corrupt(i, err)
	}
	return values, nil
}

// findSample returns the index of the sample with a key, or else the index that a number is. A note on stderr says when both are there.
func findSample(cmd *cobra.Command, set *shard.Set, name string) (int, error) {
	index, err := strconv.Atoi(name)
	isIndex := err == nil && strconv.Itoa(index) == name // 007 can only be a key
	found, err := set.Find(name)
	switch {
	case err == nil && isIndex && index < set.Len() && found != index:
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s is the key of sample %d; --index %[1]s takes the sample with this index\n", name, found)
	case err != nil && isIndex:
		if !errors.Is(err, shard.ErrNotFound) {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %s is taken for an index, as the keys cannot all be read: %v\n", name, err)
		}
		return checkIndex(set, index)
	}
	return found, err
}

// checkIndex refuses an index outside a set.
func checkIndex(set *shard.Set, index int) (int, error) {
	if index < 0 || index >= set.Len() {
		return 0, fmt.Errorf("index %d: %w: want 0 to %d", index, shard.ErrNotFound, set.Len()-1)
	}
	return index, nil
}

// targetFlags are the flags of boxes and masks, for the groups of the help.
var targetFlags = []string{"targets", "box-format", "one-based", "clip-boxes", "drop-crowd", "drop-empty", "reduce-zero",
	"map-labels"}

// addTargetFlags adds the flags for what a source does not say of its boxes and masks.
func addTargetFlags(fl *pflag.FlagSet, o *dataset.TargetOptions) {
	fl.StringVar(&o.Take, "targets", "", "targets to pack: objects, masks, both or none (default objects, else masks)")
	fl.StringVar(&o.BoxFormat, "box-format", "", "format of boxes that SRC does not declare: xywh (default), xyxy or cxcywh")
	fl.BoolVar(&o.OneBased, "one-based", false, "boxes in XML count pixels from 1: subtract 1 from xmin and ymin (torchvision does not)")
	fl.BoolVar(&o.ClipBoxes, "clip-boxes", false, "cut boxes off at the image's edges")
	fl.BoolVar(&o.DropCrowd, "drop-crowd", false, "leave out objects with iscrowd (COCO) or difficult (VOC)")
	fl.BoolVar(&o.DropEmpty, "drop-empty", false, "leave out images without objects")
	fl.BoolVar(&o.ReduceZero, "reduce-zero", false, "masks: 0 becomes 255, and any other label one less, as for ADE20K")
	fl.Func("map-labels", "masks: the labels of lines FROM TO in `FILE`, e.g. 7 0; * 255 stands for all others",
		func(path string) (err error) {
			o.Map, err = dataset.ReadLabelMap(path)
			return err
		})
}

// checkTargetFlags refuses values that these flags do not have.
func checkTargetFlags(o dataset.TargetOptions) error {
	takes := []string{"", dataset.TakeObjects, dataset.TakeMasks, dataset.TakeBoth, dataset.TakeNone}
	switch {
	case !slices.Contains(takes, o.Take):
		return fmt.Errorf("--targets %q: want %s", o.Take, strings.Join(takes[1:], ", "))
	case o.BoxFormat != "" && !slices.Contains(dataset.BoxFormats, o.BoxFormat):
		return fmt.Errorf("--box-format %q: want %s", o.BoxFormat, strings.Join(dataset.BoxFormats, ", "))
	}
	return nil
}

// targets are the objects and the mask of a sample, which are drawn over its pictures.
type targets struct {
	objects shard.ObjectValue
	labels  []byte // the mask's pixels; nil: none
	decoder mask.Decoder
	moved   transform.Targets
}

// read reads the targets of a record.
func (t *targets) read(fields shard.Fields, record *shard.Record) error {
	t.objects, t.labels = shard.ObjectValue{}, nil
	if !fields.Has(shard.Objects) && !fields.Has(shard.Mask) {
		return nil
	}
	values, err := fields.Split(record.Fields, nil)
	for i := 0; err == nil && i < len(fields); i++ {
		switch fields[i].Type {
		case shard.Objects:
			err = fields[i].ReadObjects(values[i], &t.objects)
		case shard.Mask:
			t.labels, err = t.decoder.Decode(values[i], int(record.Width), int(record.Height))
		}
	}
	return err
}

// of returns the targets of the stored image, which has width × height pixels.
func (t *targets) of(width, height int) *thumbnail.Overlay {
	return &thumbnail.Overlay{Width: width, Height: height, Boxes: t.objects.Boxes, Labels: t.objects.Labels, Mask: t.labels}
}

// begin returns the targets for a transform, whose result has so many pixels.
func (t *targets) begin(pixels int) *transform.Targets {
	t.moved.Boxes = append(t.moved.Boxes[:0], t.objects.Boxes...)
	if t.moved.Mask, t.moved.MaskTo = t.labels, nil; t.labels != nil {
		t.moved.MaskTo = make([]byte, pixels)
	}
	return &t.moved
}

// after returns the targets that the transform has moved into a result of width × height pixels.
func (t *targets) after(width, height int) *thumbnail.Overlay {
	o := &thumbnail.Overlay{Width: width, Height: height, Boxes: t.moved.Boxes, Mask: t.moved.MaskTo}
	for _, row := range t.moved.Kept {
		o.Labels = append(o.Labels, t.objects.Labels[row])
	}
	return o
}
