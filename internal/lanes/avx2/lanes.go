//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

//go:generate go run ../generate -lanes avx512,neon common.go
//go:generate go run ../generate -lanes avx512 x86.go
//go:generate go run ../generate -lanes neon channels.go

// Package lanes has the vectors of AVX2 for kernels with one text for several instruction sets; see the generator,
// internal/lanes/generate. The generator also makes common.go of the other packages, x86.go of AVX-512 and channels.go of
// NEON from this package's.
package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Count is the number of 128-bit lanes in a vector.
const Count = 2

// CountShift is the logarithm of the number of dwords in a vector.
const CountShift = 3

// A Pair is two 16-bit factors for Dot, alternating over a vector's words.
type Pair [32]int16

// IsZero reports whether all words are zero.
func IsZero(v Words) bool { return v.IsZero() }

// splitLanes gathers the lower halves of both lanes before the upper ones.
var splitLanes = [8]uint32{0, 1, 4, 5, 2, 3, 6, 7}

// StoreHalves stores the lower halves of all lanes at p, and the upper ones stride bytes after it.
func StoreHalves(v Words, p unsafe.Pointer, stride int) {
	halves := v.ToBits().ReshapeToUint32s().Permute(archsimd.LoadUint32x8Array(&splitLanes)).ReshapeToUint8s()
	halves.GetLo().StoreArray((*[16]uint8)(p))
	halves.GetHi().StoreArray((*[16]uint8)(unsafe.Add(p, stride)))
}

// splitBytes gathers the even bytes of each lane before the odd ones.
var splitBytes = func() (t [32]int8) {
	for i := range t {
		t[i] = int8(i&7*2 + i>>3&1)
	}
	return t
}()

// StoreLowBytes stores the words of a, which are bytes, then those of b.
func StoreLowBytes(a, b Words, p unsafe.Pointer) {
	v := PairBytes(a, b).ToBits().ReshapeToUint8s().PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&splitBytes))
	v.ReshapeToUint32s().Permute(archsimd.LoadUint32x8Array(&splitLanes)).ReshapeToUint8s().StoreArray((*[32]uint8)(p))
}

// rgbOrder are VPSHUFB's indices from words of R | G<<8 (first two) and of B (last two), for eight pixels in each lane, to 24 bytes
// RGB. They lead to the first 16 of them, and to the last 8 in the lower lane or the last 16 in the upper. -128 gives zero.
var rgbOrder = func() (t [4][32]int8) {
	for i := range 32 {
		for part := range 2 {
			k := i&15 + part*(16-i>>4*8)
			rg, b := int8(-128), int8(-128)
			switch {
			case k < 24 && k%3 < 2:
				rg = int8(k/3*2 + k%3)
			case k < 24:
				b = int8(k / 3 * 2)
			}
			t[part][i], t[2+part][i] = rg, b
		}
	}
	return t
}()

// StoreRGB saturates words to 0..255 and stores them interleaved.
func StoreRGB(r, g, b Words, p unsafe.Pointer) {
	rg := PairBytes(ToByteRange(r), ToByteRange(g)).ToBits().ReshapeToUint8s()
	bb := ToByteRange(b).ToBits().ReshapeToUint8s()
	rgHead, rgTail := archsimd.LoadInt8x32Array(&rgbOrder[0]), archsimd.LoadInt8x32Array(&rgbOrder[1])
	bHead, bTail := archsimd.LoadInt8x32Array(&rgbOrder[2]), archsimd.LoadInt8x32Array(&rgbOrder[3])
	head := rg.PermuteOrZeroGrouped(rgHead).Or(bb.PermuteOrZeroGrouped(bHead))
	tail := rg.PermuteOrZeroGrouped(rgTail).Or(bb.PermuteOrZeroGrouped(bTail))
	head.GetLo().StoreArray((*[16]uint8)(p))
	tail.GetLo().StoreArray((*[16]uint8)(unsafe.Add(p, 16))) // eight bytes, and eight for the next store to overwrite
	head.GetHi().StoreArray((*[16]uint8)(unsafe.Add(p, 24)))
	tail.GetHi().StoreArray((*[16]uint8)(unsafe.Add(p, 32)))
}

// Fours are vectors with four pixels in each lane and four unused bytes, for arithmetic in dwords.

// FoursBytes is the size of four pixels for each lane. LoadFours reads FoursRoom more, and StoreFours overwrites as many more.
const (
	FoursBytes = 12 * Count
	FoursRoom  = 4
)

func LoadFours(p unsafe.Pointer) Bytes { return loadLanes(p, unsafe.Add(p, 12)) }

func StoreFours(v Bytes, p unsafe.Pointer) {
	v.GetLo().StoreArray((*[16]uint8)(p))
	v.GetHi().StoreArray((*[16]uint8)(unsafe.Add(p, 12)))
}

// Constants of float64 are loaded as vectors from memory: for a scalar the compiler would use SSE instructions.

// LoadDoubles loads the first elements.
func LoadDoubles(v *[8]float64) Doubles { return archsimd.LoadFloat64x4Array((*[4]float64)(v[:])) }
