package transform

import (
	"image"
	"math"
	"slices"

	"github.com/imgfeed/imgfeed/transform/internal/affine"
)

// maskSteps are what a canvas has done to a mask. Crops, flips, resizes and borders treat all rows alike, and all columns. So two tables
// of indices hold them, whatever their number, and the mask is read once at the end. A rotation or an affine map needs both coordinates
// of a pixel: it writes the mask as it is then, and begins new tables.
type maskSteps struct {
	pix           []byte // the labels that the tables index
	stride        int
	columns, rows []int32 // a column or row of pix, or a label (outside)
	steps         int32   // number of windows so far
	spare         []int32
	scratch       [2][]byte
	used          int // number of scratch memories used so far, in turn
}

// outside encodes a label outside the image. Of a column and a row that both are outside, the lower number is that of the later border,
// which covers the earlier one.
func outside(step int32, label byte) int32 { return -1 - (step<<8 | int32(label)) }

func (m *maskSteps) begin(pix []byte, w, h int) {
	m.pix, m.stride = pix, w
	m.columns, m.rows = identity(m.columns, w), identity(m.rows, h)
	m.steps = 0
}

func identity(table []int32, n int) []int32 {
	table = table[:0]
	for i := range n {
		table = append(table, int32(i))
	}
	return table
}

// window cuts r out of the mask. Pixels outside of it get the label.
func (m *maskSteps) window(r image.Rectangle, label byte) {
	if m.pix == nil {
		return
	}
	m.steps++
	fill := outside(m.steps, label)
	m.columns = m.take(m.columns, r.Dx(), func(i int) int { return r.Min.X + i }, fill)
	m.rows = m.take(m.rows, r.Dy(), func(i int) int { return r.Min.Y + i }, fill)
}

// pad puts a border around the mask.
func (m *maskSteps) pad(border [4]int, mode PaddingMode, label byte) {
	w, h := len(m.columns), len(m.rows)
	if mode == Constant || m.pix == nil {
		m.window(image.Rect(-border[0], -border[1], w+border[2], h+border[3]), label)
		return
	}
	m.columns = m.take(m.columns, w+border[0]+border[2], func(i int) int { return mode.source(i-border[0], w) }, 0)
	m.rows = m.take(m.rows, h+border[1]+border[3], func(i int) int { return mode.source(i-border[1], h) }, 0)
}

// resize is torch's nearest: floor(i · scale), where scale and product are float32.
func (m *maskSteps) resize(w, h int) {
	if m.pix == nil {
		return
	}
	nearest := func(to, from int) func(i int) int {
		scale := float32(from) / float32(to)
		return func(i int) int { return min(int(float32(float32(i)*scale)), from-1) }
	}
	m.columns = m.take(m.columns, w, nearest(w, len(m.columns)), 0)
	m.rows = m.take(m.rows, h, nearest(h, len(m.rows)), 0)
}

func (m *maskSteps) flip(vertical bool) {
	if m.pix == nil {
		return
	}
	table := &m.columns
	if vertical {
		table = &m.rows
	}
	n := len(*table)
	*table = m.take(*table, n, func(i int) int { return n - 1 - i }, 0)
}

// take returns the table of n entries that are at these positions of another one, which becomes spare memory.
func (m *maskSteps) take(from []int32, n int, at func(i int) int, fill int32) []int32 {
	to := m.spare[:0]
	for i := range n {
		index := fill
		if k := at(i); k >= 0 && k < len(from) {
			index = from[k]
		}
		to = append(to, index)
	}
	m.spare = from
	return to
}

