package transform

import "image"

// TenCrop is torchvision.transforms.TenCrop(size, vertical_flip): the crops of [FiveCrop], then those of the mirrored image. A transform that
// holds it makes ten views of an image, in this order, all with the draws of the first.
type TenCrop struct {
	// Size is a crop's; {n} is a square.
	Size Size
	// VerticalFlip says that the image is mirrored top to bottom, and not left to right.
	VerticalFlip bool

	crop int // as of FiveCrop
}

func (TenCrop) Name() string { return "TenCrop" }

func (o TenCrop) String() string { return object(o, "size", o.Size, "vertical_flip", o.VerticalFlip) }

func (o TenCrop) read(p *parameters) Op {
	o.Size = p.size("size")
	o.VerticalFlip = p.boolean("vertical_flip", false)
	return o
}

func (o TenCrop) prepare() (Op, error) {
	o.Size = o.Size.square()
	if err := o.Size.check(); err != nil || o.crop > 0 {
		return o, err
	}
	return nil, severalError(o)
}

func (TenCrop) random() bool { return false }

func (o TenCrop) outputSize(int, int) (int, int) { return o.Size[0], o.Size[1] }

func (TenCrop) results() int { return 10 }

func (o TenCrop) result(i int) Op {
	o.crop = i + 1
	return o
}

// apply crops before it mirrors, which gives the same pixels as torchvision's other order and mirrors no more of them than are seen.
func (o TenCrop) apply(c *canvas) error {
	w, h := c.size()
	i := o.crop - 1
	r, err := fiveCrops(o.Name(), w, h, o.Size, i%5)
	switch {
	case err != nil:
		return err
	case i < 5:
		return c.crop(r)
	case o.VerticalFlip:
		if err := c.crop(image.Rect(r.Min.X, h-r.Max.Y, r.Max.X, h-r.Min.Y)); err != nil {
			return err
		}
		return c.flipVertically()
	}
	if err := c.crop(image.Rect(w-r.Max.X, r.Min.Y, w-r.Min.X, r.Max.Y)); err != nil {
		return err
	}
	c.flip()
	return nil
}
