package transform

import (
	"math"
	"testing"
)

func (o RandomHorizontalFlip) naive(m *naiveImage, d *RNG) error {
	if d.unit() >= o.P {
		return nil
	}
	for i := range m.w * m.h {
		if x := i % m.w; x < m.w/2 {
			for c := range 3 {
				a, b := i*3+c, (i/m.w*m.w+m.w-1-x)*3+c
				m.pix[a], m.pix[b] = m.pix[b], m.pix[a]
			}
		}
	}
	return nil
}

func TestFlipProbability(t *testing.T) {
	for _, p := range []float64{0, 0.3, 0.5, 1} {
		op := must(NewSpec(CenterCrop{Size: Size{1}}, RandomHorizontalFlip{P: p})).ops[1]
		const n = 100000
		flips := 0.0
		for i := range n {
			c := &canvas{draws: NewRNG(9, 9, i), step: wholeImage(1, 1)}
			if err := op.apply(c); err != nil {
				t.Fatal(err)
			}
			if c.params.Flip {
				flips++
			}
		}
		if sd := math.Sqrt(n * p * (1 - p)); math.Abs(flips-n*p) > 5*sd {
			t.Errorf("p = %v: %v of %d flipped", p, flips, n)
		}
	}
}
