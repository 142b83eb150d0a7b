package transform

import (
	"fmt"
	"image"
)

// FiveCrop is torchvision.transforms.FiveCrop(size): the four corners and the centre. A transform that holds it makes five views of an image,
// in this order, all with the draws of the first.
type FiveCrop struct {
	// Size is a crop's; {n} is a square.
	Size Size

	crop int // which one a view has, from 1; 0 in a transform that is not yet taken apart into views
}

func (FiveCrop) Name() string { return "FiveCrop" }

func (o FiveCrop) String() string { return object(o, "size", o.Size) }

func (o FiveCrop) read(p *parameters) Op {
	o.Size = p.size("size")
	return o
}

func (o FiveCrop) prepare() (Op, error) {
	o.Size = o.Size.square()
	if err := o.Size.check(); err != nil || o.crop > 0 {
		return o, err
	}
	return nil, severalError(o)
}

func (FiveCrop) random() bool { return false }

func (o FiveCrop) outputSize(int, int) (int, int) { return o.Size[0], o.Size[1] }

func (FiveCrop) results() int { return 5 }

func (o FiveCrop) result(i int) Op {
	o.crop = i + 1
	return o
}

func (o FiveCrop) apply(c *canvas) error {
	w, h := c.size()
	r, err := fiveCrops(o.Name(), w, h, o.Size, o.crop-1)
	if err != nil {
		return err
	}
	return c.crop(r)
}

// fiveCrops returns one of the crops of an image of w × h pixels, by torchvision's order: top left, top right, bottom left, bottom right, centre.
func fiveCrops(name string, w, h int, size Size, i int) (image.Rectangle, error) {
	if size[0] > h || size[1] > w {
		return image.Rectangle{}, &SizeError{name, w, h, fmt.Sprintf("the crops are %d×%d; resize first", size[1], size[0])}
	}
	at := image.Pt((w-size[1])*(i%2), (h-size[0])*(i/2))
	if i == 4 {
		at = image.Pt(centerOffset(w, size[1]), centerOffset(h, size[0]))
	}
	return image.Rect(at.X, at.Y, at.X+size[1], at.Y+size[0]), nil
}
