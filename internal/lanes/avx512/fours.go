//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Fours are vectors with four pixels in each lane, whose last four bytes are of no account: for arithmetic in dwords.

// FoursBytes are the bytes of four pixels for each lane. LoadFours reads FoursRoom more, StoreFours writes as many more.
const (
	FoursBytes = 12 * Count
	FoursRoom  = 16
)

// Tables of fours: which byte each is of the dwords of a channel, of the words of two channels by turns, and of pixels made of words of R
// and G, and of words of B.
var fourDwords, fourPairs, fourPixels = func() (t, u, w [3][16 * Count]uint8) {
	for i := range 16 * Count {
		place := i % 16
		for c := range 3 {
			t[c][i], u[c][i], w[c][i] = 128, 128, 128
			if place%4 == 0 {
				t[c][i] = uint8(place/4*3 + c)
			}
			if place%2 == 0 {
				u[c][i] = uint8(place/4*3 + (c+place/2%2)%3)
			}
		}
		switch pixel := uint8(place / 3); {
		case place >= 12:
		case place%3 == 2:
			w[1][i] = 2 * pixel
		default:
			w[0][i] = 2*pixel + uint8(8*(place%3))
		}
	}
	return t, u, w
}()

// FourChannel returns channel c of fours.
func FourChannel(v Bytes, c int) Dwords {
	return Take(v, Load(unsafe.Pointer(&fourDwords[c]))).ReshapeToUint32s().BitsToInt32()
}

// FourPairs returns channels c and c+1 of fours, as Zip joins them.
func FourPairs(v Bytes, c int) Zipped {
	return Take(v, Load(unsafe.Pointer(&fourPairs[c]))).ReshapeToUint16s().BitsToInt16()
}

// wordsMost is 255 in every word.
var wordsMost = func() (t [32]uint16) {
	for i := range t {
		t[i] = 255
	}
	return t
}()

// JoinFours makes fours of channels, saturated to 0..255.
func JoinFours(r, g, b Dwords) Bytes {
	most := archsimd.LoadUint16x32Array(&wordsMost)
	rg, bb := r.SaturateToUint16ConcatGrouped(g).Min(most).ReshapeToUint8s(), b.SaturateToUint16ConcatGrouped(b).Min(most).ReshapeToUint8s()
	return Take(rg, Load(unsafe.Pointer(&fourPixels[0]))).Or(Take(bb, Load(unsafe.Pointer(&fourPixels[1]))))
}

// spreadFours and gatherFours are the dwords of fours, and of their pixels side by side.
var (
	spreadFours = [16]uint32{0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11}
	gatherFours = [16]uint32{0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14}
)

// LoadFours loads fours.
func LoadFours(p unsafe.Pointer) Bytes {
	return Load(p).ReshapeToUint32s().Permute(archsimd.LoadUint32x16Array(&spreadFours)).ReshapeToUint8s()
}

// StoreFours stores fours.
func StoreFours(v Bytes, p unsafe.Pointer) {
	Store(v.ReshapeToUint32s().Permute(archsimd.LoadUint32x16Array(&gatherFours)).ReshapeToUint8s(), p)
}
