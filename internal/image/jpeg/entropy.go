package jpeg

import (
	"encoding/binary"
	"unsafe"
)

// The entropy decoder for sequential scans, which takes most of the time of a decode. It reads the unstuffed scan
// through raw pointers without bounds checks. It cannot leave its buffers, because:
//
//   - A block takes at most 31 + 63·31 bits, because each symbol has at most 16 bits of code and 15 of value and moves the
//     coefficient's index by one or more. An invalid block may take one symbol more, and the rest of the bit buffer:
//     [blockBytesMax] bytes.
//   - Between two checks of the position at most [batchBlocksMax] blocks are decoded, and the scan's
//     buffer has [scanSlack] bytes after its last one.
//   - A coefficient's index is truncated to 8 bits, and zigzagOffset maps those from 64 to 255 to the spill area after
//     each group of four blocks.
const (
	blockBytesMax  = (31+64*31+63)/8 + 1
	batchMCUs      = 4  // MCUs decoded between two checks
	mcuBlocksMax   = 10 // blocks in an MCU, by the standard
	batchBlocksMax = batchMCUs * mcuBlocksMax
	scanSlack      = batchBlocksMax*blockBytesMax + 64
)

// A quad holds the coefficients of four adjacent blocks. Row r, column c of block b is at r*32 + b*8 + c, so each row
// is one vector of 512 bits with a block in each lane of 128.
type quad [256]int16

// A Quad is the exported quad, for readers and sources of coefficients.
type Quad = quad

// A batchQuad is a quad with the spill area for coefficients after the 63rd.
type batchQuad struct {
	quad
	spill [64]int16
}

// zigzag[k] is the row (times 8) and column of the k-th coefficient of a scan.
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
}

// quadIndex[k] is the index of coefficient k in a quad's first block.
var quadIndex = func() (t [64]uint8) {
	for k, n := range zigzag {
		t[k] = n>>3*32 + n&7
	}
	return t
}()

// zigzagOffset[k] is quadIndex in bytes for k < 64, and the spill area for others.
var zigzagOffset = func() (t [256]uint16) {
	for k := range t {
		t[k] = uint16(unsafe.Offsetof(batchQuad{}.spill))
		if k < 64 {
			t[k] = uint16(quadIndex[k]) * 2
		}
	}
	return t
}()

// A bitReader reads the unstuffed scan from a bit on. The top n bits of buf are the next ones. Lower bits may be set,
// to those of the next refill.
type bitReader struct {
	next unsafe.Pointer // the first byte not counted in n
	buf  uint64
	n    uint64
}

// seek moves to a bit, which must lie within the scan.
func (r *bitReader) seek(scan []byte, bit int) {
	r.next = unsafe.Pointer(&scan[bit>>3])
	r.buf, r.n = 0, 0
	if skip := uint64(bit & 7); skip > 0 {
		r.buf = uint64(scan[bit>>3]) << (56 + skip)
		r.n = 8 - skip
		r.next = unsafe.Add(r.next, 1)
	}
}

// position returns the reader's position in bits from the start of the scan.
func (r *bitReader) position(scan []byte) int {
	return int(uintptr(r.next)-uintptr(unsafe.Pointer(unsafe.SliceData(scan))))*8 - int(r.n)
}

func load64(p unsafe.Pointer) uint64 { return binary.BigEndian.Uint64((*[8]byte)(p)[:]) }

// A plannedBlock is one block of a batch of MCUs: its tables, and where its coefficients go.
type plannedBlock struct {
	dc, ac    *huffmanTable
	out       unsafe.Pointer // the block's lane in a batchQuad
	component uint32
	quad      uint32 // number of the batchQuad, for its extent
}

// The extent of a quad is a set of bits: which coefficients, except each block's first, may be nonzero.
const (
	ExtentLow     = 1 << iota // some in the first four rows and columns, which include the first ten coefficients
	ExtentFull                // some anywhere
	extentInvalid             // unknown: the data of some block were invalid
)

