//go:build goexperiment.simd && amd64

package pixels

import (
	. "simd/archsimd"
	"unsafe"
)

// unpackAVX2 does one plane of a chunk at a time: PSHUFB spreads the planes of two groups to eight bytes each, and the
// four groups of a row are transposed together.
func unpackAVX2(t *groupTables, headers, payload []byte, rows *rowPair, chunks int, first bool) {
	m7, m14, m28 := BroadcastUint64x4(0x00AA00AA00AA00AA), BroadcastUint64x4(0x0000CCCC0000CCCC), BroadcastUint64x4(0x00000000F0F0F0F0)
	s7, s14, s28 := BroadcastUint64x4(7), BroadcastUint64x4(14), BroadcastUint64x4(28)
	shuffles, biases := unsafe.Pointer(&t.shuffle), unsafe.Pointer(&t.bias)
	head, src := start(headers), start(payload)
	top, bottom, stride := start(rows.top), start(rows.bottom), rows.stride
	for c := range chunks {
		codes := *(*uint64)(head)
		head = unsafe.Add(head, chunkHeaderBytes)
		for o := c * chunkColumns; o < c*chunkColumns+3*stride; o += stride {
			left, right := uint(codes&255), uint(codes>>8&255)
			codes >>= 16
			leftBytes, rightBytes := uint(t.pairWidth[left]), uint(t.pairWidth[right])
			leftShuffle := LoadInt8x16((*[16]int8)(unsafe.Add(shuffles, left*16)))
			rightShuffle := LoadInt8x16((*[16]int8)(unsafe.Add(shuffles, right*16)))
			bias := pair16(unsafe.Add(biases, left*16), unsafe.Add(biases, right*16))
			p1 := unsafe.Add(src, leftBytes)
			p2 := unsafe.Add(p1, rightBytes)
			p3 := unsafe.Add(p2, leftBytes)
			x := Uint8x32{}.SetLo(load16(src).PermuteOrZero(leftShuffle)).SetHi(load16(p1).PermuteOrZero(rightShuffle))
			y := Uint8x32{}.SetLo(load16(p2).PermuteOrZero(leftShuffle)).SetHi(load16(p3).PermuteOrZero(rightShuffle))
			src = unsafe.Add(p3, rightBytes)
			x = transpose8x4(x, m7, m14, m28, s7, s14, s28).Sub(bias)
			y = transpose8x4(y, m7, m14, m28, s7, s14, s28).Sub(bias)
			if first {
				x = prefixSum32(x)
			} else {
				x = x.Add(load32(unsafe.Add(bottom, o)))
			}
			store32(x, unsafe.Add(top, o))
			store32(x.Add(y), unsafe.Add(bottom, o))
		}
	}
}

// interleaveShuffles puts 16 pixels of planar R, G and B into 48 bytes: entry [o][c] says which byte of channel c each
// byte of output vector o takes, for both 128-bit lanes. mirrorShuffles does it for the pixels in reverse.
var interleaveShuffles, mirrorShuffles = makeInterleaveShuffles(0), makeInterleaveShuffles(15)

func makeInterleaveShuffles(flip int) (t [3][3][32]int8) {
	for o := range 3 {
		for i := range 32 {
			place := 16*o + i%16
			for c := range 3 {
				t[o][c][i] = -128
			}
			t[o][place%3][i] = int8(place/3 ^ flip)
		}
	}
	return t
}

// interleaveAVX2 makes 32 pixels at a time. The last 32 may overlap those before. Mirrored rows are read from their end,
// not written from it: memory is slower the wrong way round.
func interleaveAVX2(dst, planes []byte, stride, width int, flip bool) {
	if width < 32 {
		interleaveGeneric(dst, planes, stride, width, flip)
		return
	}
	table := &interleaveShuffles
	if flip {
		table = &mirrorShuffles
	}
	r0, g0, b0 := LoadInt8x32(&table[0][0]), LoadInt8x32(&table[0][1]), LoadInt8x32(&table[0][2])
	r1, g1, b1 := LoadInt8x32(&table[1][0]), LoadInt8x32(&table[1][1]), LoadInt8x32(&table[1][2])
	r2, g2, b2 := LoadInt8x32(&table[2][0]), LoadInt8x32(&table[2][1]), LoadInt8x32(&table[2][2])
	mid := BroadcastUint8x32(128)
	src, out := start(planes), start(dst)
	for x := 0; ; x += 32 {
		if x > width-32 {
			if x >= width {
				return
			}
			x = width - 32
		}
		p := unsafe.Add(src, x)
		if flip {
			p = unsafe.Add(src, width-32-x)
		}
		g := load32(p)
		offset := g.Xor(mid)
		r := load32(unsafe.Add(p, stride)).Add(offset)
		b := load32(unsafe.Add(p, 2*stride)).Add(offset)
		v0 := r.PermuteOrZeroGrouped(r0).Or(g.PermuteOrZeroGrouped(g0)).Or(b.PermuteOrZeroGrouped(b0))
		v1 := r.PermuteOrZeroGrouped(r1).Or(g.PermuteOrZeroGrouped(g1)).Or(b.PermuteOrZeroGrouped(b1))
		v2 := r.PermuteOrZeroGrouped(r2).Or(g.PermuteOrZeroGrouped(g2)).Or(b.PermuteOrZeroGrouped(b2))
		// Lane 0 of v0, v1 and v2 are the first 16 pixels, lane 1 the others.
		o := unsafe.Add(out, 3*x)
		if flip {
			store32(v0.Select128FromPair(1, 3, v1), o)
			store32(v2.Select128FromPair(1, 2, v0), unsafe.Add(o, 32))
			store32(v1.Select128FromPair(0, 2, v2), unsafe.Add(o, 64))
		} else {
			store32(v0.Select128FromPair(0, 2, v1), o)
			store32(v2.Select128FromPair(0, 3, v0), unsafe.Add(o, 32))
			store32(v1.Select128FromPair(1, 3, v2), unsafe.Add(o, 64))
		}
	}
}

// reverse16 reverses the bytes of each 128-bit lane.
var reverse16 = [32]int8{
	15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
	15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
}

func planarAVX2(dst []byte, planeBytes int, planes []byte, stride, width int, flip bool) {
	if width < 32 {
		planarGeneric(dst, planeBytes, planes, stride, width, flip)
		return
	}
	mid, reverse := BroadcastUint8x32(128), LoadInt8x32(&reverse16)
	src, out := start(planes), start(dst)
	for x := 0; ; x += 32 {
		if x > width-32 {
			if x >= width {
				return
			}
			x = width - 32
		}
		p := unsafe.Add(src, x)
		if flip {
			p = unsafe.Add(src, width-32-x)
		}
		g := load32(p)
		offset := g.Xor(mid)
		r := load32(unsafe.Add(p, stride)).Add(offset)
		b := load32(unsafe.Add(p, 2*stride)).Add(offset)
		o := unsafe.Add(out, x)
		if flip {
			r, g, b = r.PermuteOrZeroGrouped(reverse), g.PermuteOrZeroGrouped(reverse), b.PermuteOrZeroGrouped(reverse)
			r, g, b = r.Select128FromPair(1, 0, r), g.Select128FromPair(1, 0, g), b.Select128FromPair(1, 0, b)
		}
		store32(r, o)
		store32(g, unsafe.Add(o, planeBytes))
		store32(b, unsafe.Add(o, 2*planeBytes))
	}
}
