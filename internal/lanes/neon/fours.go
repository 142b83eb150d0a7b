//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package lanes

import (
	"unsafe"
)

// Fours are vectors with four pixels in each lane, whose last four bytes are of no account: for arithmetic in dwords.

// FoursBytes are the bytes of four pixels. LoadFours reads FoursRoom more, StoreFours writes as many more.
const (
	FoursBytes = 12
	FoursRoom  = 4
)

// Tables of fours: which byte each is of the dwords of a channel, of its words, and of pixels made of dwords.
var (
	fourDwords, fourWords = func() (t, u [3][16]uint8) {
		for i := range 16 {
			for c := range 3 {
				t[c][i], u[c][i] = 128, 128
				if i%4 == 0 {
					t[c][i] = uint8(i/4*3 + c)
				}
				if i%2 == 0 && i < 8 {
					u[c][i] = uint8(i/2*3 + c)
				}
			}
		}
		return t, u
	}()
	fourPixels = [16]uint8{0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 128, 128, 128, 128}
)

// FourChannel returns channel c of fours.
func FourChannel(v Bytes, c int) Dwords {
	return Take(v, Load(unsafe.Pointer(&fourDwords[c]))).ReshapeToUint32s().BitsToInt32()
}

// FourPairs returns channels c and c+1 of fours, as Zip joins them.
func FourPairs(v Bytes, c int) Zipped {
	return Zipped{fourWordsOf(v, c), fourWordsOf(v, c+1)}
}

func fourWordsOf(v Bytes, c int) Words {
	return Take(v, Load(unsafe.Pointer(&fourWords[c]))).ReshapeToUint16s().BitsToInt16()
}

// JoinFours makes fours of channels, saturated to 0..255.
func JoinFours(r, g, b Dwords) Bytes {
	most := BroadcastDwords(255)
	r, g, b = r.Max(Dwords{}).Min(most), g.Max(Dwords{}).Min(most), b.Max(Dwords{}).Min(most)
	return Take(r.Or(g.ShiftAllLeft(8)).Or(b.ShiftAllLeft(16)).ToBits().ReshapeToUint8s(), Load(unsafe.Pointer(&fourPixels)))
}

// LoadFours loads fours.
func LoadFours(p unsafe.Pointer) Bytes { return Load(p) }

// StoreFours stores fours.
func StoreFours(v Bytes, p unsafe.Pointer) { Store(v, p) }
