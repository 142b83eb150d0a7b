package jpeg

// Files of several scans, such as progressive ones, are decoded to coefficients first.

// scansMax bounds the work for a small file, where a scan of few bytes may cover all blocks. libjpeg-turbo's own
// fuzzers have the same limit.
const scansMax = 500

// coefficients holds all blocks of an image as quads: quads[base[c] + row*wide[c] + column/4], lane column mod 4.
type coefficients struct {
	quads  []batchQuad
	extent []uint8 // extents of the quads
	base   [4]int
	wide   [4]int // quads in a row of blocks
	bits   [4][lowCount]int8
}

// lowCount is the number of coefficients in libjpeg's smoothing: the DC and the first nine AC coefficients. A
// component's bits are the numbers of their low bits still missing, -1 for all.
const lowCount = 10

// quadsKept is the number of quads that a Decoder keeps from one image to the next: 64 MB, enough for about 17 million
// pixels at 4:2:0. It releases larger buffers, so that one huge image does not permanently occupy memory.
const quadsKept = 100_000

func (k *coefficients) release() {
	if cap(k.quads) > quadsKept {
		k.quads, k.extent = nil, nil
	}
}

// prepareCoefficients allocates zeroed blocks for all components. It first refuses a file with less than one bit per
// block, so that a few bytes cannot claim much memory.
func (d *Decoder) prepareCoefficients() error {
	k, quads, blocks := &d.coefs, 0, d.blockCount()
	for i := range d.components {
		c := &d.components[i]
		k.base[i], k.wide[i] = quads, (d.mcusWide*c.h+3)/4
		quads += k.wide[i] * d.mcusHigh * c.v
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
	for c := range k.bits {
		for i := range k.bits[c] {
			k.bits[c][i] = -1
		}
	}
	return nil
}

func (f *frame) blockCount() (blocks int) {
	for i := range f.components {
		blocks += f.components[i].blocksWide * f.components[i].blocksHigh
	}
	return blocks
}

// decodeMultiScan decodes all scans, then transforms the region.
func (d *Decoder) decodeMultiScan(out *output) error {
	if err := d.decodeScans(); err != nil {
		return err
	}
	if err := d.checkComplete(); err != nil {
		return err
	}
	d.transformRegion(out)
	return nil
}

// transformRegion computes the pixels of the grid from the coefficients.
func (d *Decoder) transformRegion(out *output) {
	for i := range d.components {
		d.setQuant(i)
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
}

// checkComplete refuses progressive files that libjpeg smooths over block borders, by the rules of smoothing_ok. In
// these files every component's DC coefficients are known at least in part, and some of the first AC coefficients are
// not known to the last bit. Smoothing is not supported, because its results differ between releases of libjpeg-turbo.
func (d *Decoder) checkComplete() error {
	if !d.progressive {
		return nil
	}
	rough := false
	for i := range d.components {
		c, bits := &d.components[i], &d.coefs.bits[i]
		for k, n := range bits {
			if !c.hasQuant || c.steps[zigzag[k]] == 0 || bits[0] < 0 {
				return nil
			}
			rough = rough || k > 0 && n != 0
		}
	}
	if rough {
		return &UnsupportedError{Msg: "progressive file that lacks the last bits of its low coefficients"}
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
		s, err := d.decodeScan()
		if err != nil {
			return err
		}
		if s.marker == 0 { // the scan cannot be the last
			return d.truncated()
		}
		d.pos = s.resume - 2 // position of the marker
		if err := d.advance(false); err != nil {
			return err
		}
	}
	return nil
}

// decodeScan decodes the scan at pos, and returns the state after it.
func (d *Decoder) decodeScan() (s blockScan, err error) {
	h := &d.scanHeader
	for i := range h.components {
		if !d.progressive || h.ss == 0 && h.ah == 0 {
			if err := d.buildTable(0, int(h.tables[i][0])); err != nil {
				return s, err
			}
		}
		if !d.progressive || h.ss > 0 {
			if err := d.buildTable(1, int(h.tables[i][1])); err != nil {
				return s, err
			}
		}
	}
	d.noteScan()
	s.sequential = !d.progressive
	if err := d.openSegment(&s, d.pos); err != nil {
		return s, err
	}
	wide, high := d.mcusWide, d.mcusHigh
	if len(h.components) == 1 {
		c := &d.components[h.components[0]]
		wide, high = c.blocksWide, c.blocksHigh
	}
	for mcu := range wide * high {
		if d.restartInterval > 0 && mcu > 0 && mcu%d.restartInterval == 0 {
			if err := d.nextSegment(&s); err != nil {
				return s, err
			}
		}
		if s.exhausted {
			continue
		}
		d.decodeMCU(&s, mcu, wide)
		if s.bits.overrun || s.bits.invalid {
			d.endMCU(&s)
		}
	}
	return s, nil
}

// noteScan records the precision of the low coefficients after the scan.
func (d *Decoder) noteScan() {
	h := &d.scanHeader
	for _, c := range h.components {
		for k := h.ss; d.progressive && k <= min(h.se, lowCount-1); k++ {
			d.coefs.bits[c][k] = int8(h.al)
		}
	}
}

// decodeMCU decodes one MCU of an interleaved scan, or one block of another.
func (d *Decoder) decodeMCU(s *blockScan, mcu, wide int) {
	h, k := &d.scanHeader, &d.coefs
	x, y := mcu%wide, mcu/wide
	if len(h.components) == 1 {
		c := h.components[0]
		d.decodeBlock(s, 0, k.base[c]+y*k.wide[c]+x/4, x%4)
		return
	}
	for i, c := range h.components {
		comp := &d.components[c]
		for row := y * comp.v; row < (y+1)*comp.v; row++ {
			for column := x * comp.h; column < (x+1)*comp.h; column++ {
				d.decodeBlock(s, i, k.base[c]+row*k.wide[c]+column/4, column%4)
			}
		}
	}
}

func (d *Decoder) decodeBlock(s *blockScan, i, q, lane int) {
	h, k := &d.scanHeader, &d.coefs
	block := k.quads[q].quad[lane*8:]
	dc, ac := &d.tables[0][h.tables[i][0]&3], &d.tables[1][h.tables[i][1]&3]
	switch {
	case !d.progressive:
		k.extent[q] = ExtentFull
		s.dcFirst(block, dc, h.components[i], 0)
		s.acFirst(block, ac, 1, 63, 0)
	case h.ss == 0 && h.ah == 0:
		s.dcFirst(block, dc, h.components[i], h.al)
	case h.ss == 0:
		block[0] |= int16(s.bits.take(1) << h.al)
	case h.ah == 0:
		k.extent[q] = ExtentFull
		s.acFirst(block, ac, h.ss, h.se, h.al)
	default:
		k.extent[q] = ExtentFull
		s.acRefine(block, ac, h.ss, h.se, h.al)
	}
}
