package pixelcodec

import (
	"encoding/binary"
	"image"
)

// A pairReader decodes rows of one image two at a time, from a band's first.
type pairReader interface {
	// seek goes to the start of a band.
	seek(band int) error
	// next decodes the next two rows of the chunks asked for into the row pair. first: the band's first two.
	next(first bool) error
}

// window is the part of an image that is being decoded: whole bands and chunks around a rectangle.
type window struct {
	blob       []byte // with SlackBytes of capacity behind it
	head       header
	chunks     int // in a whole row
	firstChunk int
	lastChunk  int // behind the last
	rows       rowPair
}

// begin sets w to the rectangle r of blob, whose header is h.
func (w *window) begin(blob []byte, h header, r image.Rectangle) {
	w.blob, w.head, w.chunks = blob, h, h.chunks()
	w.firstChunk, w.lastChunk = r.Min.X/chunkColumns, (r.Max.X+chunkColumns-1)/chunkColumns
	w.rows.resize(w.lastChunk - w.firstChunk)
}

// bandStart returns where a band's bytes start, from the table of offsets.
func (w *window) bandStart(band int) (int, error) {
	tableEnd := headerBytes + offsetBytes*w.head.bands()
	if len(w.blob) < tableEnd {
		return 0, &FormatError{Offset: len(w.blob), Msg: "the band offsets are cut short"}
	}
	place := headerBytes + offsetBytes*band
	start := int64(binary.LittleEndian.Uint32(w.blob[place:]))
	if start < int64(tableEnd) || start > int64(len(w.blob)) {
		return 0, &FormatError{Offset: place, Msg: "a band offset is out of range"}
	}
	return int(start), nil
}

// decodeRows writes the pixels of r, two rows at a time, from what pairs yields into w.rows.
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
