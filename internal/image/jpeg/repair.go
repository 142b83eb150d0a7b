package jpeg

// decodeRepairing decodes a sequential file of one scan again, from its beginning, after the fast decoder has found
// damage: as if it were one of several scans. It reads the whole scan, so that the data after it are checked as in
// libjpeg. Without an output it only returns the error.
func (d *Decoder) decodeRepairing(out *output) error {
	if err := d.parser.open(d.data, false); err != nil {
		return err
	}
	d.streams = false // the tables decode one code at a time
	if err := d.prepareCoefficients(); err != nil {
		return err
	}
	s, err := d.decodeScan()
	if err == nil {
		err = d.endRepair(&s)
	}
	if err == nil && out != nil {
		d.grid.plan(&d.frame, out.region, true)
		d.planes.prepare(&d.frame, &d.grid)
		d.transformRegion(out)
	}
	return err
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
