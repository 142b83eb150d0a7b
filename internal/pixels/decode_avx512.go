//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pixels

import (
	. "simd/archsimd"
	"unsafe"
)

// shuffles512 holds the byte shuffles and the other constants of the AVX-512 kernels.
type shuffles512 struct {
	// reverse8 reverses each eight bytes, as VGF2P8AFFINEQB wants a matrix's rows.
	reverse8 [64]int8
	// spreadBias repeats each of bytes 4 to 7 of an eight-byte word eight times, and all that twice.
	spreadBias [64]int8
	// identity is the 8×8 unit matrix of bits, eight times. Multiplied by a reversed matrix it gives its transpose.
	identity [64]uint8
	// interleaveLow and interleaveHigh make the 96 bytes R, G, B, … of 32 pixels from 32 bytes of R, 32 of G (bytes 0
	// to 63 of the pair of vectors) and 32 of B (bytes 64 to 95); the mirror tables do so in reverse.
	interleaveLow, interleaveHigh [64]uint8
	mirrorLow, mirrorHigh         [64]uint8
	// reverse64 reverses 64 bytes.
	reverse64 [64]uint8
}

var constants512 = makeShuffles512()

func makeShuffles512() *shuffles512 {
	t := new(shuffles512)
	for i := range 64 {
		t.reverse8[i] = int8(i&8 + 7 - i&7)
		t.spreadBias[i] = int8(4 + i>>3&3)
		t.identity[i] = 1 << (i & 7)
		t.reverse64[i] = uint8(63 - i)
		t.interleaveLow[i] = uint8(i%3*32 + i/3)
		t.mirrorLow[i] = uint8(i%3*32 + 31 - i/3)
	}
	for i := range 32 {
		place := 64 + i
		t.interleaveHigh[i] = uint8(place%3*32 + place/3)
		t.mirrorHigh[i] = uint8(place%3*32 + 31 - place/3)
	}
	return t
}

// measureAVX512 looks the two widths of each header byte up by VPSHUFB.
func measureAVX512(t *groupTables, dst, headers []byte, n, skip int) (total, before int) {
	table := load16(unsafe.Pointer(&t.width))
	lanes := Uint8x32{}.SetLo(table).SetHi(table)
	widths := Uint8x64{}.SetLo(lanes).SetHi(lanes)
	nibble, one := BroadcastUint8x64(15), BroadcastInt8x64(1)
	var all, skipped Int16x32
	for at := 0; at < n; at += 64 {
		v := load64(unsafe.Pointer(&headers[at]))
		store64(v, unsafe.Pointer(&dst[at]))
		low := widths.PermuteOrZeroGrouped(v.And(nibble).BitsToInt8())
		high := widths.PermuteOrZeroGrouped(v.ReshapeToUint16s().ShiftAllRight(4).ReshapeToUint8s().And(nibble).BitsToInt8())
		both := low.Add(high).Masked(Mask8x64FromBits(1<<uint(n-at) - 1))
		all = all.Add(both.DotProductPairsSaturated(one))
		both = both.Masked(Mask8x64FromBits(1<<uint(max(skip-at, 0)) - 1))
		skipped = skipped.Add(both.DotProductPairsSaturated(one))
	}
	return sumWords(all.GetLo().Add(all.GetHi())), sumWords(skipped.GetLo().Add(skipped.GetHi()))
}

// interleaveAVX512 makes 32 pixels at a time. The last 32 may overlap those before.
func interleaveAVX512(dst, planes []byte, stride, width int, flip bool) {
	if width < 32 {
		interleaveGeneric(dst, planes, stride, width, flip)
		return
	}
	low, high := LoadUint8x64Array(&constants512.interleaveLow), LoadUint8x64Array(&constants512.interleaveHigh)
	if flip {
		low, high = LoadUint8x64Array(&constants512.mirrorLow), LoadUint8x64Array(&constants512.mirrorHigh)
	}
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
		redGreen, blue := Uint8x64{}.SetLo(r).SetHi(g), Uint8x64{}.SetLo(b)
		o := unsafe.Add(out, 3*x)
		store64(redGreen.ConcatPermute(blue, low), o)
		store32(redGreen.ConcatPermute(blue, high).GetLo(), unsafe.Add(o, 64))
	}
}

func planarAVX512(dst []byte, planeBytes int, planes []byte, stride, width int, flip bool) {
	if width < 64 {
		planarAVX2(dst, planeBytes, planes, stride, width, flip)
		return
	}
	mid, reverse := BroadcastUint8x64(128), LoadUint8x64Array(&constants512.reverse64)
	src, out := start(planes), start(dst)
	for x := 0; ; x += 64 {
		if x > width-64 {
			if x >= width {
				return
			}
			x = width - 64
		}
		p := unsafe.Add(src, x)
		if flip {
			p = unsafe.Add(src, width-64-x)
		}
		g := load64(p)
		offset := g.Xor(mid)
		r := load64(unsafe.Add(p, stride)).Add(offset)
		b := load64(unsafe.Add(p, 2*stride)).Add(offset)
		o := unsafe.Add(out, x)
		if flip {
			r, g, b = r.Permute(reverse), g.Permute(reverse), b.Permute(reverse)
		}
		store64(r, o)
		store64(g, unsafe.Add(o, planeBytes))
		store64(b, unsafe.Add(o, 2*planeBytes))
	}
}
