//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package jpeg

import (
	"math/bits"
	. "simd/archsimd"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

func init() { byLevel[kernel.AVX512].listSymbols = listSymbolsAVX512 } // runs later than the init of idct_avx512.go

// zigzagIndices are the numbers of a block's coefficients in the scan.
var zigzagIndices = func() (t [64]uint8) {
	for k := range t {
		t[k] = uint8(k)
	}
	return t
}()

// listSymbolsAVX512 puts a block's coefficients, as bytes, into the order of the scan, and compresses them and their numbers.
func listSymbolsAVX512(q *quadBlock, l *symbolList) int {
	p := unsafe.Pointer(q)
	var zero Int8x64
	v := zero.SetLo(fourRows(p).SaturateToInt8()).SetHi(fourRows(unsafe.Add(p, 4*64)).SaturateToInt8())
	v = v.Permute(LoadUint8x64Array(&zigzag))
	mask := v.NotEqual(zero).ToBits() &^ 1
	listed := Mask8x64FromBits(mask)
	values := v.Compress(listed).ToBits().Add(BroadcastUint8x64(64))
	indices := LoadUint8x64Array(&zigzagIndices).Compress(listed)
	indices.StoreArray((*[64]uint8)(unsafe.Pointer(&l.zigzag[1])))
	runs := indices.Sub(indices.Expand(Mask8x64FromBits(^uint64(1)))).Sub(BroadcastUint8x64(1))
	low := BroadcastUint8x64(127)
	runs, values = runs.Or(values.AndNot(low)), values.And(low)
	out := unsafe.Pointer(&l.indices)
	runs.GetLo().ExtendToUint16().ShiftAllLeft(7).Or(values.GetLo().ExtendToUint16()).StoreArray((*[32]uint16)(out))
	runs.GetHi().ExtendToUint16().ShiftAllLeft(7).Or(values.GetHi().ExtendToUint16()).StoreArray((*[32]uint16)(unsafe.Add(out, 64)))
	ClearAVXUpperBits()
	return bits.OnesCount64(mask)
}

// fourRows returns four rows of a block in a quad.
func fourRows(p unsafe.Pointer) (v Int16x32) {
	var low, high Int16x16
	low = low.SetLo(LoadInt16x8Array((*[8]int16)(p))).SetHi(LoadInt16x8Array((*[8]int16)(unsafe.Add(p, 64))))
	high = high.SetLo(LoadInt16x8Array((*[8]int16)(unsafe.Add(p, 128)))).SetHi(LoadInt16x8Array((*[8]int16)(unsafe.Add(p, 192))))
	return v.SetLo(low).SetHi(high)
}
