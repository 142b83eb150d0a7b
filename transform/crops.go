package transform

import (
	"fmt"
	"image"
	"math"

	"github.com/imgfeed/imgfeed/internal/libm"
)

// CenterCrop is torchvision.transforms.CenterCrop(size); a smaller image gets black borders.
type CenterCrop struct {
	// Size is the result's; {n} is a square.
	Size Size `param:"size"`
}

func (CenterCrop) random() bool                     { return false }
func (o CenterCrop) outputSize(int, int) (int, int) { return o.Size[0], o.Size[1] }

// apply is torchvision's center_crop: pad first where the image is smaller, then cut at round((image − crop) / 2), half to even.
func (o CenterCrop) apply(c *canvas) error {
	w, h := c.size()
	left, top := centerOffset(w, o.Size[1]), centerOffset(h, o.Size[0])
	r := image.Rect(left, top, left+o.Size[1], top+o.Size[0])
	if c.targets != nil {
		noteBy(c, "center_crop", "output_size", [2]int(o.Size))
		c.targets.centerCrop(r)
	}
	return c.cropFilled(r, Fill{})
}

func centerOffset(size, crop int) int {
	if crop > size {
		return -((crop - size) / 2)
	}
	return roundToInt(float64(size-crop) / 2)
}

// FiveCrop is torchvision.transforms.FiveCrop(size): the four corners and the centre. A transform with it makes five views of an
// image, in this order, all with the draws of the first.
type FiveCrop struct {
	// Size is a crop's; {n} is a square.
	Size Size `param:"size"`
}

func (FiveCrop) random() bool                     { return false }
func (o FiveCrop) outputSize(int, int) (int, int) { return o.Size[0], o.Size[1] }
func (FiveCrop) results() int                     { return 5 }
func (o FiveCrop) apply(c *canvas) error          { return TenCrop{Size: o.Size}.apply(c) }

// TenCrop is torchvision.transforms.TenCrop(size, vertical_flip): the crops of [FiveCrop], then those of the mirrored
// image. A transform with it makes ten views of an image, in this order, all with the draws of the first.
type TenCrop struct {
	// Size is a crop's; {n} is a square.
	Size Size `param:"size"`
	// VerticalFlip mirrors the image top to bottom instead of left to right.
	VerticalFlip bool `param:"vertical_flip" default:"false"`
}

func (TenCrop) random() bool                     { return false }
func (o TenCrop) outputSize(int, int) (int, int) { return o.Size[0], o.Size[1] }
func (TenCrop) results() int                     { return 10 }

// apply crops before it mirrors. torchvision's order is the other one; the pixels are the same, and fewer are mirrored.
func (o TenCrop) apply(c *canvas) error {
	w, h := c.size()
	if o.Size[0] > h || o.Size[1] > w {
		return &SizeError{NameOf(c.op), w, h, fmt.Sprintf("the crops are %d×%d; resize first", o.Size[1], o.Size[0])}
	}
	// Of FiveCrop: top left, top right, bottom left, bottom right, centre.
	k, at := c.part%5, image.Pt(centerOffset(w, o.Size[1]), centerOffset(h, o.Size[0]))
	if k < 4 {
		at = image.Pt((w-o.Size[1])*(k%2), (h-o.Size[0])*(k/2))
	}
	mirror := (*canvas).flip
	switch {
	case c.part < 5:
		mirror = nil
	case o.VerticalFlip:
		at.Y, mirror = h-o.Size[0]-at.Y, (*canvas).flipVertically
	default:
		at.X = w - o.Size[1] - at.X
	}
	err := c.crop(image.Rect(at.X, at.Y, at.X+o.Size[1], at.Y+o.Size[0]))
	if err == nil && mirror != nil {
		err = mirror(c)
	}
	return err
}

// RandomCrop is torchvision.transforms.RandomCrop(size, padding, pad_if_needed, fill, padding_mode).
type RandomCrop struct {
	// Size is the result's; {n} is a square.
	Size Size `param:"size"`
	// Padding is added around the image, in pixels: left, top, right, bottom.
	Padding [4]int `param:"padding" default:"0"`
	// PadIfNeeded pads a too small image on both sides by the missing pixels.
	PadIfNeeded bool `param:"pad_if_needed" default:"false"`
	// Fill is the padding's colour, if Mode is Constant.
	Fill Fill `param:"fill,omitempty" default:"0"`
	// Mode says what the padding shows.
	Mode PaddingMode `param:"padding_mode,omitempty" default:"constant"`
	// MaskFill is the padding's label in masks, if Mode is Constant.
	MaskFill int `param:"mask_fill,omitempty" default:"0" range:"0 255"`
}

func (o RandomCrop) outputSize(int, int) (int, int) { return o.Size[0], o.Size[1] }

