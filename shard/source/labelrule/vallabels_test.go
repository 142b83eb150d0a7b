package labelrule

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/wordnet"
)

var updateTable = flag.String("update", "", "write the table of ILSVRC2012's validation images from this file, which has the wnid of each in a line")

// TestValTable compares the table with what is known of it: all of it by its sum, 50 images of each class, and the first and a famous one by hand.
func TestValTable(t *testing.T) {
	if *updateTable != "" {
		text, err := os.ReadFile(*updateTable)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("ilsvrc2012-val.gz", packValTable(t, strings.Fields(string(text))), 0o666); err != nil {
			t.Fatal(err)
		}
		t.Skip("written; run the test again")
	}
	labels, classes := valLabels(), wordnet.Wnids()
	var text strings.Builder
	counts := make(map[int32]int)
	for _, label := range labels {
		counts[label]++
		text.WriteString(classes[label] + "\n")
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text.String()))); sum != "313fc3f23c864dde9183c9a368809065765dd1b657a6904fded44e3e46d34604" {
		t.Errorf("the wnids of the 50,000 images have the SHA-256 %s", sum)
	}
	if len(counts) != 1000 || labels[0] != 65 || classes[labels[292]] != "n01440764" {
		t.Errorf("%d classes with images, image 1 has label %d, image 293 is a %s", len(counts), labels[0], classes[labels[292]])
	}
	for label, n := range counts {
		if n != 50 {
			t.Errorf("%d images of class %d", n, label)
		}
	}
}

// packValTable makes the table of the wnids of all images.
func packValTable(t *testing.T, wnids []string) []byte {
	if len(wnids) != valImages {
		t.Fatalf("%d images", len(wnids))
	}
	var low, high []byte
	for i, wnid := range wnids {
		label, known := slices.BinarySearch(wordnet.Wnids(), wnid)
		if !known {
			t.Fatalf("image %d is a %s", i+1, wnid)
		}
		low, high = append(low, byte(label)), append(high, byte(label>>8))
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(low)
	w.Write(high)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}
