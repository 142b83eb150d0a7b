package pointwise

// Autocontrast is ImageOps.autocontrast without a cutoff: it stretches each channel so that its darkest byte becomes 0
// and its brightest 255.
func (a *Adjuster) Autocontrast(dst, src []byte, _ float64) {
	spread := [...]func(table *[256]byte, low, high int) float64{spread, spreadTensor}[a.kind]
	low, high := a.extremes(src)
	fits := a.byLine
	for c := range a.tables {
		slope := spread(&a.tables[c], int(low[c]), int(high[c]))
		fits = fits && a.lines[c].fit(&a.tables[c], slope, 0)
	}
	if fits {
		dst, src = skip(dst, src, a.fast.lines(dst, src, &a.lines))
	}
	a.lookup(dst, src)
}

// extremes returns the lowest and the highest byte of each channel.
func (a *Adjuster) extremes(pix []byte) (low, high [3]byte) {
	low = [3]byte{255, 255, 255}
	if a.fast != nil {
		pix = pix[a.fast.extremes(pix, &a.low, &a.high):]
		for i := range 3 * a.fast.vector {
			low[i%3], high[i%3] = min(low[i%3], a.low[i]), max(high[i%3], a.high[i])
		}
	}
	for ; len(pix) >= 3; pix = pix[3:] {
		for c := range low {
			low[c], high[c] = min(low[c], pix[c]), max(high[c], pix[c])
		}
	}
	return low, high
}

// spread makes the table that maps low to 0 and high to 255, and returns its slope. Pillow's arithmetic is float64,
// rounded after each step and then truncated.
func spread(table *[256]byte, low, high int) float64 {
	if high <= low {
		*table = allBytes
		return 1
	}
	scale := 255 / float64(high-low)
	offset := float64(-float64(low) * scale)
	for v := range table {
		table[v] = byte(min(max(float64(float64(v)*scale)+offset, 0), 255))
	}
	return scale
}

// Equalize is ImageOps.equalize: each channel's bytes are replaced so that their histogram becomes as flat as possible.
func (a *Adjuster) Equalize(dst, src []byte, _ float64) {
	a.count(src)
	for c := range a.tables {
		equal(&a.tables[c], &a.counts[c])
	}
	a.lookup(dst, src)
}

// count counts the bytes of each channel, at a cycle for each, which is the rate at which Zen 4 writes counters. Counting pairs of pixels
// by value and difference needs half as many counts. But the table outgrows the nearest cache, equal neighbours wait for each other, and
// pairs with a large difference need a second loop: little of the gain remains.
func (a *Adjuster) count(pix []byte) {
	clear(a.counts[:])
	r, g, b := &a.counts[0], &a.counts[1], &a.counts[2]
	oddR, oddG, oddB := &a.counts[3], &a.counts[4], &a.counts[5] // equal neighbours would wait for each other's count
	for ; len(pix) >= 6; pix = pix[6:] {
		r[pix[0]]++
		g[pix[1]]++
		b[pix[2]]++
		oddR[pix[3]]++
		oddG[pix[4]]++
		oddB[pix[5]]++
	}
	if len(pix) >= 3 {
		r[pix[0]]++
		g[pix[1]]++
		b[pix[2]]++
	}
	for c := range 3 {
		for v, n := range &a.counts[3+c] {
			a.counts[c][v] += n
		}
	}
}

// equal makes the table of a channel with the given counts. As in Pillow, a step is 1/255 of the number of bytes below the brightest.
func equal(table *[256]byte, counts *[256]uint32) {
	total, last, used := 0, 0, 0
	for _, n := range counts {
		if n > 0 {
			total, last, used = total+int(n), int(n), used+1
		}
	}
	step := (total - last) / 255
	if used <= 1 || step == 0 {
		*table = allBytes
		return
	}
	n := step / 2
	for v := range table {
		table[v] = byte(min(n/step, 255))
		n += int(counts[v])
	}
}

var allBytes = func() (t [256]byte) {
	for v := range t {
		t[v] = byte(v)
	}
	return t
}()

// lookup replaces the bytes of each channel by those of its table.
func (a *Adjuster) lookup(dst, src []byte) {
	if dst = dst[:len(src)]; a.fast != nil && len(src) >= 3*a.fast.vector {
		for c := range a.tables {
			a.fast.fill(&a.spread[c], &a.tables[c])
		}
		dst, src = skip(dst, src, a.fast.replace(dst, src, &a.spread))
	}
	r, g, b := &a.tables[0], &a.tables[1], &a.tables[2]
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		dst[0], dst[1], dst[2] = r[src[0]], g[src[1]], b[src[2]]
	}
}
