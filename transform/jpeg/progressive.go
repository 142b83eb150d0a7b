package jpeg

// A safeReader reads bits of one restart segment with every access checked: for files of several scans, where speed
// matters less. Past the end it delivers zeros and notes the failure.
type safeReader struct {
	data   []byte
	buf    uint64 // the next n bits, at the top
	n      int
	failed bool // more bits were asked for than there are, or a code was invalid
}

func (r *safeReader) reset(data []byte) { *r = safeReader{data: data} }

// need makes sure of count bits, up to 32.
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

// drop consumes count bits.
func (r *safeReader) drop(count int) {
	r.buf <<= count
	if r.n -= count; r.n < 0 {
		r.n, r.failed = 0, true
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

// symbol consumes one Huffman code.
func (r *safeReader) symbol(t *huffmanTable) uint8 {
	r.need(16)
	if code := t.codes[r.buf>>(64-lookupBits)]; code != 0 {
		r.drop(int(code >> 8))
		return uint8(code)
	}
	length, symbol := t.long(r.buf)
	if length == badCode {
		r.failed = true
		length = 16
	}
	r.drop(int(length))
	return symbol
}

// dcFirst decodes a DC coefficient's difference. Like the other functions here it leaves the checking of bits.failed to
// the caller, and terminates whatever the data are.
func (s *blockScan) dcFirst(block []int16, t *huffmanTable, c int, al uint) {
	s.predictor[c] += s.bits.extend(int(s.bits.symbol(t)))
	block[0] = int16(s.predictor[c] << al)
}

// acFirst decodes the AC coefficients of a sequential block, or the first bits of those of a progressive one.
func (s *blockScan) acFirst(block []int16, t *huffmanTable, ss, se int, al uint) {
	if s.endRun > 0 {
		s.endRun--
		return
	}
	for k := ss; k <= se; k++ {
		symbol := s.bits.symbol(t)
		run, size := int(symbol>>4), int(symbol&15)
		switch {
		case size > 0:
			k += run
			value := s.bits.extend(size)
			if k > 63 {
				s.bits.failed = true
				return
			}
			block[quadIndex[k]] = int16(value << al)
		case run == 15:
			k += 15
		case s.sequential:
			return
		default:
			s.endRun = 1<<run - 1 + int(s.bits.take(run))
			return
		}
		if s.bits.failed {
			return
		}
	}
}

// acRefine decodes one more bit of each AC coefficient that has been non-zero, and those that become so.
func (s *blockScan) acRefine(block []int16, t *huffmanTable, ss, se int, al uint) {
	bit := int16(1) << al
	k := ss
	if s.endRun == 0 {
	band:
		for ; k <= se; k++ {
			symbol := s.bits.symbol(t)
			run, size := int(symbol>>4), symbol&15
			value := int16(0)
			switch {
			case s.bits.failed:
				return
			case size == 1:
				value = -bit
				if s.bits.take(1) == 1 {
					value = bit
				}
			case size > 1:
				s.bits.failed = true
				return
			case run < 15:
				s.endRun = 1<<run + int(s.bits.take(run))
				break band
			}
			k = s.refineRun(block, k, se, run, bit)
			if value != 0 {
				if k > se {
					s.bits.failed = true
					return
				}
				block[quadIndex[k]] = value
			}
		}
	}
	if s.endRun > 0 {
		s.endRun--
		s.refineRun(block, k, se, 64, bit)
	}
}

// refineRun refines the coefficients from k on that are not zero, and steps over run zeros. It returns where it stopped:
// at the zero behind the run, or behind se.
func (s *blockScan) refineRun(block []int16, k, se, run int, bit int16) int {
	for ; k <= se; k++ {
		c := &block[quadIndex[k]]
		if *c == 0 {
			if run == 0 {
				break
			}
			run--
			continue
		}
		if s.bits.take(1) == 1 && *c&bit == 0 {
			if *c >= 0 {
				*c += bit
			} else {
				*c -= bit
			}
		}
	}
	return k
}
