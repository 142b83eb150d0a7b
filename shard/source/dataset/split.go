// Package dataset says what a dataset to pack is: its splits, their samples with keys, labels and fields, and the options that choose among them. A
// [Layout] reads the samples of one [Split].
package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

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

	ValFrom, ValText string // a file of the labels of ILSVRC2012's validation images that lay beside them, and its content
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

// Layout is how a split lies on disk.
type Layout interface {
	// Describe names the layout for people.
	Describe() string
	// Walk calls fn for every item and returns the classes and labels.
	Walk(ctx context.Context, s *Split, fn func(Item) error) (Labels, error)
	// Read returns the content of an item that walk gave without Data.
	Read(key string, buf []byte) ([]byte, error)
	// Streamed says that walk gives Data.
	Streamed() bool
	// Bytes is about how many bytes walk reads, 0 when it reads only folders.
	Bytes() int64
}

// Labels are the classes of a split and the label of each key.
type Labels struct {
	Classes []string
	Of      func(key string) (label int32, ok bool)
	Used    []string // those of the classes that samples have; nil: all
	// Folders says that each class is a folder or a tar, and so is known to be there.
	Folders bool
	// Numbered says that the classes are called by their labels only: the names that another split has for these labels are better.
	Numbered bool
	Texts    bool // the classes are the labels' own texts, in sorted order: no number means one
}

// ClassIndex maps classes to their labels.
func ClassIndex(classes []string) map[string]int32 {
	index := make(map[string]int32, len(classes))
	for i, c := range classes {
		index[c] = int32(i)
	}
	return index
}

// UsedClasses are the classes whose count is not 0.
func UsedClasses(classes []string, counts []int) []string {
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

	Kind     *Kind
	Options  Options
	layout   Layout
	fields   []Field // that are asked for, with their types
	labels   Labels
	first    *Split // of the splits of one source
	expected []string
	notes    []string
	cut      []string // tars that were cut off
}

// NewSplit is a split of that layout.
func NewSplit(name, path, output string, l Layout, opts Options) *Split {
	return &Split{Name: name, Path: path, Output: output, layout: l, Options: opts}
}

// Bind completes the splits of a source that the options were given for: their fields, and that the labels of all are those of the first.
func Bind(path string, splits []*Split, opts Options) error {
	for _, s := range splits {
		if err := s.bind(); err != nil {
			return err
		}
		s.Path, s.first = transport.ShownPath(s.Path), splits[0]
	}
	for _, o := range []*Option{OptionClasses, OptionLabel, OptionImageKey, OptionImages, OptionValLabels, OptionNoLabels} {
		taken := slices.ContainsFunc(splits, func(s *Split) bool { return slices.Contains(s.Kind.Takes, o) })
		if o.given(opts) && !taken {
			return transport.Refuse(path, "is %s, which has labels and class names itself: %s is %s", splits[0].Layout(), o.flag, o.of)
		}
	}
	return nil
}

// Layout says in words what was found, such as "a folder of class folders".
func (s *Split) Layout() string { return s.layout.Describe() }

// Streamed says that Walk passes the contents along, in the order in which they lie in tars, and that Read cannot get them afterwards.
func (s *Split) Streamed() bool { return s.layout.Streamed() }

// Decoded says that the images are best packed decoded and in their own size: they are those of a dataset of small images, of which nothing is saved
// by keeping files and nothing is gained by resizing once.
func (s *Split) Decoded() bool { return s.Kind.Decoded }

// Bytes is the size of the tars that Walk reads, as they lie on disk; 0 for folders.
func (s *Split) Bytes() int64 { return s.layout.Bytes() }

// Notes are things that the user may want to know: what was left out and why. They are complete after Walk.
func (s *Split) Notes() []string { return s.notes }

func (s *Split) Note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// ExpectClasses makes Walk label the samples by these classes instead of the split's own, for a split whose labels must agree with those of
// another. Walk then fails when the split has a class that is not among them.
func (s *Split) ExpectClasses(classes []string) { s.expected = slices.Clone(classes) }

