//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pixelcodec

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// Kernels along rows of pixels or headers, a vector at a time. The last vector may overlap the one before; rows shorter
// than one are left to the generic kernels.

const vectorAVX2 = 16 * Count

// forwardAVX2 are the indices that spread 16 bytes of each channel, R, G and B, to their positions in the 48 bytes of 16 pixels. These
// are three vectors, but all bytes of a channel have different positions in theirs, so one vector of indices serves all three:
//
//	R of pixels 0, 3, 6, … go to bytes 0, 9, 18 = 16+2, …: byte 0 of vector 0, byte 9 of vector 0, byte 2 of vector 1, …
//
// They are the same for all lanes. mirroredAVX2 are those for pixels of a lane in reverse.
var forwardAVX2, mirroredAVX2 = spreadIndicesAVX2(0), spreadIndicesAVX2(15)

func spreadIndicesAVX2(flip int) (t [3][vectorAVX2]uint8) {
	for i := range vectorAVX2 {
		for c := range 3 {
			t[c][i&^15+(3*i+c)%16] = uint8(i&15 ^ flip)
		}
	}
	return t
}

// thirdsAVX2 has ones in bytes 0, 3, 6, … (and in 1, 4, 7, …) of each lane.
var thirdsAVX2 = func() (t [2][vectorAVX2]int8) {
	for i := range vectorAVX2 {
		if i&15%3 < 2 {
			t[i&15%3][i] = -1
		}
	}
	return t
}()

// weaveAVX2 makes three vectors of pixels from vectors of each channel, spread.
func weaveAVX2(r, g, b Bytes, first, second ByteMask) (v0, v1, v2 Bytes) {
	return r.IfElse(first, g.IfElse(second, b)), g.IfElse(first, b.IfElse(second, r)), b.IfElse(first, r.IfElse(second, g))
}

// channelsAVX2 loads R, G and B from planes G, R−G+128 and B−G+128.
func channelsAVX2(p unsafe.Pointer, stride int, mid Bytes) (r, g, b Bytes) {
	g = Load(p)
	offset := g.Xor(mid)
	return Load(unsafe.Add(p, stride)).Add(offset), g, Load(unsafe.Add(p, 2*stride)).Add(offset)
}

// interleaveAVX2 reads mirrored rows backwards and writes forwards, because writing backwards is slower.
func interleaveAVX2(dst, planes []byte, stride, width int, flip bool) {
	if width < vectorAVX2 {
		interleaveGeneric(dst, planes, stride, width, flip)
		return
	}
	mid := BroadcastBytes(128)
	indices := &forwardAVX2
	if flip {
		indices = &mirroredAVX2
	}
	pr, pg, pb := Load(unsafe.Pointer(&indices[0])), Load(unsafe.Pointer(&indices[1])), Load(unsafe.Pointer(&indices[2]))
	first, second := LoadMask(unsafe.Pointer(&thirdsAVX2[0])), LoadMask(unsafe.Pointer(&thirdsAVX2[1]))
	src, out := start(planes), start(dst)
	for x := 0; x < width; x += vectorAVX2 {
		x = min(x, width-vectorAVX2)
		if flip {
			r, g, b := channelsAVX2(unsafe.Add(src, width-vectorAVX2-x), stride, mid)
			v0, v1, v2 := weaveAVX2(Take(r, pr), Take(g, pg), Take(b, pb), first, second)
			StorePixelsMirrored(v0, v1, v2, unsafe.Add(out, 3*x))
		} else {
			r, g, b := channelsAVX2(unsafe.Add(src, x), stride, mid)
			v0, v1, v2 := weaveAVX2(Take(r, pr), Take(g, pg), Take(b, pb), first, second)
			StorePixels(v0, v1, v2, unsafe.Add(out, 3*x))
		}
	}
	Leave()
}

func planarAVX2(dst []byte, planeBytes int, planes []byte, stride, width int, flip bool) {
	if width < vectorAVX2 {
		planarGeneric(dst, planeBytes, planes, stride, width, flip)
		return
	}
	mid := BroadcastBytes(128)
	src, out := start(planes), start(dst)
	for x := 0; x < width; x += vectorAVX2 {
		x = min(x, width-vectorAVX2)
		var r, g, b Bytes
		if flip {
			r, g, b = channelsAVX2(unsafe.Add(src, width-vectorAVX2-x), stride, mid)
			r, g, b = Reverse(r), Reverse(g), Reverse(b)
		} else {
			r, g, b = channelsAVX2(unsafe.Add(src, x), stride, mid)
		}
		o := unsafe.Add(out, x)
		Store(r, o)
		Store(g, unsafe.Add(o, planeBytes))
		Store(b, unsafe.Add(o, 2*planeBytes))
	}
	Leave()
}

// loadPlanesAVX2 loads pixels as G, R−G+128 and B−G+128.
func loadPlanesAVX2(p unsafe.Pointer, mid Bytes) (g, r, b Bytes) {
	v0, v1, v2 := LoadPixels(p)
	g = Channel(v0, v1, v2, 1)
	offset := g.Xor(mid)
	return g, Channel(v0, v1, v2, 0).Sub(offset), Channel(v0, v1, v2, 2).Sub(offset)
}

func splitAVX2(planes []byte, stride int, src []byte, width int) {
	if width < vectorAVX2 {
		splitGeneric(planes, stride, src, width)
		return
	}
	mid := BroadcastBytes(128)
	out, in := start(planes), start(src)
	for x := 0; x < width; x += vectorAVX2 {
		x = min(x, width-vectorAVX2)
		g, r, b := loadPlanesAVX2(unsafe.Add(in, 3*x), mid)
		o := unsafe.Add(out, x)
		Store(g, o)
		Store(r, unsafe.Add(o, stride))
		Store(b, unsafe.Add(o, 2*stride))
	}
	Leave()
}

// leadingOnesAVX2 holds a vector of ones and one of zeros: a vector from n bytes before the middle on has n bytes of ones, then zeros.
var leadingOnesAVX2 = func() (t [2 * vectorAVX2]uint8) {
	for i := range vectorAVX2 {
		t[i] = 255
	}
	return t
}()

// measureAVX2 looks up the two widths of each header byte by a shuffle. A byte counts at most 16, and a row has 3,072.
func measureAVX2(t *groupTables, dst, headers []byte, n, skip int) (total, before int) {
	widths, nibble := LoadRepeated(unsafe.Pointer(&t.width)), BroadcastBytes(15)
	var all, skipped Sums
	for at := 0; at < n; at += vectorAVX2 {
		v := Load(unsafe.Pointer(&headers[at]))
		Store(v, unsafe.Pointer(&dst[at]))
		left, right := v.And(nibble), v.ReshapeToUint16s().ShiftAllRight(4).ReshapeToUint8s().And(nibble)
		both := Take(widths, left).Add(Take(widths, right))
		all = AddBytes(all, both.And(Load(unsafe.Pointer(&leadingOnesAVX2[vectorAVX2-min(n-at, vectorAVX2)]))))
		skipped = AddBytes(skipped, both.And(Load(unsafe.Pointer(&leadingOnesAVX2[vectorAVX2-min(max(skip-at, 0), vectorAVX2)]))))
	}
	total, before = Total(all), Total(skipped)
	Leave()
	return total, before
}
