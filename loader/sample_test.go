package loader

import (
	"errors"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
)

// TestWhole reads every image of a golden set as it is stored. That the pixels are Pillow's the tests in Python compare.
func TestWhole(t *testing.T) {
	set := testenv.Must(shard.OpenSet("../shard/testdata/v1/train-shards"))(t)
	defer set.Close()
	samples := testenv.Must(FromShards(set))(t)
	for i := range set.Len() {
		record, _, err := set.Read(i, nil)
		if err != nil {
			t.Fatal(err)
		}
		image, label, err := Whole(samples, i)
		if err != nil {
			t.Fatal(err)
		}
		if image.Width != int(record.Width) || image.Height != int(record.Height) || label != record.Label || len(image.Pix) != 3*image.Width*image.Height {
			t.Errorf("sample %d is %d×%d with label %d and %d bytes, stored are %d×%d and label %d",
				i, image.Width, image.Height, label, len(image.Pix), record.Width, record.Height, record.Label)
		}
	}
	if _, _, err := Whole(samples, set.Len()); !errors.Is(err, shard.ErrNotFound) {
		t.Errorf("a sample beyond the end: %v", err)
	}
}
