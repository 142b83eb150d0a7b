//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Doubles has two float64 for each lane.
type Doubles = archsimd.Float64x2

// Constants of float64 are loaded as vectors from memory: of a scalar the compiler would make a vector by instructions of
// SSE's encoding.

// LoadDoubles loads the first elements.
func LoadDoubles(v *[8]float64) Doubles { return archsimd.LoadFloat64x2Array((*[2]float64)(v[:])) }

// StoreDoubles stores a vector of float64.
func StoreDoubles(v Doubles, p unsafe.Pointer) { v.StoreArray((*[2]float64)(p)) }

// StoreInts stores numbers as int32, rounded towards zero.
func StoreInts(v Doubles, p unsafe.Pointer) {
	*(*float64)(p) = v.ConvertToInt64().TruncToInt32().ToBits().ReshapeToUint64s().BitsToFloat64().GetElem(0)
}

// Trunc rounds towards zero.
func Trunc(v Doubles) Doubles { return v.Trunc() }

// Floor rounds down.
func Floor(v Doubles) Doubles { return v.Floor() }

// PickBytes makes numbers of the bytes of each lane that the indices name, as Take does, and of the bits of 2⁵² for each: 2⁵²
// and the byte that is named for its lowest.
func PickBytes(v, indices, bits Bytes) Doubles {
	return v.LookupOrZero(indices).Or(bits).ReshapeToUint64s().BitsToFloat64()
}

// Abs clears the signs.
func Abs(v Doubles) Doubles { return v.Abs() }

// CopySigns gives v, which is positive, the signs of another vector.
func CopySigns(v, signs Doubles) Doubles {
	sign := signs.ToBits().And(archsimd.BroadcastUint64x2(1 << 63))
	return v.ToBits().Or(sign).BitsToFloat64()
}
