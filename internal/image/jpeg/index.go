package jpeg

import (
	"encoding/binary"
	"errors"

	"github.com/imgfeed/imgfeed/internal/crc32c"
)

// The index of a sequential single-scan file:
//
//	version      1 byte, indexVersion.
//	column step  1 byte, MCUs between two entries of a row.
//	header       4 bytes, CRC-32C of the file up to the scan's entropy-coded data.
//	file size    4 bytes.
//	entries      for each MCU row: one at MCU 0, step, 2·step, …; then one after the last MCU.
//	checksum     4 bytes, CRC-32C of all the above.
//
// An entry holds differences from the previous one, as varints: first the bits of the unstuffed scan. In a row's first
// entry, the bytes follow that unstuffing removed since the last such entry. Then comes each component's DC predictor,
// zigzag-coded. Numbers of fixed size are little-endian. A wrong entry looks like a right one. So each row is decoded
// from one entry past another, and the decoder's state there must agree with that entry.
const (
	indexVersion    = 1
	indexHeaderSize = 10
)

// An indexEntry is where decoding can start.
type indexEntry struct {
	mcu       int // number of the MCU that starts here
	bit       int // position in the unstuffed scan
	rowBit    int // bit of the row's first entry
	removed   int // bytes that unstuffing removed before the row's first entry
	predictor [4]int32
}

var (
	errIndexShort  = errors.New("it ends too early")
	errIndexAnchor = errors.New("an entry at the scan's start or at a restart has a position or predictors of its own")
)

// A rowEntries has the entries of a row of the region: where decoding starts, and a later entry to compare with.
type rowEntries struct{ start, check indexEntry }

// An indexReader walks over the entries of an index.
type indexReader struct {
	data  []byte
	step  int
	entry indexEntry
}

