package pixelcodec

import (
	"encoding/binary"
	"image"
	"slices"
)

// A pairReader decodes rows of one image two at a time, from a band's first.
type pairReader interface {
	// seek goes to the start of a band.
	seek(band int) error
	// next decodes the next two rows of the window's chunks into the row pair. first is true for the band's first two.
	next(first bool) error
}

// window is the decoded part of an image: whole bands and chunks around a rectangle.
type window struct {
	blob       []byte // followed by SlackBytes of capacity
	head       header
	chunks     int // number of chunks in a whole row
	firstChunk int
	lastChunk  int // the one after the last
	rows       rowPair
}

// begin sets w to the rectangle r of blob, which has the header h.
func (w *window) begin(blob []byte, h header, r image.Rectangle) {
	w.blob, w.head, w.chunks = blob, h, h.chunks()
	w.firstChunk, w.lastChunk = r.Min.X/chunkColumns, (r.Max.X+chunkColumns-1)/chunkColumns
	w.rows.resize(w.lastChunk - w.firstChunk)
}

// bandStart returns the start of a band's bytes, from the table of offsets.
func (w *window) bandStart(band int) (int, error) {
	tableEnd := headerBytes + offsetBytes*w.head.bands()
	if len(w.blob) < tableEnd {
		return 0, &FormatError{Offset: len(w.blob), Msg: "the band offsets are cut short"}
	}
	at := headerBytes + offsetBytes*band
	start := int64(binary.LittleEndian.Uint32(w.blob[at:]))
	if start < int64(tableEnd) || start > int64(len(w.blob)) {
		return 0, &FormatError{Offset: at, Msg: "a band offset is out of range"}
	}
	return int(start), nil
}

// decodeRows writes the pixels of r, two rows at a time, which pairs decodes into w.rows.
func decodeRows(w *window, b *base, pairs pairReader, t *target, r image.Rectangle) error {
	k := &b.kernels
	t.choose(k)
	if t.nonTemporal {
		defer k.fence()
	}
	bandRows := 1 << w.head.bandLog
	x := r.Min.X - w.firstChunk*chunkColumns
	b.prefetcher.begin((r.Max.Y - r.Min.Y&^(bandRows-1)) / 2)
	for y := r.Min.Y &^ (bandRows - 1); y < r.Max.Y; y += 2 {
		first := y&(bandRows-1) == 0
		if first {
			if err := pairs.seek(y >> w.head.bandLog); err != nil {
				return err
			}
		}
		if err := pairs.next(first); err != nil {
			return err
		}
		if y+1 >= r.Min.Y {
			t.emit(k, &w.rows, x, y-r.Min.Y, 2)
		}
	}
	return nil
}

// pairEncoder turns an image into residuals, two rows at a time from the top.
//
// The residuals of a pair are those of its chunks; a chunk's are, for each plane, the 32 of the top row and then the 32 of the bottom row.
type pairEncoder struct {
	kernels   *kernels
	rgb       []byte
	stride    int
	head      header
	above     []byte // the row above as planes, chunk by chunk: 32 of G, 32 of R−G+128, 32 of B−G+128
	residuals []byte
	edge      [2][3 * chunkColumns]byte // the last chunk's pixels, padded
}

func (e *pairEncoder) begin(k *kernels, rgb []byte, stride int, head header) {
	e.kernels, e.rgb, e.stride, e.head = k, rgb, stride, head
	above, residuals := 3*chunkColumns*head.chunks(), chunkResiduals*head.chunks()
	e.above, e.residuals = slices.Grow(e.above[:0], above)[:above], slices.Grow(e.residuals[:0], residuals)[:residuals]
}

// pair returns the residuals of rows y and y+1, valid until the next call. first is true at the start of a band. An odd
// image's last row counts twice. The residuals of columns right of the image are zero.
func (e *pairEncoder) pair(y int, first bool) []byte {
	rowBytes := 3 * e.head.width
	top := e.rgb[y*e.stride:][:rowBytes]
	bottom := top
	if y+1 < e.head.height {
		bottom = e.rgb[(y+1)*e.stride:][:rowBytes]
	}
	whole := e.head.width / chunkColumns
	e.kernels.residuals(e.residuals, top, bottom, e.above, whole, first)
	if rest := e.head.width % chunkColumns; rest != 0 {
		const chunkBytes = 3 * chunkColumns
		copy(e.edge[0][:], top[chunkBytes*whole:])
		copy(e.edge[1][:], bottom[chunkBytes*whole:])
		last := e.residuals[chunkResiduals*whole:]
		e.kernels.residuals(last, e.edge[0][:], e.edge[1][:], e.above[chunkBytes*whole:], 1, first)
		for row := 0; row < chunkResiduals; row += chunkColumns {
			clear(last[row+rest : row+chunkColumns])
		}
	}
	return e.residuals
}
