package jpeg

// Files of several scans, progressive ones among them, are decoded to coefficients first.

// scansMax bounds the work that a small file can ask for: a scan of few bytes may pass over all blocks. It is the limit
// that libjpeg-turbo's own fuzzers set.
const scansMax = 500

// coefficients holds all blocks of an image as quads: quads[base[c] + row*wide[c] + column/4], lane column mod 4.
type coefficients struct {
	quads  []batchQuad
	extent []uint8 // of each quad
	base   [4]int
	wide   [4]int // quads in a row of blocks
	seen   [4]uint64
}

// quadsKept is how many quads a Decoder keeps from one image to the next: 64 MB, those of some 17 million pixels at 4:2:0. More
// are given back, so that one huge image does not cost memory for ever.
const quadsKept = 100_000

// release gives unusually large buffers back.
func (k *coefficients) release() {
	if cap(k.quads) > quadsKept {
		k.quads, k.extent = nil, nil
	}
}

// prepareCoefficients makes room for the blocks of all components, zeroed. A file that is too short to have a bit for each block is
// refused first, so that a few bytes cannot ask for much memory.
func (d *Decoder) prepareCoefficients() error {
	k, quads, blocks := &d.coefs, 0, 0
	for i := range d.components {
		c := &d.components[i]
		k.base[i], k.wide[i] = quads, (d.mcusWide*c.h+3)/4
		quads += k.wide[i] * d.mcusHigh * c.v
		blocks += c.blocksWide * c.blocksHigh
	}
	if blocks/8 > len(d.data) {
		return formatError(len(d.data), "file of %d bytes cannot hold %d blocks: it is truncated", len(d.data), blocks)
	}
	if cap(k.quads) < quads {
		k.quads = alignedQuads(quads)
		k.extent = make([]uint8, quads)
	}
	k.quads, k.extent = k.quads[:quads], k.extent[:quads]
	clear(k.quads)
	clear(k.extent)
	k.seen = [4]uint64{}
	return nil
}

// decodeMultiScan decodes all scans, then transforms the region.
func (d *Decoder) decodeMultiScan(out *output) error {
	if err := d.decodeScans(); err != nil {
		return err
	}
	for i := range d.components {
		d.setQuant(i)
	}
	if err := d.checkComplete(); err != nil {
		return err
	}
	g, k := &d.grid, &d.coefs
	for y := g.mcuY0; y < g.mcuY1; y++ {
		for i := range d.components {
			c, p := &d.components[i], &d.planes.component[i]
			x0 := g.mcuX0 * c.h / 4
			x1 := min(x0+p.width/32, k.wide[i])
			for row := y * c.v; row < (y+1)*c.v; row++ {
				for x := x0; x < x1; x++ {
					q := k.base[i] + row*k.wide[i] + x
					d.transform(&k.quads[q].quad, i, k.extent[q], p.at((x-x0)*32, row*8), p.stride)
				}
			}
		}
		d.emit(out, y)
	}
	return nil
}

// checkComplete refuses progressive files that end before their low coefficients are exact: libjpeg smooths those over
// block borders, which this package does not.
func (d *Decoder) checkComplete() error {
	if !d.progressive {
		return nil
	}
	const low = 1<<10 - 1
	for i := range d.components {
		if d.coefs.seen[i]&low != low {
			return &UnsupportedError{Msg: "progressive file that lacks the last bits of its low coefficients"}
		}
	}
	return nil
}

// decodeScans decodes every scan of the file to coefficients.
func (d *Decoder) decodeScans() error {
	if err := d.prepareCoefficients(); err != nil {
		return err
	}
	for count := 1; !d.eoi; count++ {
		if count > scansMax {
			return formatError(d.pos, "more than %d scans", scansMax)
		}
		if err := d.decodeScan(); err != nil {
			return err
		}
		d.pos = d.scan.end
		if err := d.advance(false); err != nil {
			return err
		}
	}
	return nil
}

// A blockScan is the state of decoding one scan to coefficients.
type blockScan struct {
	sequential bool
	bits       safeReader
	predictor  [4]int32
	endRun     int // blocks left of a run of ends of band
	segment    int // byte of the unstuffed scan where the restart segment starts
}

