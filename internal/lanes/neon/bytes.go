//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// LoadRepeated loads 16 bytes into every lane.
func LoadRepeated(p unsafe.Pointer) Bytes { return Load(p) }

// Take returns the bytes at the indices, and 0 for an index from 128 on. Other indices must be below 16.
func Take(v, indices Bytes) Bytes { return v.LookupOrZero(indices) }

var backwards = [16]uint8{15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}

// Reverse reverses the bytes.
func Reverse(v Bytes) Bytes { return Take(v, Load(unsafe.Pointer(&backwards))) }

// ShiftIn returns the last byte of before, followed by all bytes of v except the last.
func ShiftIn(before, v Bytes) Bytes { return v.ConcatShiftBytesRight(before, 15) }

// PrefixSums replaces each byte by the sum of carry and the bytes up to it, mod 256; last repeats the last sum. carry
// must be a repeated byte, too.
func PrefixSums(v, carry Bytes) (sums, last Bytes) {
	zero := Bytes{}
	v = v.Add(v.ConcatShiftBytesRight(zero, 15))
	v = v.Add(v.ConcatShiftBytesRight(zero, 14))
	v = v.Add(v.ConcatShiftBytesRight(zero, 12))
	v = v.Add(v.ConcatShiftBytesRight(zero, 8)).Add(carry)
	return v, Take(v, BroadcastBytes(15))
}

// Sums are partial sums of bytes.
type Sums = archsimd.Uint16x8

// AddBytes adds the bytes of v to sums. A sum can hold at least 65,535.
func AddBytes(sums Sums, v Bytes) Sums {
	return sums.Add(v.ExtendLo8ToUint16().Add(v.HiToLo().ExtendLo8ToUint16()))
}

// Total returns the sum of sums.
func Total(sums Sums) int {
	all := sums.ExtendLo4ToUint32().Add(sums.HiToLo().ExtendLo4ToUint32())
	return int(all.ReduceSum())
}

// StorePixels stores 16·Count pixels of three bytes: lane 0 of v0, v1 and v2, then lane 1 of them, and so on.
func StorePixels(v0, v1, v2 Bytes, p unsafe.Pointer) {
	Store(v0, p)
	Store(v1, unsafe.Add(p, 16))
	Store(v2, unsafe.Add(p, 32))
}

// StorePixelsMirrored is StorePixels with the last lane first: here there is only one.
func StorePixelsMirrored(v0, v1, v2 Bytes, p unsafe.Pointer) { StorePixels(v0, v1, v2, p) }

// LoadPixels is the reverse of StorePixels.
func LoadPixels(p unsafe.Pointer) (v0, v1, v2 Bytes) {
	return Load(p), Load(unsafe.Add(p, 16)), Load(unsafe.Add(p, 32))
}
