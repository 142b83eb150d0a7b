package jpeg

import (
	"image"
	"unsafe"
)

// decodeRepairing decodes a sequential file of one scan again, from its beginning, after the fast decoder has found
// damage. It reads the whole scan, so that the data after it are checked as in libjpeg. An empty region gives no
// pixels. A file with less than a bit for 64 blocks is refused, so that a few bytes cannot request much work; a
// photograph has a thousand times as many.
func (d *Decoder) decodeRepairing(out *output) error {
	d.parser.reset(d.data)
	if err := d.start(); err != nil {
		return err
	}
	if err := d.advance(false); err != nil {
		return err
	}
	if blocks := d.blockCount(); blocks/512 > len(d.data) {
		return formatError(len(d.data), "file of %d bytes for %d blocks: it is truncated", len(d.data), blocks)
	}
	d.streams = false // the tables decode one code at a time
	var plan sequentialScan
	if err := d.planScan(&plan); err != nil {
		return err
	}
	clear(d.batch)
	s := blockScan{sequential: true}
	if err := d.openSegment(&s, d.pos); err != nil {
		return err
	}
	for y := range d.mcusHigh {
		if err := d.repairRow(&s, &plan, y); err != nil {
			clear(d.batch)
			return err
		}
		if y >= d.grid.mcuY0 && y < d.grid.mcuY1 {
			d.emit(out, y)
		}
	}
	return d.endRepair(&s)
}

// repairRow decodes an MCU row, and transforms its part in the grid.
func (d *Decoder) repairRow(s *blockScan, plan *sequentialScan, y int) error {
	g := &d.grid
	for x := range d.mcusWide {
		inside := y >= g.mcuY0 && y < g.mcuY1 && x >= g.mcuX0 && x < g.mcuX1
		slot := 0
		if inside {
			slot = (x - g.mcuX0) % batchMCUs
		}
		if err := d.beginMCU(s, y*d.mcusWide+x); err != nil {
			return err
		}
		blocks := d.blocks[slot*plan.perMCU:][:plan.perMCU]
		if !s.exhausted {
			d.repairMCU(s, blocks)
			d.endMCU(s)
		}
		if !inside {
			clear(d.batch)
		} else if slot == batchMCUs-1 || x == g.mcuX1-1 {
			d.transformBatch(allFull[:plan.quads], x-slot-g.mcuX0, y)
		}
	}
	return nil
}

// repairMCU decodes the blocks of one MCU.
func (d *Decoder) repairMCU(s *blockScan, blocks []plannedBlock) {
	for i := range blocks {
		b := &blocks[i]
		block := unsafe.Slice((*int16)(b.out), quadIndex[63]+1)
		s.dcFirst(block, b.dc, int(b.component), 0)
		s.acFirst(block, b.ac, 1, 63, 0)
	}
}

// allFull are the extents of unknown quads.
var allFull = [mcuBlocksMax]uint8{
	ExtentFull, ExtentFull, ExtentFull, ExtentFull, ExtentFull, ExtentFull, ExtentFull, ExtentFull, ExtentFull, ExtentFull,
}

// readBytes is the size of Pillow's reads of a file.
const readBytes = 1 << 16

// endRepair checks the data after the scan, as far as Pillow has read when the image is complete. A file that ends
// after the complete image is accepted. Pillow accepts some of these files, depending on libjpeg's read-ahead.
func (d *Decoder) endRepair(s *blockScan) error {
	if s.marker == 0 {
		if s.exhausted {
			return d.truncated()
		}
		d.noteNoEOI()
		return nil
	}
	used := s.resume
	if unread := len(s.bits.data)*8 + s.bits.n; unread >= 64 { // libjpeg's read-ahead does not reach the marker
		used = d.scan.fileOffset(d.data, d.scan.size*8-unread) + 8
	}
	d.data = d.data[:min((used+readBytes-1)&^(readBytes-1), len(d.data))]
	if s.resume > len(d.data) {
		d.noteNoEOI()
		return nil
	}
	d.scan.end = s.resume - 2
	return d.checkTrailer()
}

// repairWithoutPixels is decodeRepairing only for its error.
func (d *Decoder) repairWithoutPixels() error {
	d.grid = grid{}
	return d.decodeRepairing(&output{region: image.Rectangle{}})
}
