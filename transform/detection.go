package transform

import (
	"fmt"
	"image"

	"github.com/imgfeed/imgfeed/transform/internal/pointwise"
)

// Operations of detection and segmentation. Those that change sizes at random are followed by one that gives all images the same size.

// RandomPhotometricDistort is torchvision.transforms.v2.RandomPhotometricDistort(brightness, contrast, saturation, hue, p).
type RandomPhotometricDistort struct {
	// Brightness, Contrast and Saturation are the ranges of their factors; Hue is the range of the turn.
	Brightness [2]float64 `param:"brightness" default:"[0.875, 1.125]" range:"0 1e6"`
	Contrast   [2]float64 `param:"contrast" default:"[0.5, 1.5]" range:"0 1e6"`
	Saturation [2]float64 `param:"saturation" default:"[0.5, 1.5]" range:"0 1e6"`
	Hue        [2]float64 `param:"hue" default:"[-0.05, 0.05]" range:"-0.5 0.5"`
	// P is the probability of each adjustment, and of another order of the channels.
	P float64 `param:"p" default:"0.5" range:"0 1"`
}

// apply draws for brightness, contrast, saturation and hue whether, and if so the factor; then whether contrast comes first, and whether
// the channels get a random order, and if so which.
func (o RandomPhotometricDistort) apply(c *canvas) error {
	var factors [4]float64
	var wanted [4]bool
	for i, r := range [4][2]float64{o.Brightness, o.Contrast, o.Saturation, o.Hue} {
		if wanted[i] = c.draws.unit() < o.P; wanted[i] {
			factors[i] = c.draws.uniform(r[0], r[1])
		}
	}
	order := [4]int{0, 1, 2, 3} // the order of the jitters, with contrast first or last
	if c.draws.unit() >= 0.5 {
		order = [4]int{0, 2, 3, 1}
	}
	channels := [3]int{0, 1, 2}
	if c.draws.unit() < o.P {
		c.draws.shuffle(channels[:])
	}
	for _, i := range order {
		if !wanted[i] {
			continue
		}
		if err := jitters[i](c, factors[i]); err != nil {
			return err
		}
	}
	return c.permuteChannels(channels)
}

// permuteChannels gives the image the channels of these numbers.
func (c *canvas) permuteChannels(channels [3]int) error {
	if channels == [3]int{0, 1, 2} {
		return nil
	}
	noteBy(c, "permute_channels", "permutation", channels)
	order := 100*channels[0] + 10*channels[1] + channels[2]
	return c.recolour(colour{adjustment: (*pointwise.Adjuster).Permute, amount: float64(order)})
}

// RandomZoomOut is torchvision.transforms.v2.RandomZoomOut(fill, side_range, p): puts the image at random on a larger canvas.
type RandomZoomOut struct {
	// Fill is the canvas's colour, and MaskFill its label in masks.
	Fill     Fill `param:"fill" default:"0"`
	MaskFill int  `param:"mask_fill,omitempty" default:"0" range:"0 255"`
	// SideRange are the smallest and the largest factor of the sides.
	SideRange [2]float64 `param:"side_range,nonzero" default:"[1, 4]" range:"1 64"`
	P         float64    `param:"p" default:"0.5" range:"0 1"`
}

func (RandomZoomOut) outputSize(int, int) (int, int) { return 0, 0 }

// apply draws whether, then the factor, then the left and the top border.
func (o RandomZoomOut) apply(c *canvas) error {
	return c.chance(o.P, func(c *canvas) error {
		w, h := c.size()
		factor := float32(c.draws.uniform(o.SideRange[0], o.SideRange[1]))
		canvasW, canvasH := max(int(float32(w)*factor), w), max(int(float32(h)*factor), h)
		left := int(float32(canvasW-w) * float32(c.draws.unit()))
		top := int(float32(canvasH-h) * float32(c.draws.unit()))
		return c.border([4]int{left, top, canvasW - w - left, canvasH - h - top}, o.Fill, o.MaskFill)
	})
}

