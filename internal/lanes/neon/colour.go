//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package lanes

import (
	"unsafe"
)

// ToDwords returns unsigned words as dwords, in the order for ShiftNarrow.
func ToDwords(v Words) (lo, hi Dwords) {
	u := v.ToBits()
	return u.ExtendLo4ToUint32().BitsToInt32(), u.HiToLo().ExtendLo4ToUint32().BitsToInt32()
}

// threefold repeats each byte of a lane three times, and together interleaves three channels: entry v is for vector v
// of StorePixels. together's entry [v][c] has the index of each byte in channel c, or 128.
var threefold, together = func() (t [3][16 * Count]uint8, u [3][3][16 * Count]uint8) {
	for v := range 3 {
		for i := range 16 * Count {
			place := 16*v + i%16
			t[v][i] = uint8(place / 3)
			for c := range 3 {
				if u[v][c][i] = 128; place%3 == c {
					u[v][c][i] = uint8(place / 3)
				}
			}
		}
	}
	return t, u
}()

// StoreGray stores pixels with v as all three channels.
func StoreGray(v Bytes, p unsafe.Pointer) {
	t := &threefold
	StorePixels(Take(v, Load(unsafe.Pointer(&t[0]))), Take(v, Load(unsafe.Pointer(&t[1]))), Take(v, Load(unsafe.Pointer(&t[2]))), p)
}

// StoreChannels stores pixels from channels, the inverse of Channel.
func StoreChannels(r, g, b Bytes, p unsafe.Pointer) {
	t := &together
	v0 := Take(r, Load(unsafe.Pointer(&t[0][0]))).Or(Take(g, Load(unsafe.Pointer(&t[0][1])))).Or(Take(b, Load(unsafe.Pointer(&t[0][2]))))
	v1 := Take(r, Load(unsafe.Pointer(&t[1][0]))).Or(Take(g, Load(unsafe.Pointer(&t[1][1])))).Or(Take(b, Load(unsafe.Pointer(&t[1][2]))))
	v2 := Take(r, Load(unsafe.Pointer(&t[2][0]))).Or(Take(g, Load(unsafe.Pointer(&t[2][1])))).Or(Take(b, Load(unsafe.Pointer(&t[2][2]))))
	StorePixels(v0, v1, v2, p)
}

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
