package source

import (
	"fmt"
	"slices"
	"strconv"
)

// A knownSet is a split of a dataset as it was published.
type knownSet struct {
	name   string
	images int
}

// known returns what is published with these classes under this split's name; ok is false where several datasets have them.
func (s *Split) known(classes []string) (knownSet, bool) {
	// Hugging Face calls the classes by words, in the same order.
	ilsvrc := slices.Equal(classes, ilsvrcVal().classes) || len(classes) == 1000 && classes[0] == "tench, Tinca tinca"
	switch {
	case s.kind == &ilsvrcValidation:
		return knownSet{"ILSVRC2012's validation set", valImages}, true
	case s.kind == &ilsvrcTest:
		return knownSet{"ILSVRC2012's test set", testImages}, true
	case ilsvrc && s.Name == "train":
		return knownSet{"ILSVRC2012's training set", 1_281_167}, true
	case ilsvrc && s.Name == "val":
		return knownSet{"ILSVRC2012's validation set", valImages}, true
	case s.kind == &cinic10:
		return knownSet{"each split of CINIC-10", 90_000}, true
	}
	return knownSet{}, false
}

// noteKnown compares the number of images with the published one.
func (s *Split) noteKnown(images int, classes []string) {
	k, ok := s.known(classes)
	if !ok || images == k.images {
		return
	}
	what := fmt.Sprintf("%s too many", grouped(images-k.images))
	if images < k.images {
		what = fmt.Sprintf("%s are missing", grouped(k.images-images))
	}
	s.note("%s has %s images, and here are %s: %s", k.name, grouped(k.images), grouped(images), what)
}

// grouped writes a number with commas.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
