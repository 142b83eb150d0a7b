package coefficients

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

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

// transpose8 transposes an 8×8 matrix of bits: bit i of byte j becomes bit j of byte i (Warren, Hacker's Delight, 2nd
// edition, section 7-3).
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
			q[pairIndex[4+j]] = int16(int8(v))
		}
		for pair, m := range masks[i] {
			for ; m != 0; m &= m - 1 {
				q[64*pair+int(pairIndex[bits.TrailingZeros64(m)])] = int16(int8(values[n]))
				n++
			}
		}
	}
	return n
}

func listGeneric(values []byte, q *jpeg.Quad, pairs int, masks *pairMasks) (n int, large bool) {
	for pair := range pairs {
		rows := (*[64]int16)(q[64*pair:])
		m := pairMask(rows)
		if pair == 0 {
			m &^= 0xffff
		}
		masks[pair] = m
		count, all := listValues((*[64]byte)(values[n:n+64]), rows, m)
		n += count
		large = large || all > 127
	}
	return n, large
}

// listValues writes the coefficients in a pair's mask to list, positive ones less one. all is the union of their bits,
// those of negative ones inverted. It is a function of its own so that all variables stay in registers.
//
//go:noinline
func listValues(list *[64]byte, rows *[64]int16, m uint64) (n int, all int16) {
	for ; m != 0; m &= m - 1 {
		v := rows[pairIndex[bits.TrailingZeros64(m)&63]&63]
		sign := v >> 15
		list[n&63] = byte(v - 1 - sign)
		all |= v ^ sign
		n++
	}
	return n, all
}

// pairMask returns the bits of the nonzero coefficients of a pair of rows.
func pairMask(rows *[64]int16) (m uint64) {
	words := (*[16]uint64)(unsafe.Pointer(rows)) // four coefficients each: half a row of a block
	for half := range 2 {
		var two uint64 // cells: bits 0 to 15, and 32 to 47
		for y := range 2 {
			for b := range 4 {
				const low = 0x7fff7fff7fff7fff
				x := words[8*y+2*b+half]
				x = (x&low + low | x) &^ low >> 15
				two |= (x | x>>12) & (1 | 1<<4 | 1<<32 | 1<<36) << (8*y + b)
			}
		}
		m |= (two&0xffff | two>>16&0xffff0000) << (32 * half)
	}
	return m
}
