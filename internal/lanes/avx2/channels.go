//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

// The functions with the same text for AVX2 and NEON, except for the width of vectors.

import (
	"simd/archsimd"
	"unsafe"
)

// Qwords are words of 64 bits.
type Qwords = archsimd.Uint64x4

func BroadcastQwords(x uint64) Qwords { return archsimd.BroadcastUint64x4(x) }

// ByteMask is a boolean for each byte.
type ByteMask = archsimd.Mask8x32

// LoadMask loads a mask: bytes of all ones or all zeros.
func LoadMask(p unsafe.Pointer) ByteMask { return archsimd.LoadInt8x32Array((*[32]int8)(p)).ToMask() }

func Trunc(v Doubles) Doubles { return v.Trunc() }
func Floor(v Doubles) Doubles { return v.Floor() }

// channelOf extracts channels from pixels: entry [c][v] has the index of each byte of channel c in vector v.
var channelOf = func() (t [3][3][16 * Count]uint8) {
	for c := range 3 {
		for i := range 16 * Count {
			t[c][0][i], t[c][1][i], t[c][2][i] = 128, 128, 128
			at := 3*(i%16) + c
			t[c][at/16][i] = uint8(at % 16)
		}
	}
	return t
}()

// Channel returns R, G or B (0, 1 or 2) of LoadPixels' vectors.
func Channel(v0, v1, v2 Bytes, c int) Bytes {
	t := &channelOf[c]
	return Take(v0, Load(unsafe.Pointer(&t[0]))).Or(Take(v1, Load(unsafe.Pointer(&t[1])))).Or(Take(v2, Load(unsafe.Pointer(&t[2]))))
}

// threefold repeats each byte of a lane three times, and together interleaves three channels: entry v is for vector v
// of StorePixels. together's entry [v][c] has the index of each byte in channel c, or 128.
var threefold, together = func() (t [3][16 * Count]uint8, u [3][3][16 * Count]uint8) {
	for v := range 3 {
		for i := range 16 * Count {
			at := 16*v + i%16
			t[v][i] = uint8(at / 3)
			for c := range 3 {
				if u[v][c][i] = 128; at%3 == c {
					u[v][c][i] = uint8(at / 3)
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