// border puts a border of left, top, right and bottom pixels of one colour around the image, and of one label around its mask.
func (c *canvas) border(pixels [4]int, fill Fill, label int) error {
	if pixels == [4]int{} {
		return nil
	}
	c.padTargets(padding{Constant, fill, pixels}, label)
	w, h := c.size()
	return c.cropFilled(image.Rect(-pixels[0], -pixels[1], w+pixels[2], h+pixels[3]), fill)
}

// RandomIoUCrop is torchvision.transforms.v2.RandomIoUCrop: cuts out a part that overlaps one of the boxes by a drawn share at least.
// Boxes whose centre is not in it become 0, 0, 0, 0, for SanitizeBoundingBoxes to drop.
type RandomIoUCrop struct {
	// MinScale and MaxScale bound the part's sides, as shares of the image's, and the aspect ratios its width / height.
	MinScale       float64 `param:"min_scale" default:"0.3" range:"0 1"`
	MaxScale       float64 `param:"max_scale" default:"1" range:"0 1"`
	MinAspectRatio float64 `param:"min_aspect_ratio" default:"0.5" range:"0 1e6"`
	MaxAspectRatio float64 `param:"max_aspect_ratio" default:"2" range:"0 1e6"`
	// SamplerOptions are the shares to choose from; with one of 1 or more the image stays as it is. nil means torchvision's seven.
	SamplerOptions []float64 `param:"sampler_options" default:"null"`
	// Trials is the number of attempts with a share, before another one is chosen.
	Trials int `param:"trials" default:"40" range:"1 10000"`
}

var samplerOptions = []float64{0, 0.1, 0.3, 0.5, 0.7, 0.9, 1}

// iouRoundsMax bounds the shares that are tried. torchvision has no bound, and does not end if all shares are below 1 and no box fits.
const iouRoundsMax = 100

func (o RandomIoUCrop) prepare() (Op, error) {
	if o.SamplerOptions == nil {
		o.SamplerOptions = samplerOptions
	}
	if len(o.SamplerOptions) == 0 || o.MinScale > o.MaxScale || o.MinAspectRatio > o.MaxAspectRatio {
		return nil, fmt.Errorf("want sampler_options, and neither a min_scale above max_scale nor a min_aspect_ratio above " +
			"max_aspect_ratio")
	}
	for _, share := range o.SamplerOptions {
		if !(0 <= share && share <= 1e6) {
			return nil, fmt.Errorf("sampler_options are %v, want shares of at least 0", o.SamplerOptions)
		}
	}
	return o, nil
}

func (RandomIoUCrop) outputSize(int, int) (int, int) { return 0, 0 }

// apply draws a share, then for each attempt width and height, and if their ratio is allowed left and top.
func (o RandomIoUCrop) apply(c *canvas) error {
	if c.targets == nil || len(c.targets.Boxes) == 0 {
		return nil // torchvision goes on until it draws a share of 1
	}
	w, h := c.size()
	for range iouRoundsMax {
		share := float32(o.SamplerOptions[c.draws.below(len(o.SamplerOptions))])
		if share >= 1 {
			return nil
		}
		for range o.Trials {
			partW := int(float32(w) * float32(c.draws.uniform(o.MinScale, o.MaxScale)))
			partH := int(float32(h) * float32(c.draws.uniform(o.MinScale, o.MaxScale)))
			if ratio := float64(partW) / float64(partH); partW == 0 || partH == 0 || ratio < o.MinAspectRatio || ratio > o.MaxAspectRatio {
				continue
			}
			left := int(float32(w-partW) * float32(c.draws.unit()))
			top := int(float32(h-partH) * float32(c.draws.unit()))
			part := image.Rect(left, top, left+partW, top+partH)
			if c.targets.overlaps(part, share) {
				c.noteCrop(part)
				c.targets.cropCentred(part)
				noteBy(c, "zero_boxes", "where", c.targets.marked)
				return c.cropFilled(part, Fill{})
			}
		}
	}
	return nil
}

// SanitizeBoundingBoxes is torchvision.transforms.v2.SanitizeBoundingBoxes(min_size, min_area): drops boxes that are too small or reach
// out of the image, with their labels and numbers.
type SanitizeBoundingBoxes struct {
	// MinSize is the least width and height in pixels, MinArea their least product.
	MinSize float64 `param:"min_size" default:"1" range:"1 1e6"`
	MinArea float64 `param:"min_area" default:"1" range:"1 1e12"`
}

