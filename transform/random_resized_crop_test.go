package transform

import (
	"fmt"
	"image"
	"math"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestRandomBoxMatchesTorchvision compares the boxes with histograms of torchvision's own get_params, made by
// testdata/boxes.py: χ² of the two samples.
func TestRandomBoxMatchesTorchvision(t *testing.T) {
	for _, c := range torchvisionBoxes {
		op := mustParse(c.spec).ops[0].(RandomResizedCrop)
		d, got, want := NewRNG(1, 2, 3), drawnCells{}, drawnCells{}
		for range 100000 {
			r := op.box(c.w, c.h, &d)
			if r.Empty() || !r.In(image.Rect(0, 0, c.w, c.h)) {
				t.Fatalf("%v: box %v", c, r)
			}
			for i, cell := range boxCells(c.w, c.h, r) {
				got.count(boxQuantities[i], fmt.Sprint(cell))
			}
		}
		for i, quantity := range boxQuantities {
			want[quantity] = map[string]int{}
			for cell, n := range c.cells[i] {
				want[quantity][fmt.Sprint(cell)] = int(n)
			}
			alike(t, fmt.Sprintf("%s of %d×%d %s", quantity, c.w, c.h, c.spec), got[quantity], want[quantity])
		}
	}
}

var boxQuantities = [4]string{"area", "ratio", "top", "left"}

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
		spec := must(NewSpec(RandomResizedCrop{Size: Size{5}, Scale: [2]float64{0.9, 1}}))
		op, d := spec.ops[0].(RandomResizedCrop), NewRNG(0, 0, 0)
		testenv.Equal(t, op.box(c.w, c.h, &d), c.want, "%d×%d", c.w, c.h)
	}
}

// TestScaleFromNothing: torchvision takes a scale from 0 on, and tries again where a box of that area has no pixel.
func TestScaleFromNothing(t *testing.T) {
	op := mustParse(`[{"op":"RandomResizedCrop","size":9,"scale":[0,1e-3]}]`).ops[0].(RandomResizedCrop)
	d, most := NewRNG(1, 2, 3), 0
	for range 1000 {
		r := op.box(100, 100, &d)
		if r.Empty() || !r.In(image.Rect(0, 0, 100, 100)) {
			t.Fatalf("box %v", r)
		}
		most = max(most, r.Dx()*r.Dy())
	}
	if most < 10 || most > 20 {
		t.Errorf("the largest of 1000 boxes has %d pixels, want about 10", most)
	}
}
