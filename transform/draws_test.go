package transform

import (
	"image"
	"math"
	"slices"
	"testing"
)

// TestDrawsGolden pins the draws: a change would give other crops to a run that is resumed.
func TestDrawsGolden(t *testing.T) {
	d := NewDraws(42, 3, 1000)
	var got []uint64
	for range 3 {
		got = append(got, d.pcg.Uint64())
	}
	if want := []uint64{0xafd15d776d9c6f6a, 0x4eb9abd0417ebfa1, 0x2bc399ead1817f3d}; !slices.Equal(got, want) {
		t.Errorf("draws %#x, want %#x", got, want)
	}
	train := mustParse("train")
	var boxes []Params
	for index := range 4 {
		d := NewDraws(-1, 7, index)
		var p Params
		p.setCrop(train.ops[0].randomBox(500, 375, &d))
		boxes = append(boxes, p)
	}
	if want := []Params{{130, 52, 243, 210}, {17, 15, 345, 436}, {17, 8, 318, 319}, {73, 366, 143, 130}}; !slices.Equal(boxes, want) {
		t.Errorf("boxes %v, want %v", boxes, want)
	}
}

func TestDrawsDifferByKey(t *testing.T) {
	seen := map[uint64][3]int{}
	for seed := range 20 {
		for epoch := range 20 {
			for index := range 20 {
				d := NewDraws(int64(seed-10), epoch, index)
				v, key := d.pcg.Uint64(), [3]int{seed, epoch, index}
				if other, ok := seen[v]; ok {
					t.Fatalf("%v and %v draw the same", key, other)
				}
				seen[v] = key
			}
		}
	}
}

func TestExpLog(t *testing.T) {
	for x := -20.0; x < 20; x += 0.0137 {
		if got, want := exp(x), math.Exp(x); math.Abs(got-want) > 4e-16*want {
			t.Errorf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	for x := 1e-6; x < 1e6; x *= 1.0137 {
		if got, want := log(x), math.Log(x); math.Abs(got-want) > 4e-16*max(1, math.Abs(want)) {
			t.Errorf("log(%v) = %v, want %v", x, got, want)
		}
	}
	if log(1) != 0 || exp(0) != 1 {
		t.Errorf("log(1) = %v, exp(0) = %v", log(1), exp(0))
	}
}

// TestRandomBoxMatchesTorchvision compares the boxes with histograms of torchvision's own get_params, made by
// testdata/boxes.py: χ² of the two samples within six standard deviations.
func TestRandomBoxMatchesTorchvision(t *testing.T) {
	for _, c := range torchvisionBoxes {
		op := mustParse(c.spec).ops[0]
		const n = 100000
		var got [4][10]float64 // area, ratio, top, left
		d := NewDraws(1, 2, 3)
		for range n {
			r := op.randomBox(c.w, c.h, &d)
			if r.Empty() || !r.In(image.Rect(0, 0, c.w, c.h)) {
				t.Fatalf("%v: box %v", c, r)
			}
			for i, cell := range boxCells(c.w, c.h, r) {
				got[i][cell]++
			}
		}
		for i, name := range []string{"area", "ratio", "top", "left"} {
			chi2, df := 0.0, -1.0
			for cell := range got[i] {
				g, w := got[i][cell], c.cells[i][cell]
				if g+w < 20 {
					continue
				}
				df++
				chi2 += (g - w) * (g - w) / (g + w) // both samples have the same size
			}
			if df > 0 && chi2 > df+6*math.Sqrt(2*df) {
				t.Errorf("%d×%d %s: %s differs, χ² = %.1f of %v:\n%v\n%v", c.w, c.h, c.spec, name, chi2, df, got[i], c.cells[i])
			}
		}
	}
}

// boxCells returns the cells of the histograms that a box counts in, as boxes.py does.
func boxCells(w, h int, r image.Rectangle) [4]int {
	cell := func(x float64) int { return min(max(int(math.Floor(10*x)), 0), 9) }
	area := float64(r.Dx()*r.Dy()) / float64(w*h)
	ratio := float64(r.Dx()) / float64(r.Dy())
	return [4]int{
		cell(area),
		cell((math.Log2(ratio) + 1) / 2),
		cell(float64(r.Min.Y) / float64(h)),
		cell(float64(r.Min.X) / float64(w)),
	}
}

func TestRandomBoxFallsBackToTheCentre(t *testing.T) {
	for _, c := range []struct {
		w, h int
		want image.Rectangle // torchvision: (height−h)//2, (width−w)//2, …
	}{
		{1000, 10, image.Rect(493, 0, 506, 10)}, // 10 · 4/3 = 13
		{10, 1000, image.Rect(0, 493, 10, 506)}, // 10 / (3/4) = 13
	} {
		op := Op{Kind: RandomResizedCrop, Height: 5, Width: 5, Scale: [2]float64{0.9, 1}, Ratio: ratioDefault}
		spec, err := NewSpec(op)
		if err != nil {
			t.Fatal(err)
		}
		d := NewDraws(0, 0, 0)
		if got := spec.ops[0].randomBox(c.w, c.h, &d); got != c.want {
			t.Errorf("%d×%d: %v, want %v", c.w, c.h, got, c.want)
		}
	}
}

func TestFlipProbability(t *testing.T) {
	for _, p := range []float64{0, 0.3, 0.5, 1} {
		const n = 100000
		flips := 0.0
		for i := range n {
			d := NewDraws(9, 9, i)
			if d.unit() < p {
				flips++
			}
		}
		if sd := math.Sqrt(n * p * (1 - p)); math.Abs(flips-n*p) > 5*sd {
			t.Errorf("p = %v: %v of %d flipped", p, flips, n)
		}
	}
}
