package pointwise

// A line is a table of 256 bytes in another form: that of a straight line, rounded down and limited to 0..255. After its zeros, the
// byte for 16·h + l, counted from there, is
//
//	base[h] + offset[l] + 0 or 1, or 255 if that is less
//
// with ⌊slope·l⌋ for an offset, as ⌊a + b⌋ is ⌊a⌋ + ⌊b⌋ or one more, wherever Pillow's floats round to. Which of the two is a table of
// 256 bits. That makes six look-ups in 16 bytes, where a table of any form takes sixteen.
type line struct {
	base, offset  [32]byte // 16 bytes in every lane
	first, second [32]byte // by l, a bit for each h up to 7, and from 8 on
	start         [32]byte // the first that is on the line
	before        [32]byte // up to this bytes are 0, if there is a step from there to the line
	always        [32]byte // ones if there is none
}

// halfBits says by h which bit of line.first it has, and which of line.second.
var halfBits = func() (t [2][32]byte) {
	for i := range 32 {
		if h := i % 16; h < 8 {
			t[0][i] = 1 << h
		} else {
			t[1][i] = 1 << (h - 8)
		}
	}
	return t
}()

// fit makes t a table of a line that grows by slope, and reports whether that is what the table is. The bytes of the table must not fall.
// If there are no steps before the line, it begins with the last of the table's zeros, else after them.
func (t *line) fit(table *[256]byte, slope float64, step bool) bool {
	before := 0
	for table[0] == 0 && before < 254 && table[before+1] == 0 {
		before++
	}
	start := before
	if step = step && table[0] == 0; step {
		start++
	}
	// Where a multiple of the slope is nearly a whole number, floats may have been rounded to it, or not.
	if !t.fitRows(table, start, slope, -1.0/4096) && !t.fitRows(table, start, slope, 1.0/4096) {
		return false
	}
	t.start, t.before, t.always = everywhere(byte(start)), everywhere(byte(before)), [32]byte{}
	if !step {
		t.always = everywhere(255)
	}
	return true
}

// fitRows is fit, with what is added to offsets before they are rounded down.
func (t *line) fitRows(table *[256]byte, start int, slope, nearly float64) bool {
	var offset [16]int
	var base [16]byte
	var more [16]uint // by l, a bit for each h
	for l := range offset {
		offset[l] = int(min(max(slope*float64(l)+nearly, 0), 255))
	}
	for h := range base {
		at := start + 16*h
		if at >= 256 || table[at] == 255 {
			base[h] = 255
			continue
		}
		least, ok := fitRow(table[at:min(at+16, 256)], &offset, &more, h)
		if !ok {
			return false
		}
		base[h] = least
	}
	for l := range base {
		first, second := byte(more[l]), byte(more[l]>>8)
		for i := l; i < 32; i += 16 {
			t.base[i], t.offset[i], t.first[i], t.second[i] = base[l], byte(offset[l]), first, second
		}
	}
	return true
}

// fitRow finds the base of row h, and where there is one more.
func fitRow(row []byte, offset *[16]int, more *[16]uint, h int) (base byte, ok bool) {
	least := 255
	for l, v := range row {
		if v == 255 { // and so on: limited
			break
		}
		least = min(least, int(v)-offset[l&15])
	}
	off := uint(0)
	for l, v := range row {
		one := uint(int(v) - min(least+offset[l&15], 255))
		off |= one
		more[l&15] |= one & 1 << (h & 15)
	}
	return byte(least), least >= 0 && off <= 1
}

// everywhere has a byte in each place.
func everywhere(v byte) (t [32]byte) {
	for i := range t {
		t[i] = v
	}
	return t
}
