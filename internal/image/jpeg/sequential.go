package jpeg

import "unsafe"

// A QuadPosition is the position of a quad's samples in its component: four adjacent blocks of one block row.
type QuadPosition struct {
	Component int
	Row       int // sample row within the MCU row: a multiple of 8
	Column    int // sample column within the batch: a multiple of 32
}

// alignedQuads returns n zero quads on 64-byte boundaries, so that no vector crosses a cache line.
func alignedQuads(n int) []batchQuad {
	const size = int(unsafe.Sizeof(batchQuad{}))
	b := make([]byte, n*size+63)
	p := unsafe.Pointer(unsafe.SliceData(b))
	p = unsafe.Add(p, -int(uintptr(p))&63)
	return unsafe.Slice((*batchQuad)(p), n)
}

// A sequentialScan is the state of decoding the single scan of a sequential file.
type sequentialScan struct {
	reader    bitReader
	predictor [4]int32
	mcu       int // number of the reader's MCU
	segment   int // its restart segment, counted from the buffer's first
	segment0  int // the buffer's first segment, counted from the scan's
	limit     int // end of the segment, in bits
	perMCU    int // blocks in an MCU
	quads     int // quads in a batch
	bit0      int // start of the buffer, in bits from the start of the scan
	check     *indexEntry
	checkMCU  int // MCU of check; 0 without a check
}

// planScan builds the tables of the scan, and lays out its batches.
func (d *Decoder) planScan(s *sequentialScan) error {
	h := &d.scanHeader
	for i := range h.components {
		for class := range 2 {
			if err := d.buildTable(class, int(h.tables[i][class])); err != nil {
				return err
			}
		}
	}
	d.planBatch(s)
	return nil
}

// planBatch lays out the blocks of a batch of four MCUs. A component of h×v blocks in an MCU has 4h blocks in each of v
// rows, or h quads per row. With h = 2 the blocks of MCU 1 are lanes 2 and 3 of quad 0.
func (d *Decoder) planBatch(s *sequentialScan) {
	h := &d.scanHeader
	*s = sequentialScan{}
	for _, c := range h.components {
		d.setQuant(c)
		s.perMCU += d.components[c].h * d.components[c].v
	}
	n := 0
	for m := range batchMCUs {
		quad := 0
		for i, c := range h.components {
			comp := &d.components[c]
			for row := range comp.v {
				for x := range comp.h {
					column := m*comp.h + x
					q := quad + column/4
					d.blocks[n] = plannedBlock{
						dc: &d.tables[0][h.tables[i][0]&3], ac: &d.tables[1][h.tables[i][1]&3],
						out:       unsafe.Pointer(&d.batch[q].quad[column%4*8]),
						component: uint32(c), quad: uint32(q),
					}
					d.quads[q] = QuadPosition{Component: c, Row: row * 8, Column: column / 4 * 32}
					n++
				}
				quad += comp.h
			}
		}
		s.quads = quad
	}
}

// buildTable prepares the table in a slot for a scan.
func (d *Decoder) buildTable(class, slot int) error {
	name := [2]string{"DC", "AC"}[class]
	if slot > 3 || !d.specs[class][slot].present {
		return formatError(d.pos, "scan uses the %s Huffman table %d, which is missing", name, slot)
	}
	spec := &d.specs[class][slot]
	if spec.built {
		return nil
	}
	t := &d.tables[class][slot]
	if err := t.build(spec, class == 0); err != nil {
		return formatError(d.pos, "%s", err)
	}
	if class == 1 && d.streams {
		t.buildPairs(spec, &d.singles)
	} else {
		t.buildCodes(spec)
	}
	spec.built = true
	return nil
}

// setQuant spreads a component's table over the lanes of its quad.
func (d *Decoder) setQuant(c int) {
	q := &d.quants[c].quad
	for i, step := range &d.components[c].steps {
		at := i>>3*32 + i&7
		q[at], q[at+8], q[at+16], q[at+24] = step, step, step, step
	}
}

// restart moves to the next segment if the current MCU is its first.
func (d *Decoder) restart(s *sequentialScan) error {
	if d.restartInterval == 0 || s.mcu == 0 || s.mcu%d.restartInterval != 0 {
		return nil
	}
	s.segment = s.mcu/d.restartInterval - s.segment0
	if s.segment >= len(d.scan.segments) {
		return formatError(d.scan.end, "no restart marker ff%02x before MCU %d", markerRST0+(s.mcu/d.restartInterval-1)&7, s.mcu)
	}
	s.reader.seek(d.scan.bytes, d.scan.segments[s.segment]*8)
	s.limit = d.scan.segmentEnd(s.segment)
	s.predictor = [4]int32{}
	return nil
}

// untilRestart returns how many of the next n MCUs come before a restart.
func (d *Decoder) untilRestart(s *sequentialScan, n int) int {
	if d.restartInterval == 0 {
		return n
	}
	return min(n, d.restartInterval-s.mcu%d.restartInterval)
}

// scanError describes the error that stopped the reader: an invalid code, or the end of the data.
func (d *Decoder) scanError(s *sequentialScan, valid bool) error {
	bit := s.reader.position(d.scan.bytes)
	offset := d.scan.fileOffset(d.data, bit)
	if !valid && bit <= s.limit {
		return formatError(offset, "invalid Huffman code or coefficient run near MCU %d of %d", s.mcu, d.mcusWide*d.mcusHigh)
	}
	return formatError(offset, "entropy-coded data end in MCU %d of %d", s.mcu, d.mcusWide*d.mcusHigh)
}

