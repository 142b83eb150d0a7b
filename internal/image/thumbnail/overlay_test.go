package thumbnail

import (
	"math"
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

func TestColourOf(t *testing.T) { // of VOC's colour map from label 1 on
	for label, want := range [][3]byte{{128, 0, 0}, {0, 128, 0}, {128, 128, 0}, {0, 0, 128}} {
		testenv.Equal(t, colourOf(int64(label)), want, "%d", label)
	}
}

func TestDrawBox(t *testing.T) {
	pix := make([]byte, 3*4*3)
	drawBox(pix, 4, 3, [4]float32{1, -5, 9, 2}, 0)
	var drawn []int
	for i := range 12 {
		if pix[3*i] == 255 {
			drawn = append(drawn, i)
		}
	}
	want := []int{1, 2, 3, 5, 7, 9, 10, 11}
	testenv.Check(t, slices.Equal(drawn, want), "%v, want %v", drawn, want)
	for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e30} {
		drawBox(pix, 4, 3, [4]float32{x, x, 1, 1}, -1)
	}
}

func TestDrawMask(t *testing.T) {
	pix := make([]byte, 3*4)
	drawMask(pix, 4, 1, []byte{0, 255}, 2, 1)
	want := []byte{64, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0}
	testenv.Check(t, slices.Equal(pix, want), "%v, want %v", pix, want)
}
