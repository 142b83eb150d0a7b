package imgshard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/shard/source"
)

// targetFlags are the flags of boxes and masks, for the groups of the help.
var targetFlags = []string{"targets", "box-format", "one-based", "clip-boxes", "drop-crowd", "drop-empty", "reduce-zero",
	"map-labels"}

// addTargetFlags adds the flags for what a source does not say of its boxes and masks.
func addTargetFlags(fl *pflag.FlagSet, o *source.TargetOptions) {
	fl.StringVar(&o.Take, "targets", "", "targets to pack: objects, masks, both or none (default objects, else masks)")
	fl.StringVar(&o.BoxFormat, "box-format", "", "format of boxes that SRC does not declare: xywh (default), xyxy or cxcywh")
	fl.BoolVar(&o.OneBased, "one-based", false, "boxes in XML count pixels from 1: subtract 1 from xmin and ymin (torchvision does not)")
	fl.BoolVar(&o.ClipBoxes, "clip-boxes", false, "cut boxes off at the image's edges")
	fl.BoolVar(&o.DropCrowd, "drop-crowd", false, "leave out objects with iscrowd (COCO) or difficult (VOC)")
	fl.BoolVar(&o.DropEmpty, "drop-empty", false, "leave out images without objects")
	fl.BoolVar(&o.ReduceZero, "reduce-zero", false, "masks: 0 becomes 255, and any other label one less, as for ADE20K")
	fl.Func("map-labels", "masks: the labels of lines FROM TO in `FILE`, e.g. 7 0; * 255 stands for all others", func(path string) (err error) {
		o.Map, err = source.ReadLabelMap(path)
		return err
	})
}

// checkTargetFlags refuses values that these flags do not have.
func checkTargetFlags(o source.TargetOptions) error {
	takes := []string{"", source.TakeObjects, source.TakeMasks, source.TakeBoth, source.TakeNone}
	switch {
	case !slices.Contains(takes, o.Take):
		return fmt.Errorf("--targets %q: want %s", o.Take, strings.Join(takes[1:], ", "))
	case o.BoxFormat != "" && !slices.Contains(source.BoxFormats, o.BoxFormat):
		return fmt.Errorf("--box-format %q: want %s", o.BoxFormat, strings.Join(source.BoxFormats, ", "))
	}
	return nil
}
