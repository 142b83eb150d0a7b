package transform

import "image"

// CenterCrop is torchvision.transforms.CenterCrop(size); an image that is smaller gets black borders.
type CenterCrop struct {
	// Size is the result's; {n} is a square.
	Size Size
}

func (CenterCrop) Name() string { return "CenterCrop" }

func (o CenterCrop) String() string { return object(o, "size", o.Size) }

func (o CenterCrop) read(p *parameters) Op {
	o.Size = p.size("size")
	return o
}

func (o CenterCrop) prepare() (Op, error) {
	o.Size = o.Size.square()
	return o, o.Size.check()
}

func (CenterCrop) random() bool { return false }

func (o CenterCrop) outputSize(int, int) (int, int) { return o.Size[0], o.Size[1] }

func (o CenterCrop) apply(c *canvas) error { return c.crop(o.box(c.size())) }

// box is torchvision's center_crop: pad first where the image is smaller, then cut at round((image − crop) / 2), half to
// even.
func (o CenterCrop) box(w, h int) image.Rectangle {
	left, top := centerOffset(w, o.Size[1]), centerOffset(h, o.Size[0])
	return image.Rect(left, top, left+o.Size[1], top+o.Size[0])
}

func centerOffset(size, crop int) int {
	if crop > size {
		return -((crop - size) / 2)
	}
	return roundToInt(float64(size-crop) / 2)
}
