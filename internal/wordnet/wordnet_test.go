package wordnet

import (
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

func TestWords(t *testing.T) {
	for class, want := range map[string]string{"n01440764": "tench, Tinca tinca", "n02012849": "crane", "n03126707": "crane", "n02113186": "Cardigan, Cardigan Welsh corgi",
		"n15075141": "toilet tissue, toilet paper, bathroom tissue", "n00000001": "", "cat": ""} {
		testenv.Equal(t, Words(class), want, "%s", class)
	}
	wnids := Wnids()
	testenv.Check(t, len(wnids) == 1000 && slices.IsSorted(wnids), "%d wnids, in order: %v", len(wnids), slices.IsSorted(wnids))
	for _, wnid := range wnids {
		testenv.Check(t, Words(wnid) != "", "%s has no words", wnid)
	}
}
