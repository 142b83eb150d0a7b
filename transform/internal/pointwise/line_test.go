package pointwise

import (
	"math/rand/v2"
	"testing"
)

// at returns what a line gives for a byte.
func (t *line) at(v byte) byte {
	if v <= t.before && t.always == 0 {
		return 0
	}
	v -= min(v, t.start)
	h, l := v>>4, v&15
	bits := t.first[l]
	if h >= 8 {
		bits = t.second[l]
	}
	return byte(min(int(t.base[h])+int(t.offset[l])+int(bits>>(h%8)&1), 255))
}

// TestLines: the tables of blends and of autocontrast are lines, which give the same bytes.
func TestLines(t *testing.T) {
	var table [256]byte
	var l line
	check := func(name string, of ...any) {
		for v := range table {
			if got := l.at(byte(v)); got != table[v] {
				t.Fatalf(name+": %d gives %d, want %d", append(of, v, got, table[v])...)
			}
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	factors := []float32{0, 1e-7, 1 - 1e-7, 1, 1 + 1e-7, 255, 1e6}
	for i := range 4000 {
		factors = append(factors, float32(i)/1000, 2*rng.Float32(), 1+0.9*float32(i%31)/30, 1-0.99*float32(i%31)/30, 1/max(rng.Float32(), 1e-6))
	}
	for i, factor := range factors {
		with := byte(i * 7)
		if i%3 == 0 {
			with = 0
		}
		for v := range table {
			table[v] = blend(with, byte(v), factor)
		}
		if !l.fit(&table, float64(factor), 1) {
			t.Errorf("the blend with %d by %v is not a line", with, factor)
		}
		check("the blend with %d by %v", with, factor)
	}
	others := 0
	for high := range 256 {
		for low := range high + 1 {
			if slope := spread(&table, low, high); !l.fit(&table, slope, 0) {
				others++
				continue
			}
			l.always = 255 // autocontrast's kernel does not look at leading zeros
			check("the spread of %d to %d", low, high)
		}
	}
	if others > 5 { // these five are looked up
		t.Errorf("%d spreads are not lines, want 5", others)
	}
	for v := range table {
		table[v] = byte(v * v >> 8)
	}
	if l.fit(&table, 1, 1) {
		t.Error("a square is a line")
	}
}
