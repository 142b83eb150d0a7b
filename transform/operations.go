package transform

// An Op is one operation with its parameters, such as [Resize] or [CenterCrop]: a value, which nothing changes once it is
// part of a [Spec]. The package comment says what a new one consists of.
type Op interface {
	// Name returns torchvision's name of the operation.
	Name() string
	// String returns the operation as a JSON object with every parameter, as [Parse] reads it.
	String() string

	// read returns an operation with the given parameters, and torchvision's defaults for those that are not given. It
	// asks p for every parameter that there is: whatever else is given is refused.
	read(p *parameters) Op
	// prepare returns the operation ready to run: checked, with what it needs computed in advance.
	prepare() (Op, error)
	// random reports whether the operation draws.
	random() bool
	// outputSize returns the size of every image after the operation, of images of h × w pixels; 0, 0 stands for images
	// that differ in size.
	outputSize(h, w int) (int, int)
	// apply draws the operation's random parameters and does its work. Operations draw in their order in the list, as
	// many numbers as docs/transforms.md says: a change there gives other pixels to a run that is resumed.
	apply(c *canvas) error
}

// operations lists every operation, in the order in which messages name them. To add one, write its file and its line
// here. It is a function because an operation that holds others reads them by this list.
func operations() []Op {
	return []Op{
		Resize{},
		CenterCrop{},
		FiveCrop{},
		TenCrop{},
		RandomCrop{},
		Pad{},
		RandomResizedCrop{},
		RandomHorizontalFlip{},
		RandomVerticalFlip{},
		RandomRotation{},
		RandomAffine{},
		GaussianBlur{},
		PILGaussianBlur{},
		RandomInvert{},
		Grayscale{},
		RandomGrayscale{},
		RandomAdjustSharpness{},
		RandomPosterize{},
		RandomSolarize{},
		RandomAutocontrast{},
		RandomEqualize{},
		ColorJitter{},
		RandomApply{},
		RandomChoice{},
		RandomOrder{},
		AutoAugment{},
		RandAugment{},
		TrivialAugmentWide{},
		AugMix{},
		TimmAugment{},
	}
}

// operationNames returns the names in the list's order.
func operationNames() []string {
	var names []string
	for _, op := range operations() {
		names = append(names, op.Name())
	}
	return names
}
