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

	// Takes lists the options for some kinds only that this kind takes.
	Takes []*Option
	// TestLabelled says that test images have labels, so that they are a split like the others.
	TestLabelled bool
	// Decoded says that images are best packed decoded and in their own size, as in a dataset of small images.
	Decoded bool
	// Published is the published set of this kind. If it is empty, the classes identify the set.
	Published Published
}

// Option is one of [Options] for some kinds only.
type Option struct {
	flag  string
	of    string // the kinds that take it
	given func(Options) bool
}

// The options for some kinds only.
var (
	OptionClasses = &Option{"--classes", "for sources whose labels are numbers, as WebDataset's tars, and for class folders and tars",
		func(o Options) bool { return o.Classes != "" }}
	OptionLabel = &Option{"--label", "for sources with several labels, in columns or under keys",
		func(o Options) bool { return o.Label != "" }}
	OptionImageKey = &Option{"--image-key", "for WebDataset's tars, whose samples have files of several extensions",
		func(o Options) bool { return o.ImageKey != "" }}
	OptionImages   = &Option{"--images", "for lists of images, whose paths begin there", func(o Options) bool { return o.Images != "" }}
	OptionNoLabels = &Option{"--no-labels", "for images in folders, tars, parquet files and lists",
		func(o Options) bool { return o.NoLabels }}
)

// Published is a split of a dataset as it was published.
type Published struct {
	Name   string
	Images int
}

// ILSVRCValidation is ILSVRC2012's validation set.
var ILSVRCValidation = Published{"ILSVRC2012's validation set", 50_000}

// known returns the published set with these classes and this split's name; ok is false if no set or several match.
func (s *Split) known(classes []string) (Published, bool) {
	// Hugging Face calls the classes by words, in the same order.
	ilsvrc := slices.Equal(classes, wordnet.Wnids()) || len(classes) == 1000 && classes[0] == "tench, Tinca tinca"
	switch {
	case s.Kind != nil && s.Kind.Published.Name != "":
		return s.Kind.Published, true
	case ilsvrc && s.Name == "train":
		return Published{"ILSVRC2012's training set", 1_281_167}, true
	case ilsvrc && s.Name == "val":
		return ILSVRCValidation, true
	}
	for _, k := range knownBySize {
		if len(classes) == k.classes && s.Name == k.split && !slices.ContainsFunc(classes, func(c string) bool { return !IsWnid(c) }) {
			return k.Published, true
		}
	}
	return Published{}, false
}

// knownBySize lists sets of wnids that the number of their classes identifies. ImageNet-21K-P's are of Ridnik et al., "ImageNet-21K
// Pretraining for the Masses", 2021, and its processing_instructions.md.
var knownBySize = []struct {
	classes int
	split   string
	Published
}{
	{21_841, "train", Published{"ImageNet-21k of fall 2011", 14_197_122}},
	{19_167, "train", Published{"ImageNet-21k of winter 2021", 13_153_500}},
	{11_221, "train", Published{"ImageNet-21K-P of fall 2011", 11_797_632}},
	{11_221, "val", Published{"ImageNet-21K-P of fall 2011", 561_052}},
	{10_450, "train", Published{"ImageNet-21K-P of winter 2021", 11_060_223}},
	{10_450, "val", Published{"ImageNet-21K-P of winter 2021", 522_500}},
}

// noteKnown compares the number of images with the published one.
func (s *Split) noteKnown(images int, classes []string) {
	k, ok := s.known(classes)
	if !ok || images == k.Images {
		return
	}
	what := fmt.Sprintf("%s too many", bytesize.Grouped(images-k.Images))
	if images < k.Images {
		what = fmt.Sprintf("%s are missing", bytesize.Grouped(k.Images-images))
	}
	s.Note("%s has %s images, and here are %s: %s", k.Name, bytesize.Grouped(k.Images), bytesize.Grouped(images), what)
}