// extents gives a block's extent by the index that decodeAC ends with.
var extents = func() (t [256]uint8) {
	for k := range t {
		switch {
		case k == endOfBlock:
			t[k] = 0
		case k > endOfBlock && k < endOfBlock+10:
			t[k] = ExtentLow
		case k == 63 || k > endOfBlock && k < endOfBlock+63:
			t[k] = ExtentFull
		default:
			t[k] = extentInvalid
		}
	}
	return t
}()

// decodeBlocks decodes blocks in order. It adds the DC differences to predictor and each block's extent to its quad's.
// It does not test for extentInvalid, because a branch for each block would often be mispredicted. It reports whether
// every DC code was valid. If skip is set, only the position and the predictors advance.
func (r *bitReader) decodeBlocks(blocks []plannedBlock, predictor *[4]int32, extent *[mcuBlocksMax]uint8, skip bool) bool {
	buf, n, next := r.buf, r.n, r.next
	for i := range blocks {
		b := &blocks[i]
		buf |= load64(next) >> (n & 63)
		next = unsafe.Add(next, (63-n)>>3)
		n |= 56
		code := uint64(b.dc.codes[buf>>(64-lookupBits)])
		length, size := code>>8, code&15
		if code == 0 {
			var symbol uint8
			if length, symbol = b.dc.long(buf); length == badCode {
				return false
			}
			size = uint64(symbol)
		}
		buf <<= length & 63
		diff := int32(buf >> 1 >> ((63 - size) & 63))
		diff += int32(^(int64(buf) >> 63)) & (1 - 1<<(size&31))
		buf <<= size & 63
		n -= length + size
		c := b.component & 3
		predictor[c] += diff
		var k uint64
		if skip {
			next, buf, n, k = skipAC(b.ac, next, buf, n)
		} else {
			*(*int16)(b.out) = int16(predictor[c])
			next, buf, n, k = decodeAC(b.ac, b.out, next, buf, n)
		}
		extent[b.quad] |= extents[uint8(k)]
	}
	r.buf, r.n, r.next = buf, n, next
	return true
}

// decodeAC decodes a block's AC coefficients to out. The returned index k is 63 if the last one is coded, and
// endOfBlock plus the last one's index if the block ends before; anything else is an error.
//
// It is a small function of its own so that all variables stay in registers. n may become negative within an iteration:
// only its low six bits are used.
//
//go:noinline
func decodeAC(t *huffmanTable, out, next unsafe.Pointer, buf, n uint64) (unsafe.Pointer, uint64, uint64, uint64) {
	k := uint64(0)
	offsets := unsafe.Pointer(&zigzagOffset)
	for {
		n &= 63
		buf |= load64(next) >> n
		next = unsafe.Add(next, (63-n)>>3)
		n |= 56
		e := t.pairs[buf>>(64-lookupBits)]
		if e == 0 {
			length, symbol := t.long(buf)
			size, advance := uint64(symbol&15), uint64(symbol>>4)+1
			switch {
			case length == badCode:
				return next, buf, n, 64
			case size == 0 && advance != 16:
				advance = endOfBlock
			}
			buf <<= length & 63
			value := int16(buf>>1>>((63-size)&63)) + int16(^(int64(buf)>>63)&(1-1<<size))
			buf <<= size & 63
			n -= length + size
			k += advance
			*(*int16)(unsafe.Add(out, zigzagOffset[uint8(k)])) = value
			if k >= 63 {
				return next, buf, n, k
			}
			continue
		}
		// The first of two symbols has its value in the entry. The last one's value comes from the bits: unchanged if
		// the first of them is 1, otherwise inverted and negated.
		bits := buf << (e >> 12 & 63)
		buf <<= e & 63
		n -= e
		*(*int16)(unsafe.Add(out, *(*uint16)(unsafe.Add(offsets, (k+e>>24&255)*2)))) = int16(e >> 32)
		k += e >> 56
		negative := uint64(^(int64(bits) >> 63))
		value := (bits ^ negative) >> 1 >> (e >> 6 & 63)
		*(*int16)(unsafe.Add(out, *(*uint16)(unsafe.Add(offsets, k*2)))) = int16((value ^ negative) - negative)
		if k >= 63 {
			if k != 63 && k-endOfBlock >= 63 {
				return t.giveBack(next, n&63, k, e)
			}
			return next, buf, n & 63, k
		}
		// A second look-up without a refill: two take 50 bits at most, and a refill leaves 56.
		e = t.pairs[buf>>(64-lookupBits)]
		if e == 0 {
			continue
		}
		bits = buf << (e >> 12 & 63)
		buf <<= e & 63
		n -= e
		*(*int16)(unsafe.Add(out, *(*uint16)(unsafe.Add(offsets, (k+e>>24&255)*2)))) = int16(e >> 32)
		k += e >> 56
		negative = uint64(^(int64(bits) >> 63))
		value = (bits ^ negative) >> 1 >> (e >> 6 & 63)
		*(*int16)(unsafe.Add(out, *(*uint16)(unsafe.Add(offsets, k*2)))) = int16((value ^ negative) - negative)
		if k >= 63 {
			if k != 63 && k-endOfBlock >= 63 {
				return t.giveBack(next, n&63, k, e)
			}
			return next, buf, n & 63, k
		}
	}
}

