package jpeg

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Huffman coding of a sequential scan (T.81 section F.1.2), as in encoders that code each block's coefficients up to
// the last nonzero one: zeros by ZRL and in the symbols, then EOB. Files from other encoders are not reproduced.

// noCode marks an entry of a table without a code. It survives in the union of all entries that were used.
const noCode = 1 << 31

// A codeTable has the codes of one DHT table: length<<16 | code for each symbol, or noCode. The index of an AC symbol
// RRRRSSSS is RRRR<<5 | SSSS, since a hostile coefficient may have a size of 16. DC symbols are sizes up to 17.
type codeTable [16 << 5]uint32

// A valueTable has the joined code and value of AC coefficients from -64 to 63 after up to 15 zeros, at run<<7 + value
// + 64. Two entries have no value: those of EOB and of an empty symbol.
type valueTable [16 << 7]valueEntry

// A valueEntry is length<<valueBits | bits, or noCode.
type valueEntry uint32

const (
	valueBits = 16 + 7
	valueEOB  = 0<<7 + 64
	valueNone = 1<<7 + 64
)

func (e valueEntry) code() uint64   { return uint64(e & (1<<valueBits - 1)) }
func (e valueEntry) length() uint64 { return uint64(e >> valueBits & 31) }

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

// build makes the entries from codes.
func (t *valueTable) build(codes *codeTable) {
	for i := range t {
		value, length := codes.symbol(i>>7, int64(i&127)-64)
		t[i] = valueEntry(length&31<<valueBits | length&noCode | value)
	}
	t[valueNone] = 0
}

// symbol returns the bits, and their number, of a nonzero value after run zeros, or of a DC difference if run is 0.
func (t *codeTable) symbol(run int, value int64) (code, length uint64) {
	sign := value >> 63
	size := uint64(bits.Len64(uint64(value ^ sign - sign)))
	e := uint64(t[(uint64(run)<<5|size)&uint64(len(t)-1)])
	return e&0xffff<<(size&63) | uint64(value+sign)&(1<<(size&63)-1), e>>16&31 + size | e&noCode
}

// blockBytesWritten is the maximal size of a block: 64 symbols of 16 bits of code and 17 of value.
const blockBytesWritten = 64 * (16 + 17) / 8

// blockTables are the tables of one component.
type blockTables struct {
	dc, ac codeTable
	values valueTable
}

// A symbolList has a block's nonzero AC coefficients, in the order of the scan. EOB and an empty symbol may follow.
type symbolList struct {
	indices [64]uint16    // indices in a valueTable, or beyond its end if it has no entry
	zigzag  [1 + 64]uint8 // their zigzag indices, after that of the DC coefficient, 0
}

// A scanWriter writes the entropy-coded data of one scan. Each pair of symbols stores eight bytes and advances by the
// complete ones, without a branch. Zeros after each ff are inserted when a batch is copied to dst.
type scanWriter struct {
	tables    [4]blockTables // one per component
	predictor [4]int32
	used      valueEntry // union of all entries used, which shows noCode
	list      symbolList
	bits      bitBuffer
	size      int // bytes in raw
	raw       [batchBlocksMax*blockBytesWritten + 16]byte
	dst       []byte
}

// A bitBuffer holds the first n bits of the next byte, up to 7, at the top of buf.
type bitBuffer struct{ buf, n uint64 }

// put adds length bits, up to 57, stores at next, and returns the address after the complete bytes. All values are passed in registers.
func (b bitBuffer) put(next unsafe.Pointer, value, length uint64) (bitBuffer, unsafe.Pointer) {
	n := b.n + length
	buf := b.buf | value<<((64-n)&63)
	binary.BigEndian.PutUint64((*[8]byte)(next)[:], buf)
	return bitBuffer{buf << (n & 56), n & 7}, unsafe.Add(next, n>>3)
}

// reset begins a scan of the parser's scan header, after dst.
func (w *scanWriter) reset(p *parser, dst []byte) error {
	h := &p.scanHeader
	for i, c := range h.components {
		dc, ac := h.tables[i][0], h.tables[i][1]
		if dc > 3 || ac > 3 || !p.specs[0][dc].present || !p.specs[1][ac].present {
			return formatError(p.pos, "scan uses Huffman tables that are missing")
		}
		t := &w.tables[c]
		t.dc.build(&p.specs[0][dc])
		t.ac.build(&p.specs[1][ac])
		t.values.build(&t.ac)
	}
	w.dst, w.predictor, w.used, w.size, w.bits = dst, [4]int32{}, 0, 0, bitBuffer{}
	return nil
}

