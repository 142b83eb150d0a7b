//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package lanes

import (
	"unsafe"
)

// FillTable converts a table of 256 bytes for Replace: 16 entries for each value of a byte's upper half, in every lane.
func FillTable(t *[1024]uint8, bytes *[256]uint8) {
	for i := range 256 * Count {
		t[i] = bytes[i/(16*Count)*16+i%16]
	}
}

// Replace replaces bytes by those of a table.
func Replace(v Bytes, t *[1024]uint8) Bytes {
	// A byte with another upper half than the step's becomes at least 16, and TBL gives 0 for it.
	all := Load(unsafe.Pointer(&t[0])).LookupOrZero(v)
	for k := 1; k < 16; k++ {
		all = all.Or(Load(unsafe.Pointer(&t[16*k])).LookupOrZero(v.Xor(BroadcastBytes(uint8(16 * k)))))
	}
	return all
}