func (SanitizeBoundingBoxes) random() bool { return false }

func (o SanitizeBoundingBoxes) apply(c *canvas) error {
	if c.targets != nil {
		if c.log != nil {
			c.log.add("sanitize_bounding_boxes", "min_size", o.MinSize, "min_area", o.MinArea)
		}
		c.targets.sanitize(float32(o.MinSize), float32(o.MinArea))
	}
	return nil
}

// ClampBoundingBoxes is torchvision.transforms.v2.ClampBoundingBoxes(): cuts boxes off at the image's edges.
type ClampBoundingBoxes struct{}

func (ClampBoundingBoxes) random() bool { return false }

func (ClampBoundingBoxes) apply(c *canvas) error {
	if c.targets != nil {
		c.note("clamp_bounding_boxes")
		c.targets.clamp()
	}
	return nil
}

// ConvertBoundingBoxFormat is torchvision.transforms.v2.ConvertBoundingBoxFormat(format). The operations after it compute in that format,
// and so round otherwise. The format of the results is the caller's.
type ConvertBoundingBoxFormat struct {
	Format string `param:"format" oneof:"xyxy xywh cxcywh"`
}

func (ConvertBoundingBoxFormat) random() bool { return false }

func (o ConvertBoundingBoxFormat) apply(c *canvas) error {
	if c.targets != nil {
		noteBy(c, "convert_bounding_box_format", "new_format", o.Format)
		format, _ := ParseBoxFormat(o.Format)
		c.targets.convert(format)
	}
	return nil
}

// RandomResize is torchvision.transforms.v2.RandomResize(min_size, max_size, interpolation): the shorter side gets a random length.
type RandomResize struct {
	// MinSize is the least length, and MaxSize is above the largest.
	MinSize       int           `param:"min_size" range:"1 16384"`
	MaxSize       int           `param:"max_size" range:"2 16384"`
	Interpolation Interpolation `param:"interpolation" is:"resize filter" default:"bilinear"`
	Resampler     Resampler     `param:"resampler" default:"null"`
}

func (o RandomResize) prepare() (Op, error) {
	if o.MinSize >= o.MaxSize {
		return nil, fmt.Errorf("min_size is %d, want less than max_size, which is %d and is never drawn", o.MinSize, o.MaxSize)
	}
	return o, nil
}

func (RandomResize) outputSize(int, int) (int, int) { return 0, 0 }

func (o RandomResize) apply(c *canvas) error {
	size := o.MinSize + c.draws.below(o.MaxSize-o.MinSize)
	return Resize{Size: Size{size}, Interpolation: o.Interpolation, Resampler: o.Resampler}.apply(c)
}

// ScaleJitter is torchvision.transforms.v2.ScaleJitter(target_size, scale_range, interpolation): resizes the image to a random share of
// the largest size that fits the target.
type ScaleJitter struct {
	// TargetSize is [h, w] as torchvision reads it: the second number goes with the height.
	TargetSize    Size          `param:"target_size"`
	ScaleRange    [2]float64    `param:"scale_range,nonzero" default:"[0.1, 2]" range:"1e-6 1e3"`
	Interpolation Interpolation `param:"interpolation" is:"resize filter" default:"bilinear"`
	Resampler     Resampler     `param:"resampler" default:"null"`
}

func (ScaleJitter) outputSize(int, int) (int, int) { return 0, 0 }

func (o ScaleJitter) apply(c *canvas) error {
	w, h := c.size()
	scale := float32(c.draws.uniform(o.ScaleRange[0], o.ScaleRange[1]))
	factor := float32(min(float64(o.TargetSize[1])/float64(h), float64(o.TargetSize[0])/float64(w))) * scale
	return c.resize(max(int(float32(w)*factor), 1), max(int(float32(h)*factor), 1),
		resizing{filter: o.Interpolation, algorithm: o.Resampler})
}

