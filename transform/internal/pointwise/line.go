package pointwise

// A line is a compact form of a table of 256 bytes on a straight line, rounded down and limited to 0..255. After
// the table's leading zeros, the byte for 16·h + l, counted from their end, is
//
//	min(base[h] + offset[l] + 0 or 1, 255).
//
// Here offset[l] is ⌊slope·l⌋, because ⌊a + b⌋ is ⌊a⌋ + ⌊b⌋ or one more, however Pillow's floats round. A table of 256 bits
// gives the addend 0 or 1. That makes six look-ups in 16 bytes; an arbitrary table takes sixteen.
type line struct {
	base, offset  [32]byte // 16 bytes in every lane
	first, second [32]byte // index: l; a bit for each h up to 7, and from 8 on
	start         [32]byte // the first byte on the line
	before        [32]byte // the last byte that becomes 0, if a step follows it
	always        [32]byte // ones if there is no step
}

// halfBits gives the bit of each h in line.first and in line.second.
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

// fit makes t a line of the given slope, and reports whether it equals the table. The table must be monotonic. The line
// begins after the table's leading zeros if there is a step, otherwise with the last of them.
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

// fitRows is fit with an addend to the offsets before they are rounded down.
func (t *line) fitRows(table *[256]byte, start int, slope, nearly float64) bool {
	var offset [16]int
	var base [16]byte
	var more [16]uint // index: l; a bit for each h
	for l := range offset {
		offset[l] = int(min(max(slope*float64(l)+nearly, 0), 255))
	}
	for h := range base {
		at := start + 16*h
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
		for i := l; i < 32; i += 16 {
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

// everywhere repeats a byte.
func everywhere(v byte) (t [32]byte) {
	for i := range t {
		t[i] = v
	}
	return t
}
