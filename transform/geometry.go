package transform

import (
	"fmt"
	"image"
	"math"

	"github.com/imgfeed/imgfeed/internal/resample"
)

// Params are what was drawn for a sample: top, left, height and width of the last crop, in pixels of the image that it
// was applied to (the stored image for RandomResizedCrop, the resized one for RandomCrop and CenterCrop behind a Resize;
// top and left are negative where a crop begins in the padding), and 1 if the image was flipped, else 0.
// Without a crop they are the whole image.
//
// With torchvision they replay as functional.resized_crop(image, top, left, height, width, size) or
// functional.crop(image, top, left, height, width), and functional.hflip.
type Params [5]int32

// A step is what one pass over the pixels does: cut box out of a source image, resize it to width × height, keep a
// window of that (black where it is not visible), and flip it.
type step struct {
	box           image.Rectangle // in source pixels
	width, height int             // box is resized to this
	how           resizing
	keep          image.Rectangle // the window, in pixels of the resized box; may lie partly outside
	visible       image.Rectangle // where the resized box may be seen, in the same pixels
	flip          bool
}

// A resizing is how pixels are resized.
type resizing struct {
	filter    resample.Filter
	algorithm resample.Algorithm
}

// resizing returns how the operation resizes.
func (o *Op) resizing() resizing { return resizing{o.Interpolation, o.Resampler} }

// wholeImage is the step that changes nothing.
func wholeImage(w, h int) step {
	r := image.Rect(0, 0, w, h)
	return step{box: r, width: w, height: h, keep: r, visible: r}
}

func (s *step) resizes() bool { return s.width != s.box.Dx() || s.height != s.box.Dy() }

// crop narrows the step to r, in pixels of the image that it makes so far. It is not for a step that flips.
func (s *step) crop(r image.Rectangle) {
	s.keep = r.Add(s.keep.Min)
	s.visible = s.visible.Intersect(s.keep)
}

// resize appends a resize of the image that the step makes so far, and reports whether the step can do it: not if it
// resizes already, flips, or shows black borders.
func (s *step) resize(w, h int, how resizing) bool {
	if w == s.keep.Dx() && h == s.keep.Dy() {
		return true // Pillow returns a copy
	}
	if s.resizes() || s.flip || s.keep != s.visible {
		return false
	}
	*s = step{
		box: s.keep.Add(s.box.Min), width: w, height: h, how: how,
		keep: image.Rect(0, 0, w, h), visible: image.Rect(0, 0, w, h),
	}
	return true
}

// A SizeError says that an operation cannot take an image of this size.
type SizeError struct {
	Op            Kind
	Width, Height int // of the image that came to the operation
	Reason        string
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("transform: %s cannot take an image of %d×%d: %s", e.Op, e.Width, e.Height, e.Reason)
}

// resized returns the size that Resize gives a w × h image.
func (o *Op) resized(w, h int) (int, int, error) {
	if o.Width > 0 {
		return o.Width, o.Height, nil
	}
	outW, outH := resample.ResizeShortSide(w, h, o.Height)
	if outW > longSideMax || outH > longSideMax {
		return 0, 0, &SizeError{Resize, w, h, fmt.Sprintf("the result would be %d×%d", outW, outH)}
	}
	return outW, outH, nil
}

// longSideMax bounds the result of a Resize by the shorter side, for images that are extremely long.
const longSideMax = 1 << 20

// centerCrop is torchvision's center_crop: pad first where the image is smaller, then cut at round((image − crop) / 2),
// half to even.
func (o *Op) centerCrop(w, h int) image.Rectangle {
	left, top := centerOffset(w, o.Width), centerOffset(h, o.Height)
	return image.Rect(left, top, left+o.Width, top+o.Height)
}

func centerOffset(size, crop int) int {
	if crop > size {
		return -((crop - size) / 2)
	}
	return roundToInt(float64(size-crop) / 2)
}

// randomCrop is torchvision's RandomCrop: pad, then cut at a place drawn evenly.
func (o *Op) randomCrop(w, h int, d *Draws) (image.Rectangle, error) {
	left, top := o.Padding[0], o.Padding[1]
	paddedW, paddedH := w+left+o.Padding[2], h+top+o.Padding[3]
	if o.PadIfNeeded && paddedW < o.Width {
		missing := o.Width - paddedW
		left, paddedW = left+missing, paddedW+2*missing
	}
	if o.PadIfNeeded && paddedH < o.Height {
		missing := o.Height - paddedH
		top, paddedH = top+missing, paddedH+2*missing
	}
	if paddedW < o.Width || paddedH < o.Height {
		return image.Rectangle{}, &SizeError{RandomCrop, w, h, fmt.Sprintf("the crop is %d×%d; resize first, or set padding or pad_if_needed",
			o.Width, o.Height)}
	}
	x, y := 0, 0
	if paddedW != o.Width || paddedH != o.Height {
		y = d.below(paddedH - o.Height + 1)
		x = d.below(paddedW - o.Width + 1)
	}
	return image.Rect(x-left, y-top, x-left+o.Width, y-top+o.Height), nil
}

// randomBox is RandomResizedCrop.get_params of torchvision: ten attempts at an area and a ratio, the ratio evenly in its
// logarithm, and the largest central box of an allowed ratio if none fits.
func (o *Op) randomBox(w, h int, d *Draws) image.Rectangle {
	area := float64(w * h)
	for range 10 {
		target := float64(area * d.uniform(o.Scale[0], o.Scale[1]))
		ratio := exp(d.uniform(o.logRatio[0], o.logRatio[1]))
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

// setCrop writes a crop into the first four parameters.
func (p *Params) setCrop(r image.Rectangle) {
	p[0], p[1], p[2], p[3] = int32(r.Min.Y), int32(r.Min.X), int32(r.Dy()), int32(r.Dx())
}
