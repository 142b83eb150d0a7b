// Package source reads image classification datasets as people have them on disk, for packing: it tells by looking what a path holds, and
// gives every sample's key, label and bytes.
//
// What it reads is the list of [Kinds]. A kind is asked whether a [candidate], which is a file or folder, is of it, and gives the splits there. A
// split's layout then walks over its samples. Most layouts are [files]: a transport, which gives the files of a folder, a zip or tars one after the
// other, and a label rule, which tells the label of a file by its name. Parquet, lists, WebDataset and CIFAR have layouts of their own.
//
// A sample's key is its path below the split's root with forward slashes, the same whether it lies in a folder or in a tar, so that what is
// built from them is the same too; in WebDataset's tars it is the __key__, which has no extension. A tar may be compressed by gzip; tars are
// told by their content.
//
// Hidden files and folders (.DS_Store, ._x, .ipynb_checkpoints) and what systems leave about (Thumbs.db, desktop.ini, __MACOSX, @eaDir,
// lost+found) are no part of a dataset and are skipped. Files beside the class folders are left out, as torchvision's ImageFolder does, with a
// note. Everything else is an Item, also when it is no image: whoever decodes it decides.
package source

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// ImageBytesMax is the size of the largest image file that is read; a larger one becomes an Item with a Reason.
const ImageBytesMax = 256 << 20

// Options say what looking cannot tell.
type Options struct {
	// Split chooses one of several splits, or names the only one instead of the name that the path suggests.
	Split string
	// ValLabels is a file with the labels of ILSVRC2012's validation images; empty takes those that are known.
	ValLabels string
	// Classes is a file with the name of a class in each line, the first that of label 0, for WebDataset's tars, whose labels are numbers; empty
	// looks for classes.txt or classnames.txt beside them, and else calls the classes by their numbers. "ilsvrc2012" takes the wnids of ILSVRC2012.
	// Of class folders and tars it selects those that are named, in this order.
	Classes string
	// Label is the column of a parquet file or a list with the labels, where empty takes the likeliest or "label"; or, as "json.label", a key in the
	// JSON of WebDataset's samples.
	Label string
	// ImageKey is the extension of the image of WebDataset's samples, from the first dot on; empty is that of any image.
	ImageKey string
	// Images is the folder where the paths of a list begin; empty is the list's own.
	Images string
	// Stdin is what the path StandardInput is read from.
	Stdin io.Reader
	// ClassesFrom says which folder below the path is the class, counted from 1; 0 is 1.
	ClassesFrom int
	// ClassOrder is how classes stand that all are numbers; "" is ClassOrderNumeric.
	ClassOrder string
	// ForceClasses takes folders for classes that are nearly certainly none.
	ForceClasses bool
	// AllowTruncated takes tars that were cut off.
	AllowTruncated bool
	// Fields are values that are wanted of each sample beside its label.
	Fields []Field
	// Test takes test images too, whose labels are unknown: they are -1.
	Test bool
	// NoLabels takes all images without labels: they are -1, and there are no classes.
	NoLabels bool
	// Select says which samples are taken.
	Select Selection

	valFrom, valText string // a file of the labels of ILSVRC2012's validation images that lay beside them, and its content
}

// Orders of classes that all are numbers.
const (
	ClassOrderNumeric = "numeric"
	ClassOrderString  = "string" // as torchvision's ImageFolder has them
)

// Item is one sample of a split, or a file that cannot be one.
type Item struct {
	Key string
	// Reason says why the file cannot be read as an image although nothing failed (a dangling link, a name that is no UTF-8); empty else.
	Reason string
	// Size is the number of bytes of Data.
	Size int64
	// Data is the content when the split is Streamed, valid until the call that got the Item returns; else nil: Read gets it.
	Data io.Reader
	// Object is the path of the file that has Data, byte for byte from Offset on; "" if none has, as of a compressed tar. Of splits that are not
	// Streamed, Place tells it.
	Object string
	Offset int64
	// Label is the sample's when Labelled; else only the end of the walk tells it.
	Label    int32
	Labelled bool
	// Fields are the values of the split's fields when it is Streamed and there is no Reason, valid as Data is; else nil: AppendFields gets them.
	Fields []byte
}

// layout is how a split lies on disk.
type layout interface {
	// describe names the layout for people.
	describe() string
	// walk calls fn for every item and returns the classes and labels.
	walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error)
	// read returns the content of an item that walk gave without Data.
	read(key string, buf []byte) ([]byte, error)
	// streamed says that walk gives Data.
	streamed() bool
	// bytes is about how many bytes walk reads, 0 when it reads only folders.
	bytes() int64
}

