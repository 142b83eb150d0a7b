package jpeg

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// The index of a sequential single-scan file:
//
//	version      1 byte, indexVersion
//	column step  1 byte, MCUs between two entries of a row
//	header       4 bytes, CRC-32C of the file up to the scan's entropy-coded data
//	file size    4 bytes
//	entries      for each MCU row: one at MCU 0, step, 2·step, …; then one behind the last MCU
//	checksum     4 bytes, CRC-32C of all the above
//
// An entry holds differences from the one before it, as varints: bits of the unstuffed scan; at the first of a row also
// the bytes that unstuffing removed since the last such entry; then each component's DC predictor, zigzag-coded. Numbers
// of fixed size are little-endian. Fewer bits than a difference really has are impossible to tell from a wrong index, so
// everything is checked before use, and where decoding arrives at a further entry the two must agree.
const (
	indexVersion    = 1
	indexHeaderSize = 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An indexEntry is where decoding can start.
type indexEntry struct {
	mcu       int // number of the MCU at this place
	bit       int // from the start of the unstuffed scan
	rowBit    int // of the row's first entry
	removed   int // bytes that unstuffing removed before the row's first entry
	predictor [4]int32
}

var errIndexShort = errors.New("it ends too early")

// An indexReader walks over the entries of an index.
type indexReader struct {
	data  []byte
	step  int
	entry indexEntry
}

// next reads one entry into r.entry.
func (r *indexReader) next(f *frame) error {
	e := &r.entry
	bits, ok := r.uvarint()
	e.bit += bits
	if e.mcu%f.mcusWide == 0 {
		removed, okRemoved := r.uvarint()
		e.removed += removed
		e.rowBit = e.bit
		ok = ok && okRemoved
	}
	for c := range f.components {
		diff, okDiff := r.uvarint()
		e.predictor[c] += int32(diff>>1) ^ -int32(diff&1)
		ok = ok && okDiff
	}
	if !ok {
		return errIndexShort
	}
	return nil
}

// uvarint reads a number below 2^32, so that sums of them cannot overflow.
func (r *indexReader) uvarint() (int, bool) {
	if len(r.data) > 0 && r.data[0] < 0x80 {
		v := int(r.data[0])
		r.data = r.data[1:]
		return v, true
	}
	v, n := binary.Uvarint(r.data)
	if n <= 0 || v > 1<<32-1 {
		return 0, false
	}
	r.data = r.data[n:]
	return int(v), true
}

// indexError makes an index's fault a FormatError at the scan's start.
func (d *Decoder) indexError(what string) error {
	return formatError(d.pos, "the index does not belong to this file or is damaged: %s", what)
}

// parseIndex collects the entries to start from in each row of the grid, and one more: the first at or behind the grid's
// last MCU, to check the position by.
func (d *Decoder) parseIndex() error {
	n := len(d.index) - 4
	switch {
	case n < indexHeaderSize || d.index[0] != indexVersion || d.index[1] == 0:
		return d.indexError("unknown version")
	case binary.LittleEndian.Uint32(d.index[n:]) != crc32.Checksum(d.index[:n], castagnoli):
		return d.indexError("wrong checksum")
	case binary.LittleEndian.Uint32(d.index[2:]) != crc32.Checksum(d.data[:d.pos], castagnoli),
		binary.LittleEndian.Uint32(d.index[6:]) != uint32(len(d.data)):
		return d.indexError("it was made of other data")
	}
	r := indexReader{data: d.index[indexHeaderSize:n], step: int(d.index[1])}
	d.entries = d.entries[:0]
	g := &d.grid
	want := g.mcuX0 / r.step * r.step
	for y := range g.mcuY1 {
		for x := 0; x < d.mcusWide; x += r.step {
			r.entry.mcu = y*d.mcusWide + x
			if err := r.next(&d.frame); err != nil {
				return d.indexError(err.Error())
			}
			if y >= g.mcuY0 && x == want {
				d.entries = append(d.entries, r.entry)
			}
			if y == g.mcuY1-1 && x >= g.mcuX1 {
				d.entries = append(d.entries, r.entry)
				return nil
			}
		}
	}
	r.entry.mcu = g.mcuY1 * d.mcusWide
	if err := r.next(&d.frame); err != nil {
		return d.indexError(err.Error())
	}
	d.entries = append(d.entries, r.entry)
	return nil
}

// openIndexed unstuffs the part of the scan that the grid needs, by the index.
func (d *Decoder) openIndexed(s *sequentialScan) error {
	if err := d.parseIndex(); err != nil {
		return err
	}
	first, last := &d.entries[0], &d.entries[len(d.entries)-1]
	start := first.rowBit >> 3
	if d.pos+start+first.removed > len(d.data) {
		return d.indexError("an entry lies behind the end of the file")
	}
	if d.restartInterval > 0 {
		s.segment0 = d.grid.mcuY0 * d.mcusWide / d.restartInterval
	}
	d.scan.unstuff(d.data, d.pos+start+first.removed, last.bit>>3+1-start, d.restartInterval > 0, s.segment0)
	s.bit0 = start * 8
	return nil
}

// seekEntry puts the reader at an entry.
func (d *Decoder) seekEntry(s *sequentialScan, e *indexEntry) error {
	bit := e.bit - s.bit0
	if bit < 0 || bit > d.scan.size*8 {
		return d.indexError("an entry lies outside the scan")
	}
	if d.restartInterval > 0 {
		s.segment = e.mcu/d.restartInterval - s.segment0
		if s.segment >= len(d.scan.segments) || bit < d.scan.segments[s.segment]*8 {
			return d.indexError("an entry lies outside its restart segment")
		}
	}
	s.limit = d.scan.segmentEnd(s.segment)
	s.reader.seek(d.scan.bytes, bit)
	s.predictor = e.predictor
	s.mcu = e.mcu
	return nil
}

// checkEntry decodes on to an entry behind the region, and compares.
func (d *Decoder) checkEntry(s *sequentialScan, e *indexEntry) error {
	if err := d.skip(s, e.mcu-s.mcu); err != nil {
		return err
	}
	if e.mcu < d.mcusWide*d.mcusHigh {
		if err := d.restart(s); err != nil {
			return err
		}
	}
	if s.reader.position(d.scan.bytes)+s.bit0 != e.bit || s.predictor != e.predictor {
		return d.indexError("decoding does not arrive at its entries")
	}
	return nil
}

// indexStep chooses the distance of a row's entries: about 64 pixels, which skipping then costs half of on average.
func (f *frame) indexStep() int { return 8 / f.hMax }

// appendSequentialIndex decodes the whole scan and appends its index to dst.
func (d *Decoder) appendSequentialIndex(dst []byte) ([]byte, error) {
	var s sequentialScan
	if err := d.planScan(&s); err != nil {
		return nil, err
	}
	header := crc32.Checksum(d.data[:d.pos], castagnoli)
	if _, err := d.openScan(&s); err != nil {
		return nil, err
	}
	step := d.indexStep()
	start := len(dst)
	dst = append(dst, indexVersion, byte(step))
	dst = binary.LittleEndian.AppendUint32(dst, header)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(d.data)))
	var previous indexEntry
	place := filePlace{pos: d.scan.begin}
	for range d.mcusHigh {
		for x := 0; x < d.mcusWide; x += step {
			if err := d.restart(&s); err != nil {
				return nil, err
			}
			dst = d.appendEntry(dst, &s, &previous, &place)
			if err := d.skip(&s, min(step, d.mcusWide-x)); err != nil {
				return nil, err
			}
		}
	}
	dst = d.appendEntry(dst, &s, &previous, &place)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli)), nil
}

// appendEntry appends the reader's place, as differences from previous, and stores it there. place is that of the last row's start.
func (d *Decoder) appendEntry(dst []byte, s *sequentialScan, previous *indexEntry, place *filePlace) []byte {
	e := indexEntry{mcu: s.mcu, bit: s.reader.position(d.scan.bytes), removed: previous.removed, predictor: s.predictor}
	dst = binary.AppendUvarint(dst, uint64(e.bit-previous.bit))
	if e.mcu%d.mcusWide == 0 {
		d.scan.advance(d.data, place, e.bit>>3)
		e.removed = place.pos - d.scan.begin - place.out
		dst = binary.AppendUvarint(dst, uint64(e.removed-previous.removed))
	}
	for c := range d.components {
		diff := e.predictor[c] - previous.predictor[c]
		dst = binary.AppendUvarint(dst, uint64(uint32(diff<<1^diff>>31)))
	}
	*previous = e
	return dst
}
