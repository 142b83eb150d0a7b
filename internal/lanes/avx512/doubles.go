//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

import (
	"math"
	"simd/archsimd"
	"unsafe"
)

// Doubles has two float64 for each lane.
type Doubles = archsimd.Float64x8

// Constants of float64 are loaded as vectors from memory: of a scalar the compiler would make a vector by instructions of
// SSE's encoding.

// LoadDoubles loads the first elements.
func LoadDoubles(v *[8]float64) Doubles { return archsimd.LoadFloat64x8Array((*[8]float64)(v[:])) }

// StoreDoubles stores a vector of float64.
func StoreDoubles(v Doubles, p unsafe.Pointer) { v.StoreArray((*[8]float64)(p)) }

// StoreInts stores numbers as int32, rounded towards zero.
func StoreInts(v Doubles, p unsafe.Pointer) { v.ConvertToInt32().StoreArray((*[8]int32)(p)) }

// Trunc rounds towards zero.
func Trunc(v Doubles) Doubles { return v.TruncScaled(0) }

// Floor rounds down.
func Floor(v Doubles) Doubles { return v.FloorScaled(0) }

// PickBytes makes numbers of the bytes of each lane that the indices name, as Take does, and of the bits of 2⁵² for each: 2⁵²
// and the byte that is named for its lowest.
func PickBytes(v, indices, bits Bytes) Doubles {
	return v.PermuteOrZeroGrouped(indices.BitsToInt8()).Or(bits).ReshapeToUint64s().BitsToFloat64()
}

// Abs clears the signs.
func Abs(v Doubles) Doubles {
	return v.ToBits().BitsToInt64().AndNot(archsimd.BroadcastInt64x8(math.MinInt64)).ToBits().BitsToFloat64()
}

// CopySigns gives v, which is positive, the signs of another vector.
func CopySigns(v, signs Doubles) Doubles {
	sign := signs.ToBits().BitsToInt64().And(archsimd.BroadcastInt64x8(math.MinInt64))
	return v.ToBits().BitsToInt64().Or(sign).ToBits().BitsToFloat64()
}
