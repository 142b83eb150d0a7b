package coefficients

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

// An Encoder makes records from files. It keeps its buffers. It must not be used by two goroutines at a time.
type Encoder struct {
	kernels  kernels
	jpeg     *jpeg.Decoder
	check    *Decoder
	presence presenceFinder
	geometry

	tile    tileParts
	entries []byte
	body    []byte
	header  []byte
	rest    []byte
	file    []byte // the restored file
	err     error
}

// tileParts are the parts of the current tile.
type tileParts struct {
	dcs            [][4]int16
	masks          pairMasks // masks of the current quad
	codes          []byte
	cells, patches []byte
	firsts, values []byte // values in the lists' order
	fixed          []byte // the first list
	widths, planes []byte
}

// NewEncoder returns an Encoder with the kernels of a level.
func NewEncoder(level kernel.Level) *Encoder {
	return &Encoder{kernels: *byLevel[level], jpeg: jpeg.New(level), check: NewDecoder(level)}
}

// Encode appends the record of a file to dst, followed by [SlackBytes] of capacity. It accepts the same files as
// [jpeg.Decoder.ReadCoefficients], and checks that the record restores exactly this file. After an error the file
// should be stored unchanged.
func (e *Encoder) Encode(dst, file []byte) ([]byte, jpeg.Config, error) {
	e.entries, e.body, e.err = e.entries[:0], e.body[:0], nil
	config, err := e.jpeg.ReadCoefficients(file, e.begin, e.addBatch)
	if err == nil {
		err = e.err
	}
	if err == nil {
		e.header, e.rest, err = e.jpeg.AppendSplit(e.header[:0], e.rest[:0])
	}
	if err == nil && len(e.header) > math.MaxUint16 {
		err = errTooLarge
	}
	if err != nil {
		return dst, config, err
	}
	record := append(dst, version, 0)
	record = binary.LittleEndian.AppendUint16(record, uint16(len(e.header)))
	record = binary.LittleEndian.AppendUint32(record, uint32(len(e.rest)))
	record = append(append(append(append(record, e.header...), e.rest...), e.entries...), e.body...)
	record = append(record, make([]byte, SlackBytes)...)[:len(record)]
	if _, err := e.check.Reset(record[len(dst):]); err != nil {
		return dst, config, err
	}
	if e.file, err = e.check.AppendFile(e.file[:0]); err == nil && !bytes.Equal(e.file, file) {
		err = errors.New("coefficients: the restored file differs, because its encoder is unusual")
	}
	if err != nil {
		return dst, config, err
	}
	return record, config, nil
}

var errTooLarge = errors.New("coefficients: a part is too large for a record")

func (e *Encoder) begin(l jpeg.Layout) {
	e.geometry.set(l)
	e.tile.clear() // an error may have ended the previous file within a tile
}

// addBatch adds a batch to the current tile, and ends the tile when it is complete.
func (e *Encoder) addBatch(_, x int, quads []*jpeg.Quad, extents []uint8) {
	b := x / batchMCUs
	for i, q := range quads {
		e.addQuad(q, extents[i])
	}
	if b+1 == e.batches || (b+1)%tileBatches == 0 {
		e.endTile()
	}
}

func (e *Encoder) addQuad(q *jpeg.Quad, extent uint8) {
	t := &e.tile
	t.dcs = append(t.dcs, [4]int16{q[0], q[8], q[16], q[24]})
	var first [firstValues]byte
	for i := range first {
		at := pairIndex[4+i]
		v := q[at]
		if v != int16(int8(v)) {
			v = e.patch(at, v)
		}
		first[i] = byte(v)
	}
	t.firsts = append(t.firsts, first[:]...)
	pairs := [...]int{0, 2, 4, 4}[extent&3]
	masks := &t.masks
	*masks = pairMasks{}
	t.values = slices.Grow(t.values, 256+listSlack)
	n := len(t.values)
	count, large := e.kernels.list(t.values[n:n+256], q, pairs, masks)
	t.values = t.values[:n+count]
	if large {
		e.patchValues(t.values[n:], q, masks)
	}
	var cells uint16
	for pair, m := range masks {
		cells |= wordsSet(m) << (4 * pair)
	}
	code := e.presence.find(cells)
	t.codes = append(t.codes, code)
	for stored := presences[code]; stored != 0; stored &= stored - 1 {
		cell := bits.TrailingZeros16(stored)
		t.cells = binary.LittleEndian.AppendUint16(t.cells, uint16(masks[cell>>2&3]>>(16*(cell&3))))
	}
}

