package affine

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/imagefile"
)

// Nearest by kernels, for turns by less than 20° and maps like them, in which neighbours of a row of the result mostly are neighbours in the source.
// The row's pieces are what comes from one row of the source, five pixels at most, and are copied as 16 bytes. From a pixel to the next the source's
// column grows by one or not at all, so that a pixel may come twice, but only once in five steps: a shuffle does that.
//
// Where the pieces begin is found without a look at each pixel. The source's row changes where place·s reaches d, d + 2¹⁶, d + 2·2¹⁶ …, where s is the
// step of y, without its sign, and d what y lacks to the next row: at ⌈(d + j·2¹⁶)/s⌉. Sums with pieceBits of fraction give these places, the last of a
// stretch of 240 with an error of 100/2²³ at most. It does no harm, since the quotient, if it is no whole number, lacks more than 1/s > 384/2²³ to
// the next, which is rounded up to. Rows longer than five pixels have several pieces, of one length. Take s = 17,000
// and d = 60,000: 3.53, 7.38 and 11.24, so that pieces begin at 0, 4, 8 and 12.

const (
	pieceLen   = 5
	pieceBits  = 23
	placesMax  = 240                    // in a stretch: as many as have room above the fraction
	piecesMax  = 128                    // in a stretch, of 2.5 pixels and more, rounded up to whole vectors
	partsMax   = 100                    // pieces of a row of the source
	pieceSteep = 1 << 16 / 3            // the largest step along y: beyond it, pixels one by one are as fast
	pieceSlow  = 1<<16 - 1<<16/pieceLen // the least step along x, with which a pixel comes twice once in five steps
	blockRows  = 8
	movesMax   = 1000
)

// A slope is how pieces follow one another, for one map.
type slope struct {
	parts     int64  // pieces of a row of the source
	length    int64  // of a piece, with pieceBits of fraction, rounded up
	perLength uint64 // 2⁶⁴/length, rounded up
	perStep   int64  // places for a pixel of y, with pieceBits of fraction, rounded up
	slack     int64  // how much too high a sum may be
	pieces    int    // of a stretch, at most
}

// startPieces makes a group that is ready for copyFixed ready for fixedPieces, and reports whether the map is one for it.
func (g *group) startPieces(src *imagefile.RGB, width int, stepX, stepY int32) bool {
	s := max(int64(stepY), -int64(stepY))
	if stepX >= 1<<16 || stepX < pieceSlow || s <= 1<<16/(pieceLen*partsMax) || s > pieceSteep {
		return false
	}
	parts := (1<<16 + pieceLen*s - 1) / (pieceLen * s)
	length := (1<<(16+pieceBits) + parts*s - 1) / (parts * s)
	g.slope = slope{
		parts: parts, length: length, perLength: math.MaxUint64/uint64(length) + 1, perStep: (1<<(16+pieceBits) + s - 1) / s,
		slack: 1 << pieceBits / s, pieces: int(int64(min(width, placesMax))<<pieceBits/length) + 2,
	}
	for i := range g.ahead {
		g.ahead[i] = int32(i) * int32(length)
	}
	fill(g.length[:], int32(length))
	// Of fraction/(2¹⁶ - stepX) the whole part counts: a little more, so that whole numbers are reached.
	fill(g.repeats[:], (1+1.0/(1<<20))/float32(1<<16-stepX))
	line := int32(3 * src.Width)
	if stepY < 0 {
		line = -line
	}
	part, at := int64(0), int32(0)
	for i := range g.lines {
		g.lines[i] = at
		if part++; part == parts {
			part, at = 0, at+line
		}
	}
	return true
}

// fixedPieces is fixed, from the first row on, for a group that startPieces has made ready. It adds up the moves of a block of rows before it does them:
// the end of a loop is often guessed wrong.
func (m *Mapper) fixedPieces(dst, src *imagefile.RGB, f *fixedMap, colour [3]byte) {
	var spans [blockRows][2]int
	line := 3 * dst.Width
	for y := 0; y < dst.Height; {
		start, to, rows := y, m.target(dst, y), 0
		for rows == 0 || rows < blockRows && y < dst.Height && fits(dst, y) {
			first, behind := f.showing(dst.Width, src)
			m.addPieces(to, src, line*rows+3*first, f.startX+int32(first)*f.stepX, f.startY+int32(first)*f.stepY, behind-first)
			spans[rows] = [2]int{first, behind}
			f.down()
			rows, y = rows+1, y+1
		}
		m.movePieces(to, src)
		to = to[:line*rows]
		for i, span := range spans[:rows] {
			paint(to[line*i:][:3*span[0]], colour)
			paint(to[line*i+3*span[1]:line*(i+1)], colour)
		}
		settle(dst, start, to)
	}
}

// addPieces adds the moves of n pixels from positions with 16 bits of fraction, beginning at (x, y), to bytes from at on.
func (m *Mapper) addPieces(to []byte, src *imagefile.RGB, at int, x, y int32, n int) {
	g := m.group
	for ; n > 0; n -= placesMax {
		if g.moved+piecesMax > movesMax {
			m.movePieces(to, src)
		}
		lacks := int64(y&0xffff) + 1
		if g.step[1][0] > 0 {
			lacks = 1<<16 - int64(y&0xffff)
		}
		before := (lacks*g.slope.parts + 1<<16 - 1) >> 16 // pieces up to the next row; the first of them may have begun before
		sum := (lacks*g.slope.perStep)>>16 + 1 - before*g.slope.length + 1<<pieceBits - g.slope.slack
		count, _ := bits.Mul64(uint64(int64(min(n, placesMax))<<pieceBits-sum+g.slope.length-1), g.slope.perLength)
		// The kernel finds as many as there may be: a loop of one length is guessed right.
		m.kernels.pieces(g, &g.lines[g.slope.parts-before], int32(3*src.Width)*(y>>16), int32(at), int32(sum), x, g.slope.pieces)
		g.moved += int(count)
		at += 3 * placesMax
		x += placesMax * g.step[0][0]
		y += placesMax * g.step[1][0]
	}
}

// movePieces does the moves that were added. It writes over up to 13 bytes more.
func (m *Mapper) movePieces(to []byte, src *imagefile.RGB) {
	g := m.group
	if g.moved == 0 {
		return
	}
	for i := range g.moves {
		fill(g.moves[i][g.moved:g.moved+3], g.moves[i][g.moved-1]) // they are done four at a time
	}
	m.kernels.move(unsafe.Pointer(unsafe.SliceData(to)), unsafe.Pointer(unsafe.SliceData(src.Pix)), &g.moves, &repeatOrders, g.moved)
	g.moved = 0
}

// repeatOrders are what shuffles five pixels of which the first comes twice, the second, the third, the fourth, or none.
var repeatOrders = func() (t [pieceLen][16]uint8) {
	for twice := range t {
		for i := range t[twice] {
			t[twice][i] = uint8(i)
			if i >= 3*(twice+1) {
				t[twice][i] = uint8(i - 3)
			}
		}
	}
	return t
}()
