package jpeg

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Huffman coding of a sequential scan (T.81 section F.1.2), as every encoder does it that codes each block's coefficients up
// to the last that is not zero: zeros by ZRL and in the symbols, then EOB. A file from another kind comes out otherwise.

// A codeTable has the codes of one DHT table: length<<16 | code for each symbol, noCode for those without. AC symbols RRRRSSSS
// stand at RRRR<<5 | SSSS, since a hostile coefficient may have a size of 16; so do DC symbols, which are sizes up to 17.
type codeTable [16 << 5]uint32

// noCode marks a symbol without code. It survives in the union of all entries that were used.
const noCode = 1 << 31

// build assigns the codes, by annex C.2. That of a symbol that comes twice is the first.
func (t *codeTable) build(spec *huffmanSpec) {
	for i := range t {
		t[i] = noCode
	}
	code, k := uint32(0), 0
	for length := uint32(1); length <= 16; length++ {
		for range spec.counts[length] {
			symbol := spec.symbols[k]
			if e := &t[int(symbol>>4)<<5|int(symbol&15)]; *e == noCode {
				*e = length<<16 | code
			}
			code++
			k++
		}
		code <<= 1
	}
}

// blockBytesWritten is more than a block may take: 64 symbols of 16 bits of code and 17 of value, and a zero stuffed after each byte.
const blockBytesWritten = 64 * (16 + 17) / 8 * 2

// A scanWriter writes the entropy-coded data of one scan.
type scanWriter struct {
	tables    [2][4]codeTable // DC, AC
	slots     [4][2]uint8     // each component's
	dst       []byte
	buf       uint64 // the last 64-free bits are to be written
	free      int
	predictor [4]int32
	used      uint32 // union of all entries used, which shows noCode
}

// reset begins a scan of the parser's scan header, after dst.
func (w *scanWriter) reset(p *parser, dst []byte) error {
	h := &p.scanHeader
	for i, c := range h.components {
		for class := range 2 {
			slot := h.tables[i][class]
			if slot > 3 || !p.specs[class][slot].present {
				return formatError(p.pos, "scan uses the Huffman table %d, which is missing", slot)
			}
			w.slots[c][class] = slot
			w.tables[class][slot].build(&p.specs[class][slot])
		}
	}
	w.dst, w.buf, w.free, w.predictor, w.used = dst, 0, 64, [4]int32{}, 0
	return nil
}

// write appends some blocks.
func (w *scanWriter) write(blocks []plannedBlock, extents []uint8) {
	if need := len(w.dst) + (len(blocks)+1)*blockBytesWritten; need > cap(w.dst) {
		w.dst = append(make([]byte, 0, need+need/2), w.dst...)
	}
	for i := range blocks {
		b := &blocks[i]
		q := (*[quadBlockSpan]int16)(b.out)
		slots := &w.slots[b.component&3]
		w.writeDC(&w.tables[0][slots[0]&3], int32(q[0])-w.predictor[b.component&3])
		w.predictor[b.component&3] = int32(q[0])
		ac := &w.tables[1][slots[1]&3]
		if extents[b.quad] == 0 {
			w.put(uint64(ac[0]&0xffff), ac[0])
			continue
		}
		w.writeAC(ac, q)
	}
}

// quadBlockSpan is how many coefficients of a quad lie from a block's first to its last.
const quadBlockSpan = 7*32 + 8

// writeDC writes a DC difference (F.1.2.1).
func (w *scanWriter) writeDC(t *codeTable, diff int32) {
	sign := diff >> 31
	size := bits.Len32(uint32(diff ^ sign - sign))
	e := t[size]
	w.put(uint64(e&0xffff)<<size|uint64(uint32(diff+sign))&(1<<size-1), e+uint32(size)<<16)
}

// put writes as many bits as entry counts, up to 33, and notes the entry.
func (w *scanWriter) put(value uint64, entry uint32) {
	w.used |= entry
	length := int(entry >> 16 & 63)
	if w.free -= length; w.free < 0 {
		w.dst = appendStuffed(w.dst, w.buf<<(length+w.free)|value>>-w.free)
		w.free += 64
	}
	w.buf = w.buf<<length | value
}

