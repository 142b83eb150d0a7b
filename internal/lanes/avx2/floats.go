//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Floats has four float32 for each lane.
type Floats = archsimd.Float32x8

// LoadFloats loads a vector of float32.
func LoadFloats(p unsafe.Pointer) Floats { return archsimd.LoadFloat32x8Array((*[8]float32)(p)) }

// StoreFloats stores a vector of float32.
func StoreFloats(v Floats, p unsafe.Pointer) { v.StoreArray((*[8]float32)(p)) }

// BroadcastFloat loads a float32 into all places, by its bits: of a scalar the compiler would make a vector by instructions of
// SSE's encoding.
func BroadcastFloat(p *float32) Floats {
	return BroadcastDwords(*(*int32)(unsafe.Pointer(p))).ToBits().BitsToFloat32()
}

// ToFloats makes float32 of dwords, which the pairs of words of v are.
func ToFloats(v Words) Floats { return v.ToBits().ReshapeToUint32s().BitsToInt32().ConvertToFloat32() }

// FloatBits returns the bits.
func FloatBits(v Floats) Dwords { return v.ToBits().BitsToInt32() }

// LowWords returns the lower halves of the dwords of lo and hi, by lane.
func LowWords(lo, hi Dwords) Words { return HighWords(lo.ShiftAllLeft(16), hi.ShiftAllLeft(16)) }
