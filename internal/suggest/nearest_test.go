package suggest

import "testing"

func TestName(t *testing.T) {
	known := []string{"eval", "train", "train-resize", "RandomResizedCrop", "CenterCrop"}
	for given, want := range map[string]string{
		"trian": "train", "Train": "train", "traim": "train", "train_resize": "train-resize", "randomresizedcrop": "RandomResizedCrop",
		"RandomResizeCrop": "RandomResizedCrop", "CentreCrop": "CenterCrop", "evl": "eval", "": "", "byol": "", "Pad": "", "träin": "train",
	} {
		if got := Name(given, known); got != want {
			t.Errorf("%q: %q is meant, want %q", given, got, want)
		}
	}
	if got := Hint("evla", known); got != ` (did you mean "eval"?)` {
		t.Errorf("hint %q", got)
	}
	if got := Hint("x", known); got != "" {
		t.Errorf("hint %q", got)
	}
}
