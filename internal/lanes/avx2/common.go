//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

// The types and functions with the same text for all instruction sets, except for the width of vectors.

import (
	"simd/archsimd"
	"unsafe"
)

type (
	Bytes  = archsimd.Uint8x32
	Words  = archsimd.Int16x16
	Dwords = archsimd.Int32x8
	// Floats has four float32 for each lane, Doubles two float64.
	Floats  = archsimd.Float32x8
	Doubles = archsimd.Float64x4
)

// Loading, storing, repeating a number, and other types for the same bits.

func Load(p unsafe.Pointer) Bytes              { return archsimd.LoadUint8x32Array((*[32]uint8)(p)) }
func LoadWords(p unsafe.Pointer) Words         { return archsimd.LoadInt16x16Array((*[16]int16)(p)) }
func LoadDwords(p unsafe.Pointer) Dwords       { return archsimd.LoadInt32x8Array((*[8]int32)(p)) }
func LoadFloats(p unsafe.Pointer) Floats       { return archsimd.LoadFloat32x8Array((*[8]float32)(p)) }
func Store(v Bytes, p unsafe.Pointer)          { v.StoreArray((*[32]uint8)(p)) }
func StoreWords(v Words, p unsafe.Pointer)     { v.StoreArray((*[16]int16)(p)) }
func StoreDwords(v Dwords, p unsafe.Pointer)   { v.StoreArray((*[8]int32)(p)) }
func StoreFloats(v Floats, p unsafe.Pointer)   { v.StoreArray((*[8]float32)(p)) }
func StoreDoubles(v Doubles, p unsafe.Pointer) { v.StoreArray((*[4]float64)(p)) }
func BroadcastBytes(x uint8) Bytes             { return archsimd.BroadcastUint8x32(x) }
func BroadcastWords(x int16) Words             { return archsimd.BroadcastInt16x16(x) }
func BroadcastDwords(x int32) Dwords           { return archsimd.BroadcastInt32x8(x) }
func ToBytes(v Words) Bytes                    { return v.ToBits().ReshapeToUint8s() }
func ToWords(v Bytes) Words                    { return v.ReshapeToUint16s().BitsToInt16() }
func FloatBits(v Floats) Dwords                { return v.ToBits().BitsToInt32() }

// ToByteRange saturates words to 0..255.
func ToByteRange(v Words) Words { return v.Max(Words{}).Min(BroadcastWords(255)) }

// EvenBytes returns every second byte, beginning with the first, as words, and OddBytes the others. PairBytes is the inverse.
func EvenBytes(v Bytes) Words { return v.ReshapeToUint16s().BitsToInt16().And(BroadcastWords(255)) }

func OddBytes(v Bytes) Words { return v.ReshapeToUint16s().ShiftAllRight(8).BitsToInt16() }

// HighBytes returns the upper bytes of words, as words.
func HighBytes(v Words) Words { return v.ToBits().ShiftAllRight(8).BitsToInt16() }

// HalfOf returns the upper halves of bytes. The bits above them are undefined.
func HalfOf(v Bytes) Bytes { return v.ReshapeToUint16s().ShiftAllRight(4).ReshapeToUint8s() }

// FourChannel returns channel c of fours.
func FourChannel(v Bytes, c int) Dwords {
	return Take(v, Load(unsafe.Pointer(&fourDwords[c]))).ReshapeToUint32s().BitsToInt32()
}

// BroadcastPair returns a dword as pairs of words.
func BroadcastPair(x int32) Words {
	return BroadcastDwords(x).ToBits().ReshapeToUint16s().BitsToInt16()
}

// BroadcastFloat loads a float32 into all elements, by its bits: for a scalar the compiler would use SSE instructions.
func BroadcastFloat(p *float32) Floats {
	return BroadcastDwords(*(*int32)(unsafe.Pointer(p))).ToBits().BitsToFloat32()
}

// ToFloats converts dwords, the pairs of words of v, to float32.
func ToFloats(v Words) Floats { return v.ToBits().ReshapeToUint32s().BitsToInt32().ConvertToFloat32() }

// LowWords returns the lower halves of the dwords of lo and hi, by lane.
func LowWords(lo, hi Dwords) Words { return HighWords(lo.ShiftAllLeft(16), hi.ShiftAllLeft(16)) }

// Negative returns bytes of ones for negative bytes of v, and zeros for others.
func Negative(v Bytes) Bytes {
	return archsimd.Int8x32{}.Greater(v.BitsToInt8()).ToInt8x32().ToBits()
}

// Transpose transposes 4×8 words of each lane: c0 has columns 0 and 1, c3 has 6 and 7.
func Transpose(r0, r1, r2, r3 Words) (c0, c1, c2, c3 Words) {
	a0, a1 := r0.InterleaveLoGrouped(r1).ToBits().ReshapeToUint32s(), r0.InterleaveHiGrouped(r1).ToBits().ReshapeToUint32s()
	a2, a3 := r2.InterleaveLoGrouped(r3).ToBits().ReshapeToUint32s(), r2.InterleaveHiGrouped(r3).ToBits().ReshapeToUint32s()
	return a0.InterleaveLoGrouped(a2).ReshapeToUint16s().BitsToInt16(), a0.InterleaveHiGrouped(a2).ReshapeToUint16s().BitsToInt16(),
		a1.InterleaveLoGrouped(a3).ReshapeToUint16s().BitsToInt16(), a1.InterleaveHiGrouped(a3).ReshapeToUint16s().BitsToInt16()
}

// JoinHalves returns the lower halves of each lane of a and b, and the upper ones.
func JoinHalves(a, b Words) (lo, hi Words) {
	x, y := a.ToBits().ReshapeToUint64s(), b.ToBits().ReshapeToUint64s()
	return x.InterleaveLoGrouped(y).ReshapeToUint16s().BitsToInt16(), x.InterleaveHiGrouped(y).ReshapeToUint16s().BitsToInt16()
}

// ToDwords returns unsigned words as dwords, in the order for ShiftNarrow.
func ToDwords(v Words) (lo, hi Dwords) {
	return v.InterleaveLoGrouped(Words{}).ToBits().ReshapeToUint32s().BitsToInt32(),
		v.InterleaveHiGrouped(Words{}).ToBits().ReshapeToUint32s().BitsToInt32()
}

// Interleave alternates the words of two vectors, of the lanes' lower halves and of their upper ones.
func Interleave(a, b Words) (lo, hi Words) { return a.InterleaveLoGrouped(b), a.InterleaveHiGrouped(b) }

// PickBytes makes numbers from bytes of each lane, taken by indices like in Take, and the bits of 2⁵²: each number is
// 2⁵² plus the byte taken as its lowest.
func PickBytes(v, indices, bits Bytes) Doubles {
	return Take(v, indices).Or(bits).ReshapeToUint64s().BitsToFloat64()
}

func Abs(v Doubles) Doubles {
	return v.ToBits().AndNot(archsimd.BroadcastUint64x4(1 << 63)).BitsToFloat64()
}

// CopySigns gives v, which is not negative, the signs of another vector.
func CopySigns(v, signs Doubles) Doubles {
	return v.ToBits().Or(signs.ToBits().And(archsimd.BroadcastUint64x4(1 << 63))).BitsToFloat64()
}

// firstWord has the indices of a lane's first word.
var firstWord = func() (t [16 * Count]uint8) {
	for i := range t {
		t[i] = uint8(i & 1)
	}
	return t
}()

// SpreadFirst repeats the first word of each lane throughout the lane.
func SpreadFirst(v Words) Words { return ToWords(Take(ToBytes(v), Load(unsafe.Pointer(&firstWord)))) }
