package resample

import (
	"image"
	"math"
)

// ResizeShortSide returns the size that torchvision's Resize(size) gives a w × h image: the shorter side becomes size,
// the longer one int(size · long / short), truncated as in torchvision.transforms.functional.
// 500 × 375 with size 256 gives 341 × 256.
func ResizeShortSide(w, h, size int) (int, int) {
	if w <= h {
		return size, int(float64(size*h) / float64(w))
	}
	return int(float64(size*w) / float64(h)), size
}

// SourceRegion returns the rows and columns of a srcW × srcH image that are read to make the part keep of its
// outW × outH resize with filter f. It is empty when keep is.
func SourceRegion(srcW, srcH, outW, outH int, keep image.Rectangle, f Filter) image.Rectangle {
	if keep.Empty() {
		return image.Rectangle{}
	}
	if srcW == outW && srcH == outH {
		return keep
	}
	if f == Nearest {
		x0, x1 := nearestSpan(srcW, outW, keep.Min.X, keep.Max.X)
		y0, y1 := nearestSpan(srcH, outH, keep.Min.Y, keep.Max.Y)
		return image.Rect(x0, y0, x1, y1)
	}
	x0, x1 := axisSpec{srcW, outW, keep.Min.X, keep.Dx(), f, false}.span()
	y0, y1 := axisSpec{srcH, outH, keep.Min.Y, keep.Dy(), f, false}.span()
	return image.Rect(x0, y0, x1, y1)
}

// span returns the first input that a weight of the run falls on, and the one behind the last. Windows move to the
// right with the output, so the run's two ends decide.
func (s axisSpec) span() (first, end int) {
	if s.in == s.out {
		return s.from, s.from + s.n
	}
	g := s.geometry()
	first, _ = g.window(s.from)
	low, count := g.window(s.from + s.n - 1)
	return first, low + count
}

// geometry is the part of Pillow's precompute_coeffs that does not depend on the output position.
type geometry struct {
	in      int
	scale   float64 // input pixels for each output pixel
	support float64 // reach of the filter in input pixels
	inverse float64 // 1 / max(scale, 1): from input pixels to the filter's own unit
}

func (s axisSpec) geometry() geometry {
	// Pillow keeps the box in float32: exact up to 1<<24.
	scale := float64(float32(s.in)) / float64(s.out)
	filterScale := math.Max(scale, 1)
	return geometry{in: s.in, scale: scale, support: float64(s.filter.support() * filterScale), inverse: 1 / filterScale}
}

func (g geometry) center(output int) float64 {
	return float64((float64(output) + 0.5) * g.scale)
}

// window returns the inputs that output position o is made from: the first one and how many.
func (g geometry) window(o int) (low, count int) {
	center := g.center(o)
	low = max(int(center-g.support+0.5), 0)
	return low, min(int(center+g.support+0.5), g.in) - low
}