// Walk calls fn once for every item of the split, from one goroutine, in no promised order, and stops with fn's error. Items of hostile or
// malformed tars end it with a *FormatError.
func (s *Split) Walk(ctx context.Context, fn func(Item) error) error {
	images := 0
	l, err := s.layout.Walk(ctx, s, func(it Item) error {
		if !s.Options.Select.Takes(it.Key) {
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
	if err := s.checkCut(images, len(l.Classes)); err != nil {
		return err
	}
	if s.Options.Select.All() {
		s.noteKnown(images, l.Classes)
	}
	if s.expected != nil && !slices.Equal(s.expected, l.Classes) {
		if l, err = s.relabel(l); err != nil {
			return err
		}
	}
	s.labels = l
	return nil
}

// CutOff notes tars whose end is missing. They are refused, or a note names them, once all is read.
func (s *Split) CutOff(tars []string) { s.cut = tars }

// Unlabelled says that the layout knows of no labels, as of test images.
func (s *Split) Unlabelled() bool {
	l, ok := s.layout.(interface{ Unlabelled() bool })
	return ok && l.Unlabelled()
}

// checkCut refuses tars that were cut off.
func (s *Split) checkCut(images, classes int) error {
	if len(s.cut) == 0 {
		return nil
	}
	if s.Options.AllowTruncated {
		s.Note("%s missing (%s)", bytesize.Counted(len(s.cut), "tar is taken though its end is", "tars are taken though their end is"), transport.SomeNames(s.cut))
		return nil
	}
	return transport.Refuse(s.cut[0], "does not end in the two blocks of zeros that end a tar, so it was cut off%s: get it again. "+
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
func (s *Split) relabel(own Labels) (Labels, error) {
	l := Labels{Classes: s.expected, Of: own.Of}
	if own.Numbered {
		if s.first.labels.Texts && len(own.Classes) > 0 {
			return Labels{}, transport.Refuse(s.Path, "its labels are numbers, and those of %s are names: write both alike, or name the numbers by --classes FILE", s.first.Path)
		}
		if len(own.Classes) > len(s.expected) {
			return Labels{}, transport.Refuse(s.Path, "has the label %d, and the other split has only %d classes: "+
				"name them all by --classes FILE, or build the splits one at a time", len(own.Classes)-1, len(s.expected))
		}
		return l, nil
	}
	used := own.Used
	if used == nil {
		used = own.Classes
	}
	index := ClassIndex(s.expected)
	if foreign := Without(used, index); len(foreign) > 0 {
		return Labels{}, transport.Refuse(s.Path, "%d of its %d classes are not among the %d of the other split (%s): "+
			"the two splits' labels would not agree. Build the others by itself with --classes SET, the set of this split, which leaves those out", len(foreign), len(used), len(s.expected), transport.SomeNames(foreign))
	}
	if own.Folders && len(used) < len(s.expected) && !s.Options.ForceClasses {
		return Labels{}, transport.Refuse(s.Path, "has %d of the other split's %d classes (%s missing): complete it. "+
			"torchvision's ImageFolder would give the two splits labels that disagree; --force-classes labels both by the other split's classes",
			len(used), len(s.expected), transport.SomeNames(Without(s.expected, ClassIndex(used))))
	}
	s.Note("%s has %d of the other split's %d classes and is labelled by those", s.Path, len(used), len(s.expected))
	l.Of = func(key string) (int32, bool) {
		label, ok := own.Of(key)
		if label >= 0 && ok {
			label = index[own.Classes[label]]
		}
		return label, ok
	}
	return l, nil
}

// Without are the names that an index does not have.
func Without(names []string, index map[string]int32) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := index[name]; return ok })
}

// Classes are the names of the labels 0, 1, …; they are known after Walk.
func (s *Split) Classes() []string { return s.labels.Classes }

// Label returns the label of a key that Walk gave.
func (s *Split) Label(key string) (int32, error) {
	if s.labels.Of != nil { // else nothing was walked over
		if label, ok := s.labels.Of(key); ok {
			return label, nil
		}
	}
	return 0, fmt.Errorf("source: %s: no label for %q", s.Path, key)
}

// Read returns the content of the item of that key, in buf when it is large enough; for splits that are not Streamed. A file that is too large or
// is no regular file gives a *RejectError. It may be called from many goroutines.
func (s *Split) Read(key string, buf []byte) ([]byte, error) { return s.layout.Read(key, buf) }

// Root is the folder, or the URL of the place, that the files lie in which Item.Object and Place name.
func (s *Split) Root() string {
	if l, ok := s.layout.(Placed); ok {
		return l.Place("")
	}
	return s.Path
}

// Place returns the path of the file that is the item of that key, of a split that is not Streamed; "" if there is none, as in a zip.
func (s *Split) Place(key string) string {
	if l, ok := s.layout.(Placed); ok {
		return l.Place(key)
	}
	return ""
}

// InFolders says that the split's folders can be built by themselves, as those in tars and zips cannot.
func (s *Split) InFolders() bool { return !s.Streamed() && s.Place("") != "" }

// Placed is a layout whose items are files of this machine or behind a network.
type Placed interface {
	// Place returns the path of an item's file, and for "" the folder that all lie in.
	Place(key string) string
}

// Lies says where a file's data lie, if they do so as they are.
func (it *Item) Lies(f *transport.File) {
	if f.Offset >= 0 && f.Tar != nil {
		it.Object, it.Offset = f.Tar.Path, f.Offset
	}
}

// Preview is what a short look at a split tells, without reading all of it.
type Preview struct {
	Images  int  // how many were met
	Whole   bool // these are all, and Classes are known
	Classes []string
	Samples []PreviewSample
	Notes   []string
	// Refused is why the split cannot be packed as it is; nil when nothing speaks against it so far.
	Refused error
}

// PreviewSample is one of the first samples.
type PreviewSample struct {
	Key    string
	Label  int32  // when Known
	Class  string // "": not known either
	Known  bool
	Format string // as the first bytes say it; "" when they cannot be read
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

// Preview walks over a split until limit has passed, or, where its images are read one after the other out of tars, until there are samples enough.
// Each split may be walked over once after that.
func (s *Split) Preview(ctx context.Context, samples int, limit time.Duration) (Preview, error) {
	look := s.Again() // which Walk changes
	var p Preview
	until := time.Now().Add(limit)
	err := look.Walk(ctx, func(it Item) error {
		if it.Reason != "" {
			return nil
		}
		if len(p.Samples) < samples {
			sample := PreviewSample{Key: it.Key, Label: it.Label, Known: it.Labelled}
			if it.Data != nil {
				head := make([]byte, 16)
				n, _ := io.ReadFull(it.Data, head)
				sample.Format = formatOf(head[:n])
			}
			p.Samples = append(p.Samples, sample)
		}
		p.Images++
		if look.Streamed() && p.Images == samples || time.Now().After(until) {
			return errEnough
		}
		return nil
	})
	p.Whole, p.Notes = err == nil, look.notes
	if _, malformed := errors.AsType[*transport.FormatError](err); malformed {
		p.Refused, err = err, nil
	}
	if err != nil && !errors.Is(err, errEnough) {
		return p, err
	}
	if p.Whole {
		p.Classes = look.Classes()
	}
	for i := range p.Samples {
		look.complete(&p.Samples[i], p.Whole)
	}
	return p, nil
}

// complete fills in what the walk did not say of a sample.
func (s *Split) complete(sample *PreviewSample, walked bool) {
	if walked {
		if label, err := s.Label(sample.Key); err == nil {
			sample.Label, sample.Known = label, true
		}
	}
	switch {
	case sample.Known && walked && sample.Label >= 0:
		sample.Class = s.Classes()[sample.Label]
	case !sample.Known:
		sample.Class, _, _ = transport.KeyClass(sample.Key, s.Options.ClassesFrom)
	}
	if sample.Format == "" && !s.Streamed() {
		if data, err := s.Read(sample.Key, nil); err == nil {
			sample.Format = formatOf(data)
		}
	}
}

func formatOf(head []byte) string {
	if f := imagefile.Sniff(head); f != imagefile.Unknown {
		return f.String()
	}
	return "not an image"
}