// write appends the blocks of a batch or of a part of it.
func (w *scanWriter) write(k *kernels, blocks []plannedBlock, extents []uint8) {
	for i := range blocks {
		b := &blocks[i]
		q, c := (*quadBlock)(b.out), b.component&3
		diff := int32(q[0]) - w.predictor[c]
		w.predictor[c] = int32(q[0])
		count := 0
		if extents[b.quad] != 0 {
			count = k.listSymbols(q, &w.list)
		}
		w.writeBlock(&w.tables[c], q, diff, count)
	}
	w.flush()
}

// A quadBlock is the part of a quad from a block's first coefficient to its last.
type quadBlock [7*32 + 8]int16

// writeBlock writes a DC difference (F.1.2.1) and count AC coefficients of the list (F.1.2.2).
func (w *scanWriter) writeBlock(t *blockTables, q *quadBlock, diff int32, count int) {
	code, length := t.dc.symbol(0, int64(diff))
	b, next := w.bits.put(unsafe.Pointer(&w.raw[w.size]), code, length&63)
	used, l := valueEntry(length), &w.list
	if l.zigzag[count&63] < 63 {
		l.indices[count&63] = valueEOB
		count++
	}
	l.indices[count&63] = valueNone
	for i := 0; i < count; i += 2 {
		i1, i2 := l.indices[i&63], l.indices[(i+1)&63]
		if i1|i2 >= uint16(len(t.values)) {
			b, next = w.writeListed(b, next, t, q, i)
			b, next = w.writeListed(b, next, t, q, i+1)
			continue
		}
		e1, e2 := t.values[int(i1)&(len(t.values)-1)], t.values[int(i2)&(len(t.values)-1)]
		used |= e1 | e2
		b, next = b.put(next, e1.code()<<e2.length()|e2.code(), e1.length()+e2.length())
	}
	w.bits, w.size = b, int(uintptr(next)-uintptr(unsafe.Pointer(&w.raw)))
	w.used |= used
}

// writeListed writes entry i of the list, even if the table of values lacks it.
func (w *scanWriter) writeListed(b bitBuffer, next unsafe.Pointer, t *blockTables, q *quadBlock, i int) (bitBuffer, unsafe.Pointer) {
	if at := int(w.list.indices[i&63]); at < len(t.values) {
		e := t.values[at]
		w.used |= e
		return b.put(next, e.code(), e.length())
	}
	before, k := w.list.zigzag[i&63], w.list.zigzag[(i+1)&63]
	return w.writeSymbol(b, next, &t.ac, int(k-before)-1, int64(q[quadIndex[k&63]]))
}

// writeSymbol writes any value after any number of zeros.
//
//go:noinline
func (w *scanWriter) writeSymbol(b bitBuffer, next unsafe.Pointer, t *codeTable, run int, value int64) (bitBuffer, unsafe.Pointer) {
	for ; run > 15; run -= 16 {
		code, length := t.symbol(15, 0) // ZRL
		w.used |= valueEntry(length)
		b, next = b.put(next, code, length&63)
	}
	code, length := t.symbol(run, value)
	w.used |= valueEntry(length)
	return b.put(next, code, length&63)
}

// flush copies the complete bytes to dst, with a zero after each ff (F.1.2.3).
func (w *scanWriter) flush() {
	raw := w.raw[:w.size]
	for {
		i := bytes.IndexByte(raw, 0xff)
		if i < 0 {
			break
		}
		w.dst = append(append(w.dst, raw[:i+1]...), 0)
		raw = raw[i+1:]
	}
	w.dst = append(w.dst, raw...)
	w.size = 0
}

// finish fills up the last byte with pad, 0 or 1, and ends a restart segment.
func (w *scanWriter) finish(pad uint64) {
	count := -w.bits.n & 7
	w.bits, _ = w.bits.put(unsafe.Pointer(&w.raw), -pad&(1<<count-1), count)
	w.size = int(count+7) / 8
	w.flush()
	w.predictor = [4]int32{}
}

func listSymbolsGeneric(q *quadBlock, l *symbolList) int {
	n, before := 0, 0
	for mask := zigzagMask(q) &^ 1; mask != 0; mask &= mask - 1 {
		k := bits.TrailingZeros64(mask)
		value := uint16(max(-128, min(q[quadIndex[k&63]], 127)) + 64)
		l.indices[n&63] = (uint16(k-before-1)|value&128)<<7 | value&127
		n++
		l.zigzag[n&63] = uint8(k)
		before = k
	}
	return n
}

// zigzagMask returns the set of a block's nonzero coefficients, in the order of the scan.
func zigzagMask(q *quadBlock) (mask uint64) {
	for row := range 8 {
		p := unsafe.Pointer(&q[row*32])
		mask |= rowMasks[row][rowBits(*(*uint64)(p), *(*uint64)(unsafe.Add(p, 8)))]
	}
	return mask
}

// rowBits has a bit for each of a row's eight coefficients, in a fixed order. It makes one bit in each 16-bit lane, and
// collects them in the top byte by a multiplication with disjoint terms.
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