// RandomShortestSize is torchvision.transforms.v2.RandomShortestSize(min_size, max_size, interpolation): the shorter side gets one of some
// lengths.
type RandomShortestSize struct {
	// MinSize are the lengths, and MaxSize bounds the longer side if it is not 0.
	MinSize       []float64     `param:"min_size"`
	MaxSize       int           `param:"max_size,omitempty" default:"0" range:"0 16384"`
	Interpolation Interpolation `param:"interpolation" is:"resize filter" default:"bilinear"`
	Resampler     Resampler     `param:"resampler" default:"null"`
}

func (o RandomShortestSize) prepare() (Op, error) {
	for _, size := range o.MinSize {
		if size < 1 || size > SizeMax || size != float64(int(size)) {
			return nil, fmt.Errorf("min_size is %v, want whole numbers from 1 to %d", o.MinSize, SizeMax)
		}
	}
	if len(o.MinSize) == 0 {
		return nil, fmt.Errorf("min_size is empty, want a list of lengths")
	}
	return o, nil
}

func (RandomShortestSize) outputSize(int, int) (int, int) { return 0, 0 }

func (o RandomShortestSize) apply(c *canvas) error {
	w, h := c.size()
	factor := o.MinSize[c.draws.below(len(o.MinSize))] / float64(min(w, h))
	if o.MaxSize > 0 {
		factor = min(factor, float64(o.MaxSize)/float64(max(w, h)))
	}
	return c.resize(max(int(float64(w)*factor), 1), max(int(float64(h)*factor), 1),
		resizing{filter: o.Interpolation, algorithm: o.Resampler})
}

// FixedSizeCrop is the FixedSizeCrop(size, fill) of torchvision's references/detection: cuts at random where the image is larger, and pads
// on the right and at the bottom where it is smaller.
type FixedSizeCrop struct {
	// Size is the result's; {n} is a square.
	Size Size `param:"size"`
	// Fill is the padding's colour, and MaskFill its label in masks.
	Fill     Fill `param:"fill" default:"0"`
	MaskFill int  `param:"mask_fill,omitempty" default:"0" range:"0 255"`
}

func (o FixedSizeCrop) outputSize(int, int) (int, int) { return o.Size[0], o.Size[1] }

// apply draws one number, for the crop's left and top.
func (o FixedSizeCrop) apply(c *canvas) error {
	w, h := c.size()
	partW, partH := min(w, o.Size[1]), min(h, o.Size[0])
	at := float32(c.draws.unit())
	if partW < w || partH < h {
		left, top := int(float32(w-partW)*at), int(float32(h-partH)*at)
		if err := c.crop(image.Rect(left, top, left+partW, top+partH)); err != nil {
			return err
		}
	}
	return c.border([4]int{0, 0, o.Size[1] - partW, o.Size[0] - partH}, o.Fill, o.MaskFill)
}

// Letterbox is Ultralytics' LetterBox(new_shape): resizes the image so that it fits, and puts it into the middle of a grey canvas.
type Letterbox struct {
	// Size is the result's; {n} is a square.
	Size Size `param:"size"`
	// Fill is the canvas's colour, and MaskFill its label in masks.
	Fill          Fill          `param:"fill" default:"114"`
	MaskFill      int           `param:"mask_fill,omitempty" default:"0" range:"0 255"`
	Interpolation Interpolation `param:"interpolation" is:"resize filter" default:"bilinear"`
	Resampler     Resampler     `param:"resampler" default:"null"`
}

func (Letterbox) random() bool                     { return false }
func (o Letterbox) outputSize(int, int) (int, int) { return o.Size[0], o.Size[1] }

func (o Letterbox) apply(c *canvas) error {
	w, h := c.size()
	factor := min(float64(o.Size[0])/float64(h), float64(o.Size[1])/float64(w))
	newW, newH := max(roundToInt(float64(w)*factor), 1), max(roundToInt(float64(h)*factor), 1)
	if err := c.resize(newW, newH, resizing{filter: o.Interpolation, algorithm: o.Resampler}); err != nil {
		return err
	}
	left, top := (o.Size[1]-newW)/2, (o.Size[0]-newH)/2 // round(half − 0.1), as Ultralytics has it
	return c.border([4]int{left, top, o.Size[1] - newW - left, o.Size[0] - newH - top}, o.Fill, o.MaskFill)
}
