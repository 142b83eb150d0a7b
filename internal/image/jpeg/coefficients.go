package jpeg

// Coefficients instead of a file: [Decoder.ReadCoefficients] extracts them from a file, and [Decoder.ResetCoefficients]
// decodes those of a [QuadSource], without Huffman codes. Both process the image in batches of four adjacent MCUs, each
// row from its left edge, so that a batch consists of a few whole quads.

// A Layout is the arrangement of an image's blocks in batches.
type Layout struct {
	MCUsWide, MCUsHigh int
	Quads              int                        // number of quads in a batch, and of blocks in an MCU
	Positions          [mcuBlocksMax]QuadPosition // position of each quad
}

// A QuadSource gives the coefficients of an image's region, row by row and from left to right.
//
// Its extents must be true, because they choose the inverse transform: coefficients outside are ignored, and may appear
// in another image. Otherwise all numbers are allowed.
type QuadSource interface {
	// Row begins MCU row y. The batches from MCU column x0, a multiple of four, to the end of the region, column x1, will follow.
	Row(y, x0, x1 int) error
	// Batch sets the quads of the row's next batch and their extents. All are zero at first, and quads are aligned to
	// 64 bytes. Blocks to the right of the last MCU stay zero. Batch must not keep the slices.
	Batch(quads []*Quad, extents []uint8) error
}

// Layout returns the layout of the current image.
func (d *Decoder) Layout() Layout {
	h := &d.scanHeader
	l := Layout{MCUsWide: d.mcusWide, MCUsHigh: d.mcusHigh}
	for _, c := range h.components {
		l.Quads += d.components[c].h * d.components[c].v
	}
	copy(l.Positions[:l.Quads], d.quads[:])
	return l
}

// ReadCoefficients decodes the coefficients of a file. It calls begin once, and then batch for each batch of each row;
// the batch's first MCU is column x of MCU row y. DC coefficients are values, not differences. The last batch of a row
// is zero to the right of the last MCU. quads and extents are valid until batch returns.
//
// It accepts undamaged sequential files of one or three components in a single scan. Errors are those of Reset, or
// explain why the file is not suitable.
func (d *Decoder) ReadCoefficients(
	data []byte, begin func(Layout), batch func(y, x int, quads []*Quad, extents []uint8),
) (Config, error) {
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

// checkKind refuses kinds of images without support for coefficients.
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

// ResetCoefficients begins an image from a header made by [Decoder.AppendSplit] and a source of coefficients. Then
// [Decoder.Layout] describes the batches of the source. Either [Decoder.Decode], to decode a region, or
// [Decoder.AppendFile], to restore the file, may be called once.
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

// nextBatch lets the source fill the quads.
func (d *Decoder) nextBatch(quads int) error {
	clear(d.extents[:quads])
	err := d.source.Batch(d.lent[:quads], d.extents[:quads])
	if err != nil {
		clear(d.batch)
	}
	return err
}
