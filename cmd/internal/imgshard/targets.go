package imgshard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/internal/image/mask"
	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/transform"
)

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