// labels are the classes of a split and the label of each key.
type labels struct {
	classes []string
	of      func(key string) (label int32, ok bool)
	used    []string // those of the classes that samples have; nil: all
	// folders says that each class is a folder or a tar, and so is known to be there.
	folders bool
	// numbered says that the classes are called by their labels only: the names that another split has for these labels are better.
	numbered bool
	texts    bool // the classes are the labels' own texts, in sorted order: no number means one
}

// classIndex maps classes to their labels.
func classIndex(classes []string) map[string]int32 {
	index := make(map[string]int32, len(classes))
	for i, c := range classes {
		index[c] = int32(i)
	}
	return index
}

// usedClasses are the classes whose count is not 0.
func usedClasses(classes []string, counts []int) []string {
	var used []string
	for i, n := range counts {
		if n > 0 {
			used = append(used, classes[i])
		}
	}
	return used
}

// Split is one split of a dataset: where its samples are and what they are called. Walk it once, then ask for labels and contents.
type Split struct {
	Name string // "train", "val" or what the path or Options suggest
	Path string // the folder or tar
	// Output is where a set of this split stands unless told otherwise: "/data/train-shards" for "/data/train".
	Output string

	kind     *Kind
	opts     Options
	layout   layout
	fields   []Field // that are asked for, with their types
	labels   labels
	first    *Split // of the splits of one source
	expected []string
	notes    []string
	cut      []string // tars that were cut off
}

// newSplit is a split of that layout.
func newSplit(name, path, output string, l layout, opts Options) *Split {
	return &Split{Name: name, Path: path, Output: output, layout: l, opts: opts}
}

// bindSplits completes the splits of one source: their fields, and that the labels of all are those of the first.
func bindSplits(splits []*Split) error {
	for _, s := range splits {
		if err := s.bind(); err != nil {
			return err
		}
		s.Path, s.first = ShownPath(s.Path), splits[0]
	}
	return nil
}

// Layout says in words what was found, such as "a folder of class folders".
func (s *Split) Layout() string { return s.layout.describe() }

// Streamed says that Walk passes the contents along, in the order in which they lie in tars, and that Read cannot get them afterwards.
func (s *Split) Streamed() bool { return s.layout.streamed() }

// Decoded says that the images are best packed decoded and in their own size: they are those of a dataset of small images, of which nothing is saved
// by keeping files and nothing is gained by resizing once.
func (s *Split) Decoded() bool { return s.kind.decoded }

// Bytes is the size of the tars that Walk reads, as they lie on disk; 0 for folders.
func (s *Split) Bytes() int64 { return s.layout.bytes() }

// Notes are things that the user may want to know: what was left out and why. They are complete after Walk.
func (s *Split) Notes() []string { return s.notes }

func (s *Split) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// ExpectClasses makes Walk label the samples by these classes instead of the split's own, for a split whose labels must agree with those of
// another. Walk then fails when the split has a class that is not among them.
func (s *Split) ExpectClasses(classes []string) { s.expected = slices.Clone(classes) }

// Walk calls fn once for every item of the split, from one goroutine, in no promised order, and stops with fn's error. Items of hostile or
// malformed tars end it with a *FormatError.
func (s *Split) Walk(ctx context.Context, fn func(Item) error) error {
	images := 0
	l, err := s.layout.walk(ctx, s, func(it Item) error {
		if !s.opts.Select.Takes(it.Key) {
			return nil
		}
		if it.Reason == "" {
			images++
		}
		return fn(it)
	})
	if err != nil {
		return err
	}
	if err := s.checkCut(images, len(l.classes)); err != nil {
		return err
	}
	if s.opts.Select.All() {
		s.noteKnown(images, l.classes)
	}
	if s.expected != nil && !slices.Equal(s.expected, l.classes) {
		if l, err = s.relabel(l); err != nil {
			return err
		}
	}
	s.labels = l
	return nil
}

// cutOff notes tars whose end is missing. They are refused, or a note names them, once all is read.
func (s *Split) cutOff(tars []string) { s.cut = tars }

// unlabelled says that the layout knows of no labels, as of test images.
func (s *Split) unlabelled() bool {
	l, ok := s.layout.(interface{ unlabelled() bool })
	return ok && l.unlabelled()
}

