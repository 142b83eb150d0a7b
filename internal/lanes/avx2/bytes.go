//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// LoadRepeated loads 16 bytes into every lane.
func LoadRepeated(p unsafe.Pointer) Bytes { return loadLanes(p, p) }

func loadLanes(lo, hi unsafe.Pointer) Bytes {
	return Bytes{}.SetLo(archsimd.LoadUint8x16Array((*[16]uint8)(lo))).SetHi(archsimd.LoadUint8x16Array((*[16]uint8)(hi)))
}

// backwards are the indices of a lane's bytes in reverse.
var backwards = [32]uint8{
	15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
	15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
}

// Reverse reverses the bytes.
func Reverse(v Bytes) Bytes {
	v = Take(v, Load(unsafe.Pointer(&backwards)))
	return v.ConcatPermute128Scalars(1, 0, v)
}

// ShiftIn returns the last byte of before, followed by all bytes of v except the last.
func ShiftIn(before, v Bytes) Bytes {
	return v.ConcatShiftBytesRightGrouped(before.ConcatPermute128Scalars(1, 2, v), 15)
}

// PrefixSums replaces each byte by the sum of carry and the bytes up to it, mod 256; last repeats the last sum. carry
// must be a repeated byte, too.
func PrefixSums(v, carry Bytes) (sums, last Bytes) {
	zero, end := Bytes{}, archsimd.BroadcastInt8x16(15)
	v = v.Add(v.ConcatShiftBytesRightGrouped(zero, 15))
	v = v.Add(v.ConcatShiftBytesRightGrouped(zero, 14))
	v = v.Add(v.ConcatShiftBytesRightGrouped(zero, 12))
	v = v.Add(v.ConcatShiftBytesRightGrouped(zero, 8))
	v = v.SetHi(v.GetHi().Add(v.GetLo().PermuteOrZero(end))).Add(carry)
	all := v.GetHi().PermuteOrZero(end)
	return v, Bytes{}.SetLo(all).SetHi(all)
}

// Total returns the sum of sums.
func Total(sums Sums) int {
	two := sums.GetLo().Add(sums.GetHi())
	return int(two.GetElem(0) + two.GetElem(1))
}

// StorePixels stores 16·Count pixels of three bytes: lane 0 of v0, v1 and v2, then lane 1 of them, and so on.
func StorePixels(v0, v1, v2 Bytes, p unsafe.Pointer) {
	Store(v0.ConcatPermute128Scalars(0, 2, v1), p)
	Store(v2.ConcatPermute128Scalars(0, 3, v0), unsafe.Add(p, 32))
	Store(v1.ConcatPermute128Scalars(1, 3, v2), unsafe.Add(p, 64))
}

// StorePixelsMirrored is StorePixels with the last lane first.
func StorePixelsMirrored(v0, v1, v2 Bytes, p unsafe.Pointer) {
	Store(v0.ConcatPermute128Scalars(1, 3, v1), p)
	Store(v2.ConcatPermute128Scalars(1, 2, v0), unsafe.Add(p, 32))
	Store(v1.ConcatPermute128Scalars(0, 2, v2), unsafe.Add(p, 64))
}

// LoadPixels is the reverse of StorePixels.
func LoadPixels(p unsafe.Pointer) (v0, v1, v2 Bytes) {
	return loadLanes(p, unsafe.Add(p, 48)), loadLanes(unsafe.Add(p, 16), unsafe.Add(p, 64)), loadLanes(unsafe.Add(p, 32), unsafe.Add(p, 80))
}
