package transform

import (
	"fmt"
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
	for index, want := range []Params{{130, 52, 243, 210, false}, {17, 15, 345, 436, false}, {17, 8, 318, 319, false}, {73, 366, 143, 130, false}} {
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
		if other, ok := seen[d]; ok {
			t.Fatalf("%v and %v draw the same", key, other)
		}
		if seen[d] = key; key[3] == 0 && key[4] == 0 && d != NewRNG(int64(key[0]), key[1], key[2]) {
			t.Fatalf("%v has other draws than the sample", key)
		}
	}
	for _, c := range []struct {
		repetition, view int
		want             uint64
	}{{2, 0, 0x4bdb5a97c36e391a}, {2, 5, 0x8db50705ef9bf0f5}} {
		d := NewViewRNG(42, 3, 1000, c.repetition, c.view)
		testenv.Equal(t, d.pcg.Uint64(), c.want, "view %d of repetition %d draws", c.view, c.repetition)
	}
}
