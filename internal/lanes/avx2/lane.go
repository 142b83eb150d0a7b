//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// A Lane is a single lane: 16 bytes.
type Lane = archsimd.Uint8x16

// LoadLane loads 16 bytes, LoadHalfLane eight.
func LoadLane(p unsafe.Pointer) Lane { return archsimd.LoadUint8x16Array((*[16]uint8)(p)) }

func LoadHalfLane(p unsafe.Pointer) Lane {
	return archsimd.Uint64x2{}.SetElem(0, *(*uint64)(p)).ReshapeToUint8s()
}

func StoreLane(v Lane, p unsafe.Pointer) { v.StoreArray((*[16]uint8)(p)) }

// TakeLane is Take for a lane.
func TakeLane(v, indices Lane) Lane { return v.PermuteOrZero(indices.BitsToInt8()) }

// TakeLanes loads the lanes of a vector from p0 and p1, and takes the bytes of each at the indices at i0 and i1.
func TakeLanes(p0, p1, i0, i1 unsafe.Pointer) Bytes {
	return Take(loadLanes(p0, p1), loadLanes(i0, i1))
}

// StoreRow joins a, b, c and d to eight bytes for each of four blocks, and stores them as signed words. Each of a, b, c
// and d has two bytes of each block in its lower half.
func StoreRow(a, b, c, d Lane, p unsafe.Pointer) {
	left := a.ReshapeToUint16s().InterleaveLo(b.ReshapeToUint16s()).ReshapeToUint32s()
	right := c.ReshapeToUint16s().InterleaveLo(d.ReshapeToUint16s()).ReshapeToUint32s()
	left.InterleaveLo(right).ReshapeToUint8s().BitsToInt8().ExtendToInt16().StoreArray((*[16]int16)(p))
	left.InterleaveHi(right).ReshapeToUint8s().BitsToInt8().ExtendToInt16().StoreArray((*[16]int16)(unsafe.Add(p, 32)))
}

// LoadRow loads eight words of each of four blocks, saturated, as bytes: two of each block in each half of left and right.
func LoadRow(p unsafe.Pointer) (left, right Lane) {
	low, high := BroadcastWords(-128), BroadcastWords(127)
	a, b := ToWords(loadLanes(p, unsafe.Add(p, 32))), ToWords(loadLanes(unsafe.Add(p, 16), unsafe.Add(p, 48)))
	v := PairBytes(a.Max(low).Min(high).And(BroadcastWords(255)), b.Max(low).Min(high)).ToBits()
	return v.GetLo().InterleaveLo(v.GetHi()).ReshapeToUint8s(), v.GetLo().InterleaveHi(v.GetHi()).ReshapeToUint8s()
}

// JoinLanes returns the lower halves of two lanes, and the upper ones.
func JoinLanes(a, b Lane) (lo, hi Lane) {
	x, y := a.ReshapeToUint64s(), b.ReshapeToUint64s()
	return x.InterleaveLo(y).ReshapeToUint8s(), x.InterleaveHi(y).ReshapeToUint8s()
}

var zeros [16]uint8

func ZeroLane() Lane { return LoadLane(unsafe.Pointer(&zeros)) }

// OnesOfLane returns a mask with a bit for each nonzero byte.
func OnesOfLane(v Lane) uint64 { return uint64(^v.Equal(ZeroLane()).ToBits()) }
