package affine

import (
	"math"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// A sampler writes the pixel at (x, y) of src to to, x and y counting from the middle of the first pixel.
type sampler func(to []byte, src *imagefile.RGB, x, y float64)

// interpolate is ImagingGenericTransform for an affine map.
func interpolate(dst, src *imagefile.RGB, a *Matrix, fill [3]byte, sample sampler) {
	w, h := float64(src.Width), float64(src.Height)
	for y := range dst.Height {
		to := row(dst, y)
		v := float64(y) + 0.5
		alongX, alongY := float64(a[1]*v), float64(a[4]*v)
		for x := range dst.Width {
			u := float64(x) + 0.5
			atX := float64(a[0]*u) + alongX + a[2]
			atY := float64(a[3]*u) + alongY + a[5]
			if out := to[3*x:][:3:3]; atX < 0 || atX >= w || atY < 0 || atY >= h {
				copy(out, fill[:])
			} else {
				sample(out, src, atX-0.5, atY-0.5)
			}
		}
	}
}

// clamp returns the nearest of n coordinates.
func clamp(at, n int) int { return min(max(at, 0), n-1) }

// bilinear is bilinear_filter32RGB: the sum is cut off, not rounded.
func bilinear(to []byte, src *imagefile.RGB, x, y float64) {
	floorX, floorY := math.Floor(x), math.Floor(y)
	dx, dy := x-floorX, y-floorY
	left, right := 3*clamp(int(floorX), src.Width), 3*clamp(int(floorX)+1, src.Width)
	above, below := row(src, clamp(int(floorY), src.Height)), row(src, clamp(int(floorY)+1, src.Height))
	for c := range 3 {
		v0 := between(float64(above[left+c]), float64(above[right+c]), dx)
		v1 := between(float64(below[left+c]), float64(below[right+c]), dx)
		to[c] = byte(int(between(v0, v1, dy)))
	}
}

func between(a, b, d float64) float64 { return a + float64((b-a)*d) }

// bicubic is bicubic_filter32RGB: cut off, and limited to a byte.
func bicubic(to []byte, src *imagefile.RGB, x, y float64) {
	floorX, floorY := math.Floor(x), math.Floor(y)
	dx, dy := x-floorX, y-floorY
	var columns [4]int
	var lines [4][]byte
	for i := range 4 {
		columns[i] = 3 * clamp(int(floorX)-1+i, src.Width)
		lines[i] = row(src, clamp(int(floorY)-1+i, src.Height))
	}
	for c := range 3 {
		var v [4]float64
		for i, line := range lines {
			v1, v2 := float64(line[columns[0]+c]), float64(line[columns[1]+c])
			v[i] = cubic(v1, v2, float64(line[columns[2]+c]), float64(line[columns[3]+c]), dx)
		}
		to[c] = byte(int(min(max(cubic(v[0], v[1], v[2], v[3], dy), 0), 255)))
	}
}

// cubic is Pillow's BICUBIC: Keys' spline with a = -1 through v1 to v4, at d from v2 to v3.
func cubic(v1, v2, v3, v4, d float64) float64 {
	p2 := -v1 + v3
	p3 := float64(2*(v1-v2)) + v3 - v4
	p4 := -v1 + v2 - v3 + v4
	return v2 + float64(d*(p2+float64(d*(p3+float64(d*p4)))))
}
