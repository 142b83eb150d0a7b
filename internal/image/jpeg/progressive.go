package jpeg

// dcFirst decodes a DC coefficient's difference. Like the other functions here it terminates for any data. The caller
// checks whether they were invalid ([Decoder.endMCU]).
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
			s.bits.invalid = s.bits.invalid || k > 63
			block[quadIndex[min(k, 63)]] = int16(s.bits.extend(size) << al)
		case run == 15:
			k += 15
		case s.sequential:
			return
		default:
			s.endRun = 1<<run - 1 + int(s.bits.take(run))
			return
		}
	}
}

// acRefine decodes one more bit of each nonzero AC coefficient, and the newly nonzero ones.
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
			case size > 0: // should be 1
				s.bits.invalid = s.bits.invalid || size > 1
				value = -bit
				if s.bits.take(1) == 1 {
					value = bit
				}
			case run < 15:
				s.endRun = 1<<run + int(s.bits.take(run))
				break band
			}
			k = s.refineRun(block, k, se, run, bit)
			if value != 0 {
				s.bits.invalid = s.bits.invalid || k > se
				block[quadIndex[min(k, 63)]] = value
			}
		}
	}
	if s.endRun > 0 {
		s.endRun--
		s.refineRun(block, k, se, 64, bit)
	}
}

// refineRun refines the nonzero coefficients from k on, and skips run zeros. It returns its end: the zero after the run, or se+1.
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
