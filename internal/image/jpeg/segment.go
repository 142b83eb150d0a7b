package jpeg

// Reading a scan block by block, with every access checked: for files of several scans, where speed matters less, and
// for damaged ones. Damage that libjpeg repairs with a warning is repaired here with the same result, since Pillow, and
// so torchvision, accepts such images silently:
//
//   - After the end of a restart segment's data (or of the scan's, if there are no restarts) zero bits follow until the current
//     MCU is complete. The segment's other MCUs stay unchanged: zero, which is grey, or as earlier scans left them.
//   - Bits without a valid Huffman code count as the symbol 0, and seventeen of them are consumed.
//   - A coefficient after the last one is stored as the last.
//   - An unexpected restart marker is skipped or kept for later; see [Decoder.nextSegment].

// A blockScan is the state of decoding one scan block by block.
type blockScan struct {
	sequential bool
	bits       safeReader
	predictor  [4]int32
	endRun     int  // remaining blocks of an end-of-band run
	exhausted  bool // the segment has run out of data
	marker     byte // marker after the segment's data; 0 at the end of the file
	resume     int  // position in the file after that marker
	due        byte // number of the next expected restart marker, 0 to 7
}

// openSegment begins the restart segment with its data at pos.
func (d *Decoder) openSegment(s *blockScan, pos int) error {
	s.marker, s.exhausted = 0, false
	if d.scan.unstuff(d.data, pos, len(d.data), false, 0) {
		d.pos = d.scan.end
		s.marker, _ = d.nextMarker() // unstuff has found it
		s.resume = d.pos
	}
	s.bits.reset(d.scan.bytes[:d.scan.size])
	if s.sequential && d.scan.filled {
		return errFilled
	}
	return nil
}

// errFilled is the error for ff ff 00 in a sequential scan. libjpeg-turbo decodes an MCU with it by two decoders, one
// after the other, that read it differently, and leaves garbage of the first one.
var errFilled = &UnsupportedError{Msg: "the bytes ff ff 00 in entropy-coded data, which is damage"}

// nextSegment begins the next restart segment, by the rules of jpeg_resync_to_restart:
//
//	marker                         action
//	the expected one, or +3 to +5  the segment begins here
//	+1 or +2, or another marker    the segment is empty; the marker stays for later
//	-1 or -2, or below SOF0        skipped with the data after it
func (d *Decoder) nextSegment(s *blockScan) error {
	due := s.due
	s.due = (due + 1) & 7
	s.predictor, s.endRun = [4]int32{}, 0
	if s.marker != markerRST0+due {
		d.noteDamage(s, "restart marker missing or out of turn")
	}
	for s.marker != 0 {
		restarts := s.marker >= markerRST0 && s.marker <= markerRST7
		switch ahead := (s.marker - markerRST0 - due) & 7; {
		case s.marker < markerSOF0 || restarts && ahead >= 6:
			d.pos = s.resume
			if s.marker, _ = d.nextMarker(); s.marker != 0 {
				s.resume = d.pos
			}
		case !restarts || ahead == 1 || ahead == 2:
			s.bits.reset(nil)
			return nil
		default:
			return d.openSegment(s, s.resume)
		}
	}
	return d.truncated()
}

// endMCU notes the damage in an MCU.
func (d *Decoder) endMCU(s *blockScan) {
	if s.bits.overrun {
		d.noteDamage(s, "entropy-coded data end too early")
		s.exhausted, s.bits.overrun = true, false
	}
	if s.bits.invalid {
		d.noteDamage(s, "invalid Huffman code or coefficient run")
		s.bits.invalid = false
	}
}

// noteDamage records the first repaired damage of an image.
func (d *Decoder) noteDamage(s *blockScan, reason string) {
	if d.damage == nil {
		bit := (d.scan.size-len(s.bits.data))*8 - s.bits.n
		d.damage = formatError(d.scan.fileOffset(d.data, bit), "%s", reason)
	}
}

// noteNoEOI is noteDamage for a file that ends after the scan.
func (d *Decoder) noteNoEOI() {
	if d.damage == nil {
		d.damage = formatError(len(d.data), "no EOI marker after the scan")
	}
}

// truncated is the error for a file that ends within a scan.
func (d *Decoder) truncated() error {
	return formatError(len(d.data), "file ends within a scan: it is truncated")
}

// A safeReader reads bits of one restart segment, and zeros after its end.
type safeReader struct {
	data    []byte
	buf     uint64 // the next n bits, at the top, then zeros
	n       int
	overrun bool // more bits were consumed than the segment has
	invalid bool // an invalid code, or a coefficient beyond the last
}

func (r *safeReader) reset(data []byte) { *r = safeReader{data: data} }

// need refills buf to at least count bits, up to 32, if the segment has them.
func (r *safeReader) need(count int) {
	for r.n < count {
		if len(r.data) == 0 {
			return
		}
		r.buf |= uint64(r.data[0]) << (56 - r.n)
		r.data = r.data[1:]
		r.n += 8
	}
}

func (r *safeReader) drop(count int) {
	r.buf <<= count
	if r.n -= count; r.n < 0 {
		r.n, r.overrun = 0, true
	}
}

// take consumes count bits, up to 16, and returns them.
func (r *safeReader) take(count int) int32 {
	if count == 0 {
		return 0
	}
	r.need(count)
	v := int32(r.buf >> (64 - count))
	r.drop(count)
	return v
}

// extend consumes a value of size bits in the standard's signed form (figure F.12).
func (r *safeReader) extend(size int) int32 {
	if size == 0 {
		return 0
	}
	v := r.take(size)
	if v < 1<<(size-1) {
		v += 1 - 1<<size
	}
	return v
}

// symbol consumes one Huffman code. Of an invalid one it consumes as many bits as libjpeg.
func (r *safeReader) symbol(t *huffmanTable) uint8 {
	r.need(17)
	if code := t.codes[r.buf>>(64-lookupBits)]; code != 0 {
		r.drop(int(code >> 8))
		return uint8(code)
	}
	length, symbol := t.long(r.buf)
	if length == badCode {
		r.invalid = true
		length = 17
	}
	r.drop(int(length))
	return symbol
}