// writeAC writes a block's AC coefficients (F.1.2.2).
func (w *scanWriter) writeAC(t *codeTable, q *[quadBlockSpan]int16) {
	buf, free, used, dst := w.buf, w.free, w.used, w.dst
	mask := zigzagMask(q) &^ 1
	eob := mask>>63 == 0
	for before := 0; mask != 0; mask &= mask - 1 {
		k := bits.TrailingZeros64(mask)
		run := k - before - 1
		before = k
		for ; run > 15; run -= 16 {
			e := t[15<<5]
			used |= e
			length := int(e >> 16 & 31)
			if free -= length; free < 0 {
				dst = appendStuffed(dst, buf<<(length+free)|uint64(e&0xffff)>>-free)
				free += 64
			}
			buf = buf<<length | uint64(e&0xffff)
		}
		value := int64(q[quadIndex[k&63]])
		sign := value >> 63
		size := bits.Len64(uint64(value ^ sign - sign))
		e := t[(run<<5|size)&(len(t)-1)]
		used |= e
		length := int(e>>16&31) + size
		value = int64(e&0xffff)<<(size&31) | (value+sign)&(1<<(size&31)-1)
		if free -= length; free < 0 {
			dst = appendStuffed(dst, buf<<((length+free)&63)|uint64(value)>>(-free&63))
			free += 64
		}
		buf = buf<<(length&63) | uint64(value)
	}
	w.buf, w.free, w.used, w.dst = buf, free, used, dst
	if eob {
		w.put(uint64(t[0]&0xffff), t[0])
	}
}

// zigzagMask returns the set of a block's coefficients that are not zero, in the order of the scan.
func zigzagMask(q *[quadBlockSpan]int16) (mask uint64) {
	for row := range 8 {
		p := unsafe.Pointer(&q[row*32])
		mask |= rowMasks[row][rowBits(*(*uint64)(p), *(*uint64)(unsafe.Add(p, 8)))]
	}
	return mask
}

// rowBits has a bit for each of a row's eight coefficients, in some order: first one bit in each lane of 16, then those together
// in the top byte by a multiplication, the terms of which do not meet.
func rowBits(a, b uint64) uint8 {
	const low = 0x7fff7fff7fff7fff
	a = (a&low + low | a) &^ low
	b = (b&low + low | b) &^ low
	return uint8((a>>15 | b>>14) * (1<<56 | 1<<42 | 1<<28 | 1<<14) >> 56)
}

// rowMasks[row][rowBits] is the row's part of a zigzagMask.
var rowMasks = func() (t [8][256]uint64) {
	for k, n := range zigzag {
		var row [8]int16
		row[n&7] = 1
		p := unsafe.Pointer(&row)
		bit := rowBits(*(*uint64)(p), *(*uint64)(unsafe.Add(p, 8)))
		for i := range t[n>>3] {
			if uint8(i)&bit != 0 {
				t[n>>3][i] |= 1 << k
			}
		}
	}
	return t
}()

// appendStuffed appends eight bytes, and a zero after each ff. There is room.
func appendStuffed(dst []byte, v uint64) []byte {
	// A byte is ff if its complement is zero: then the subtraction borrows into its top bit.
	if c := ^v; (c-0x0101010101010101)&^c&0x8080808080808080 == 0 {
		return binary.BigEndian.AppendUint64(dst, v)
	}
	for shift := 56; shift >= 0; shift -= 8 {
		dst = append(dst, byte(v>>shift))
		if byte(v>>shift) == 0xff {
			dst = append(dst, 0)
		}
	}
	return dst
}

// finish pads the last byte with bits like pad, 0 or 1, and ends a segment: the predictors begin anew (F.1.2.3).
func (w *scanWriter) finish(pad uint64) {
	count := w.free & 7
	w.buf = w.buf<<count | (1<<count-1)&-pad
	for left := 64 - w.free + count; left > 0; left -= 8 {
		b := byte(w.buf >> (left - 8))
		w.dst = append(w.dst, b)
		if b == 0xff {
			w.dst = append(w.dst, 0)
		}
	}
	w.buf, w.free, w.predictor = 0, 64, [4]int32{}
}
