//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

// Package lanes has the vectors of AVX-512 for kernels with one text for several instruction sets; see the generator,
// internal/lanes/generate. The generator makes common.go and x86.go from AVX2's.
package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Count is the number of 128-bit lanes in a vector.
const Count = 4

// CountShift is the logarithm of the number of dwords in a vector.
const CountShift = 4

// A Pair is two 16-bit factors for Dot, alternating over a vector's words.
type Pair [32]int16

// IsZero reports whether all words are zero.
func IsZero(v Words) bool { return v.NotEqual(Words{}).ToBits() == 0 }

// splitLanes gathers the lower halves of all lanes before the upper ones.
var splitLanes = [8]uint64{0, 2, 4, 6, 1, 3, 5, 7}

// StoreHalves stores the lower halves of all lanes at p, and the upper ones stride bytes after it.
func StoreHalves(v Words, p unsafe.Pointer, stride int) {
	halves := v.ToBits().ReshapeToUint64s().Permute(archsimd.LoadUint64x8Array(&splitLanes)).ReshapeToUint8s()
	halves.GetLo().StoreArray((*[32]uint8)(p))
	halves.GetHi().StoreArray((*[32]uint8)(unsafe.Add(p, stride)))
}

// StoreLowBytes stores the words of a, which are bytes, then those of b.
func StoreLowBytes(a, b Words, p unsafe.Pointer) {
	a.ToBits().TruncToUint8().StoreArray((*[32]uint8)(p))
	b.ToBits().TruncToUint8().StoreArray((*[32]uint8)(unsafe.Add(p, 32)))
}

// rgbOrder are indices into 32 bytes of R, 32 of G and 32 of B that interleave them to 96 bytes.
var rgbOrder = func() (t [128]uint8) {
	for i := range 96 {
		t[i] = uint8(i%3*32 + i/3)
	}
	return t
}()

// StoreRGB saturates words to 0..255 and stores them interleaved.
func StoreRGB(r, g, b Words, p unsafe.Pointer) {
	zero := Words{}
	var rg, bb archsimd.Uint8x64
	rg = rg.SetLo(r.Max(zero).ToBits().SaturateToUint8()).SetHi(g.Max(zero).ToBits().SaturateToUint8())
	bb = bb.SetLo(b.Max(zero).ToBits().SaturateToUint8())
	rg.ConcatPermute(bb, archsimd.LoadUint8x64Array((*[64]uint8)(rgbOrder[:]))).StoreArray((*[64]uint8)(p))
	rg.ConcatPermute(bb, archsimd.LoadUint8x64Array((*[64]uint8)(rgbOrder[64:]))).GetLo().StoreArray((*[32]uint8)(unsafe.Add(p, 64)))
}

// Fours are vectors with four pixels in each lane and four unused bytes, for arithmetic in dwords.

// FoursBytes is the size of four pixels for each lane. LoadFours reads FoursRoom more, and StoreFours overwrites as many more.
const (
	FoursBytes = 12 * Count
	FoursRoom  = 16
)

// spreadFours and gatherFours are the dword indices from adjacent pixels to fours, and back.
var (
	spreadFours = [16]uint32{0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11}
	gatherFours = [16]uint32{0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14}
)

func LoadFours(p unsafe.Pointer) Bytes {
	return Load(p).ReshapeToUint32s().Permute(archsimd.LoadUint32x16Array(&spreadFours)).ReshapeToUint8s()
}

func StoreFours(v Bytes, p unsafe.Pointer) {
	Store(v.ReshapeToUint32s().Permute(archsimd.LoadUint32x16Array(&gatherFours)).ReshapeToUint8s(), p)
}

// Constants of float64 are loaded as vectors from memory: for a scalar the compiler would use SSE instructions.

// LoadDoubles loads the first elements.
func LoadDoubles(v *[8]float64) Doubles { return archsimd.LoadFloat64x8Array((*[8]float64)(v[:])) }

func Trunc(v Doubles) Doubles { return v.TruncScaled(0) }
func Floor(v Doubles) Doubles { return v.FloorScaled(0) }
