package transform

import (
	"fmt"
	"image"
	"math"

	"github.com/imgfeed/imgfeed/internal/libm"
)

// RandomResizedCrop is torchvision.transforms.RandomResizedCrop(size, scale, ratio, interpolation, antialias=True).
type RandomResizedCrop struct {
	// Size is the result's; {n} is a square.
	Size Size
	// Scale is the range of the box's area as a part of the image's, and Ratio that of its width / height; their zero
	// values are torchvision's defaults, 0.08 to 1 and 3/4 to 4/3.
	Scale, Ratio [2]float64
	// Interpolation is the filter, and Resampler says which releases of Pillow it has the bits of.
	Interpolation Interpolation
	Resampler     Resampler

	logRatio [2]float64 // the logarithms of Ratio
}

func (RandomResizedCrop) Name() string { return "RandomResizedCrop" }

func (o RandomResizedCrop) String() string {
	return object(o, "size", o.Size, "scale", o.Scale, "ratio", o.Ratio, "interpolation", o.Interpolation.String(), "resampler", o.Resampler)
}

func (o RandomResizedCrop) read(p *parameters) Op {
	o.Size = p.size("size")
	o.Scale = p.interval("scale", scaleDefault)
	o.Ratio = p.interval("ratio", ratioDefault)
	const zeros = "%s is [0, 0], want a high above 0" // in Go those stand for the defaults
	if o.Scale == [2]float64{} {
		p.fail(zeros, "scale")
	}
	if o.Ratio == [2]float64{} {
		p.fail(zeros, "ratio")
	}
	o.Interpolation, o.Resampler = p.resizing()
	return o
}

var (
	scaleDefault = [2]float64{0.08, 1}
	ratioDefault = [2]float64{3. / 4, 4. / 3}
)

func (o RandomResizedCrop) prepare() (Op, error) {
	if o.Scale == [2]float64{} {
		o.Scale = scaleDefault
	}
	if o.Ratio == [2]float64{} {
		o.Ratio = ratioDefault
	}
	if !(0 <= o.Scale[0] && o.Scale[0] <= o.Scale[1] && o.Scale[1] <= 1e6) {
		return nil, fmt.Errorf("scale is %v, want 0 ≤ low ≤ high", o.Scale)
	}
	if !(1e-6 <= o.Ratio[0] && o.Ratio[0] <= o.Ratio[1] && o.Ratio[1] <= 1e6) {
		return nil, fmt.Errorf("ratio is %v, want 0 < low ≤ high", o.Ratio)
	}
	if err := checkResizing(o.Interpolation, o.Resampler); err != nil {
		return nil, err
	}
	o.logRatio = [2]float64{libm.Log(o.Ratio[0]), libm.Log(o.Ratio[1])}
	o.Size = o.Size.square()
	return o, o.Size.check()
}

func (RandomResizedCrop) random() bool { return true }

func (o RandomResizedCrop) outputSize(int, int) (int, int) { return o.Size[0], o.Size[1] }

func (o RandomResizedCrop) apply(c *canvas) error {
	w, h := c.size()
	if err := c.crop(o.box(w, h, &c.draws)); err != nil {
		return err
	}
	return c.resize(o.Size[1], o.Size[0], resizing{o.Interpolation, o.Resampler})
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
	// An extreme ratio rounds to nothing on a thin image, where torchvision fails: keep one pixel.
	boxW, boxH = min(max(boxW, 1), w), min(max(boxH, 1), h)
	left, top := (w-boxW)/2, (h-boxH)/2
	return image.Rect(left, top, left+boxW, top+boxH)
}
