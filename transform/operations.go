package transform

import "reflect"

// An Op is one operation with its parameters, such as [Resize] or [CenterCrop]: a value, immutable once it is part of a
// [Spec]. Its type's name is torchvision's name of the operation, and the tags of its fields declare its parameters
// (declare.go). The package comment explains how to write a new one.
type Op interface {
	// apply draws the operation's random parameters and does its work. Operations draw in their order in the list, as
	// many numbers as docs/transforms.md says. A change there changes the pixels of a resumed run.
	apply(c *canvas) error
}

// Optional methods of operations.
type (
	// A preparer makes checks beyond its declarations, and computes tables in advance.
	preparer interface{ prepare() (Op, error) }
	// A sizer changes the size of images. outputSize returns the size of an h × w image after the operation;
	// 0, 0 means images that differ in size.
	sizer interface{ outputSize(h, w int) (int, int) }
	// A fixture cannot move targets, or not always. fixed returns why, or "" if it can; boxes tells whether there are boxes.
	fixture interface{ fixed(boxes bool) string }
	// A drawer reports whether it draws. Operations without this method draw.
	drawer interface{ random() bool }
)

// A listedOp is an operation and the remarks of its row in docs/transforms.md.
type listedOp struct {
	op      Op
	remarks string
}

// operations lists every operation, in the order of messages and of the document. To add one, write its declaration and
// its work, and its line here.
func operations() []listedOp {
	return []listedOp{
		{Resize{}, "n is the shorter side; without a `size` the longer side becomes `max_size`"},
		{CenterCrop{}, "black borders where the image is smaller"},
		{FiveCrop{}, "the corners and the centre, as five views: [below](#several-crops)"},
		{TenCrop{}, "these, and those of the mirrored image, as ten views"},
		{RandomCrop{}, ""},
		{Pad{}, ""},
		{RandomResizedCrop{}, ""},
		{ToImage{}, "operations after it work [on a tensor](#on-tensors)"},
		{RandomHorizontalFlip{}, ""},
		{RandomVerticalFlip{}, ""},
		{RandomRotation{}, "with `expand` the results differ in size"},
		{RandomAffine{}, "`translate` is in shares of the sides"},
		{GaussianBlur{}, "torchvision's bits but for rounding: see below"},
		{PILGaussianBlur{}, "Pillow's `ImageFilter.GaussianBlur`, as MoCo, BYOL, DINO and timm use it; torchvision lacks it"},
		{RandomInvert{}, ""},
		{Grayscale{}, "three equal channels, `num_output_channels` = 3; torchvision's default of one is refused"},
		{RandomGrayscale{}, ""},
		{RandomAdjustSharpness{}, ""},
		{RandomPosterize{}, "with 0 bits the image is black, which Pillow from 12 on refuses"},
		{RandomSolarize{}, ""},
		{RandomAutocontrast{}, ""},
		{RandomEqualize{}, ""},
		{ColorJitter{}, "x stands for 1 − x to 1 + x, of `hue` for −x to x"},
		{RandomPhotometricDistort{}, "three of the four adjustments, contrast before or after the others, and the channels in " +
			"another order"},
		{RandomZoomOut{}, "`mask_fill` is the label around a mask"},
		{RandomIoUCrop{}, "needs boxes; after 100 shares without a crop the image stays as it is"},
		{SanitizeBoundingBoxes{}, "drops labels and numbers with the boxes"},
		{ClampBoundingBoxes{}, ""},
		{ConvertBoundingBoxFormat{}, "later operations compute in that format"},
		{RandomResize{}, "`max_size` is never drawn, as in torchvision"},
		{ScaleJitter{}, ""},
		{RandomShortestSize{}, ""},
		{FixedSizeCrop{}, "as in torchvision's references/detection"},
		{Letterbox{}, "as Ultralytics' LetterBox, by Pillow's resize"},
		{RandomApply{}, "all of them or none"},
		{RandomChoice{}, "one of them; without `p` each is as likely"},
		{RandomOrder{}, "all of them, in a random order"},
		{AutoAugment{}, ""},
		{RandAugment{}, ""},
		{TrivialAugmentWide{}, ""},
		{AugMix{}, "a `chain_depth` below 1 is one of 1 to 3 by chance; see below"},
		{TimmAugment{}, "`config` is timm's string: see below"},
	}
}

// NameOf returns an operation's name, which is torchvision's.
func NameOf(op Op) string { return reflect.TypeOf(op).Name() }

func operationNames() []string {
	var names []string
	for _, listed := range operations() {
		names = append(names, NameOf(listed.op))
	}
	return names
}

// outputSize returns the size of an h × w image after an operation; 0, 0 means images that differ in size.
func outputSize(op Op, h, w int) (int, int) {
	if changes, ok := op.(sizer); ok {
		return changes.outputSize(h, w)
	}
	return h, w
}

// draws reports whether an operation draws random parameters.
func draws(op Op) bool {
	d, ok := op.(drawer)
	return !ok || d.random()
}
