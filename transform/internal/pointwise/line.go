package pointwise

// A line is a compact form of a table of 256 bytes on a straight line, rounded down and limited to 0..255. The byte
// for 16·h + l, counted from start, is
//
//	min(base[h] + offset[l] + 0 or 1, 255).
//
// Here offset[l] is ⌊slope·l⌋, because ⌊a + b⌋ is ⌊a⌋ + ⌊b⌋ or one more, however Pillow's floats round. A table of 256 bits
// gives the addend 0 or 1. That makes six look-ups in 16 bytes; an arbitrary table takes sixteen.
type line struct {
	base, offset  [64]byte // 16 bytes in every lane
	first, second [64]byte // index: l; a bit for each h up to 7, and from 8 on
	start         byte     // the first byte on the line; 0 or at the end of the table's leading zeros
	before        byte     // the last byte that becomes 0
	always        byte     // 255 if no byte becomes 0
}

// halfBits gives the bit of each h in line.first and in line.second.
var halfBits = func() (t [2][64]byte) {
	for i := range 64 {
		if h := i % 16; h < 8 {
			t[0][i] = 1 << h
		} else {
			t[1][i] = 1 << (h - 8)
		}
	}
	return t
}()

// fit makes t a line of the given slope, and reports whether it equals the table. The table must be monotonic. The line
// begins step bytes, 0 or 1, after the last of the table's leading zeros: with 1 it need not pass through that zero.
func (t *line) fit(table *[256]byte, slope float64, step byte) bool {
	t.start, t.before, t.always = 0, 0, 255
	if table[0] == 0 {
		for t.before < 254 && table[t.before+1] == 0 {
			t.before++
		}
		t.start, t.always = t.before+step, 0
	}
	// Where a multiple of the slope is nearly a whole number, floats may have been rounded to it, or not.
	return t.fitRows(table, slope, -1.0/4096) || t.fitRows(table, slope, 1.0/4096)
}

// fitRows is fit with an addend to the offsets before they are rounded down.
func (t *line) fitRows(table *[256]byte, slope, nearly float64) bool {
	var offset [16]int
	var base [16]byte
	var more [16]uint // index: l; a bit for each h
	for l := range offset {
		offset[l] = int(min(max(slope*float64(l)+nearly, 0), 255))
	}
	for h := range base {
		at := int(t.start) + 16*h
		if at >= 256 || table[at] == 255 {
			base[h] = 255
			continue
		}
		low, ok := fitRow(table[at:min(at+16, 256)], &offset, &more, h)
		if !ok {
			return false
		}
		base[h] = low
	}
	for l := range base {
		first, second := byte(more[l]), byte(more[l]>>8)
		for i := l; i < 64; i += 16 {
			t.base[i], t.offset[i], t.first[i], t.second[i] = base[l], byte(offset[l]), first, second
		}
	}
	return true
}

// fitRow finds the base of row h, and sets the bits of its bytes with the addend 1.
func fitRow(row []byte, offset *[16]int, more *[16]uint, h int) (base byte, ok bool) {
	low := 255
	for l, v := range row {
		if v == 255 { // limited, as are all bytes after it
			break
		}
		low = min(low, int(v)-offset[l&15])
	}
	off := uint(0)
	for l, v := range row {
		one := uint(int(v) - min(low+offset[l&15], 255))
		off |= one
		more[l&15] |= one & 1 << (h & 15)
	}
	return byte(low), low >= 0 && off <= 1
}
