//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pixels

import (
	. "simd/archsimd"
	"unsafe"
)

// spreadBias repeats bytes 4 and 5 of an eight-byte word eight times each in the lower lane, and bytes 6 and 7 in the
// upper: from a maskBias to the bias of each column.
var spreadBias = func() (t [32]int8) {
	for i := range t {
		t[i] = int8(4 + i/8)
	}
	return t
}()

// interleaveShuffles spreads 16 bytes of each channel, R, G and B, to where they are in the 48 bytes of 16 pixels. Those
// are three vectors, but no two bytes of a channel have the same place in theirs, so that one shuffle serves all three:
//
//	R of pixels 0, 3, 6, … go to bytes 0, 9, 18 = 16+2, …: byte 0 of vector 0, byte 9 of vector 0, byte 2 of vector 1, …
//
// The same for both 128-bit lanes. mirrorShuffles takes the pixels in reverse.
var interleaveShuffles, mirrorShuffles = makeInterleaveShuffles(0), makeInterleaveShuffles(15)

func makeInterleaveShuffles(flip int) (t [3][32]int8) {
	for pixel := range 16 {
		for c := range 3 {
			place := (3*pixel + c) % 16
			t[c][place], t[c][16+place] = int8(pixel^flip), int8(pixel^flip)
		}
	}
	return t
}

// everyThird has ones in bytes 0, 3, 6, … (and in 1, 4, 7, …) of both lanes.
var everyThird = func() (t [2][32]int8) {
	for i := range 16 {
		if i%3 < 2 {
			t[i%3][i], t[i%3][16+i] = -1, -1
		}
	}
	return t
}()

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
	redShuffle, greenShuffle, blueShuffle := LoadInt8x32Array(&table[0]), LoadInt8x32Array(&table[1]), LoadInt8x32Array(&table[2])
	first, second := LoadInt8x32Array(&everyThird[0]).ToMask(), LoadInt8x32Array(&everyThird[1]).ToMask()
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
		r := load32(unsafe.Add(p, stride)).Add(offset).PermuteOrZeroGrouped(redShuffle)
		b := load32(unsafe.Add(p, 2*stride)).Add(offset).PermuteOrZeroGrouped(blueShuffle)
		g = g.PermuteOrZeroGrouped(greenShuffle)
		v0 := r.Merge(g.Merge(b, second), first)
		v1 := g.Merge(b.Merge(r, second), first)
		v2 := b.Merge(r.Merge(g, second), first)
		// Lane 0 of v0, v1 and v2 are the first 16 pixels, lane 1 the others.
		o := unsafe.Add(out, 3*x)
		if flip {
			store32(v0.ConcatPermute128Scalars(1, 3, v1), o)
			store32(v2.ConcatPermute128Scalars(1, 2, v0), unsafe.Add(o, 32))
			store32(v1.ConcatPermute128Scalars(0, 2, v2), unsafe.Add(o, 64))
		} else {
			store32(v0.ConcatPermute128Scalars(0, 2, v1), o)
			store32(v2.ConcatPermute128Scalars(0, 3, v0), unsafe.Add(o, 32))
			store32(v1.ConcatPermute128Scalars(1, 3, v2), unsafe.Add(o, 64))
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
	mid, reverse := BroadcastUint8x32(128), LoadInt8x32Array(&reverse16)
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
			r, g, b = r.ConcatPermute128Scalars(1, 0, r), g.ConcatPermute128Scalars(1, 0, g), b.ConcatPermute128Scalars(1, 0, b)
		}
		store32(r, o)
		store32(g, unsafe.Add(o, planeBytes))
		store32(b, unsafe.Add(o, 2*planeBytes))
	}
}
