package transform

import (
	"strings"
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
		views := testenv.Must(ParseViews(c.text, Pillow13))(t)
		got, err := views.Resized(c.size)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s with %d: %v", c.text, c.size, err)
			}
			continue
		}
		want, err := ParseViews(c.want, Pillow13)
		if err != nil || got.String() != want.String() {
			t.Errorf("%s with %d is %s, want %s (%v)", c.text, c.size, got, want, err)
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
		views := testenv.Must(ParseViews(c.text, Pillow13))(t)
		got, err := views.Fitted(20, 30)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.text, err)
			}
			continue
		}
		if want, err := ParseViews(c.want, Pillow13); err != nil || got.String() != want.String() {
			t.Errorf("%s is %s, want %s (%v)", c.text, got, want, err)
		}
	}
}