// giveBack handles a look-up with two symbols that led past coefficient 63. If the first one reached it, the second one belongs to the next
// block: the reader moves back before it. Otherwise the data are invalid, and so is the returned index.
func (t *huffmanTable) giveBack(next unsafe.Pointer, n, k, e uint64) (unsafe.Pointer, uint64, uint64, uint64) {
	if e>>24&endOfBlock != 0 || k-e>>56+e>>24&255 != 63 {
		return next, 0, 0, 64
	}
	n += e & 63 // bits from the look-up to next; may be more than 64
	start := unsafe.Add(next, -int((n+7)/8))
	skip := (8 - n&7) & 7
	buf := load64(start) << skip
	length, symbol := t.long(buf)
	used := length&63 + uint64(symbol&15)
	return unsafe.Add(start, 8), buf << (used & 63), 64 - skip - used, 63
}

// skipAC is decodeAC without coefficients.
//
//go:noinline
func skipAC(t *huffmanTable, next unsafe.Pointer, buf, n uint64) (unsafe.Pointer, uint64, uint64, uint64) {
	k := uint64(0)
	for {
		n &= 63
		buf |= load64(next) >> n
		next = unsafe.Add(next, (63-n)>>3)
		n |= 56
		e := t.pairs[buf>>(64-lookupBits)]
		if e == 0 {
			length, symbol := t.long(buf)
			size, advance := uint64(symbol&15), uint64(symbol>>4)+1
			switch {
			case length == badCode:
				return next, buf, n, 64
			case size == 0 && advance != 16:
				advance = endOfBlock
			}
			buf <<= (length + size) & 63
			n -= length + size
			k += advance
			if k >= 63 {
				return next, buf, n, k
			}
			continue
		}
		buf <<= e & 63
		n -= e
		k += e >> 56
		if k >= 63 {
			if k != 63 && k-endOfBlock >= 63 {
				return t.giveBack(next, n&63, k, e)
			}
			return next, buf, n & 63, k
		}
		e = t.pairs[buf>>(64-lookupBits)]
		if e == 0 {
			continue
		}
		buf <<= e & 63
		n -= e
		k += e >> 56
		if k >= 63 {
			if k != 63 && k-endOfBlock >= 63 {
				return t.giveBack(next, n&63, k, e)
			}
			return next, buf, n & 63, k
		}
	}
}
