package affine

import (
	"math"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/libm"
)

// A Tensor is a map of uint8 tensors, as torchvision.transforms.v2 does it by a grid in float32 and torch's grid_sample on a CPU with AVX2.
// Its rows map the pixels' middles, counted from the middle of the result, to those of the source, divided by half of the source's sides.
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
	rows   [6][16]float32
	half   [2][16]float32 // half of the source's sides
	x, y   [16]float32    // the next pixels' middles, and the row's
	stride [16]int32      // bytes of a source row
	fill   [3][16]float32
	midX   float32 // middle of the result
	edges  [2]edges

	bilinear, masked bool

	starts  *[stretchLen]int32
	parts   [2][groupLen]float32 // position of x and y between the middles of two pixels
	corners [4][groupLen]uint32  // the pixels around: R, G, B in the lower bytes
	result  [groupLen]uint32
}

// MapTensor is [Mapper.Map] for tensors. It maps every pixel that is nowhere near the source's edge by kernels.
func (m *Mapper) MapTensor(dst, src *imagefile.RGB, t *Tensor, colour [3]byte) {
	g := &m.tensor
	g.start(dst, src, t, colour)
	for y := range dst.Height {
		to := m.target(dst, y)
		fill(g.y[:], float32(y)-float32(dst.Height-1)/2)
		inner, outer := g.spans(dst.Width)
		if m.kernels == nil || inner[0] == inner[1] {
			inner = [2]int{outer[1], outer[1]}
		}
		resample.Paint(to[:3*outer[0]], colour)
		g.edge(to, src, outer[0], inner[0])
		if inner[0] < inner[1] {
			m.mapTensor(to, src, inner[0], inner[1])
		}
		g.edge(to, src, inner[1], outer[1])
		resample.Paint(to[3*outer[1]:], colour)
		settle(dst, y, to)
	}
}

// An edges has the positions of a row's first pixel and the next ones along an axis of the source, and bounds of positions.
type edges struct {
	origin, down, inverse float64    // position in the middle row, increment per row, and 1 / increment per pixel
	first, last           [2]float64 // bounds of inner pixels, and of outer ones, in the order of a row's pixels
}

// start sets what all rows share.
func (g *tensorGroup) start(dst, src *imagefile.RGB, t *Tensor, colour [3]byte) {
	g.midX, g.bilinear, g.masked = float32(dst.Width-1)/2, t.Bilinear, t.Masked
	fill(g.stride[:], int32(3*src.Width))
	for k := range 3 {
		fill(g.rows[k][:], t.Rows[0][k])
		fill(g.rows[3+k][:], t.Rows[1][k])
		fill(g.fill[k][:], float32(colour[k]))
	}
	midX, midY := float64(dst.Width-1)/2, float64(dst.Height-1)/2
	in, out := 0., 1. // distances from the middle of the source's first pixel, inwards and outwards
	if !t.Bilinear {
		in, out = -0.5, 0.5
	}
	for i, side := range [2]int{src.Width, src.Height} {
		half, along, across, term := float64(side)/2, float64(t.Rows[i][0]), float64(t.Rows[i][1]), float64(t.Rows[i][2])
		fill(g.half[i][:], float32(half))
		e, end := &g.edges[i], float64(side-1)
		e.origin, e.down, e.inverse = (term+1-along*midX)*half-0.5, across*half, 1/(along*half)
		if along == 0 {
			e.inverse = 1e300 // The products become very large, with the same signs.
		}
		// Positions in float32 differ less from these.
		safe := (math.Abs(along)*midX + math.Abs(across)*midY + math.Abs(term) + 2) * half / (1 << 20)
		e.first, e.last = [2]float64{in + safe, -out - safe}, [2]float64{end - in - safe, end + out + safe}
		if along < 0 {
			e.first, e.last = e.last, e.first
		}
	}
}

// spans returns the pixels of row g.y that show only the source, and those that show it at all. Pixels between both are so near to
// an edge that numbers in float32 decide.
func (g *tensorGroup) spans(width int) (inner, outer [2]int) {
	spans := [2][2]int{{0, width}, {0, width}}
	for i := range g.edges {
		e := &g.edges[i]
		at := e.origin + e.down*float64(g.y[0])
		for k := range spans {
			s := &spans[k]
			end := float64(s[1])
			s[0] = max(s[0], int(math.Ceil(min(max((e.first[k]-at)*e.inverse, 0), end))))
			s[1] = max(s[0], int(math.Floor(min(max((e.last[k]-at)*e.inverse, -1), end-1)))+1)
		}
	}
	return spans[0], spans[1]
}

// position returns the source's column (0) or row (1) at the middle x of a pixel of row g.y: first the grid's value from -1 to 1.
func (g *tensorGroup) position(i int, x float32) float32 {
	at := libm.FMA32(g.y[0], g.rows[3*i+1][0], float32(x*g.rows[3*i][0])) + g.rows[3*i+2][0]
	return libm.FMA32(at+1, g.half[i][0], -0.5)
}

func roundEven(x float32) float32 { return float32(math.RoundToEven(float64(x))) }

// mapTensor makes the pixels from first to behind, which show only the source.
func (m *Mapper) mapTensor(to []byte, src *imagefile.RGB, first, behind int) {
	g := &m.tensor
	for i := range g.x {
		g.x[i] = float32(first+i) - g.midX
	}
	from, stride, length := unsafe.Pointer(unsafe.SliceData(src.Pix)), 3*src.Width, stretchLen
	if g.bilinear {
		length = groupLen
	}
	starts := &m.group.starts
	g.starts = starts
	for at := first; at < behind; at += length {
		n, out := min(length, behind-at), unsafe.Pointer(&to[3*at])
		if !g.bilinear {
			m.kernels.tensorNearest(g, n)
			m.group.copyPixels(out, from, n)
			continue
		}
		m.kernels.tensorSquares(g, n)
		for i := range min(n, groupLen) {
			p := unsafe.Add(from, int(starts[i]))
			above, below := *(*uint64)(p), *(*uint64)(unsafe.Add(p, stride))
			g.corners[0][i], g.corners[1][i] = uint32(above), uint32(above>>24)
			g.corners[2][i], g.corners[3][i] = uint32(below), uint32(below>>24)
		}
		m.kernels.tensorBilinear(g, n)
		storePixels(out, g.result[:n])
	}
}

// edge makes the pixels from first to behind, of which some may lie outside of the source: those pixels are zero.
func (g *tensorGroup) edge(to []byte, src *imagefile.RGB, first, behind int) {
	for x := first; x < behind; x++ {
		atX, atY := g.position(0, float32(x)-g.midX), g.position(1, float32(x)-g.midX)
		if !g.bilinear {
			atX, atY = roundEven(atX), roundEven(atY) // The first pixel's weight is 1.
		}
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
