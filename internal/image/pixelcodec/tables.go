package pixelcodec

import "slices"

// Geometry of a chunk: 32 columns of two rows of three planes. Each plane has four groups of 8 columns by 2 rows.
const (
	chunkColumns     = 32
	chunkResiduals   = 3 * 2 * chunkColumns // bytes of a chunk's unpacked residuals
	chunkHeaderBytes = 3 * 4 * 4 / 8        // a 4-bit code for each group
	groupColumns     = 8
)

// groupTables holds the group codes in the kernels' formats. The index of tables with 256 entries is a header byte: the
// codes of two adjacent groups, the left one in the low nibble. They are separate and small, because pixels stream
// through the cache, and cache misses cost more than the arithmetic.
type groupTables struct {
	width [groupCodes]uint8 // bytes of one row of a group: its number of bit planes
	low   [groupCodes]uint8 // the lowest residual, mod 256

	pairWidth [256]uint8  // width of the left group plus width of the right one
	maskBias  [256]uint64 // bits 0–15: the present ones of 16 planes; bits 32–47: minus the lowest residuals
	present   [256]uint64 // bits 0–15 of maskBias, and the same at bits 32–47
	spread    [256]spread
}

// spread is a header byte's values for the kernels, as vectors.
type spread struct {
	planes [16]int8  // indices of PSHUFB: moves plane j of group g to byte 2j+g, zero if it is absent
	lowest [16]uint8 // the lowest residual of each column
}

func newGroupTables(groups []Group) *groupTables {
	t := new(groupTables)
	for c, g := range groups {
		t.width[c], t.low[c] = uint8(g[0]), uint8(g[1])
	}
	for i := range t.pairWidth {
		left, right := i&15, i>>4
		w0, w1 := t.width[left], t.width[right]
		b0, b1 := -t.low[left], -t.low[right]
		t.pairWidth[i] = w0 + w1
		t.maskBias[i] = uint64(1)<<w0 - 1 | (uint64(1)<<w1-1)<<8 | uint64(b0)<<32 | uint64(b1)<<40
		t.present[i] = uint64(uint32(t.maskBias[i])) * (1<<32 + 1)
		s := &t.spread[i]
		for j := range uint8(8) {
			s.planes[2*j], s.planes[2*j+1] = -128, -128
			if j < w0 {
				s.planes[2*j] = int8(j)
			}
			if j < w1 {
				s.planes[2*j+1] = int8(w0 + j)
			}
			s.lowest[j], s.lowest[8+j] = -b0, -b1
		}
	}
	return t
}

// codeTable names the code for a group, indexed by its lowest residual (low byte) and its highest (high byte), both plus 128.
type codeTable [1 << 16]uint8

// newCodeTable picks for each range the first of the narrowest groups that hold it.
func newCodeTable(groups []Group) *codeTable {
	t := new(codeTable)
	for high := range 256 {
		for low := range high + 1 {
			best, width := 0, 9
			for c, g := range groups {
				first := g[1] + 128
				if first <= low && high < first+1<<g[0] && g[0] < width {
					best, width = c, g[0]
				}
			}
			t[high<<8|low] = uint8(best)
		}
	}
	return t
}

// lookup returns the header byte for two adjacent groups, with their indices in the low 16 bits.
func (t *codeTable) lookup(left, right uint64) uint8 { return t[uint16(left)] | t[uint16(right)]<<4 }

// rowPair holds two decoded rows as planes G, R−G+128 and B−G+128, stride bytes apart. The next pair is predicted from it.
type rowPair struct {
	top, bottom []byte
	stride      int
}

// planeSlack is the number of bytes that kernels may read after the last plane of a row.
const planeSlack = 64

// resize makes room for the given number of chunks.
func (p *rowPair) resize(chunks int) {
	p.stride = chunks * chunkColumns
	need := 3*p.stride + planeSlack
	p.top, p.bottom = slices.Grow(p.top[:0], need)[:need], slices.Grow(p.bottom[:0], need)[:need]
}
