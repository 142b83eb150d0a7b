package source

import (
	"fmt"
	"path/filepath"
)

// A Kind is one way in which datasets lie on disk. Each has a file of its own, which says how it is recognised, what it holds and how it is read,
// and a line in [Kinds]. To add one, write these two, and let go test -run TestDocuments -docs write the table in docs/packing.md.
type Kind struct {
	// Name, what SRC may be, and what the labels are: for `imgshard build --help`, errors and the documents.
	Name   string
	Forms  []string
	Labels string

	// open returns the splits at a place; none: it is of another kind.
	open func(p *place) ([]*Split, error)
	// takes are the options that say something about this kind.
	takes []option
	// testLabelled says that the test images have labels, so that they are a split beside the others.
	testLabelled bool
}

// Kinds returns all kinds, in the order in which they are tried: the first that recognises a place has it. The more special stand before the more
// general: class folders are last, since any folder of folders is that.
func Kinds() []*Kind {
	return []*Kind{
		&cifar,
		&parquetFiles,
		&lists,
		&kaggle,
		&splitFolders,
		&webDatasets,
		&suffixTars,
		&ilsvrcTest,
		&ilsvrcValidation,
		&classTars,
		&v2Variants,
		&corruptions,
		&cinic10,
		&classFolders,
	}
}

// option is one of [Options] that is for some kinds only.
type option struct {
	flag string
	of   string // what it is for
	get  func(Options) string
}

var (
	optionClasses   = option{"--classes", "for sources whose labels are numbers, as WebDataset's tars, and for class folders and tars", func(o Options) string { return o.Classes }}
	optionLabel     = option{"--label", "for sources with several labels, in columns or under keys", func(o Options) string { return o.Label }}
	optionImages    = option{"--images", "for lists of images, whose paths begin there", func(o Options) string { return o.Images }}
	optionValLabels = option{"--val-labels", "for ILSVRC2012's validation images, which have none", func(o Options) string { return o.ValLabels }}
)

// Open returns the splits that a path holds: one, or the training and the validation split, and sometimes a test split. Nothing is read yet but what
// is needed to tell the kind.
func Open(path string, opts Options) ([]*Split, error) {
	if path == "" {
		return nil, &FormatError{Path: `""`, Msg: "the path is empty, as an unset variable is: name a file or folder (. is this one)"}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	p, err := newPlace(path, opts, Kinds(), fileSystem{})
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.openFor(opts)
}

// openFor opens a place, and refuses options that say nothing about what is there.
func (p *place) openFor(opts Options) ([]*Split, error) {
	splits, err := p.open()
	if err != nil {
		return nil, err
	}
	for _, s := range splits {
		if err := s.bind(); err != nil {
			return nil, err
		}
	}
	for _, o := range []option{optionClasses, optionLabel, optionImages, optionValLabels} {
		if o.get(opts) != "" && !takenBy(splits, o) {
			return nil, &FormatError{Path: p.path, Msg: fmt.Sprintf("is %s, which has labels and class names itself: %s is %s", splits[0].Layout(), o.flag, o.of)}
		}
	}
	return splits, nil
}

func takenBy(splits []*Split, o option) bool {
	for _, s := range splits {
		for _, taken := range s.kind.takes {
			if taken.flag == o.flag {
				return true
			}
		}
	}
	return false
}
