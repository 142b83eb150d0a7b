package transform

import (
	"fmt"
	"image"
	"math"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestDrawsGolden pins the draws: a change would give other crops to a run that is resumed.
func TestDrawsGolden(t *testing.T) {
	d := NewRNG(42, 3, 1000)
	var got []uint64
	for range 3 {
		got = append(got, d.pcg.Uint64())
	}
	testenv.Equal(t, fmt.Sprintf("%#x", got), "[0xafd15d776d9c6f6a 0x4eb9abd0417ebfa1 0x2bc399ead1817f3d]", "draws")
	train := mustParse("train").ops[0].(RandomResizedCrop)
	for index, want := range []Params{
		{130, 52, 243, 210, false}, {17, 15, 345, 436, false}, {17, 8, 318, 319, false}, {73, 366, 143, 130, false},
	} {
		d := NewRNG(-1, 7, index)
		var p Params
		p.setCrop(train.box(500, 375, &d))
		testenv.Equal(t, p, want, "box %d", index)
	}
}

// TestDrawsDifferByKey checks that every part of the key changes the draws, and pins those of a repetition and of a view.
func TestDrawsDifferByKey(t *testing.T) {
	seen := map[RNG][5]int{}
	for i := range 7 * 7 * 7 * 7 * 7 {
		key := [5]int{i%7 - 3, i / 7 % 7, i / 49 % 7, i / 343 % 7, i / 2401}
		d := NewViewRNG(int64(key[0]), key[1], key[2], key[3], key[4])
		other, ok := seen[d]
		testenv.Require(t, !ok, "%v and %v draw the same", key, other)
		seen[d] = key
		testenv.Require(t, key[3] != 0 || key[4] != 0 || d == NewRNG(int64(key[0]), key[1], key[2]), "%v has other draws than the sample", key)
	}
	for _, c := range []struct {
		repetition, view int
		want             uint64
	}{{2, 0, 0x4bdb5a97c36e391a}, {2, 5, 0x8db50705ef9bf0f5}} {
		d := NewViewRNG(42, 3, 1000, c.repetition, c.view)
		testenv.Equal(t, d.pcg.Uint64(), c.want, "view %d of repetition %d draws", c.view, c.repetition)
	}
}

// TestRandomBoxMatchesTorchvision compares the boxes with histograms of torchvision's own get_params, made by
// testdata/boxes.py: χ² of the two samples.
func TestRandomBoxMatchesTorchvision(t *testing.T) {
	for _, c := range torchvisionBoxes {
		op := mustParse(c.spec).ops[0].(RandomResizedCrop)
		d, got, want := NewRNG(1, 2, 3), drawnCells{}, drawnCells{}
		for range 100000 {
			r := op.box(c.w, c.h, &d)
			testenv.Require(t, !r.Empty() && r.In(image.Rect(0, 0, c.w, c.h)), "%v: box %v", c, r)
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
		testenv.Require(t, !r.Empty() && r.In(image.Rect(0, 0, 100, 100)), "box %v", r)
		most = max(most, r.Dx()*r.Dy())
	}
	testenv.Between(t, most, 10, 20, "pixels of the largest of 1000 boxes")
}

func TestParamsInt32s(t *testing.T) {
	testenv.Equal(t, (Params{-1, 2, 3, 4, true}).Int32s(), [ParamsLen]int32{-1, 2, 3, 4, 1}, "numbers")
	testenv.Equal(t, (Params{}).Int32s(), [ParamsLen]int32{}, "numbers of nothing")
}
