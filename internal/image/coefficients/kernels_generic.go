package coefficients

import (
	"encoding/binary"
	"math/bits"

	"github.com/imgfeed/imgfeed/internal/image/jpeg"
)

func spreadGeneric(masks []pairMasks, codes, cells []byte) {
	for i := range masks {
		m := &masks[i]
		*m = pairMasks{}
		for present := presences[codes[i]]; present != 0; present &= present - 1 {
			cell := bits.TrailingZeros16(present)
			m[cell>>2] |= uint64(binary.LittleEndian.Uint16(cells)) << (16 * (cell & 3))
			cells = cells[2:]
		}
	}
}

const signBits = 0x8080808080808080

// transpose8 exchanges rows and columns of an 8×8 matrix of bits: bit i of byte j becomes bit j of byte i (Warren,
// Hacker's Delight, 2nd edition, section 7-3).
func transpose8(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00AA00AA00AA00AA
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000CCCC0000CCCC
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000F0F0F0F0
	return x ^ t ^ t<<28
}

func unpackGeneric(values, widths, planes []byte, more int8) {
	for ; len(widths) > 0; widths = widths[widthsBytes:] {
		all := bundleWidths(widths)
		for range bundleChunks {
			w := int(all&7) + 1
			all >>= 3
			x := uint64(planes[0]) << 56
			for i := 1; i < w; i++ {
				x |= uint64(planes[i]) << (8 * (w - 1 - i))
			}
			planes = planes[w:]
			x = transpose8(x)
			negative := x & signBits
			x ^= negative - negative>>7 // the seven bits below each sign
			x = addBytes(x, (^x&signBits)>>7*uint64(more))
			binary.LittleEndian.PutUint64(values, x)
			values = values[chunkValues:]
		}
	}
}

// addBytes adds the bytes of a and b, each mod 256.
func addBytes(a, b uint64) uint64 { return (a&^signBits + b&^signBits) ^ (a^b)&signBits }

func expandGeneric(quads []*jpeg.Quad, masks []pairMasks, values, firsts []byte, dcs [][4]int16) int {
	n := 0
	for i, q := range quads {
		for b, dc := range dcs[i] {
			q[8*b] = dc
		}
		for j, v := range firsts[firstValues*i:][:firstValues] {
			q[pairPlace[4+j]] = int16(int8(v))
		}
		for pair, m := range masks[i] {
			for ; m != 0; m &= m - 1 {
				q[64*pair+int(pairPlace[bits.TrailingZeros64(m)])] = int16(int8(values[n]))
				n++
			}
		}
	}
	return n
}
