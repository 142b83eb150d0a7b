package jpeg

// libjpeg-turbo decodes an MCU twice where its fast Huffman decoder comes upon a marker: the fast one gives up, and the slow one
// begins again, in blocks that hold what the fast one has left there. At a real marker both come to the same coefficients. They do
// not at ff ff 00, which damage may leave: to the fast one it is a marker, after which there are zero bits, and to the slow one it
// is the byte ff, after a fill byte. Where the slow one stores nothing, the garbage of the fast one stays.
//
// Which of the two is the first at such a place depends on how far each has read ahead, so that is followed here. In files with restart
// intervals there is the slow one only.

// fastBytes is how many bytes libjpeg-turbo wants at hand for each block of an MCU before it tries the fast way: BUFSIZE of jdhuff.c.
const fastBytes = 512

// An aheadWay is one of libjpeg-turbo's ways of reading ahead.
type aheadWay uint8

const (
	aheadUnknown aheadWay = iota // nobody asks
	aheadFast                    // decode_mcu_fast: six bytes when there are sixteen bits or fewer
	aheadSlow                    // decode_mcu_slow: to 57 bits or more, when there are fewer than it needs
)

// A lookahead is how far libjpeg-turbo has read.
type lookahead struct {
	way  aheadWay
	left int // bits that it has read and not yet decoded
}

// fill reads on unless there are count bits.
func (a *lookahead) fill(count int) {
	switch {
	case a.way == aheadFast && a.left <= 16:
		a.left += 48
	case a.way == aheadSlow && a.left < count:
		a.left += (64 - a.left) / 8 * 8
	}
}

// code follows the decoding of a code of some bits: the slow way looks at eight, then nine, then one at a time.
func (a *lookahead) code(length int) {
	a.fill(8)
	if a.way == aheadSlow && length > 8 {
		a.fill(9)
		for a.left -= 9; length > 9; length-- {
			a.fill(1)
			a.left--
		}
		return
	}
	a.left -= length
}

// value follows the decoding of a value of some bits, at least one.
func (a *lookahead) value(size int) {
	a.fill(size)
	a.left -= size
}

// seek puts the reader at a bit of data.
func (r *safeReader) seek(data []byte, bit int) {
	ahead := r.ahead
	r.reset(data[bit>>3:])
	r.need(8)
	r.drop(bit & 7)
	r.ahead = ahead
}

// nextFill returns the place of the first byte after a fill byte that libjpeg-turbo has not read yet, or -1.
func (s *scanBuffer) nextFill(read int) int {
	for len(s.fills) > 0 && s.fills[0] < read {
		s.fills = s.fills[1:]
	}
	if len(s.fills) == 0 {
		return -1
	}
	return s.fills[0]
}

// followed reports whether MCUs must be decoded by decodeTwice.
func (d *Decoder) followed(s *blockScan) bool {
	return len(d.scan.fills) > 0 && s.sequential && d.restartInterval == 0
}

// decodeTwice decodes an MCU of some blocks in a scan with fill bytes. decode decodes it where the reader stands, and stores what
// is not zero.
func (d *Decoder) decodeTwice(s *blockScan, blocks int, decode func()) {
	bits := d.scan.size * 8
	start, predictor, left := bits-len(s.bits.data)*8-s.bits.n, s.predictor, s.bits.ahead.left
	read := (start + left) / 8
	next := d.scan.nextFill(read)
	if next < 0 {
		s.bits.ahead.way = aheadUnknown
		decode()
		return
	}
	// decodeAs decodes the MCU in one of the ways, of the first size bytes, and returns the bit that it has come to.
	decodeAs := func(way aheadWay, size int) int {
		s.predictor, s.bits.ahead = predictor, lookahead{way, left}
		s.bits.seek(d.scan.bytes[:size], start)
		decode()
		return (size-len(s.bits.data))*8 - s.bits.n
	}
	d.scan.advance(d.data, &s.read, read)
	end := min((s.read.pos/readBytes+1)*readBytes, len(d.data)) // of what Pillow has given to libjpeg
	fast := end-s.read.pos >= fastBytes*blocks
	if !fast {
		at := decodeAs(aheadSlow, d.scan.size)
		after := s.read
		d.scan.advance(d.data, &after, (at+s.bits.ahead.left)/8)
		fast = after.pos > end && end < len(d.data) // Pillow gives more, and libjpeg begins the MCU again
	}
	if fast {
		if at := decodeAs(aheadFast, next); at+s.bits.ahead.left <= next*8 {
			s.bits.seek(d.scan.bytes[:d.scan.size], at)
			return
		}
		decodeAs(aheadSlow, d.scan.size)
	}
}
