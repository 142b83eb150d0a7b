package jpeg

// Coefficients instead of a file: [Decoder.ReadCoefficients] takes them out of one, and [Decoder.ResetCoefficients] decodes
// what a [QuadSource] gives, without Huffman codes. Both go over the image in batches of four MCUs side by side, each row
// from its left edge, so that a batch is a handful of whole quads.

// A Layout says how the blocks of an image lie in its batches.
type Layout struct {
	MCUsWide, MCUsHigh int
	Quads              int                     // in a batch, as many as an MCU has blocks
	Places             [mcuBlocksMax]QuadPlace // of each of Quads
}

// A QuadSource gives the coefficients of an image's region, row by row and from left to right.
//
// It must be true to its extents, which choose the inverse transform: coefficients outside are not seen, and may show up in
// another image. Apart from that it may give any numbers.
type QuadSource interface {
	// Row begins MCU row y, of which the batches from MCU column x0, a multiple of four, up to x1 are asked for. x1 is
	// where the region ends.
	Row(y, x0, x1 int) error
	// Batch sets the quads of the row's next batch, which come zero and aligned to 64 bytes, and the extent of each, which
	// comes zero as well. Those of the blocks to the right of the last MCU stay zero. It must keep neither.
	Batch(quads []*Quad, extents []uint8) error
}

// Layout returns that of the image that was begun last.
func (d *Decoder) Layout() Layout {
	h := &d.scanHeader
	l := Layout{MCUsWide: d.mcusWide, MCUsHigh: d.mcusHigh}
	for _, c := range h.components {
		l.Quads += d.components[c].h * d.components[c].v
	}
	copy(l.Places[:l.Quads], d.quads[:])
	return l
}

// ReadCoefficients decodes the coefficients of a file, and calls begin once and then batch for each batch of each row, the
// first MCU of which is column x of MCU row y. DC coefficients are whole, not differences. The last batch of a row is zero
// to the right of the last MCU. quads and extents are lent until batch returns.
//
// It takes sequential files of one or three components in a single scan with nothing to repair. Errors are those of Reset,
// or say why the file cannot be read so.
func (d *Decoder) ReadCoefficients(data []byte, begin func(Layout), batch func(y, x int, quads []*Quad, extents []uint8)) (Config, error) {
	config, err := d.Reset(data, nil)
	if err != nil {
		return config, err
	}
	d.ready = false
	if d.parts != nil {
		d.parts.data = nil
	}
	if err := d.checkKind(); err != nil {
		return config, err
	}
	var s sequentialScan
	if err := d.planScan(&s); err != nil {
		return config, err
	}
	if _, err := d.openScan(&s); err != nil {
		return config, err
	}
	if d.damage != nil {
		return config, d.damage
	}
	begin(d.Layout())
	for y := range d.mcusHigh {
		for x := 0; x < d.mcusWide; x += batchMCUs {
			if err := d.decodeBatch(&s, min(batchMCUs, d.mcusWide-x), &d.extents); err != nil {
				clear(d.batch)
				return config, err
			}
			batch(y, x, d.lent[:s.quads], d.extents[:s.quads])
			clear(d.batch[:s.quads])
		}
	}
	return config, d.noteEnd(&s)
}

// checkKind refuses images whose coefficients are neither read nor taken.
func (d *Decoder) checkKind() error {
	switch {
	case d.progressive:
		return &UnsupportedError{Msg: "coefficients of a progressive file"}
	case !d.streams:
		return &UnsupportedError{Msg: "coefficients of a file with several scans"}
	case len(d.components) == 4:
		return &UnsupportedError{Msg: "coefficients of four components"}
	}
	return nil
}

// ResetCoefficients begins an image of which there are the header that [Decoder.AppendSplit] has made and a source of the
// coefficients. Then [Decoder.Layout] tells what the source will be asked for, [Decoder.Decode] decodes a region, or
// [Decoder.AppendFile] makes the file again; one of these may be called, once.
func (d *Decoder) ResetCoefficients(header []byte, source QuadSource) (Config, error) {
	config, err := d.Reset(header, nil)
	if err != nil {
		return config, err
	}
	d.ready = false
	if err := d.checkKind(); err != nil {
		return config, err
	}
	if d.pos != len(header) {
		return config, formatError(d.pos, "%d bytes after the header's SOS", len(header)-d.pos)
	}
	var s sequentialScan
	d.planBatch(&s)
	d.source, d.ready = source, true
	return config, nil
}

// decodeCoefficients is decodeRows for coefficients from a source.
func (d *Decoder) decodeCoefficients(out *output) error {
	g := &d.grid
	quads := d.Layout().Quads
	for y := g.mcuY0; y < g.mcuY1; y++ {
		if err := d.source.Row(y, g.mcuX0, g.mcuX1); err != nil {
			return err
		}
		for x := g.mcuX0; x < g.mcuX1; x += batchMCUs {
			if err := d.nextBatch(quads); err != nil {
				return err
			}
			d.transformBatch(d.extents[:quads], x-g.mcuX0, y)
		}
		d.emit(out, y)
	}
	return nil
}

// nextBatch has the source fill the quads.
func (d *Decoder) nextBatch(quads int) error {
	clear(d.extents[:quads])
	err := d.source.Batch(d.lent[:quads], d.extents[:quads])
	if err != nil {
		clear(d.batch)
	}
	return err
}
