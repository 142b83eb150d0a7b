package jpeg

import "bytes"

// A scanBuffer holds a scan's entropy-coded data without restart markers and without the zero bytes stuffed after 0xff.
// Finding them once with a fast search is cheaper than a test at each refill of the bit buffer.
type scanBuffer struct {
	bytes    []byte // the data, then scanSlack bytes
	size     int    // bytes of data
	segments []int  // first byte of each restart segment
	filled   bool   // a byte 0xff follows a fill byte, which valid files never have
	begin    int    // position of the first byte in the file
	end      int    // position after the last byte read in the file
	bounded  bool   // unstuffing reached its limit before the end of the scan
}

// unstuff fills the buffer from data[begin:] until it has at least limit bytes, or up to the first marker outside the
// scan, which is left to the parser. Restart markers belong to the scan if restarts is set and if they are in order,
// beginning with ff d0 + next&7. It reports whether the scan ended, by limit or marker, within data.
func (s *scanBuffer) unstuff(data []byte, begin, limit int, restarts bool, next int) bool {
	s.begin, s.bounded = begin, false
	s.segments, s.filled = append(s.segments[:0], 0), false
	src := data[begin:]
	if need := min(len(src), limit+1<<12) + scanSlack; cap(s.bytes) < need {
		s.bytes = make([]byte, need+need/4)
	}
	s.bytes = s.bytes[:cap(s.bytes)]
	out, pos := 0, 0
	for {
		chunk := src[pos:]
		if excess := out + len(chunk) + scanSlack - len(s.bytes); excess > 0 {
			chunk = chunk[:len(chunk)-excess]
		}
		i := bytes.IndexByte(chunk, 0xff)
		if i < 0 {
			i = len(chunk)
		}
		copy(s.bytes[out:], chunk[:i])
		out += i
		pos += i
		if out >= limit || i == len(chunk) {
			s.bounded = out >= limit
			return s.finish(out, pos) && s.bounded
		}
		marker := pos
		for pos++; pos < len(src) && src[pos] == 0xff; pos++ {
		}
		switch {
		case pos == len(src):
			return s.finish(out, pos) && false
		case src[pos] == 0:
			s.filled = s.filled || pos-marker > 1
			s.bytes[out] = 0xff
			out++
			pos++
		case restarts && src[pos] == markerRST0+byte(next&7):
			pos++
			next++
			s.segments = append(s.segments, out)
		default:
			return s.finish(out, marker)
		}
	}
}

// finish closes the buffer after size bytes of data that ended pos bytes into the scan.
func (s *scanBuffer) finish(size, pos int) bool {
	s.size, s.end = size, s.begin+pos
	clear(s.bytes[size : size+64])
	s.bytes = s.bytes[:size+scanSlack]
	return true
}

// segmentEnd returns the bit where a segment ends.
func (s *scanBuffer) segmentEnd(segment int) int {
	if segment+1 < len(s.segments) {
		return s.segments[segment+1] * 8
	}
	return s.size * 8
}

// A fileCursor is a byte of the unstuffed scan, and its offset in the file.
type fileCursor struct{ out, pos int }

// advance moves a cursor forward to the byte number want, past any restart markers before it.
func (s *scanBuffer) advance(data []byte, p *fileCursor, want int) {
	for p.pos < s.end {
		n := bytes.IndexByte(data[p.pos:s.end], 0xff)
		if n < 0 {
			n = s.end - p.pos
		}
		if n > want-p.out || p.pos+n == s.end {
			p.pos += min(n, want-p.out)
			p.out = want
			return
		}
		p.out += n
		p.pos += n
		code := p.pos + 1
		for code < s.end && data[code] == 0xff {
			code++
		}
		if code < s.end && data[code] == 0 {
			if p.out == want {
				return
			}
			p.out++
		}
		p.pos = code + 1
	}
}

// fileOffset returns the approximate position of a bit of the scan in the file, for error messages.
func (s *scanBuffer) fileOffset(data []byte, bit int) int {
	p := fileCursor{pos: s.begin}
	s.advance(data, &p, max(0, min(bit>>3, s.size)))
	return p.pos
}
