package source

import (
	"fmt"
	"slices"

	"github.com/imgfeed/imgfeed/internal/bytesize"
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
	}
	for _, k := range knownBySize {
		if len(classes) == k.classes && s.Name == k.split && !slices.ContainsFunc(classes, func(c string) bool { return !isWnid(c) }) {
			return k.knownSet, true
		}
	}
	return knownSet{}, false
}

// knownBySize are sets that the number of their classes tells, if all are wnids. ImageNet-21K-P's are of Ridnik et al., "ImageNet-21K
// Pretraining for the Masses", 2021, and its processing_instructions.md.
var knownBySize = []struct {
	classes int
	split   string
	knownSet
}{
	{21_841, "train", knownSet{"ImageNet-21k of fall 2011", 14_197_122}},
	{19_167, "train", knownSet{"ImageNet-21k of winter 2021", 13_153_500}},
	{11_221, "train", knownSet{"ImageNet-21K-P of fall 2011", 11_797_632}},
	{11_221, "val", knownSet{"ImageNet-21K-P of fall 2011", 561_052}},
	{10_450, "train", knownSet{"ImageNet-21K-P of winter 2021", 11_060_223}},
	{10_450, "val", knownSet{"ImageNet-21K-P of winter 2021", 522_500}},
}

// noteKnown compares the number of images with the published one.
func (s *Split) noteKnown(images int, classes []string) {
	k, ok := s.known(classes)
	if !ok || images == k.images {
		return
	}
	what := fmt.Sprintf("%s too many", bytesize.Grouped(images-k.images))
	if images < k.images {
		what = fmt.Sprintf("%s are missing", bytesize.Grouped(k.images-images))
	}
	s.note("%s has %s images, and here are %s: %s", k.name, bytesize.Grouped(k.images), bytesize.Grouped(images), what)
}
