package labelrule

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/internal/wordnet"
)

// TestValTable compares the table with what is known of it: all of it by its sum, 50 images of each class, and the first and a famous one by hand.
func TestValTable(t *testing.T) {
	labels, classes := make([]int32, valImages), wordnet.Wnids()
	for i := range labels {
		labels[i] = testenv.Must(ValLabel(fmt.Sprintf("ILSVRC2012_val_%08d.JPEG", i+1)))(t)
	}
	var text strings.Builder
	counts := make(map[int32]int)
	for _, label := range labels {
		counts[label]++
		text.WriteString(classes[label] + "\n")
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text.String())))
	testenv.Equal(t, sum, "313fc3f23c864dde9183c9a368809065765dd1b657a6904fded44e3e46d34604", "SHA-256 of the wnids of the 50,000 images")
	testenv.Check(t, len(counts) == 1000 && labels[0] == 65 && classes[labels[292]] == "n01440764",
		"%d classes with images, image 1 has label %d, image 293 is a %s", len(counts), labels[0], classes[labels[292]])
	for label, n := range counts {
		testenv.Equal(t, n, 50, "images of class %d", label)
	}
}
