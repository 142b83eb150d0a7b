package coefficients

import (
	"encoding/binary"
	"fmt"
	"image"

	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

// A Decoder decodes records. It keeps its buffers from one to the next, and allocates nothing after the largest. It
// must not be used by two goroutines at a time.
type Decoder struct {
	kernels kernels
	jpeg    *jpeg.Decoder
	geometry

	record    []byte // followed by SlackBytes of capacity
	copied    []byte // copy of a record without slack
	rest      []byte
	directory int   // offset of the directory in the record
	offsets   []int // offsets of the tiles and of the end in the record

	row       int // current MCU row
	next, end int // batches
	tile      openTile
	masks     [quadsMax]pairMasks
	extents   [quadsMax]uint8
	dcs       [quadsMax + 8][4]int16             // vectors may read beyond, here and in the next two
	fixed     [quadsMax*20 + 2*bundleValues]byte // values of the first list
	values    [valuesMax + 2*bundleValues]byte   // values of the second list
}

// An openTile is the state of the current tile.
type openTile struct {
	end     int    // first batch after the tile
	quad    int    // index of the next batch's first quad in the tile
	value   int    // index of the next value in Decoder.values
	firsts  []byte // values of the first cells, beginning with the tile's first quad
	patches []byte // patches from the next quad on
}

// NewDecoder returns a Decoder with the kernels of a level, which must be one of [kernel.Available].
func NewDecoder(level kernel.Level) *Decoder {
	return &Decoder{kernels: *byLevel[level], jpeg: jpeg.New(level)}
}

func (d *Decoder) formatError(offset int, format string, args ...any) error {
	return &FormatError{Offset: offset, Msg: fmt.Sprintf(format, args...)}
}

// Reset begins a record, which must not change until Decode or AppendFile returns. A record without [SlackBytes] of
// capacity after its end is copied. Errors are a [FormatError] or those of [jpeg.Decoder.Reset].
func (d *Decoder) Reset(record []byte) (jpeg.Config, error) {
	if cap(record)-len(record) < SlackBytes {
		d.copied = append(append(d.copied[:0], record...), make([]byte, SlackBytes)...)
		record = d.copied[:len(record)]
	}
	d.record = record
	if len(record) < headBytes || record[0] != version || record[1] != 0 {
		return jpeg.Config{}, d.formatError(0, "it is not of version %d", version)
	}
	header, rest := int(binary.LittleEndian.Uint16(record[2:])), int(binary.LittleEndian.Uint32(record[4:]))
	if rest > len(record)-headBytes-header {
		return jpeg.Config{}, d.formatError(2, "a header of %d bytes and a rest of %d do not fit its %d bytes", header, rest, len(record))
	}
	d.directory = headBytes + header + rest
	d.rest = record[headBytes+header : d.directory]
	config, err := d.jpeg.ResetCoefficients(record[headBytes:headBytes+header], d)
	if err != nil {
		return config, err
	}
	d.geometry.set(d.jpeg.Layout())
	return config, d.readDirectory()
}

// readDirectory finds the tiles.
func (d *Decoder) readDirectory() error {
	count := d.tiles * d.layout.MCUsHigh
	at := d.directory + count*entryBytes
	if at > len(d.record) {
		return d.formatError(d.directory, "the directory of %d tiles does not fit", count)
	}
	d.offsets = append(d.offsets[:0], at)
	for i := range count {
		at += d.geometry.bytes(readEntry(d.record[d.directory+i*entryBytes:]), d.batchesIn(i%d.tiles))
		d.offsets = append(d.offsets, at)
	}
	if at != len(d.record) {
		return d.formatError(d.directory, "tiles end at byte %d, the record at %d", at, len(d.record))
	}
	return nil
}

// Decode writes the RGB pixels of r to dst, under the same conditions as [jpeg.Decoder.Decode].
func (d *Decoder) Decode(dst []byte, stride int, r image.Rectangle) error {
	return d.jpeg.Decode(dst, stride, r)
}

// AppendFile appends the original file of the record.
func (d *Decoder) AppendFile(dst []byte) ([]byte, error) { return d.jpeg.AppendFile(dst, d.rest) }

// Row implements [jpeg.QuadSource].
func (d *Decoder) Row(y, x0, x1 int) error {
	d.row, d.next, d.end = y, x0/batchMCUs, (x1+batchMCUs-1)/batchMCUs
	d.tile.end = 0
	return nil
}

// Batch implements [jpeg.QuadSource].
func (d *Decoder) Batch(quads []*jpeg.Quad, extents []uint8) error {
	if d.next >= d.tile.end {
		if err := d.openTile(); err != nil {
			return err
		}
	}
	t := &d.tile
	masks := d.masks[t.quad : t.quad+len(quads)]
	firsts := t.firsts[firstValues*t.quad:]
	t.value += d.kernels.expand(quads, masks, d.values[t.value:], firsts, d.dcs[t.quad:])
	copy(extents, d.extents[t.quad:])
	for len(t.patches) > 0 && int(t.patches[0]) < t.quad+len(quads) {
		i := int(t.patches[0]) - t.quad
		if i < 0 {
			return d.errTile("patches are out of order")
		}
		quads[i][t.patches[1]] += patchUnit * int16(int8(t.patches[2]))
		extents[i] = jpeg.ExtentFull
		t.patches = t.patches[patchBytes:]
	}
	t.quad += len(quads)
	d.next++
	return nil
}

func (d *Decoder) errTile(reason string) error {
	tile := d.row*d.tiles + d.next/tileBatches
	return d.formatError(d.offsets[tile], "tile %d of MCU row %d: %s", d.next/tileBatches, d.row, reason)
}

// openTile unpacks the next batch's tile up to the end of the row's region.
func (d *Decoder) openTile() error {
	index := d.next / tileBatches
	first := index * tileBatches
	batches := d.batchesIn(index)
	tile := d.row*d.tiles + index
	entry := readEntry(d.record[d.directory+tile*entryBytes:])
	data := d.record[d.offsets[tile]:d.offsets[tile+1]]
	take := func(n int) (part []byte) { // n fits, because the offsets are computed from the same entry
		part, data = data[:n], data[n:]
		return part
	}
	carries := take(2 * len(d.chains))
	quads := batches * d.layout.Quads
	codes := take(quads)
	fixedWidths := take(widthsBytes * bundles(entry.fixedValues(quads)))
	widths, cells := take(widthsBytes*entry.bundles), take(2*entry.cells)
	patches, planes := take(patchBytes*entry.patches), take(entry.planes)

	t := &d.tile
	t.end = first + batches
	t.quad = (d.next - first) * d.layout.Quads
	for len(patches) > 0 && int(patches[0]) < t.quad {
		patches = patches[patchBytes:]
	}
	t.patches = patches
	used := (min(d.end, t.end) - first) * d.layout.Quads // number of quads up to the end of the region

	present := 0
	for _, code := range codes[:used] {
		present += int(cellsOf[code])
	}
	if 2*present > len(cells) {
		return d.errTile("cells end early")
	}
	d.kernels.spread(d.masks[:used], codes, cells)

	size := listPlanes(fixedWidths, entry.fixedValues(quads))
	if size > len(planes) {
		return d.errTile("planes of the first list end early")
	}
	d.kernels.unpack(d.fixed[:], fixedWidths, withSlack(planes), 0)
	high := d.fixed[4*quads : 8*quads]
	t.firsts = d.fixed[4*quads:]
	if entry.high {
		t.firsts = t.firsts[4*quads:]
	} else {
		high = noHigh[:4*quads]
	}
	d.addDifferences(carries, d.fixed[:4*quads], high, used)
	return d.unpackList(widths, planes[size:], used)
}

// withSlack returns a part of the record with the capacity behind it. An incomplete last bundle is read like a complete
// one, beyond its planes.
func withSlack(part []byte) []byte { return part[: len(part)+SlackBytes : len(part)+SlackBytes] }

// noHigh are zero high bytes of differences.
var noHigh [4 * quadsMax]byte

// addDifferences computes the DC coefficients of a tile's first used quads.
func (d *Decoder) addDifferences(carries, low, high []byte, used int) {
	for i, c := range d.chains {
		carry := int16(binary.LittleEndian.Uint16(carries[2*i:]))
		for q := c.quad; q < used; q += d.layout.Quads {
			for x := q; x < q+c.wide; x++ {
				l, h := binary.LittleEndian.Uint32(low[4*x:]), binary.LittleEndian.Uint32(high[4*x:])
				d0, d1 := int16(int8(l))+int16(h<<8), int16(int8(l>>8))+int16(h&0xff00)
				d2, d3 := int16(int8(l>>16))+int16(h>>8&0xff00), int16(int8(l>>24))+int16(h>>16&0xff00)
				d0 += carry
				d1 += d0
				d2 += d1
				carry = d2 + d3
				d.dcs[x] = [4]int16{d0, d1, d2, carry}
			}
		}
	}
}

// unpackList unpacks the values of the used quads, except the bundles before the next quad.
func (d *Decoder) unpackList(widths, planes []byte, used int) error {
	t := &d.tile
	before := 0
	for i := range d.masks[:t.quad] {
		before += d.masks[i].count()
	}
	total := before
	for i := t.quad; i < used; i++ {
		m := &d.masks[i]
		total += m.count()
		d.extents[i] = m.extent((*[firstValues]byte)(t.firsts[firstValues*i:]))
	}
	first := before / bundleValues
	if bundles(total)*widthsBytes > len(widths) {
		return d.errTile("widths end early")
	}
	skipped, widths := widths[:first*widthsBytes], widths[first*widthsBytes:bundles(total)*widthsBytes]
	at := listPlanes(skipped, first*bundleValues)
	if at+listPlanes(widths, total-first*bundleValues) > len(planes) {
		return d.errTile("planes end early")
	}
	t.value = before - first*bundleValues
	d.kernels.unpack(d.values[:], widths, withSlack(planes[at:]), 1)
	return nil
}
