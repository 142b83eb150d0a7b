package pixelcodec

import "encoding/binary"

// Eight bytes at a time in a uint64, without carries from one to the next.
const (
	lowBits  = 0x7f7f7f7f7f7f7f7f
	signBits = 0x8080808080808080
	ones     = 0x0101010101010101
	halfBits = 0x00000000ffffffff
)

// addBytes adds the bytes of a and b, each mod 256.
func addBytes(a, b uint64) uint64 { return (a&lowBits + b&lowBits) ^ ((a ^ b) & signBits) }

// subBytes subtracts the bytes of b from those of a, each mod 256.
func subBytes(a, b uint64) uint64 { return ((a | signBits) - b&lowBits) ^ (a^^b)&signBits }

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

func measureGeneric(t *groupTables, dst, headers []byte, n, skip int) (total, before int) {
	for i := range n {
		if i == skip {
			before = total
		}
		h := headers[i]
		dst[i] = h
		total += int(t.pairWidth[h])
	}
	return total, before
}

func unpackGeneric(t *groupTables, headers, payload []byte, rows *rowPair, chunks int, first bool, _ fetch) {
	for c := range chunks {
		for plane := range 3 {
			codes := uint(binary.LittleEndian.Uint16(headers[chunkHeaderBytes*c+2*plane:]))
			o := plane*rows.stride + c*chunkColumns
			top, bottom := rows.top[o:o+chunkColumns], rows.bottom[o:o+chunkColumns]
			rowBytes := int(t.pairWidth[codes&255] + t.pairWidth[codes>>8])
			below := payload[rowBytes:]
			for g := 0; g < chunkColumns; g += groupColumns {
				code := codes & 15
				codes >>= 4
				width := int(t.width[code])
				present := uint64(1)<<(8*width) - 1
				low := uint64(t.low[code]) * ones
				r0 := addBytes(transpose8(binary.LittleEndian.Uint64(payload)&present), low)
				r1 := addBytes(transpose8(binary.LittleEndian.Uint64(below)&present), low)
				payload, below = payload[width:], below[width:]
				binary.LittleEndian.PutUint64(top[g:], r0)
				addPair(top[g:], bottom[g:], r0, r1, first)
			}
			payload = below
			if first {
				prefixSum(top, bottom)
			}
		}
	}
}

// addPair predicts eight columns of two rows from the row above, which bottom holds on entry. In a band's first pair it
// only stores the residuals; prefixSum does the rest.
func addPair(top, bottom []byte, r0, r1 uint64, first bool) {
	if first {
		binary.LittleEndian.PutUint64(top, r0)
		binary.LittleEndian.PutUint64(bottom, r1)
		return
	}
	r0 = addBytes(r0, binary.LittleEndian.Uint64(bottom))
	binary.LittleEndian.PutUint64(top, r0)
	binary.LittleEndian.PutUint64(bottom, addBytes(r0, r1))
}

// prefixSum turns the residuals of a band's first two rows in a chunk into values. Each of the top row is predicted by
// the one to its left, the first by 128; each of the bottom row by the one above.
func prefixSum(top, bottom []byte) {
	v := byte(128)
	for i, r := range top {
		v += r
		top[i] = v
		bottom[i] += v
	}
}

func predictGeneric(residuals []byte, rows *rowPair, chunks int, first bool) {
	for c := range chunks {
		for plane := range 3 {
			o := plane*rows.stride + c*chunkColumns
			top, bottom := rows.top[o:o+chunkColumns], rows.bottom[o:o+chunkColumns]
			for i := 0; i < chunkColumns; i += 8 {
				r0 := binary.LittleEndian.Uint64(residuals[i:])
				r1 := binary.LittleEndian.Uint64(residuals[chunkColumns+i:])
				addPair(top[i:], bottom[i:], r0, r1, first)
			}
			residuals = residuals[2*chunkColumns:]
			if first {
				prefixSum(top, bottom)
			}
		}
	}
}

func interleaveGeneric(dst, planes []byte, stride, width int, flip bool) {
	green := planes[:width]
	red := planes[stride:][:width]
	blue := planes[2*stride:][:width]
	dst = dst[:3*width]
	if flip {
		for i, g := range green {
			d := dst[3*(width-1-i):][:3]
			d[0], d[1], d[2] = red[i]+g+128, g, blue[i]+g+128
		}
		return
	}
	for i, g := range green {
		d := dst[3*i:][:3]
		d[0], d[1], d[2] = red[i]+g+128, g, blue[i]+g+128
	}
}

