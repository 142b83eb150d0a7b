//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// threefold repeats each byte three times, and together are ConcatPermute's indices into two channels; entry v is for
// the vth vector of pixels. blue and blueMask are the third channel's indices and its bytes.
var (
	threefold, together, blue [3][64]uint8
	blueMask                  [3]uint64
)

func init() {
	for v := range 3 {
		for i := range 64 {
			at := 64*v + i
			threefold[v][i] = uint8(at / 3)
			switch at % 3 {
			case 0:
				together[v][i] = uint8(at / 3)
			case 1:
				together[v][i] = uint8(64 + at/3)
			default:
				blue[v][i] = uint8(at / 3)
				blueMask[v] |= 1 << i
			}
		}
	}
}

// StoreGray stores pixels with v as all three channels.
func StoreGray(v Bytes, p unsafe.Pointer) {
	Store(v.Permute(archsimd.LoadUint8x64Array(&threefold[0])), p)
	Store(v.Permute(archsimd.LoadUint8x64Array(&threefold[1])), unsafe.Add(p, 64))
	Store(v.Permute(archsimd.LoadUint8x64Array(&threefold[2])), unsafe.Add(p, 128))
}

// StoreChannels stores pixels from channels, the inverse of Channel.
func StoreChannels(r, g, b Bytes, p unsafe.Pointer) {
	Store(joined(r, g, b, 0), p)
	Store(joined(r, g, b, 1), unsafe.Add(p, 64))
	Store(joined(r, g, b, 2), unsafe.Add(p, 128))
}

func joined(r, g, b Bytes, v int) Bytes {
	third := b.Permute(archsimd.LoadUint8x64Array(&blue[v]))
	return third.IfElse(archsimd.Mask8x64FromBits(blueMask[v]), r.ConcatPermute(g, archsimd.LoadUint8x64Array(&together[v])))
}

// FillTable converts a table of 256 bytes for Replace.
func FillTable(t *[1024]uint8, bytes *[256]uint8) { copy(t[:], bytes[:]) }

// Replace replaces bytes by those of a table.
func Replace(v Bytes, t *[1024]uint8) Bytes {
	lower := Load(unsafe.Pointer(&t[0])).ConcatPermute(Load(unsafe.Pointer(&t[64])), v)
	upper := Load(unsafe.Pointer(&t[128])).ConcatPermute(Load(unsafe.Pointer(&t[192])), v)
	return upper.IfElse(v.BitsToInt8().Less(archsimd.Int8x64{}), lower)
}

// LoadRepeated loads 16 bytes into every lane.
func LoadRepeated(p unsafe.Pointer) Bytes {
	one := archsimd.LoadUint8x16Array((*[16]uint8)(p))
	two := archsimd.Uint8x32{}.SetLo(one).SetHi(one)
	return Bytes{}.SetLo(two).SetHi(two)
}

// Total returns the sum of sums.
func Total(sums Sums) int {
	four := sums.GetLo().Add(sums.GetHi())
	two := four.GetLo().Add(four.GetHi())
	return int(two.GetElem(0) + two.GetElem(1))
}
