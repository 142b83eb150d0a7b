package dataset

import (
	"fmt"
	"slices"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/wordnet"
)

// A Kind is a format of datasets on disk. To add one, declare it, write the function that opens its splits, add both to the table in
// package source, and let go test -run TestDocuments -docs write the table in docs/packing.md.
type Kind struct {
	// The name, the possible values of SRC, and the meaning of the labels, for `imgshard build --help`, errors and the documents.
	Name   string
	Forms  []string
	Labels string

	// Takes lists the flags for some kinds only that this kind takes.
	Takes []string
	// TestLabelled says that test images have labels, so that they are a split like the others.
	TestLabelled bool
	// Decoded says that images are best packed decoded and in their own size: they are so small that files save nothing and resizing
	// gains nothing.
	Decoded bool
}

// noteKnown compares the number of images of ILSVRC2012, which the classes identify, with the published one.
func (s *Split) noteKnown(images int, classes []string) {
	published := map[string]int{"train": 1_281_167, "val": 50_000}[s.Name]
	// Hugging Face calls the classes by words, in the same order.
	ilsvrc := slices.Equal(classes, wordnet.Wnids()) || len(classes) == 1000 && classes[0] == "tench, Tinca tinca"
	if !ilsvrc || published == 0 || images == published {
		return
	}
	what := fmt.Sprintf("%s too many", bytesize.Grouped(images-published))
	if images < published {
		what = fmt.Sprintf("%s are missing", bytesize.Grouped(published-images))
	}
	s.Note("ILSVRC2012's split %s has %s images, and here are %s: %s", s.Name, bytesize.Grouped(published), bytesize.Grouped(images), what)
}
