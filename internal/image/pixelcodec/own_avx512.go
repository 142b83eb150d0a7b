//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pixelcodec

import (
	. "simd/archsimd"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// The kernels of both levels, as some of AVX-512's are AVX2's.
func init() {
	byLevel[kernel.AVX2] = &kernels{
		measure:    measureAVX2,
		unpack:     unpackAVX2,
		predict:    predictAVX2,
		interleave: interleaveAVX2,
		stream:     streamAVX2,
		streamCopy: streamCopy,
		fence:      fence,
		planar:     planarAVX2,
		split:      splitAVX2,
		residuals:  residualsAVX2,
		pack:       packAVX2,
	}
	byLevel[kernel.AVX512] = &kernels{
		measure:    measureAVX2,
		unpack:     unpackAVX512,
		predict:    predictAVX2,
		interleave: interleaveAVX512,
		stream:     streamAVX512,
		streamCopy: streamCopy,
		fence:      fence,
		planar:     planarAVX512,
		split:      splitAVX2,
		residuals:  residualsAVX2,
		pack:       packAVX512,
	}
}

// constants512 holds the constants of what AVX-512 does its own way.
var constants512 = makeConstants512()

type constantsAVX512 struct {
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

func makeConstants512() *constantsAVX512 {
	t := new(constantsAVX512)
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

func packAVX512(t *groupTables, codes *codeTable, headers, payload, residuals []byte, chunks int) int {
	var scratch [4]uint64
	return packWithAVX512(&scratch, t, codes, headers, payload, residuals, chunks)
}

// packWithAVX512 transposes both rows of a plane by VGF2P8AFFINEQB and gathers the planes that are needed by VPCOMPRESSB.
//
//go:noinline
func packWithAVX512(scratch *[4]uint64, t *groupTables, codes *codeTable, headers, payload, residuals []byte, chunks int) int {
	reverse, unit, spread := LoadInt8x64Array(&constants512.reverse8), LoadUint8x64Array(&constants512.identity), LoadInt8x64Array(&constants512.spreadBias)
	src, out, head := start(residuals), start(payload), start(headers)
	taken := uint(0)
	for rest := 3 * chunks; ; src, head = unsafe.Add(src, 2*chunkColumns), unsafe.Add(head, 2) {
		v := LoadUint8x64Array((*[64]uint8)(src))
		rangesAVX2(v.GetLo(), v.GetHi()).StoreArray(scratch)
		left, right := codes.of(scratch[0], scratch[1]), codes.of(scratch[2], scratch[3])
		*(*[2]uint8)(head) = [2]uint8{left, right}
		maskBias := t.maskBias[left] | t.maskBias[right]<<16
		present := uint64(uint32(maskBias))
		present |= present << 32
		bias := BroadcastUint64x8(maskBias).ReshapeToUint8s().PermuteOrZeroGrouped(spread)
		matrix := v.Add(bias).PermuteOrZeroGrouped(reverse)
		planes := unit.GaloisFieldAffineTransform(matrix.ReshapeToUint64s(), 0)
		planes.Compress(Mask8x64FromBits(present)).StoreArray((*[64]uint8)(unsafe.Add(out, taken)))
		taken += 2 * (uint(t.pairWidth[left]) + uint(t.pairWidth[right]))
		if rest--; rest == 0 {
			ClearAVXUpperBits()
			return int(taken)
		}
	}
}

// interleaveAVX512 makes 32 pixels at a time: rows were written by that many, and loads of more would wait for two stores. The last
// 32 may overlap those before.
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
	for x := 0; x < width; x += 32 {
		x = min(x, width-32)
		p := unsafe.Add(src, x)
		if flip {
			p = unsafe.Add(src, width-32-x)
		}
		r, g, b := channelsAVX2(p, stride, mid)
		redGreen, blue := Uint8x64{}.SetLo(r).SetHi(g), Uint8x64{}.SetLo(b)
		o := unsafe.Add(out, 3*x)
		redGreen.ConcatPermute(blue, low).StoreArray((*[64]uint8)(o))
		redGreen.ConcatPermute(blue, high).GetLo().StoreArray((*[32]uint8)(unsafe.Add(o, 64)))
	}
	ClearAVXUpperBits()
}

// planarAVX512 mirrors rows 64 pixels at a time; otherwise longer vectors gain nothing. The last 64 may overlap those before.
func planarAVX512(dst []byte, planeBytes int, planes []byte, stride, width int, flip bool) {
	if width < 64 || !flip {
		planarAVX2(dst, planeBytes, planes, stride, width, flip)
		return
	}
	mid, reverse := BroadcastUint8x64(128), LoadUint8x64Array(&constants512.reverse64)
	load := func(p unsafe.Pointer) Uint8x64 { return LoadUint8x64Array((*[64]uint8)(p)) }
	src, out := start(planes), start(dst)
	for x := 0; x < width; x += 64 {
		x = min(x, width-64)
		p, o := unsafe.Add(src, width-64-x), unsafe.Add(out, x)
		g := load(p)
		offset := g.Xor(mid)
		load(unsafe.Add(p, stride)).Add(offset).Permute(reverse).StoreArray((*[64]uint8)(o))
		g.Permute(reverse).StoreArray((*[64]uint8)(unsafe.Add(o, planeBytes)))
		load(unsafe.Add(p, 2*stride)).Add(offset).Permute(reverse).StoreArray((*[64]uint8)(unsafe.Add(o, 2*planeBytes)))
	}
	ClearAVXUpperBits()
}
