package transform

import (
	"slices"
	"testing"
)

// TestDrawsGolden pins the draws: a change would give other crops to a run that is resumed.
func TestDrawsGolden(t *testing.T) {
	d := NewRNG(42, 3, 1000)
	var got []uint64
	for range 3 {
		got = append(got, d.pcg.Uint64())
	}
	if want := []uint64{0xafd15d776d9c6f6a, 0x4eb9abd0417ebfa1, 0x2bc399ead1817f3d}; !slices.Equal(got, want) {
		t.Errorf("draws %#x, want %#x", got, want)
	}
	train := mustParse("train").ops[0].(RandomResizedCrop)
	var boxes []Params
	for index := range 4 {
		d := NewRNG(-1, 7, index)
		var p Params
		p.setCrop(train.box(500, 375, &d))
		boxes = append(boxes, p)
	}
	if want := []Params{{130, 52, 243, 210, false}, {17, 15, 345, 436, false}, {17, 8, 318, 319, false}, {73, 366, 143, 130, false}}; !slices.Equal(boxes, want) {
		t.Errorf("boxes %v, want %v", boxes, want)
	}
}

func TestDrawsDifferByKey(t *testing.T) {
	seen := map[uint64][3]int{}
	for seed := range 20 {
		for epoch := range 20 {
			for index := range 20 {
				d := NewRNG(int64(seed-10), epoch, index)
				v, key := d.pcg.Uint64(), [3]int{seed, epoch, index}
				if other, ok := seen[v]; ok {
					t.Fatalf("%v and %v draw the same", key, other)
				}
				seen[v] = key
			}
		}
	}
}

// TestRepetitionsDifferByKey checks that a repetition has draws of its own, and repetition 0 those of the sample.
func TestRepetitionsDifferByKey(t *testing.T) {
	seen := map[uint64][2]int{}
	for index := range 100 {
		for repetition := range 100 {
			d := NewViewRNG(3, 1, index, repetition, 0)
			v, key := d.pcg.Uint64(), [2]int{index, repetition}
			if other, ok := seen[v]; ok {
				t.Fatalf("%v and %v draw the same", key, other)
			}
			seen[v] = key
		}
		first, plain := NewViewRNG(3, 1, index, 0, 0), NewRNG(3, 1, index)
		if first != plain {
			t.Fatalf("sample %d: repetition 0 has other draws than the sample", index)
		}
	}
	d := NewViewRNG(42, 3, 1000, 2, 0)
	if got, want := d.pcg.Uint64(), uint64(0x4bdb5a97c36e391a); got != want {
		t.Errorf("repetition 2 draws %#x, want %#x", got, want)
	}
}
