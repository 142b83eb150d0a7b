// Package coefficients stores the quantised coefficients of JPEG files in a form that vector instructions unpack. Decoding gives the file's
// pixels without decoding Huffman codes. The file can be restored byte for byte. docs/format/coefficients.md specifies every byte.
//
// Package jpeg splits and restores files, and turns coefficients into pixels. It processes an image in batches of four
// adjacent MCUs. Four adjacent blocks of a component in a batch are a quad. A quad has four pairs of rows, and a pair
// four cells: two rows and two columns of the four blocks, 16 coefficients. The record stores:
//
//   - which cells have nonzero coefficients, and 16 bits for each of these cells to mark those coefficients;
//   - these coefficients, in one list for all quads of a tile, in groups of eight with the same width: a byte of signs, then
//     one for each lower bit, the highest first;
//   - separately, all coefficients of each quad's first cell, and DC coefficients as differences from the block to the left.
//
// A tile has up to 16 batches of an MCU row, and can be decoded independently.
package coefficients

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/imgfeed/imgfeed/internal/image/jpeg"
)

const (
	version     = 1
	headBytes   = 8  // version, a zero, length of the header, length of the rest
	entryBytes  = 8  // a tile's entry in the directory
	tileBatches = 16 // number of batches in a complete tile
	batchMCUs   = 4
	quadsMax    = tileBatches * 10 // quads in a tile: the standard allows ten blocks in an MCU
	valuesMax   = quadsMax * (256 - 4 - firstValues)

	// SlackBytes must be readable after a record, for loads of whole vectors.
	SlackBytes = 128
)

// A FormatError reports a record that no [Encoder] would make.
type FormatError struct {
	Offset int // offset of the error in the record
	Msg    string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("coefficients: invalid record at byte %d: %s", e.Offset, e.Msg)
}

// A pairMasks marks the coefficients of a quad in the list: 64 bits for each pair of rows, the first pair's first. Bit
// 16·x + 8·y + 4·c + b is row y of the pair and column 2x+c of block b. Bits of the first cell are never set.
type pairMasks [4]uint64

func (m *pairMasks) count() int {
	return bits.OnesCount64(m[0]) + bits.OnesCount64(m[1]) + bits.OnesCount64(m[2]) + bits.OnesCount64(m[3])
}

// extent returns the extent of the coefficients except DC, by the masks and the first cell.
func (m *pairMasks) extent(first *[firstValues]byte) uint8 {
	low := m[0] | m[1]
	switch {
	case m[2]|m[3]|low>>32 != 0:
		return jpeg.ExtentFull
	case low|binary.LittleEndian.Uint64(first[:])|uint64(binary.LittleEndian.Uint32(first[8:])) != 0:
		return jpeg.ExtentLow
	}
	return 0
}

// pairIndex is the index of a bit's coefficient in its pair of rows.
var pairIndex = func() (t [64]uint8) {
	for bit := range t {
		x, y, c, b := bit>>4, bit>>3&1, bit>>2&1, bit&3
		t[bit] = uint8(32*y + 8*b + 2*x + c)
	}
	return t
}()

// A quad has twelve coefficients in addition to DC in its first cell, which is stored completely.
const firstValues = 12

// A patch adds to a coefficient that needs more than eight bits: the number of the quad in the tile, the coefficient's
// index in it, and an eighth of the addend.
const (
	patchBytes = 3
	patchUnit  = 8
)

// A chain is a row of a component's blocks in an MCU row: each DC coefficient is stored as the difference from the one to the left.
type chain struct {
	quad int // its first quad in a batch
	wide int // its number of quads in a batch
}

// A geometry is the arrangement of batches, tiles and chains, by the header.
type geometry struct {
	layout  jpeg.Layout
	batches int // batches per MCU row
	tiles   int // tiles per MCU row
	chains  []chain
}

func (g *geometry) set(l jpeg.Layout) {
	g.layout = l
	g.batches = (l.MCUsWide + batchMCUs - 1) / batchMCUs
	g.tiles = (g.batches + tileBatches - 1) / tileBatches
	g.chains = g.chains[:0]
	for q := 0; q < l.Quads; {
		wide := 1
		for q+wide < l.Quads && l.Positions[q+wide].Component == l.Positions[q].Component && l.Positions[q+wide].Row == l.Positions[q].Row {
			wide++
		}
		g.chains = append(g.chains, chain{q, wide})
		q += wide
	}
}

// batchesIn returns the number of batches in tile t of a row.
func (g *geometry) batchesIn(t int) int { return min(tileBatches, g.batches-t*tileBatches) }

// A tileEntry is a tile's entry in the directory: the lengths of the parts that do not follow from the header.
type tileEntry struct {
	bundles int  // bundles in the list of coefficients
	high    bool // DC differences have high bytes
	cells   int
	patches int
	planes  int // bytes
}

const highFlag = 1 << 15

func readEntry(b []byte) tileEntry {
	n := binary.LittleEndian.Uint64(b)
	return tileEntry{int(n & (highFlag - 1)), n&highFlag != 0, int(n >> 16 & 0xffff), int(n >> 32 & 0xffff), int(n >> 48)}
}

// fixedValues is the length of a tile's first list: the low bytes of all DC differences, their high bytes, if there are
// any, and then the first cells, with the values of each coefficient together.
func (e tileEntry) fixedValues(quads int) int {
	if e.high {
		return (4 + 4 + firstValues) * quads
	}
	return (4 + firstValues) * quads
}

// bytes is the length of a tile.
func (g *geometry) bytes(e tileEntry, batches int) int {
	quads := batches * g.layout.Quads
	return 2*len(g.chains) + quads + widthsBytes*(bundles(e.fixedValues(quads))+e.bundles) + 2*e.cells + patchBytes*e.patches + e.planes
}
