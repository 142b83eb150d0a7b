package jpeg

// libjpeg-turbo decodes an MCU twice if its fast Huffman decoder finds a marker: the fast decoder gives up, and the
// slow one begins again, in blocks with the fast one's coefficients. At a real marker both get the same coefficients.
// At ff ff 00, which damage may cause, they do not. For the fast decoder it is a marker, followed by zero bits; for the
// slow one it is the byte ff after a fill byte. Where the slow one stores nothing, the garbage of the fast one stays.
//
// Their read-ahead determines which of the two reaches such a place first, so it is simulated here. In files with
// restart intervals libjpeg-turbo only uses the slow decoder.

// fastBytes is the number of buffered bytes per block of an MCU that libjpeg-turbo requires for the fast decoder:
// BUFSIZE of jdhuff.c.
const fastBytes = 512

// An aheadWay is one of libjpeg-turbo's methods of reading ahead.
type aheadWay uint8

const (
	aheadUnknown aheadWay = iota // not simulated
	aheadFast                    // decode_mcu_fast: six bytes when there are sixteen bits or fewer
	aheadSlow                    // decode_mcu_slow: to 57 bits or more, when there are fewer than it needs
)

// A lookahead simulates libjpeg-turbo's reading ahead.
type lookahead struct {
	way    aheadWay
	unread int // bits read but not yet decoded
}

// fill reads more if there are fewer than count bits.
func (a *lookahead) fill(count int) {
	switch {
	case a.way == aheadFast && a.unread <= 16:
		a.unread += 48
	case a.way == aheadSlow && a.unread < count:
		a.unread += (64 - a.unread) / 8 * 8
	}
}

// code simulates the decoding of a code of length bits: the slow decoder peeks eight bits, then nine, then one at a
// time.
func (a *lookahead) code(length int) {
	a.fill(8)
	if a.way == aheadSlow && length > 8 {
		a.fill(9)
		for a.unread -= 9; length > 9; length-- {
			a.fill(1)
			a.unread--
		}
		return
	}
	a.unread -= length
}

// value simulates the decoding of a value of size bits, at least one.
func (a *lookahead) value(size int) {
	a.fill(size)
	a.unread -= size
}

// seek moves the reader to a bit of data.
func (r *safeReader) seek(data []byte, bit int) {
	ahead := r.ahead
	r.reset(data[bit>>3:])
	r.need(8)
	r.drop(bit & 7)
	r.ahead = ahead
}

// nextFill returns the first byte after a fill byte that libjpeg-turbo has not yet read, or -1.
func (s *scanBuffer) nextFill(read int) int {
	for len(s.fills) > 0 && s.fills[0] < read {
		s.fills = s.fills[1:]
	}
	if len(s.fills) == 0 {
		return -1
	}
	return s.fills[0]
}

// followed reports whether decodeTwice must decode the MCUs.
func (d *Decoder) followed(s *blockScan) bool {
	return len(d.scan.fills) > 0 && s.sequential && d.restartInterval == 0
}

// decodeTwice decodes an MCU in a scan with fill bytes. decode decodes it at the reader's position, and stores the
// nonzero coefficients.
func (d *Decoder) decodeTwice(s *blockScan, blocks int, decode func()) {
	bits := d.scan.size * 8
	start, predictor, unread := bits-len(s.bits.data)*8-s.bits.n, s.predictor, s.bits.ahead.unread
	read := (start + unread) / 8
	next := d.scan.nextFill(read)
	if next < 0 {
		s.bits.ahead.way = aheadUnknown
		decode()
		return
	}
	// decodeAs decodes the MCU like one of the decoders, from the first size bytes, and returns the bit after it.
	decodeAs := func(way aheadWay, size int) int {
		s.predictor, s.bits.ahead = predictor, lookahead{way, unread}
		s.bits.seek(d.scan.bytes[:size], start)
		decode()
		return (size-len(s.bits.data))*8 - s.bits.n
	}
	d.scan.advance(d.data, &s.read, read)
	end := min((s.read.pos/readBytes+1)*readBytes, len(d.data)) // end of the data that Pillow has passed to libjpeg
	fast := end-s.read.pos >= fastBytes*blocks
	if !fast {
		at := decodeAs(aheadSlow, d.scan.size)
		after := s.read
		d.scan.advance(d.data, &after, (at+s.bits.ahead.unread)/8)
		fast = after.pos > end && end < len(d.data) // Pillow passes more data, and libjpeg begins the MCU again
	}
	if fast {
		if at := decodeAs(aheadFast, next); at+s.bits.ahead.unread <= next*8 {
			s.bits.seek(d.scan.bytes[:d.scan.size], at)
			return
		}
		decodeAs(aheadSlow, d.scan.size)
	}
}