// apply draws the top, then the left, where there is a choice.
func (o RandomCrop) apply(c *canvas) error {
	w, h := c.size()
	cropH, cropW := o.Size[0], o.Size[1]
	paddedW, paddedH := w+o.Padding[0]+o.Padding[2], h+o.Padding[1]+o.Padding[3]
	missingX, missingY := 0, 0 // on each side
	if o.PadIfNeeded {
		missingX, missingY = max(0, cropW-paddedW), max(0, cropH-paddedH)
		paddedW, paddedH = paddedW+2*missingX, paddedH+2*missingY
	}
	if paddedW < cropW || paddedH < cropH {
		reason := fmt.Sprintf("the crop is %d×%d; resize first, or set padding or pad_if_needed", cropW, cropH)
		return &SizeError{NameOf(o), w, h, reason}
	}
	x, y := -o.Padding[0]-missingX, -o.Padding[1]-missingY
	if paddedW != cropW || paddedH != cropH {
		y += c.draws.below(paddedH - cropH + 1)
		x += c.draws.below(paddedW - cropW + 1)
	}
	if c.targets != nil {
		border := [4]int{o.Padding[0] + missingX, o.Padding[1] + missingY, o.Padding[2] + missingX, o.Padding[3] + missingY}
		c.padTargets(padding{o.Mode, o.Fill, border}, o.MaskFill)
		if paddedW != cropW || paddedH != cropH {
			part := image.Rect(x, y, x+cropW, y+cropH).Add(image.Pt(border[0], border[1]))
			c.noteCrop(part)
			c.targets.crop(part)
		}
	}
	b := padding{o.Mode, o.Fill, o.Padding}
	if o.Mode != Constant && (missingX > 0 || missingY > 0) { // the second padding shows the first
		if err := c.pad(image.Rect(-o.Padding[0], -o.Padding[1], w+o.Padding[2], h+o.Padding[3]), b); err != nil {
			return err
		}
		x, y, b.pixels = x+o.Padding[0], y+o.Padding[1], [4]int{missingX, missingY, missingX, missingY}
	}
	return c.pad(image.Rect(x, y, x+cropW, y+cropH), b)
}

// RandomResizedCrop is torchvision.transforms.RandomResizedCrop(size, scale, ratio, interpolation, antialias=True).
type RandomResizedCrop struct {
	// Size is the result's; {n} is a square.
	Size Size `param:"size"`
	// Scale is the range of the box's area as a fraction of the image's, and Ratio the range of its width / height.
	// The zero values are torchvision's defaults, 0.08 to 1 and 3/4 to 4/3.
	Scale [2]float64 `param:"scale,nonzero" default:"[0.08, 1]" range:"0 1e6"`
	Ratio [2]float64 `param:"ratio,nonzero" default:"[0.75, 1.3333333333333333]" range:"1e-6 1e6"`
	// Interpolation is the filter, and Resampler names the releases of Pillow that it matches bit for bit.
	Interpolation Interpolation `param:"interpolation" is:"resize filter" default:"bilinear"`
	Resampler     Resampler     `param:"resampler" default:"null"`
	// Plain resizes tensors without antialiasing.
	Plain bool `param:"antialias,omitempty" is:"antialias" default:"true"`

	logRatio [2]float64 // the logarithms of Ratio
}

func (o RandomResizedCrop) prepare() (Op, error) {
	o.logRatio = [2]float64{libm.Log(o.Ratio[0]), libm.Log(o.Ratio[1])}
	return o, nil
}

func (o RandomResizedCrop) outputSize(int, int) (int, int) { return o.Size[0], o.Size[1] }

func (o RandomResizedCrop) apply(c *canvas) error {
	w, h := c.size()
	if err := c.crop(o.box(w, h, &c.draws)); err != nil {
		return err
	}
	return c.resize(o.Size[1], o.Size[0], resizing{o.Interpolation, o.Resampler, o.Plain})
}

// box is torchvision's get_params: ten attempts at an area and a ratio, the ratio evenly in its logarithm, and the
// largest central box of an allowed ratio if none fits.
func (o *RandomResizedCrop) box(w, h int, d *RNG) image.Rectangle {
	area := float64(w * h)
	for range 10 {
		target := float64(area * d.uniform(o.Scale[0], o.Scale[1]))
		ratio := libm.Exp(d.uniform(o.logRatio[0], o.logRatio[1]))
		// Bounded before the conversion: a huge float64 has no int.
		boxW := roundToInt(min(math.Sqrt(float64(target*ratio)), 1e9))
		boxH := roundToInt(min(math.Sqrt(target/ratio), 1e9))
		if 0 < boxW && boxW <= w && 0 < boxH && boxH <= h {
			top := d.below(h - boxH + 1)
			left := d.below(w - boxW + 1)
			return image.Rect(left, top, left+boxW, top+boxH)
		}
	}
	boxW, boxH := w, h
	switch ratio := float64(w) / float64(h); {
	case ratio < o.Ratio[0]:
		boxH = roundToInt(float64(w) / o.Ratio[0])
	case ratio > o.Ratio[1]:
		boxW = roundToInt(float64(float64(h) * o.Ratio[1]))
	}
	// An extreme ratio rounds to zero on a thin image, where torchvision fails: keep one pixel.
	boxW, boxH = min(max(boxW, 1), w), min(max(boxH, 1), h)
	left, top := (w-boxW)/2, (h-boxH)/2
	return image.Rect(left, top, left+boxW, top+boxH)
}
