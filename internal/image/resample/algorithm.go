package resample

import (
	"fmt"
	"image"
	"math"
	"slices"
	"strings"
)

// An Algorithm names the program that a resize matches bit for bit. Pillow's releases differ only in the order of the two passes, with sums
// rounded to bytes between them. Weights, rounding and Nearest are the same. The zero value is the newest.
type Algorithm uint8

const (
	// Pillow13 is Pillow 13.0. The vertical pass comes first if it removes more than twice as many rows as the
	// horizontal one removes columns:
	//
	//	h − outH > 0 and h − outH > 2·(w − outW)      for a w × h image resized to outW × outH, whichever part is kept.
	//
	// This holds for 300 × 700 to 256 × 597 (103 rows, 44 columns), but not for 375 × 500 to 256 × 341 (159 rows, 119 columns).
	Pillow13 Algorithm = iota
	// Pillow12 is Pillow 9.4 to 12.1: the horizontal pass always comes first. Pillow 12.2 and 12.3 are the same, except that
	// the vertical pass comes first for images over 100 times as tall as wide.
	Pillow12
	// Torch is torch's antialiased resize of uint8 tensors on a processor with AVX2: the horizontal pass comes first, and
	// weights are rounded to 16 bits. Users have no name for it, because a list of operations says where images are tensors.
	Torch
)

var algorithmNames = [...]string{"pillow-13", "pillow-12"}

// Algorithms returns the names that [ParseAlgorithm] reads, the default first.
func Algorithms() []string { return slices.Clone(algorithmNames[:]) }

// String returns the algorithm's name for users: "pillow-13".
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return fmt.Sprintf("resample.Algorithm(%d)", uint8(a))
}

// ParseAlgorithm is the inverse of [Algorithm.String].
func ParseAlgorithm(name string) (Algorithm, error) {
	if i := slices.Index(algorithmNames[:], name); i >= 0 {
		return Algorithm(i), nil
	}
	return 0, fmt.Errorf("resample: unknown resampler %q, want one of %s", name, strings.Join(algorithmNames[:], ", "))
}

// MarshalText returns the name, for flags.
func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

func (a *Algorithm) UnmarshalText(name []byte) (err error) {
	*a, err = ParseAlgorithm(string(name))
	return err
}

// verticalFirst reports whether the vertical pass comes first. If a side keeps its size, its pass is skipped, and the
// order does not matter.
func (a Algorithm) verticalFirst(srcW, srcH, outW, outH int) bool {
	rows, columns := srcH-outH, srcW-outW
	return a == Pillow13 && columns != 0 && rows > 0 && rows > 2*columns
}

// ResizeShortSide returns the size that torchvision's Resize(size) gives a w × h image: the shorter side becomes size, the longer one
// int(size · long / short), truncated as in torchvision.transforms.functional. 500 × 375 with size 256 gives 341 × 256.
func ResizeShortSide(w, h, size int) (int, int) {
	if w <= h {
		return size, int(float64(size*h) / float64(w))
	}
	return int(float64(size*w) / float64(h)), size
}

// SourceRegion returns the region of a srcW × srcH image needed for the part keep of its outW × outH resize with filter
// f. It is empty if keep is empty.
func SourceRegion(srcW, srcH, outW, outH int, keep image.Rectangle, f Filter) image.Rectangle {
	if keep.Empty() {
		return image.Rectangle{}
	}
	if srcW == outW && srcH == outH {
		return keep
	}
	if f.nearest() {
		x0, x1 := nearestSpan(srcW, outW, keep.Min.X, keep.Max.X, f)
		y0, y1 := nearestSpan(srcH, outH, keep.Min.Y, keep.Max.Y, f)
		return image.Rect(x0, y0, x1, y1)
	}
	x0, x1 := axisSpec{srcW, outW, keep.Min.X, keep.Dx(), f, false, false}.span()
	y0, y1 := axisSpec{srcH, outH, keep.Min.Y, keep.Dy(), f, false, false}.span()
	return image.Rect(x0, y0, x1, y1)
}

// span returns the first input with a weight in the run, and the one after the last. Windows move to the right with the
// output, so the run's two ends decide.
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
	plain   bool    // the filter does not grow with the scale
	scale   float64 // input pixels for each output pixel
	support float64 // reach of the filter in input pixels
	inverse float64 // 1 / max(scale, 1): from input pixels to the filter's own unit
}

func (s axisSpec) geometry() geometry {
	// Pillow keeps the box in float32: exact up to 1<<24.
	scale := float64(float32(s.in)) / float64(s.out)
	filterScale := math.Max(scale, 1)
	if s.filter.plain() {
		return geometry{in: s.in, plain: true, scale: scale, support: s.filter.support(), inverse: 1}
	}
	return geometry{in: s.in, scale: scale, support: float64(s.filter.support() * filterScale), inverse: 1 / filterScale}
}

func (g geometry) center(output int) float64 {
	return float64((float64(output) + 0.5) * g.scale)
}

// window returns the inputs of output position o: the first one and their number.
func (g geometry) window(o int) (low, count int) {
	if g.plain {
		before, _ := g.plainCenter(o)
		low = max(before-int(g.support)+1, 0)
		return low, min(before+int(g.support)+1, g.in) - low
	}
	center := g.center(o)
	low = max(int(center-g.support+0.5), 0)
	return low, min(int(center+g.support+0.5), g.in) - low
}