// checkCut refuses tars that were cut off.
func (s *Split) checkCut(images, classes int) error {
	if len(s.cut) == 0 {
		return nil
	}
	if s.opts.AllowTruncated {
		s.note("%s missing (%s)", bytesize.Counted(len(s.cut), "tar is taken though its end is", "tars are taken though their end is"), someNames(s.cut))
		return nil
	}
	return refuse(s.cut[0], "does not end in the two blocks of zeros that end a tar, so it was cut off%s: get it again. "+
		"What is there has %s images of %s classes, which --allow-truncated takes", andOthers(len(s.cut)-1), bytesize.Grouped(images), bytesize.Grouped(classes))
}

func andOthers(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", as %d others were", n)
}

// Again is the same split, to be walked over besides this one: for those who have to read it twice. Standard input can't be.
func (s *Split) Again() *Split {
	again := *s
	again.notes, again.cut = slices.Clone(s.notes), nil
	return &again
}

// relabel turns the labels of the split's own classes into those of the expected ones.
func (s *Split) relabel(own labels) (labels, error) {
	l := labels{classes: s.expected, of: own.of}
	if own.numbered {
		if s.first.labels.texts && len(own.classes) > 0 {
			return labels{}, refuse(s.Path, "its labels are numbers, and those of %s are names: write both alike, or name the numbers by --classes FILE", s.first.Path)
		}
		if len(own.classes) > len(s.expected) {
			return labels{}, refuse(s.Path, "has the label %d, and the other split has only %d classes: "+
				"name them all by --classes FILE, or build the splits one at a time", len(own.classes)-1, len(s.expected))
		}
		return l, nil
	}
	used := own.used
	if used == nil {
		used = own.classes
	}
	index := classIndex(s.expected)
	if foreign := without(used, index); len(foreign) > 0 {
		return labels{}, refuse(s.Path, "%d of its %d classes are not among the %d of the other split (%s): "+
			"the two splits' labels would not agree. Build the others by itself with --classes SET, the set of this split, which leaves those out", len(foreign), len(used), len(s.expected), someNames(foreign))
	}
	if own.folders && len(used) < len(s.expected) && !s.opts.ForceClasses {
		return labels{}, refuse(s.Path, "has %d of the other split's %d classes (%s missing): complete it. "+
			"torchvision's ImageFolder would give the two splits labels that disagree; --force-classes labels both by the other split's classes",
			len(used), len(s.expected), someNames(without(s.expected, classIndex(used))))
	}
	s.note("%s has %d of the other split's %d classes and is labelled by those", s.Path, len(used), len(s.expected))
	l.of = func(key string) (int32, bool) {
		label, ok := own.of(key)
		if label >= 0 && ok {
			label = index[own.classes[label]]
		}
		return label, ok
	}
	return l, nil
}

// without are the names that an index does not have.
func without(names []string, index map[string]int32) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := index[name]; return ok })
}

// Classes are the names of the labels 0, 1, …; they are known after Walk.
func (s *Split) Classes() []string { return s.labels.classes }

// Label returns the label of a key that Walk gave.
func (s *Split) Label(key string) (int32, error) {
	if s.labels.of != nil { // else nothing was walked over
		if label, ok := s.labels.of(key); ok {
			return label, nil
		}
	}
	return 0, fmt.Errorf("source: %s: no label for %q", s.Path, key)
}

// Read returns the content of the item of that key, in buf when it is large enough; for splits that are not Streamed. A file that is too large or
// is no regular file gives a *RejectError. It may be called from many goroutines.
func (s *Split) Read(key string, buf []byte) ([]byte, error) { return s.layout.read(key, buf) }

// Root is the folder, or the URL of the place, that the files lie in which Item.Object and Place name.
func (s *Split) Root() string {
	if l, ok := s.layout.(placed); ok {
		return l.place("")
	}
	return s.Path
}

// Place returns the path of the file that is the item of that key, of a split that is not Streamed; "" if there is none, as in a zip.
func (s *Split) Place(key string) string {
	if l, ok := s.layout.(placed); ok {
		return l.place(key)
	}
	return ""
}

// inFolders says that the split's folders can be built by themselves, as those in tars and zips cannot.
func (s *Split) inFolders() bool { return !s.Streamed() && s.Place("") != "" }

// placed is a layout whose items are files of this machine or behind a network.
type placed interface {
	// place returns the path of an item's file, and for "" the folder that all lie in.
	place(key string) string
}

// lies says where a file's data lie, if they do so as they are.
func (it *Item) lies(f *file) {
	if f.offset >= 0 && f.tar != nil {
		it.Object, it.Offset = f.tar.path, f.offset
	}
}
