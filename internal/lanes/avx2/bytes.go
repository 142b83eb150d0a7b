//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Qwords are four words of 64 bits.
type Qwords = archsimd.Uint64x4

// Load loads a vector of bytes.
func Load(p unsafe.Pointer) Bytes { return archsimd.LoadUint8x32Array((*[32]uint8)(p)) }

// Store stores a vector of bytes.
func Store(v Bytes, p unsafe.Pointer) { v.StoreArray((*[32]uint8)(p)) }

// LoadRepeated loads 16 bytes into every lane.
func LoadRepeated(p unsafe.Pointer) Bytes { return loadLanes(p, p) }

func loadLanes(lo, hi unsafe.Pointer) Bytes {
	return Bytes{}.SetLo(archsimd.LoadUint8x16Array((*[16]uint8)(lo))).SetHi(archsimd.LoadUint8x16Array((*[16]uint8)(hi)))
}

func BroadcastBytes(x uint8) Bytes { return archsimd.BroadcastUint8x32(x) }

func BroadcastQwords(x uint64) Qwords { return archsimd.BroadcastUint64x4(x) }

// Take returns the bytes of each lane that the indices name, 0 for an index from 128 on. Others must be below 16.
func Take(v, indices Bytes) Bytes { return v.PermuteOrZeroGrouped(indices.BitsToInt8()) }

// backwards are the indices of a lane's bytes in reverse.
var backwards = [32]uint8{
	15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
	15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
}

// Reverse returns all bytes in reverse.
func Reverse(v Bytes) Bytes {
	v = Take(v, Load(unsafe.Pointer(&backwards)))
	return v.ConcatPermute128Scalars(1, 0, v)
}

// ShiftIn returns the last byte of before, followed by all of v but its last.
func ShiftIn(before, v Bytes) Bytes {
	return v.ConcatShiftBytesRightGrouped(before.ConcatPermute128Scalars(1, 2, v), 15)
}

// PrefixSums replaces each byte by the sum of carry and the bytes up to it, mod 256; last is the last of them, everywhere.
// carry must be a byte everywhere, too.
func PrefixSums(v, carry Bytes) (sums, last Bytes) {
	zero, end := Bytes{}, archsimd.BroadcastInt8x16(15)
	v = v.Add(v.ConcatShiftBytesRightGrouped(zero, 15))
	v = v.Add(v.ConcatShiftBytesRightGrouped(zero, 14))
	v = v.Add(v.ConcatShiftBytesRightGrouped(zero, 12))
	v = v.Add(v.ConcatShiftBytesRightGrouped(zero, 8))
	v = v.SetHi(v.GetHi().Add(v.GetLo().PermuteOrZero(end))).Add(carry)
	all := v.GetHi().PermuteOrZero(end)
	return v, Bytes{}.SetLo(all).SetHi(all)
}

// Sums are sums of bytes that are still to be added up.
type Sums = archsimd.Uint64x4

// AddBytes adds the bytes of v to sums, one of which takes 65,535 at least.
func AddBytes(sums Sums, v Bytes) Sums { return sums.Add(v.SumOf8AbsDiff(Bytes{})) }

// Total returns the sum of sums.
func Total(sums Sums) int {
	two := sums.GetLo().Add(sums.GetHi())
	return int(two.GetElem(0) + two.GetElem(1))
}

// The indices that spread 16 bytes of each channel, R, G and B, to where they are in the 48 bytes of 16 pixels. Those are
// three vectors, but no two bytes of a channel have the same place in theirs, so that one vector of indices serves all three:
//
//	R of pixels 0, 3, 6, … go to bytes 0, 9, 18 = 16+2, …: byte 0 of vector 0, byte 9 of vector 0, byte 2 of vector 1, …
//
// MirroredPlaces take the pixels of each lane in reverse.
var Places, MirroredPlaces = makePlaces(0), makePlaces(15)

func makePlaces(flip int) (t [3][32]uint8) {
	for pixel := range 16 {
		for c := range 3 {
			place := (3*pixel + c) % 16
			t[c][place], t[c][16+place] = uint8(pixel^flip), uint8(pixel^flip)
		}
	}
	return t
}

// Thirds has ones in bytes 0, 3, 6, … (and in 1, 4, 7, …) of both lanes.
var Thirds = func() (t [2][32]int8) {
	for i := range 16 {
		if i%3 < 2 {
			t[i%3][i], t[i%3][16+i] = -1, -1
		}
	}
	return t
}()

// ByteMask says for each byte yes or no.
type ByteMask = archsimd.Mask8x32

// Weaving returns what Weave takes besides the channels.
func Weaving(mirrored bool) (wr, wg, wb Bytes, first, second ByteMask) {
	places := &Places
	if mirrored {
		places = &MirroredPlaces
	}
	return Load(unsafe.Pointer(&places[0])), Load(unsafe.Pointer(&places[1])), Load(unsafe.Pointer(&places[2])),
		archsimd.LoadInt8x32Array(&Thirds[0]).ToMask(), archsimd.LoadInt8x32Array(&Thirds[1]).ToMask()
}

// Weave makes of vectors of each channel three of pixels, R, G, B, R, …, by lane.
func Weave(r, g, b, wr, wg, wb Bytes, first, second ByteMask) (v0, v1, v2 Bytes) {
	r, g, b = Take(r, wr), Take(g, wg), Take(b, wb)
	return r.IfElse(first, g.IfElse(second, b)), g.IfElse(first, b.IfElse(second, r)), b.IfElse(first, r.IfElse(second, g))
}

// StorePixels stores what Weave has made.
func StorePixels(v0, v1, v2 Bytes, p unsafe.Pointer) {
	Store(v0.ConcatPermute128Scalars(0, 2, v1), p)
	Store(v2.ConcatPermute128Scalars(0, 3, v0), unsafe.Add(p, 32))
	Store(v1.ConcatPermute128Scalars(1, 3, v2), unsafe.Add(p, 64))
}

// StorePixelsMirrored stores what Weave has made, the last lane first.
func StorePixelsMirrored(v0, v1, v2 Bytes, p unsafe.Pointer) {
	Store(v0.ConcatPermute128Scalars(1, 3, v1), p)
	Store(v2.ConcatPermute128Scalars(1, 2, v0), unsafe.Add(p, 32))
	Store(v1.ConcatPermute128Scalars(0, 2, v2), unsafe.Add(p, 64))
}

// unweaving takes 16 pixels of R, G, B in three vectors apart: entry [c][v] says which byte of vector v each byte of
// channel c is, for both lanes.
var unweaving = func() (t [3][3][32]uint8) {
	for c := range 3 {
		for i := range 32 {
			for v := range 3 {
				t[c][v][i] = 128
			}
			place := 3*(i%16) + c
			t[c][place/16][i] = uint8(place % 16)
		}
	}
	return t
}()

// LoadPixels loads what StorePixels stores.
func LoadPixels(p unsafe.Pointer) (v0, v1, v2 Bytes) {
	return loadLanes(p, unsafe.Add(p, 48)), loadLanes(unsafe.Add(p, 16), unsafe.Add(p, 64)), loadLanes(unsafe.Add(p, 32), unsafe.Add(p, 80))
}

// Channel returns R, G or B (0, 1 or 2) of what LoadPixels has loaded.
func Channel(v0, v1, v2 Bytes, c int) Bytes {
	t := &unweaving[c]
	return Take(v0, Load(unsafe.Pointer(&t[0]))).Or(Take(v1, Load(unsafe.Pointer(&t[1])))).Or(Take(v2, Load(unsafe.Pointer(&t[2]))))
}
