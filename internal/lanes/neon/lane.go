//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// A Lane is a single lane: 16 bytes, here a vector.
type Lane = archsimd.Uint8x16

// LoadLane loads 16 bytes, LoadHalfLane eight.
func LoadLane(p unsafe.Pointer) Lane { return Load(p) }

func LoadHalfLane(p unsafe.Pointer) Lane {
	return archsimd.Float64x2{}.SetElem(0, *(*float64)(p)).ToBits().ReshapeToUint8s()
}

func StoreLane(v Lane, p unsafe.Pointer) { Store(v, p) }

// TakeLane is Take for a lane.
func TakeLane(v, indices Lane) Lane { return Take(v, indices) }

// TakeLanes loads the lanes of a vector from p0 and p1, and takes the bytes of each at the indices at i0 and i1. Here there is only one.
func TakeLanes(p0, _, i0, _ unsafe.Pointer) Bytes { return Take(Load(p0), Load(i0)) }

// StoreRow joins a, b, c and d to eight bytes for each of four blocks, and stores them as signed words. Each of a, b, c
// and d has two bytes of each block in its lower half.
func StoreRow(a, b, c, d Lane, p unsafe.Pointer) {
	left := a.ReshapeToUint16s().InterleaveLo(b.ReshapeToUint16s()).ReshapeToUint32s()
	right := c.ReshapeToUint16s().InterleaveLo(d.ReshapeToUint16s()).ReshapeToUint32s()
	lo, hi := left.InterleaveLo(right).ReshapeToUint8s().BitsToInt8(), left.InterleaveHi(right).ReshapeToUint8s().BitsToInt8()
	lo.ExtendLo8ToInt16().StoreArray((*[8]int16)(p))
	lo.HiToLo().ExtendLo8ToInt16().StoreArray((*[8]int16)(unsafe.Add(p, 16)))
	hi.ExtendLo8ToInt16().StoreArray((*[8]int16)(unsafe.Add(p, 32)))
	hi.HiToLo().ExtendLo8ToInt16().StoreArray((*[8]int16)(unsafe.Add(p, 48)))
}

// LoadRow loads eight words of each of four blocks, saturated, as bytes: two of each block in each half of left and right.
func LoadRow(p unsafe.Pointer) (left, right Lane) {
	even := loadByte(p).InterleaveLo(loadByte(unsafe.Add(p, 32)))
	odd := loadByte(unsafe.Add(p, 16)).InterleaveLo(loadByte(unsafe.Add(p, 48)))
	return even.InterleaveLo(odd), even.InterleaveHi(odd)
}

func loadByte(p unsafe.Pointer) Lane { return LoadWords(p).SaturateToInt8().ToBits() }

// JoinLanes returns the lower halves of two lanes, and the upper ones.
func JoinLanes(a, b Lane) (lo, hi Lane) {
	x, y := a.ReshapeToUint64s(), b.ReshapeToUint64s()
	return x.InterleaveLo(y).ReshapeToUint8s(), x.InterleaveHi(y).ReshapeToUint8s()
}

func ZeroLane() Lane { return Lane{} }

// OnesOfLane returns a mask with a bit for each nonzero byte.
func OnesOfLane(v Lane) uint64 {
	const bit, all = 0x8040201008040201, 0x0101010101010101 // bit i of byte i, and their sum in the top byte
	x := v.NotEqual(ZeroLane()).ToInt8x16().ToBits().ReshapeToUint64s()
	return x.GetElem(0)&bit*all>>56 | x.GetElem(1)&bit*all>>56<<8
}
