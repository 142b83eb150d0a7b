package affine

import (
	"math"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/libm"
)

// A Tensor is a map of uint8 tensors, as torchvision.transforms.v2 does it by a grid in float32 and torch's grid_sample on a CPU
// with AVX2. Its rows map the pixels' middles, counted from the middle of the result, to those of the source, divided by half of
// the source's sides.
type Tensor struct {
	Rows     [2][3]float32
	Bilinear bool // else nearest
	Masked   bool // the fill was given, which torchvision blends with: a bilinear map then differs from one without, even for black
}

// NewTensor returns the map of a matrix for sources of w × h pixels. The matrix maps points that count from the images' middles.
func NewTensor(a Matrix, w, h int, bilinear, masked bool) Tensor {
	t := Tensor{Bilinear: bilinear, Masked: masked}
	for k := range 3 {
		t.Rows[0][k], t.Rows[1][k] = float32(a[k])/float32(0.5*float64(w)), float32(a[3+k])/float32(0.5*float64(h))
	}
	return t
}

// tensorGroup is what a map of a tensor and its kernels share. Constants are repeated for each element of the largest vector.
type tensorGroup struct {
	rows    [6][16]float32
	half    [2][16]float32 // of the source's sides
	x, y    [16]float32    // the first pixels' middles, and the row's
	stride  [16]int32      // bytes of a source row
	fill    [3][16]float32
	masked  bool
	places  *[stretchLen]int32
	parts   [2][groupLen]float32 // position of x and y between the middles of two pixels
	corners [4][groupLen]uint32  // the pixels around: R, G, B in the lower bytes
	result  [groupLen]uint32
}

// MapTensor is [Mapper.Map] for tensors. It maps every pixel that is nowhere near the source's edge by kernels.
func (m *Mapper) MapTensor(dst, src *imagefile.RGB, t *Tensor, colour [3]byte) {
	g := &m.tensor
	g.start(src, t, colour)
	midX, midY := float32(dst.Width-1)/2, float32(dst.Height-1)/2
	w, h := float32(src.Width), float32(src.Height)
	first, behind := 0, dst.Width
	for y := range dst.Height {
		to, v := m.target(dst, y), float32(y)-midY
		fill(g.y[:], v)
		// What maps to a pixel or a whole square of four: both are adjacent, since each step of the arithmetic is monotonic.
		first, behind = span(first, behind, dst.Width, func(x int) bool {
			atX, atY := g.position(0, float32(x)-midX), g.position(1, float32(x)-midX)
			if t.Bilinear {
				return atX >= 0 && atX < w-1 && atY >= 0 && atY < h-1
			}
			atX, atY = roundEven(atX), roundEven(atY)
			return atX >= 0 && atX < w && atY >= 0 && atY < h
		})
		if !t.Bilinear {
			resample.Paint(to[:3*first], colour)
			m.nearestTensor(to, src, first, behind, midX)
			resample.Paint(to[3*behind:], colour)
		} else {
			g.edge(to, src, 0, first, midX)
			m.bilinearTensor(to, src, first, behind, midX)
			g.edge(to, src, behind, dst.Width, midX)
		}
		settle(dst, y, to)
	}
}

func (g *tensorGroup) start(src *imagefile.RGB, t *Tensor, colour [3]byte) {
	for k := range 3 {
		fill(g.rows[k][:], t.Rows[0][k])
		fill(g.rows[3+k][:], t.Rows[1][k])
		fill(g.fill[k][:], float32(colour[k]))
	}
	fill(g.half[0][:], float32(src.Width)/2)
	fill(g.half[1][:], float32(src.Height)/2)
	fill(g.stride[:], int32(3*src.Width))
	g.masked = t.Masked
}

// position returns the source's column (0) or row (1) at the middle x of a pixel of row g.y: first the grid's value from -1 to 1.
func (g *tensorGroup) position(i int, x float32) float32 {
	at := libm.FMA32(g.y[0], g.rows[3*i+1][0], float32(x*g.rows[3*i][0])) + g.rows[3*i+2][0]
	return libm.FMA32(at+1, g.half[i][0], -0.5)
}

