package transform

import (
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestResized compares the text of resized transforms.
func TestResized(t *testing.T) {
	for _, c := range []struct {
		text string
		size int
		want string
	}{
		{"eval", 160, `[{"op": "Resize", "size": 183}, {"op": "CenterCrop", "size": 160}]`},
		{"train", 96, `[{"op": "RandomResizedCrop", "size": 96}, {"op": "RandomHorizontalFlip"}]`},
		{`[{"op": "Resize", "size": [300, 200]}]`, 100, `[{"op": "Resize", "size": [150, 100]}]`},
		{`[{"op": "Resize", "size": 256, "max_size": 300}, {"op": "CenterCrop", "size": 128}]`, 64, `[{"op": "Resize", "size": 128, "max_size": 150}, {"op": "CenterCrop", "size": 64}]`},
		{`{"views": ["train", {"repeat": 8, "ops": [{"op": "CenterCrop", "size": 96}]}]}`, 112,
			`{"views": [[{"op": "RandomResizedCrop", "size": 112}, {"op": "RandomHorizontalFlip"}], {"repeat": 8, "ops": [{"op": "CenterCrop", "size": 48}]}]}`},
		{`[{"op": "RandomApply", "p": 0.5, "transforms": [{"op": "ColorJitter", "hue": 0.1}]}, {"op": "CenterCrop", "size": 3}]`, 1,
			`[{"op": "RandomApply", "p": 0.5, "transforms": [{"op": "ColorJitter", "hue": 0.1}]}, {"op": "CenterCrop", "size": 1}]`},
		{"train", 0, "a size of 0 pixels"},
		{"eval", SizeMax, "size is 18725"},
	} {
		got, err := mustParseViews(t, c.text).Resized(c.size)
		if err != nil {
			testenv.Says(t, c, err, c.want)
		} else if want := mustParseViews(t, c.want); got.String() != want.String() {
			t.Errorf("%s with %d is %s, want %s", c.text, c.size, got, want)
		}
	}
}

// TestFitted compares the text of transforms with another size and ratio.
func TestFitted(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"train", `[{"op": "RandomResizedCrop", "size": [20, 30], "ratio": [1.5, 1.5]}, {"op": "RandomHorizontalFlip"}]`},
		{`{"views": ["train", [{"op": "RandomResizedCrop", "size": 8, "scale": [1, 1]}]]}`,
			`{"views": [[{"op": "RandomResizedCrop", "size": [20, 30], "ratio": [1.5, 1.5]}, {"op": "RandomHorizontalFlip"}], [{"op": "RandomResizedCrop", "size": [20, 30], "scale": [1, 1], "ratio": [1.5, 1.5]}]]}`},
		{"eval", "whose only size is that of a RandomResizedCrop"},
		{`[{"op": "RandomResizedCrop", "size": 8}, {"op": "CenterCrop", "size": 4}]`, "whose only size is that of a RandomResizedCrop"},
	} {
		got, err := mustParseViews(t, c.text).Fitted(20, 30)
		if err != nil {
			testenv.Says(t, c.text, err, c.want)
		} else if want := mustParseViews(t, c.want); got.String() != want.String() {
			t.Errorf("%s is %s, want %s", c.text, got, want)
		}
	}
}
