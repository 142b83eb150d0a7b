//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"simd/archsimd"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// Rearranging finished rows: three planes out of interleaved pixels, and mirroring. Nothing outside the rows is read or
// written.

const (
	splitPixelsAVX512 = 64 // pixels that a step of splitPlanes takes
	splitPixelsAVX2   = 16
	mirrorPixels      = 5 // in 15 bytes
)

var (
	// splitIndex512 takes byte 3j+c for each j out of 192: modulo 128 of the first two registers, modulo 64 of the third.
	splitIndex512 [3][64]uint8
	// splitThird512 tells which bytes come out of the third register.
	splitThird512 [3]uint64
	// splitIndex256 is the same for 16 pixels in three registers of 16 bytes; -1 gives zero.
	splitIndex256 [3][3][16]int8
	// mirrorIndex leaves the mirrored pixels in bytes 1..15; byte 0 is overwritten by the step that follows.
	mirrorIndex [16]int8
)

func init() {
	for c := range 3 {
		for j := range 64 {
			splitIndex512[c][j] = uint8(3*j+c) & 127
			if 3*j+c >= 128 {
				splitThird512[c] |= 1 << j
			}
		}
		for register := range 3 {
			for j := range 16 {
				splitIndex256[c][register][j] = -1
				if at := 3*j + c - 16*register; at >= 0 && at < 16 {
					splitIndex256[c][register][j] = int8(at)
				}
			}
		}
		for i := range mirrorPixels {
			mirrorIndex[1+3*i+c] = int8(3*(mirrorPixels-1-i) + c)
		}
	}
}

// putRow is [Output.putRow] with the kernels of r's level.
func (r *Resampler) putRow(dst Output, y int, row []byte) {
	if dst.Layout == NHWC {
		dst.putRow(y, row)
		return
	}
	red, green, blue := dst.planes(y)
	switch {
	case r.level >= kernel.AVX512 && len(red) >= splitPixelsAVX512:
		splitPlanesAVX512(red, green, blue, row)
	case r.level >= kernel.AVX2 && len(red) >= splitPixelsAVX2:
		splitPlanesAVX2(red, green, blue, row)
	default:
		dst.putRow(y, row)
		return
	}
	archsimd.ClearAVXUpperBits()
}

// splitPlanesAVX512 takes 64 pixels at a time, the last ones overlapping those before.
func splitPlanesAVX512(red, green, blue, row []byte) {
	index0, index1, index2 := archsimd.LoadUint8x64Array(&splitIndex512[0]), archsimd.LoadUint8x64Array(&splitIndex512[1]), archsimd.LoadUint8x64Array(&splitIndex512[2])
	third0, third1 := archsimd.Mask8x64FromBits(splitThird512[0]), archsimd.Mask8x64FromBits(splitThird512[1])
	third2 := archsimd.Mask8x64FromBits(splitThird512[2])
	for x := 0; x < len(red); x += splitPixelsAVX512 {
		x := min(x, len(red)-splitPixelsAVX512)
		pixels := row[3*x:][:192]
		a, b, c := archsimd.LoadUint8x64Array((*[64]uint8)(pixels)), archsimd.LoadUint8x64Array((*[64]uint8)(pixels[64:])), archsimd.LoadUint8x64Array((*[64]uint8)(pixels[128:]))
		c.Permute(index0).Merge(a.ConcatPermute(b, index0), third0).StoreArray((*[64]uint8)(red[x:]))
		c.Permute(index1).Merge(a.ConcatPermute(b, index1), third1).StoreArray((*[64]uint8)(green[x:]))
		c.Permute(index2).Merge(a.ConcatPermute(b, index2), third2).StoreArray((*[64]uint8)(blue[x:]))
	}
}

func splitPlanesAVX2(red, green, blue, row []byte) {
	planes := [3]unsafe.Pointer{unsafe.Pointer(&red[0]), unsafe.Pointer(&green[0]), unsafe.Pointer(&blue[0])}
	row = row[:3*len(red)]
	for channel, plane := range planes {
		index := &splitIndex256[channel]
		index0, index1, index2 := archsimd.LoadInt8x16Array(&index[0]), archsimd.LoadInt8x16Array(&index[1]), archsimd.LoadInt8x16Array(&index[2])
		for x := 0; x < len(red); x += splitPixelsAVX2 {
			x := min(x, len(red)-splitPixelsAVX2)
			pixels := unsafe.Pointer(&row[3*x])
			a := archsimd.LoadUint8x16Array((*[16]uint8)(pixels)).PermuteOrZero(index0)
			b := archsimd.LoadUint8x16Array((*[16]uint8)(unsafe.Add(pixels, 16))).PermuteOrZero(index1)
			c := archsimd.LoadUint8x16Array((*[16]uint8)(unsafe.Add(pixels, 32))).PermuteOrZero(index2)
			a.Or(b).Or(c).StoreArray((*[16]uint8)(unsafe.Add(plane, x)))
		}
	}
}

// mirrorRow is [mirror] with the kernels of r's level; dst and src do not overlap.
func (r *Resampler) mirrorRow(dst, src []byte) {
	if r.level < kernel.AVX2 {
		mirror(dst, src)
		return
	}
	mirrorAVX2(dst, src, len(src)/3)
	archsimd.ClearAVXUpperBits()
}

// mirrorAVX2 takes 15 bytes at a time while 16 can be read, and then the rest one by one.
func mirrorAVX2(dst, src []byte, pixels int) {
	index := archsimd.LoadInt8x16Array(&mirrorIndex)
	x := 0
	for ; x+mirrorPixels < pixels; x += mirrorPixels {
		pixel := archsimd.LoadUint8x16Array((*[16]uint8)(src[3*x:])).PermuteOrZero(index)
		pixel.StoreArray((*[16]uint8)(dst[3*(pixels-mirrorPixels-x)-1:]))
	}
	mirror(dst[:3*(pixels-x)], src[3*x:3*pixels])
}
