package suggest

import (
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

func TestName(t *testing.T) {
	known := []string{"eval", "train", "train-resize", "RandomResizedCrop", "CenterCrop"}
	for given, want := range map[string]string{
		"trian": "train", "Train": "train", "traim": "train", "train_resize": "train-resize", "randomresizedcrop": "RandomResizedCrop",
		"RandomResizeCrop": "RandomResizedCrop", "CentreCrop": "CenterCrop", "evl": "eval", "": "", "byol": "", "Pad": "", "träin": "train",
	} {
		testenv.Equal(t, Name(given, known), want, "%q", given)
	}
	testenv.Equal(t, Hint("evla", known), ` (did you mean "eval"?)`, "hint")
	testenv.Equal(t, Hint("x", known), "", "hint")
}