func (d *Decoder) skip(s *sequentialScan, n int) error {
	for n > 0 {
		if err := d.restart(s); err != nil {
			return err
		}
		count := d.untilRestart(s, min(n, batchMCUs))
		if err := d.decodeMCUs(s, d.blocks[:count*s.perMCU], new([mcuBlocksMax]uint8), true); err != nil {
			return err
		}
		s.mcu += count
		n -= count
	}
	return nil
}

// decodeMCUs decodes the blocks of some MCUs, and checks the result.
func (d *Decoder) decodeMCUs(s *sequentialScan, blocks []plannedBlock, extent *[mcuBlocksMax]uint8, skip bool) error {
	valid := s.reader.decodeBlocks(blocks, &s.predictor, extent, skip)
	for _, e := range extent {
		valid = valid && e < extentInvalid
	}
	if !valid || s.reader.position(d.scan.bytes) > s.limit {
		return d.scanError(s, valid)
	}
	return nil
}

// decodeBatch decodes up to four MCUs to the batch's quads. extent gets the extent of each.
func (d *Decoder) decodeBatch(s *sequentialScan, n int, extent *[mcuBlocksMax]uint8) error {
	clear(extent[:])
	for i := 0; i < n; {
		if err := d.restart(s); err != nil {
			return err
		}
		count := d.untilRestart(s, n-i)
		if s.mcu < s.checkMCU {
			count = min(count, s.checkMCU-s.mcu)
		}
		if err := d.decodeMCUs(s, d.blocks[i*s.perMCU:(i+count)*s.perMCU], extent, false); err != nil {
			return err
		}
		s.mcu += count
		i += count
		if s.mcu == s.checkMCU {
			if err := d.compareEntry(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// decodeSequential decodes the region from a single scan. A file with an index was complete when the index was made.
func (d *Decoder) decodeSequential(out *output) error {
	err := d.decodeRows(out)
	if err == nil || len(d.index) > 0 {
		return err
	}
	out.y = out.region.Min.Y
	return d.decodeRepairing(out)
}

// decodeRows decodes the region with the fast decoder, which refuses damaged data.
func (d *Decoder) decodeRows(out *output) error {
	var s sequentialScan
	if err := d.planScan(&s); err != nil {
		return err
	}
	indexed, err := d.openScan(&s)
	if err != nil {
		return err
	}
	g := &d.grid
	for y := g.mcuY0; y < g.mcuY1; y++ {
		if indexed {
			err = d.seekRow(&s, &d.entries[y-g.mcuY0])
		}
		if err == nil {
			err = d.skip(&s, y*d.mcusWide+g.mcuX0-s.mcu)
		}
		if err == nil {
			err = d.decodeRow(&s, y)
		}
		if err == nil && indexed {
			err = d.finishCheck(&s)
		}
		if err != nil {
			clear(d.batch)
			return err
		}
		d.emit(out, y)
	}
	return nil
}

// openScan unstuffs the needed part of the scan, moves the reader to its start, and reports whether an index can be used.
func (d *Decoder) openScan(s *sequentialScan) (indexed bool, err error) {
	if len(d.index) > 0 {
		if indexed, err = d.openIndexed(s); indexed || err != nil {
			return indexed, err
		}
	}
	if !d.scan.unstuff(d.data, d.pos, len(d.data), d.restartInterval > 0, 0) {
		return false, formatError(len(d.data), "file ends within a scan: it is truncated")
	}
	if d.scan.filled {
		return false, errFilled
	}
	s.reader.seek(d.scan.bytes, 0)
	s.limit = d.scan.segmentEnd(0)
	return false, d.checkTrailer()
}

// checkTrailer reads the data after the single scan: EOI must follow, and no further scan. A file that ends before EOI
// has the complete image. Pillow accepts it, unless libjpeg has read enough of a segment to refuse that.
func (d *Decoder) checkTrailer() error {
	d.pos = d.scan.end
	interval := d.restartInterval
	err := d.advance(false)
	d.restartInterval = interval
	if d.cut {
		d.noteNoEOI()
		return nil
	}
	if err != nil {
		return err
	}
	if !d.eoi {
		return formatError(d.pos, "a further scan after one with all components")
	}
	return nil
}

// decodeRow decodes the region's part of an MCU row to the planes.
func (d *Decoder) decodeRow(s *sequentialScan, y int) error {
	var extent [mcuBlocksMax]uint8
	g := &d.grid
	for x := g.mcuX0; x < g.mcuX1; x += batchMCUs {
		if err := d.decodeBatch(s, min(batchMCUs, g.mcuX1-x), &extent); err != nil {
			return err
		}
		d.transformBatch(extent[:s.quads], x-g.mcuX0, y)
	}
	return nil
}

// transformBatch computes the samples of a batch in MCU row y that begins at MCU column x of the grid. extent has the extents of its quads.
func (d *Decoder) transformBatch(extent []uint8, x, y int) {
	for q, e := range extent {
		position := &d.quads[q]
		c, p := &d.components[position.Component], &d.planes.component[position.Component]
		d.transform(&d.batch[q].quad, position.Component, e, p.at(x*c.h*8+position.Column, y*c.v*8+position.Row), p.stride)
	}
}

// transform runs the IDCT that fits a quad's extent.
func (d *Decoder) transform(q *quad, c int, extent uint8, dst []byte, stride int) {
	switch quant := &d.quants[c].quad; {
	case extent == 0:
		d.kernels.idctDC(q, quant, dst, stride)
	case extent == ExtentLow:
		d.kernels.idctLow(q, quant, dst, stride)
	default:
		d.kernels.idct(q, quant, dst, stride)
	}
}