func roundEven(x float32) float32 { return float32(math.RoundToEven(float64(x))) }

// nearestTensor copies the pixels from first to behind, which all show the source.
func (m *Mapper) nearestTensor(to []byte, src *imagefile.RGB, first, behind int, midX float32) {
	g := &m.tensor
	for at := first; at < behind && m.kernels != nil; at += stretchLen {
		n := min(stretchLen, behind-at)
		g.ramp(at, midX)
		g.places = &m.group.places
		m.kernels.tensorPlaces(g, n)
		m.group.copyPixels(unsafe.Pointer(&to[3*at]), unsafe.Pointer(unsafe.SliceData(src.Pix)), n)
	}
	for x := first; x < behind && m.kernels == nil; x++ {
		column, line := roundEven(g.position(0, float32(x)-midX)), roundEven(g.position(1, float32(x)-midX))
		copy(to[3*x:][:3], row(src, int(line))[3*int(column):])
	}
}

// ramp sets the middles of the first pixels of a vector.
func (g *tensorGroup) ramp(at int, midX float32) {
	for i := range g.x {
		g.x[i] = float32(at+i) - midX
	}
}

// bilinearTensor makes the pixels from first to behind, each of four of the source.
func (m *Mapper) bilinearTensor(to []byte, src *imagefile.RGB, first, behind int, midX float32) {
	g := &m.tensor
	if m.kernels == nil {
		g.edge(to, src, first, behind, midX)
		return
	}
	g.places = &m.group.places
	from, stride := unsafe.Pointer(unsafe.SliceData(src.Pix)), 3*src.Width
	for at := first; at < behind; at += groupLen {
		n := min(groupLen, behind-at)
		g.ramp(at, midX)
		m.kernels.tensorSquares(g, n)
		for i, place := range g.places[:n] {
			p := unsafe.Add(from, int(place))
			g.corners[0][i], g.corners[1][i] = *(*uint32)(p), *(*uint32)(unsafe.Add(p, 3))
			p = unsafe.Add(p, stride)
			g.corners[2][i], g.corners[3][i] = *(*uint32)(p), *(*uint32)(unsafe.Add(p, 3))
		}
		m.kernels.tensorBilinear(g, n)
		place := unsafe.Pointer(&to[3*at])
		for _, pixel := range g.result[:n] {
			*(*uint32)(place) = pixel // and one byte behind it
			place = unsafe.Add(place, 3)
		}
	}
}

// edge makes the pixels from first to behind, of which some squares may lie outside of the source: those pixels are zero.
func (g *tensorGroup) edge(to []byte, src *imagefile.RGB, first, behind int, midX float32) {
	for x := first; x < behind; x++ {
		atX, atY := g.position(0, float32(x)-midX), g.position(1, float32(x)-midX)
		left, top := float32(math.Floor(float64(atX))), float32(math.Floor(float64(atY)))
		east, south := atX-left, atY-top
		west, north := 1-east, 1-south
		weights := [4]float32{north * west, north * east, south * west, south * east}
		var sums [4]float32 // R, G, B and the mask
		for k, weight := range weights {
			column, line := left+float32(k&1), top+float32(k>>1)
			if !(column >= 0 && column < float32(src.Width) && line >= 0 && line < float32(src.Height)) {
				continue // adds zero
			}
			pixel := row(src, int(line))[3*int(column):][:3]
			for c := range 3 {
				sums[c] = libm.FMA32(float32(pixel[c]), weight, sums[c])
			}
			sums[3] += weight
		}
		for c := range 3 {
			v := sums[c]
			if g.masked {
				v = float32((v-g.fill[c][0])*sums[3]) + g.fill[c][0]
			}
			to[3*x+c] = byte(roundEven(v))
		}
	}
}

// floatConstants are those of the kernels. Adding and taking away the last rounds to the nearest whole number, of two to the even one.
var floatOnes, minusHalves, wholeFloats = floats(1), floats(-0.5), floats(3 << 22)

func floats(x float32) (v [16]float32) {
	fill(v[:], x)
	return v
}
