//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pixelcodec

import (
	. "simd/archsimd"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// AVX-512 uses AVX2's kernels, except where its other instructions help.
func init() {
	k := byLevel[kernel.AVX2] // chunks_avx2.go sets it
	k.stream, k.streamCopy, k.fence = streamAVX2, streamCopy, fence
	wide := *k
	wide.unpack, wide.interleave, wide.stream = unpackAVX512, interleaveAVX512, streamAVX512
	byLevel[kernel.AVX512] = &wide
}

// constants512 are the constants of AVX-512's own kernels.
var constants512 = makeConstants512()

type constantsAVX512 struct {
	// reverse8 reverses each eight bytes, the order of a matrix's rows in VGF2P8AFFINEQB.
	reverse8 [64]int8
	// identity is the 8×8 identity matrix of bits, eight times. Multiplied by a reversed matrix it gives the transpose.
	identity [64]uint8
	// interleaveLow and interleaveHigh make the 96 bytes R, G, B, … of 32 pixels from 32 bytes of each channel. R and G
	// are bytes 0 to 63 of the pair of vectors, B is bytes 64 to 95. The mirror tables do so in reverse.
	interleaveLow, interleaveHigh [64]uint8
	mirrorLow, mirrorHigh         [64]uint8
}

func makeConstants512() *constantsAVX512 {
	t := new(constantsAVX512)
	for i := range 64 {
		t.reverse8[i] = int8(i&8 + 7 - i&7)
		t.identity[i] = 1 << (i & 7)
		t.interleaveLow[i] = uint8(i%3*32 + i/3)
		t.mirrorLow[i] = uint8(i%3*32 + 31 - i/3)
	}
	for i := range 32 {
		at := 64 + i
		t.interleaveHigh[i] = uint8(at%3*32 + at/3)
		t.mirrorHigh[i] = uint8(at%3*32 + 31 - at/3)
	}
	return t
}

// interleaveAVX512 makes 32 pixels at a time, because rows were stored by 32 and larger loads would wait for two
// stores. The last 32 may overlap the previous ones.
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