// write writes the mask as the steps have left it.
func (m *maskSteps) write(to []byte) {
	w := len(m.columns)
	first, behind := 0, w // the columns between those outside
	for first < w && m.columns[first] < 0 {
		first++
	}
	for behind > first && m.columns[behind-1] < 0 {
		behind--
	}
	if first < behind && slices.Min(m.columns[first:behind]) < 0 { // a padding shows another one
		first, behind = w, w
	}
	var lines, rows [4][]byte // lines of the result that are written at once, and rows of pix with their labels
	n := 0
	for y, row := range m.rows {
		if y > 0 && row == m.rows[y-1] {
			continue
		}
		line := to[y*w:][:w]
		if row < 0 {
			m.writeEach(line, m.columns, row)
			continue
		}
		m.writeEach(line[:first], m.columns, row)
		m.writeEach(line[behind:], m.columns[behind:], row)
		lines[n], rows[n] = line[first:behind], m.pix[int(row)*m.stride:][:m.stride]
		if n++; n == len(lines) {
			writeFour(&lines, &rows, m.columns[first:behind])
			n = 0
		}
	}
	for n--; n >= 0; n-- {
		for x, column := range m.columns[first:behind] {
			lines[n][x] = rows[n][column]
		}
	}
	for y := 1; y < len(m.rows); y++ {
		if m.rows[y] == m.rows[y-1] {
			copy(to[y*w:][:w], to[(y-1)*w:])
		}
	}
}

// writeFour writes the labels of four rows at these columns, which takes half the time of one row after the other.
func writeFour(to, from *[4][]byte, columns []int32) {
	a, b, c, d := from[0], from[1], from[2], from[3]
	b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
	n := len(columns)
	e, f, g, h := to[0][:n], to[1][:n], to[2][:n], to[3][:n]
	for x, column := range columns {
		e[x], f[x], g[x], h[x] = a[column], b[column], c[column], d[column]
	}
}

// writeEach writes the labels of a row at columns, either of which may be outside.
func (m *maskSteps) writeEach(to []byte, columns []int32, row int32) {
	for x, column := range columns[:len(to)] {
		if row >= 0 && column >= 0 {
			to[x] = m.pix[int(row)*m.stride+int(column)]
		} else {
			to[x] = byte(-1 - min(row, column))
		}
	}
}

// render writes the mask to memory of its own, and begins new tables on it.
func (m *maskSteps) render() (pix []byte, w, h int) {
	w, h = len(m.columns), len(m.rows)
	to := m.next(w * h)
	m.write(to)
	return to, w, h
}

func (m *maskSteps) next(n int) []byte {
	to := &m.scratch[m.used&1]
	m.used++
	*to = slices.Grow((*to)[:0], n)[:n]
	return *to
}

// turn turns the mask counterclockwise by quarters.
func (m *maskSteps) turn(quarters int) {
	if m.pix == nil {
		return
	}
	switch quarters {
	case 2:
		m.flip(false)
		m.flip(true)
	case 1, 3:
		pix, w, h := m.render()
		to := m.next(w * h)
		for y := range w {
			for x := range h {
				if quarters == 1 {
					to[y*h+x] = pix[x*w+w-1-y]
				} else {
					to[y*h+x] = pix[(h-1-x)*w+y]
				}
			}
		}
		m.begin(to, h, w)
	}
}

// affine maps the mask by a matrix from the pixels of the result to its own, both counted from the middle. It is torch's grid_sample with
// its nearest mode: coordinates are normalised to -1 to 1 and back, in float32.
func (m *maskSteps) affine(matrix affine.Matrix, label byte) {
	if m.pix == nil {
		return
	}
	pix, w, h := m.render()
	to := m.next(w * h)
	var theta [6]float32
	for i, half := range [6]float32{0: float32(0.5 * float64(w)), 3: float32(0.5 * float64(h))} {
		if i%3 == 0 {
			for k := range 3 {
				theta[i+k] = float32(matrix[i+k]) / half
			}
		}
	}
	firstX, firstY := float32(float64(1-w)*0.5), float32(float64(1-h)*0.5)
	for y := range h {
		gy := float32(y) + firstY
		for x := range w {
			gx := float32(x) + firstX
			fx := m.coordinate(gx, gy, theta[:3], w)
			fy := m.coordinate(gx, gy, theta[3:], h)
			at := y*w + x
			if to[at] = label; fx >= 0 && fx <= float64(w-1) && fy >= 0 && fy <= float64(h-1) {
				to[at] = pix[int(fy)*w+int(fx)]
			}
		}
	}
	m.begin(to, w, h)
}

// coordinate returns the nearest pixel, of n, on one axis. The product and the sum before rounding are one operation in torch.
func (m *maskSteps) coordinate(x, y float32, row []float32, n int) float64 {
	g := float32(float32(x*row[0])+float32(y*row[1])) + row[2]
	return math.RoundToEven(float64(float32(float64(g+1)*(float64(n)/2) - 0.5)))
}