// next reads the entry of an MCU into r.entry. first tells whether the MCU is the first of its row.
func (r *indexReader) next(f *frame, mcu int, first bool) error {
	e := &r.entry
	e.mcu = mcu
	bits, ok := r.uvarint()
	e.bit += bits
	if first {
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

// uvarint reads a number below 2^32, so that sums cannot overflow. Most have one or two bytes.
func (r *indexReader) uvarint() (int, bool) {
	if len(r.data) > 1 {
		low, high := r.data[0], r.data[1]
		if low < 0x80 {
			r.data = r.data[1:]
			return int(low), true
		}
		if high < 0x80 {
			r.data = r.data[2:]
			return int(low&0x7f) | int(high)<<7, true
		}
	}
	v, n := binary.Uvarint(r.data)
	if n <= 0 || v > 1<<32-1 {
		return 0, false
	}
	r.data = r.data[n:]
	return int(v), true
}

// indexError returns a FormatError at the scan's start for an error in the index.
func (d *Decoder) indexError(reason string) error {
	return formatError(d.pos, "the index does not belong to this file or is damaged: %s", reason)
}

// parseIndex checks the index as a whole and collects the entries of each row of the grid. It returns the number of the
// last bit of the scan that the grid needs, or a later one.
func (d *Decoder) parseIndex() (lastBit int, err error) {
	n := len(d.index) - 4
	switch {
	case n < indexHeaderSize || d.index[0] != indexVersion || d.index[1] == 0:
		return 0, d.indexError("unknown version")
	case binary.LittleEndian.Uint32(d.index[n:]) != crc32c.Checksum(d.index[:n]):
		return 0, d.indexError("wrong checksum")
	case binary.LittleEndian.Uint32(d.index[2:]) != crc32c.Checksum(d.data[:d.pos]),
		binary.LittleEndian.Uint32(d.index[6:]) != uint32(len(d.data)):
		return 0, d.indexError("it was made of other data")
	}
	r := indexReader{data: d.index[indexHeaderSize:n], step: int(d.index[1])}
	if err := d.collectEntries(&r); err != nil {
		return 0, d.indexError(err.Error())
	}
	return r.entry.bit, nil
}

// collectEntries walks over the entries to the end of the grid, and keeps those that its rows need. At the end r has
// the first entry at or after the grid's end: the scan is needed up to there.
//
// A row starts at its last entry at or before the grid, in column startX. It is checked by its last entry inside the
// grid, which decoding passes anyway, or by the first one after it, in column checkX. The next row's first entry counts
// as the end of this one. A restart hides the effects of a wrong start, so the check must come before it.
func (d *Decoder) collectEntries(r *indexReader) error {
	g, wide := &d.grid, d.mcusWide
	startX, checkX := g.mcuX0/r.step*r.step, g.mcuX1/r.step*r.step
	if checkX <= startX || g.mcuX1 == wide {
		checkX = min(checkX+r.step, wide)
	}
	restarts := d.restartInterval > 0
	d.entries = d.entries[:0]
	for y := range g.mcuY1 {
		for x := 0; x < wide; x += r.step {
			if err := r.next(&d.frame, y*wide+x, x == 0); err != nil {
				return err
			}
			if (restarts || r.entry.mcu == 0) && !d.anchored(&r.entry) {
				return errIndexAnchor
			}
			if y < g.mcuY0 {
				continue
			}
			if x == 0 && y > g.mcuY0 && checkX == wide {
				d.offerCheck(&r.entry) // it ends the row before
			}
			if x == startX {
				d.entries = append(d.entries, rowEntries{start: r.entry})
			} else if x == checkX || restarts && x > startX && x < checkX {
				d.offerCheck(&r.entry)
			}
			if y == g.mcuY1-1 && x >= g.mcuX1 {
				return nil
			}
		}
	}
	if err := r.next(&d.frame, g.mcuY1*wide, true); err != nil {
		return err
	}
	if checkX == wide {
		d.offerCheck(&r.entry)
	}
	return nil
}

// anchored reports whether an entry has the values required at the scan's start and at restarts.
func (d *Decoder) anchored(e *indexEntry) bool {
	return !d.restartsAt(e.mcu) || e.predictor == [4]int32{} && (e.mcu > 0 || e.bit == 0 && e.removed == 0)
}

// restartsAt reports whether an MCU is the first of a restart segment; the scan's first is.
func (d *Decoder) restartsAt(mcu int) bool {
	return mcu == 0 || d.restartInterval > 0 && mcu%d.restartInterval == 0 && mcu < d.mcusWide*d.mcusHigh
}

// offerCheck makes an entry the check of the last collected row, if there is no restart in between.
func (d *Decoder) offerCheck(e *indexEntry) {
	row := &d.entries[len(d.entries)-1]
	if d.restartInterval == 0 || (e.mcu-1)/d.restartInterval == row.start.mcu/d.restartInterval && !d.restartsAt(e.mcu) {
		row.check = *e
	}
}

// checked reports whether every row has a check. If restarts are so frequent that a row has no check, the index is useless.
func (d *Decoder) checked() bool {
	for i := range d.entries {
		if d.entries[i].check.mcu == 0 {
			return false
		}
	}
	return true
}

// openIndexed uses the index to unstuff the part of the scan that the grid needs. It reports false if the index is not
// suitable for this region.
func (d *Decoder) openIndexed(s *sequentialScan) (bool, error) {
	lastBit, err := d.parseIndex()
	if err != nil || d.restartInterval > 0 && !d.checked() {
		return false, err
	}
	first := &d.entries[0].start
	start := first.rowBit >> 3
	if d.pos+start+first.removed > len(d.data) {
		return false, d.indexError("an entry lies after the end of the file")
	}
	if d.restartInterval > 0 {
		s.segment0 = d.grid.mcuY0 * d.mcusWide / d.restartInterval
	}
	d.scan.unstuff(d.data, d.pos+start+first.removed, lastBit>>3+1-start, d.restartInterval > 0, s.segment0)
	s.bit0 = start * 8
	return true, nil
}

// seekRow moves the reader to a row's start entry, and sets its check.
func (d *Decoder) seekRow(s *sequentialScan, row *rowEntries) error {
	e := &row.start
	bit := e.bit - s.bit0
	if bit < 0 || bit > d.scan.size*8 {
		return d.indexError("an entry lies outside the scan")
	}
	if d.restartInterval > 0 {
		s.segment = e.mcu/d.restartInterval - s.segment0
		if s.segment >= len(d.scan.segments) {
			return d.indexError("an entry lies after the last restart segment")
		}
		if begin := d.scan.segments[s.segment] * 8; bit < begin || bit > begin && d.restartsAt(e.mcu) {
			return d.indexError("an entry lies outside its restart segment")
		}
	}
	s.limit = d.scan.segmentEnd(s.segment)
	s.reader.seek(d.scan.bytes, bit)
	s.predictor = e.predictor
	s.mcu = e.mcu
	s.check, s.checkMCU = &row.check, row.check.mcu
	return nil
}

// finishCheck decodes up to a check after the region, and compares.
func (d *Decoder) finishCheck(s *sequentialScan) error {
	if s.mcu >= s.checkMCU {
		return nil // already passed and compared
	}
	if err := d.skip(s, s.checkMCU-s.mcu); err != nil {
		return err
	}
	return d.compareEntry(s)
}

// compareEntry compares the decoder's state with the index's entry for its MCU.
func (d *Decoder) compareEntry(s *sequentialScan) error {
	if s.reader.position(d.scan.bytes)+s.bit0 != s.check.bit || s.predictor != s.check.predictor {
		return d.indexError("decoding does not arrive at its entries")
	}
	return nil
}

// appendSequentialIndex decodes the whole scan and appends its index to dst.
func (d *Decoder) appendSequentialIndex(dst []byte) ([]byte, error) {
	var s sequentialScan
	if err := d.planScan(&s); err != nil {
		return nil, err
	}
	header := crc32c.Checksum(d.data[:d.pos])
	if _, err := d.openScan(&s); err != nil {
		return nil, err
	}
	step := 8 / d.hMax // about 64 pixels from entry to entry: a region skips half of them on average
	start := len(dst)
	dst = append(dst, indexVersion, byte(step))
	dst = binary.LittleEndian.AppendUint32(dst, header)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(d.data)))
	var previous indexEntry
	cursor := fileCursor{pos: d.scan.begin}
	for range d.mcusHigh {
		for x := 0; x < d.mcusWide; x += step {
			if err := d.restart(&s); err != nil {
				return nil, err
			}
			dst = d.appendEntry(dst, &s, &previous, &cursor)
			if err := d.skip(&s, min(step, d.mcusWide-x)); err != nil {
				return nil, err
			}
		}
	}
	dst = d.appendEntry(dst, &s, &previous, &cursor)
	return binary.LittleEndian.AppendUint32(dst, crc32c.Checksum(dst[start:])), nil
}

// appendEntry appends the reader's state as differences from previous, and stores it there. cursor is at the start of the last row.
func (d *Decoder) appendEntry(dst []byte, s *sequentialScan, previous *indexEntry, cursor *fileCursor) []byte {
	e := indexEntry{mcu: s.mcu, bit: s.reader.position(d.scan.bytes), removed: previous.removed, predictor: s.predictor}
	dst = binary.AppendUvarint(dst, uint64(e.bit-previous.bit))
	if e.mcu%d.mcusWide == 0 {
		d.scan.advance(d.data, cursor, e.bit>>3)
		e.removed = cursor.pos - d.scan.begin - cursor.out
		dst = binary.AppendUvarint(dst, uint64(e.removed-previous.removed))
	}
	for c := range d.components {
		diff := e.predictor[c] - previous.predictor[c]
		dst = binary.AppendUvarint(dst, uint64(uint32(diff<<1^diff>>31)))
	}
	*previous = e
	return dst
}
