package affine

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
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

	blockRows    = 8
	rowsMax      = 16                         // as many as a vector has places
	placesSize   = 4 * rowsMax                // bytes of a number for each
	rowStretches = 16                         // at most
	movesMax     = rowStretches*piecesMax + 4 // the last is repeated
)

// A slope is how pieces follow one another, for one map. Most of it is there once for each place of a vector: of single numbers the compiler would make
// vectors too early, and keep their halves in memory by instructions of SSE's encoding.
type slope struct {
	parts       int32            // pieces of a row of the source
	length      int32            // of a piece, with pieceBits of fraction, rounded up
	perLength   [rowsMax]float32 // 1/length, a little less: products' whole parts are right, or one too low
	perStepHigh [rowsMax]int32   // places for a pixel of y, with pieceBits of fraction, rounded up, without the lower 16 bits
	perStepLow  [rowsMax]int32   // those
	ahead       [rowsMax]int32   // a place, without how much too high a sum may be
	sign, rest  [rowsMax]int32   // what y lacks to the next row: y's fraction, by the sign, and the rest
	whole       [rowsMax]int32   // bits that x's fraction gets: where no pixel comes twice, none lacks anything to the next
}

// A block is rows of the result that are copied together, a place for each, and how to go on to the next block.
type block struct {
	places, rests       [4][rowsMax]int32 // of the edges: of the columns' two, and the rows'
	placeDown, restDown [4]int32          // what places grow by, and one more; what rests grow by, less a step
	step                [4]int32
	x, y                [rowsMax]int32 // the position of the first pixel
	downX, downY        int32
	width               int32
	rowBytes            int32             // of the source
	target              [rowsMax]int32    // bytes from the block's beginning
	shown               [2][rowsMax]int32 // bytes of the block, from where to where something is shown
}

// A stretch is up to placesMax pixels of a row whose pieces are to be found, for each row of a block. Position x is that of place 0, which comes from the
// row of the source at byte from.
type stretch struct {
	count [rowsMax]int32 // of pieces
	line  [rowsMax]int32 // where in lines, in bytes, its first piece is: how far from that row each comes
	from  [rowsMax]int32
	to    [rowsMax]int32 // where in the block place 0 is, with an order's place
	sum   [rowsMax]int32 // the place of its first piece, with pieceBits of fraction
	x     [rowsMax]int32
}

// startPieces makes a group that is ready for copyFixed ready for fixedPieces, and reports whether the map is one for it.
func (g *group) startPieces(dst, src *imagefile.RGB, f *fixedMap) bool {
	s := max(int64(f.stepY), -int64(f.stepY))
	if f.stepX > 1<<16 || f.stepX < pieceSlow || s <= 1<<16/(pieceLen*partsMax) || s > pieceSteep || dst.Width > rowStretches*placesMax {
		return false
	}
	parts := (1<<16 + pieceLen*s - 1) / (pieceLen * s)
	length, perStep := (1<<(16+pieceBits)+parts*s-1)/(parts*s), (1<<(16+pieceBits)+s-1)/s
	g.slope = slope{parts: int32(parts), length: int32(length)}
	fill(g.slope.perLength[:], (1-1.0/(1<<20))/float32(length))
	fill(g.slope.perStepHigh[:], int32(perStep>>16))
	fill(g.slope.perStepLow[:], int32(perStep&0xffff))
	fill(g.slope.ahead[:], int32(1<<pieceBits+1-1<<pieceBits/s))
	if f.stepY > 0 {
		fill(g.slope.sign[:], -1)
		fill(g.slope.rest[:], 1<<16)
	} else {
		fill(g.slope.sign[:], 1)
		fill(g.slope.rest[:], 1)
	}
	if f.stepX == 1<<16 {
		fill(g.slope.whole[:], 1<<16-1)
	}
	g.perRow = (dst.Width + placesMax - 1) / placesMax
	for i := range g.ahead {
		g.ahead[i] = int32(i) * int32(length)
	}
	fill(g.length[:], int32(length))
	// Of fraction/(2¹⁶ - stepX) the whole part counts: a little more, so that whole numbers are reached.
	fill(g.repeats[:], (1+1.0/(1<<20))/float32(max(1<<16-f.stepX, 1)))
	line := int32(3 * src.Width)
	if f.stepY < 0 {
		line = -line
	}
	part, at := int64(0), int32(0)
	for i := range g.lines {
		g.lines[i] = at
		if part++; part == parts {
			part, at = 0, at+line
		}
	}
	g.startBlock(dst, src, *f)
	return true
}

// startBlock sets the first block.
func (g *group) startBlock(dst, src *imagefile.RGB, f fixedMap) {
	b := &g.block
	b.downX, b.downY = blockRows*f.downX, blockRows*f.downY
	b.width, b.rowBytes = int32(dst.Width), int32(3*src.Width)
	for i, e := range [4]*edge{&f.x[0], &f.x[1], &f.y[0], &f.y[1]} {
		place, rest := floorQuotient(blockRows*(e.placeDown*e.step+e.restDown), e.step)
		b.placeDown[i], b.restDown[i], b.step[i] = int32(place+1), int32(rest-e.step), int32(e.step)
		for row := range rowsMax {
			b.places[i][row], b.rests[i][row] = int32(e.place), int32(e.rest)
			e.down()
		}
	}
	for row := range int32(rowsMax) {
		b.x[row], b.y[row], b.target[row] = f.startX+row*f.downX, f.startY+row*f.downY, 3*b.width*row
	}
}

// fixedPieces is fixed for a group that startPieces has made ready. It finds the stretches of a block of rows, then their moves, and does them: the end of a loop is
// often guessed wrong, and what is done once a row is done for a vector of rows.
func (m *Mapper) fixedPieces(dst, src *imagefile.RGB, colour [3]byte) {
	g, line := m.group, 3*dst.Width
	most := min((movesMax-4)/(g.perRow*piecesMax), blockRows) // rows at once
	for y := 0; y < dst.Height; y += blockRows {
		rows := min(blockRows, dst.Height-y)
		to, apart := dst.Pix[line*y:][:line*rows], !fits(dst, y+rows-1)
		if apart {
			m.line = imagefile.Grown(m.line, line*rows)
			to = m.line
		}
		m.kernels.stretches(g)
		for from := 0; from < rows; from += most {
			m.kernels.pieces(g, from, min(from+most, rows))
			m.movePieces(to, src)
		}
		painted := 0
		for row := range rows { // from one row's end to the next one's beginning
			if first := int(g.block.shown[0][row]); first > painted {
				paint(to[painted:first], colour)
			}
			painted = int(g.block.shown[1][row])
		}
		if painted < len(to) {
			paint(to[painted:], colour)
		}
		if apart {
			copy(dst.Pix[line*y:], to)
		}
	}
}

// movePieces does the moves that were found. It writes over up to 13 bytes more.
func (m *Mapper) movePieces(to []byte, src *imagefile.RGB) {
	g := m.group
	if g.moved == 0 {
		return
	}
	for i := range g.moves {
		fill(g.moves[i][g.moved:g.moved+3], g.moves[i][g.moved-1]) // they are done four at a time
	}
	m.kernels.move(unsafe.Pointer(unsafe.SliceData(to)), unsafe.Pointer(unsafe.SliceData(src.Pix)), &g.moves, &repeatOrders, g.moved)
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