// wordsSet has a bit for each nonzero one of four words. It makes one bit in each, and collects them by a
// multiplication with disjoint terms.
func wordsSet(m uint64) uint16 {
	const low = 0x7fff7fff7fff7fff
	m = (m&low + low | m) &^ low >> 15
	return uint16(m * (1<<48 | 1<<33 | 1<<18 | 1<<3) >> 48 & 15)
}

// patchValues makes patches for the values of a quad's list that need more than eight bits.
func (e *Encoder) patchValues(list []byte, q *jpeg.Quad, masks *pairMasks) {
	for pair, m := range masks {
		for ; m != 0; m &= m - 1 {
			at := uint8(64*pair) + pairIndex[bits.TrailingZeros64(m)]
			if v := q[at]; v != int16(int8(v)) {
				list[0] = byte(e.patch(at, v-1))
			}
			list = list[1:]
		}
	}
}

// patch adds a patch for a coefficient that needs more than eight bits, and returns the remainder for the list.
func (e *Encoder) patch(at byte, v int16) int16 {
	rest := v & (patchUnit - 1)
	times := (v - rest) / patchUnit
	if times != int16(int8(times)) {
		e.err = errTooLarge
	}
	t := &e.tile
	t.patches = append(t.patches, byte(len(t.dcs)-1), at, byte(times))
	return rest
}

func (e *Encoder) endTile() {
	t := &e.tile
	quads := len(t.dcs)
	t.fixed = append(t.fixed[:0], make([]byte, 8*quads)...)
	entry := tileEntry{bundles: bundles(len(t.values)), cells: len(t.cells) / 2, patches: len(t.patches) / patchBytes}
	for _, c := range e.chains {
		carry := t.dcs[c.quad][0]
		e.body = binary.LittleEndian.AppendUint16(e.body, uint16(carry))
		for q := c.quad; q < quads; q += e.layout.Quads {
			for x := q; x < q+c.wide; x++ {
				for lane, dc := range t.dcs[x] {
					diff := dc - carry
					carry = dc
					high := byte((diff - int16(int8(diff))) >> 8)
					t.fixed[4*x+lane], t.fixed[4*(quads+x)+lane] = byte(diff), high
					entry.high = entry.high || high != 0
				}
			}
		}
	}
	if !entry.high {
		t.fixed = t.fixed[:4*quads]
	}
	t.fixed = append(t.fixed, t.firsts...)
	t.widths, t.planes = appendList(t.widths[:0], t.planes[:0], t.fixed)
	t.widths, t.planes = appendList(t.widths, t.planes, t.values)
	entry.planes = len(t.planes)
	if max(entry.cells, entry.patches, entry.planes) > math.MaxUint16 {
		e.err = errTooLarge
	}
	flags := uint16(entry.bundles)
	if entry.high {
		flags |= highFlag
	}
	for _, n := range [...]uint16{flags, uint16(entry.cells), uint16(entry.patches), uint16(entry.planes)} {
		e.entries = binary.LittleEndian.AppendUint16(e.entries, n)
	}
	for _, part := range [][]byte{t.codes, t.widths, t.cells, t.patches, t.planes} {
		e.body = append(e.body, part...)
	}
	t.clear()
}

func (t *tileParts) clear() {
	t.codes, t.cells, t.patches, t.dcs, t.firsts, t.values = t.codes[:0], t.cells[:0], t.patches[:0], t.dcs[:0], t.firsts[:0], t.values[:0]
}