// decodeScan decodes the scan that pos is at.
func (d *Decoder) decodeScan() error {
	h := &d.scanHeader
	for i := range h.components {
		if !d.progressive || h.ss == 0 && h.ah == 0 {
			if err := d.buildTable(0, int(h.tables[i][0])); err != nil {
				return err
			}
		}
		if !d.progressive || h.ss > 0 {
			if err := d.buildTable(1, int(h.tables[i][1])); err != nil {
				return err
			}
		}
	}
	if !d.scan.unstuff(d.data, d.pos, len(d.data), d.restartInterval > 0, 0) {
		return formatError(len(d.data), "file ends within a scan: it is truncated")
	}
	s := blockScan{sequential: !d.progressive}
	s.bits.reset(d.scan.bytes[:d.scan.segmentEnd(0)/8])
	wide, high := d.mcusWide, d.mcusHigh
	if len(h.components) == 1 {
		c := &d.components[h.components[0]]
		wide, high = c.blocksWide, c.blocksHigh
	}
	for mcu := range wide * high {
		if d.restartInterval > 0 && mcu > 0 && mcu%d.restartInterval == 0 {
			segment := mcu / d.restartInterval
			if segment >= len(d.scan.segments) {
				return formatError(d.scan.end, "no restart marker ff%02x before MCU %d", markerRST0+(segment-1)&7, mcu)
			}
			s = blockScan{sequential: s.sequential, segment: d.scan.segments[segment]}
			s.bits.reset(d.scan.bytes[d.scan.segments[segment] : d.scan.segmentEnd(segment)/8])
		}
		if !d.decodeMCU(&s, mcu, wide) {
			return formatError(d.scan.fileOffset(d.data, s.segment*8), "invalid or missing entropy-coded data in MCU %d of %d", mcu, wide*high)
		}
	}
	d.noteScan()
	return nil
}

// noteScan keeps which coefficients are exact.
func (d *Decoder) noteScan() {
	h := &d.scanHeader
	if d.progressive && h.al == 0 {
		for _, c := range h.components {
			d.coefs.seen[c] |= (1<<(h.se-h.ss+1) - 1) << h.ss
		}
	}
}

// decodeMCU decodes one MCU of an interleaved scan, or one block of another.
func (d *Decoder) decodeMCU(s *blockScan, mcu, wide int) bool {
	h, k := &d.scanHeader, &d.coefs
	x, y := mcu%wide, mcu/wide
	if len(h.components) == 1 {
		c := h.components[0]
		return d.decodeBlock(s, 0, k.base[c]+y*k.wide[c]+x/4, x%4)
	}
	for i, c := range h.components {
		comp := &d.components[c]
		for row := y * comp.v; row < (y+1)*comp.v; row++ {
			for column := x * comp.h; column < (x+1)*comp.h; column++ {
				if !d.decodeBlock(s, i, k.base[c]+row*k.wide[c]+column/4, column%4) {
					return false
				}
			}
		}
	}
	return true
}

// decodeBlock decodes the scan's part of one block.
func (d *Decoder) decodeBlock(s *blockScan, i, q, lane int) bool {
	h, k := &d.scanHeader, &d.coefs
	block := k.quads[q].quad[lane*8:]
	dc, ac := &d.tables[0][h.tables[i][0]&3], &d.tables[1][h.tables[i][1]&3]
	switch {
	case !d.progressive:
		k.extent[q] = extentFull
		s.dcFirst(block, dc, h.components[i], 0)
		s.acFirst(block, ac, 1, 63, 0)
	case h.ss == 0 && h.ah == 0:
		s.dcFirst(block, dc, h.components[i], h.al)
	case h.ss == 0:
		block[0] |= int16(s.bits.take(1) << h.al)
	case h.ah == 0:
		k.extent[q] = extentFull
		s.acFirst(block, ac, h.ss, h.se, h.al)
	default:
		k.extent[q] = extentFull
		s.acRefine(block, ac, h.ss, h.se, h.al)
	}
	return !s.bits.failed
}