func planarGeneric(dst []byte, planeBytes int, planes []byte, stride, width int, flip bool) {
	green := planes[:width]
	red := planes[stride:][:width]
	blue := planes[2*stride:][:width]
	r, g, b := dst[:width], dst[planeBytes:][:width], dst[2*planeBytes:][:width]
	if flip {
		for i, v := range green {
			j := width - 1 - i
			r[j], g[j], b[j] = red[i]+v+128, v, blue[i]+v+128
		}
		return
	}
	for i, v := range green {
		r[i], g[i], b[i] = red[i]+v+128, v, blue[i]+v+128
	}
}

func splitGeneric(planes []byte, stride int, src []byte, width int) {
	green, red, blue := planes[:width], planes[stride:][:width], planes[2*stride:][:width]
	src = src[:3*width]
	for i := range green {
		p := src[3*i:][:3]
		green[i], red[i], blue[i] = p[1], p[0]-p[1]+128, p[2]-p[1]+128
	}
}

func residualsGeneric(dst, top, bottom, above []byte, chunks int, first bool) {
	var values [2][3 * chunkColumns]byte
	for range chunks {
		splitGeneric(values[0][:], chunkColumns, top, chunkColumns)
		splitGeneric(values[1][:], chunkColumns, bottom, chunkColumns)
		for plane := range 3 {
			up := above[plane*chunkColumns:][:chunkColumns]
			upper, lower := values[0][plane*chunkColumns:][:chunkColumns], values[1][plane*chunkColumns:][:chunkColumns]
			if first {
				up[0] = 128
				copy(up[1:], upper)
			}
			for i := 0; i < chunkColumns; i += 8 {
				a := binary.LittleEndian.Uint64(upper[i:])
				b := binary.LittleEndian.Uint64(lower[i:])
				binary.LittleEndian.PutUint64(dst[i:], subBytes(a, binary.LittleEndian.Uint64(up[i:])))
				binary.LittleEndian.PutUint64(dst[chunkColumns+i:], subBytes(b, a))
			}
			copy(up, lower)
			dst = dst[2*chunkColumns:]
		}
		top, bottom, above = top[3*chunkColumns:], bottom[3*chunkColumns:], above[3*chunkColumns:]
	}
}

func packGeneric(t *groupTables, codes *codeTable, headers, payload, residuals []byte, chunks int) int {
	used := 0
	for c := range chunks {
		for plane := range 3 {
			top, bottom := residuals[:chunkColumns], residuals[chunkColumns:2*chunkColumns]
			var group [4]uint8
			rowBytes := 0
			for g := range group {
				a, b := binary.LittleEndian.Uint64(top[g*groupColumns:]), binary.LittleEndian.Uint64(bottom[g*groupColumns:])
				group[g] = codes.choose(a, b)
				rowBytes += int(t.width[group[g]])
			}
			headers[chunkHeaderBytes*c+2*plane] = group[0] | group[1]<<4
			headers[chunkHeaderBytes*c+2*plane+1] = group[2] | group[3]<<4
			for _, row := range [2][]byte{top, bottom} {
				for g, code := range group {
					v := binary.LittleEndian.Uint64(row[g*groupColumns:])
					v = transpose8(addBytes(v, uint64(-t.low[code])*ones))
					binary.LittleEndian.PutUint64(payload[used:], v)
					used += int(t.width[code])
				}
			}
			residuals = residuals[2*chunkColumns:]
		}
	}
	return used
}

// choose returns the code for a group of 8 columns with these rows.
func (t *codeTable) choose(top, bottom uint64) uint8 {
	// The residuals plus 128 order as unsigned bytes, and the smallest of them is the largest of their complements.
	top, bottom = top^signBits, bottom^signBits
	high, low := maxBytes(top, bottom), maxBytes(^top, ^bottom)
	// The low half of the word now searches for the highest, the high half for the lowest.
	m := maxBytes(high&halfBits|low<<32, high>>32|low&^halfBits)
	m = maxBytes(m, m>>16)
	m = maxBytes(m, m>>8)
	return t[uint16(m)<<8|uint16(^uint8(m>>32))]
}

// maxBytes returns the larger of each two unsigned bytes.
func maxBytes(a, b uint64) uint64 {
	// Bit 7 of each byte of lower is set if the low seven bits of a are at least those of b.
	lower := (a | signBits) - b&lowBits
	greater := (a&^b | ^(a^b)&lower) & signBits
	mask := greater<<1 - greater>>7
	return a&mask | b&^mask
}
