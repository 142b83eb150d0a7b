// Package dataset models a dataset to pack: its splits, the keys, labels and fields of their samples, and the options that choose.
package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// Options decide what the data cannot tell.
type Options struct {
	Split string // chooses one of several splits, or names the only one instead of the name that the path suggests
	// Classes is a file with the name of a class in each line, label 0 first, for labels that are numbers. Empty looks for classes.txt or
	// classnames.txt beside the data, and otherwise names the classes by their numbers. "ilsvrc2012" takes the wnids of ILSVRC2012. For
	// class folders and tars it selects the classes and gives their order.
	Classes string
	// Label is the column of the labels; empty takes the likeliest, or "label". "json.KEY" is a key in the JSON of WebDataset's samples.
	Label          string
	ImageKey       string        // the extension of images in WebDataset's samples, from the first dot on; empty takes any image
	Path           string        // the column of the images' paths in a list; empty takes "path" or "file_name"
	Images         string        // the folder where the paths of a list begin; empty takes the list's own folder
	Stdin          io.Reader     // read for the path StandardInput
	ClassesFrom    int           // the level of the class folders below the path, from 1; 0 means 1
	ClassOrder     string        // the order of classes if all are numbers; "" means ClassOrderNumeric
	ForceClasses   bool          // accepts classes that look like a mistake
	AllowTruncated bool          // accepts tars without their end
	Fields         []Field       // the values of each sample beside its label. Those of a Split have types.
	Test           bool          // takes test images too. Their labels are unknown: -1.
	NoLabels       bool          // takes all images without labels: the labels are -1, and there are no classes
	Select         Selection     // chooses samples by their keys
	Targets        TargetOptions // the options of boxes and masks
}

// Orders of classes if all are numbers.
const (
	ClassOrderNumeric = "numeric"
	ClassOrderString  = "string" // torchvision's ImageFolder does so
)

// Layout is how a split lies on disk.
type Layout interface {
	transport.Contents
	// Walk calls fn for every sample, and every file that cannot be one, and returns the classes and labels. Split.Walk finds the keys that
	// no sample can have.
	Walk(w *transport.Walk, s *Split, fn func(transport.Item) error) (Labels, error)
}

// Split is one split of a dataset. Walk it once, then ask for labels and contents.
type Split struct {
	Name   string // "train", "val" or what the path or Options suggest
	Path   string // the folder or tar
	Output string // the default folder of the packed set: "/data/train-shards" for "/data/train"
	Format string // describes the layout in words, such as "a folder of class folders"

	LabelFiles []string // files beside tars that labels or classes come from, and the file that lists all objects

	Kind    *Kind
	Options Options
	Layout
	Targets    Targets // nil: the samples have none
	labels     Labels
	seen       []bool // whether an item so far has this Item.Label
	unlabelled int    // items so far without a label
	first      *Split // the first split of the same source
	expected   []string
	notes      []string
}

// Bind completes the splits of a source that the options were given for: their fields, and that the labels of all are those of the first.
// It refuses options that have no meaning for them.
func Bind(path string, splits []*Split, opts Options) error {
	taken := make(map[string]bool) // flags that the splits' kinds take, and types of their fields
	for _, s := range splits {
		if err := s.bind(); err != nil {
			return err
		}
		s.Path, s.first = transport.ShownPath(s.Path), splits[0]
		for _, flag := range s.Kind.Takes {
			taken[flag] = true
		}
		for _, f := range s.Fields() {
			taken[string(f.Type)] = true
		}
	}
	const boxes, masks = "for datasets with boxes", "for datasets with masks"
	for _, o := range []struct {
		given           bool
		flag, needs, of string // needs is a type of fields; "": the flag itself
	}{
		{opts.Classes != "", "--classes", "", "for sources whose labels are numbers, as WebDataset's tars, and for class folders and tars"},
		{opts.Label != "", "--label", "", "for sources with several labels, in columns or under keys"},
		{opts.ImageKey != "", "--image-key", "", "for WebDataset's tars, whose samples have files of several extensions"},
		{opts.Images != "", "--images", "", "for lists of images, whose paths begin there"},
		{opts.Path != "", "--path", "", "for lists of images"},
		{opts.NoLabels, "--no-labels", "", "for images in folders, tars, parquet files and lists"},
		{opts.Targets.Asks(TakeObjects), "--targets " + opts.Targets.Take, string(shard.Objects), boxes},
		{opts.Targets.Asks(TakeMasks), "--targets " + opts.Targets.Take, string(shard.Mask), masks},
		{opts.Targets.BoxFormat != "", "--box-format", string(shard.Objects), boxes},
		{opts.Targets.OneBased, "--one-based", string(shard.Objects), boxes},
		{opts.Targets.ClipBoxes, "--clip-boxes", string(shard.Objects), boxes},
		{opts.Targets.DropCrowd, "--drop-crowd", string(shard.Objects), boxes},
		{opts.Targets.DropEmpty, "--drop-empty", string(shard.Objects), boxes},
		{opts.Targets.ReduceZero, "--reduce-zero", string(shard.Mask), masks},
		{opts.Targets.Map != nil, "--map-labels", string(shard.Mask), masks},
	} {
		if o.given && !taken[cmp.Or(o.needs, o.flag)] {
			return transport.Refuse(path, "is %s, and %s is %s", splits[0].Format, o.flag, o.of)
		}
	}
	return nil
}

// Notes returns messages for the user, such as why files were left out: all after Walk, those about targets after the last AppendFields.
func (s *Split) Notes() []string {
	if s.Targets == nil {
		return s.notes
	}
	return slices.Concat(s.notes, s.Targets.Notes())
}

// Note adds a message to Notes.
func (s *Split) Note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// NoteLeftOut notes files that were left out, if there are any. singular and plural name them and end in "is" and "are".
func (s *Split) NoteLeftOut(names []string, singular, plural string) {
	if len(names) > 0 {
		s.Note("%s left out (%s)", bytesize.Counted(len(names), singular, plural), transport.SomeNames(names))
	}
}

// ExpectClasses makes Walk label the samples by these classes instead of the split's own, so that the labels agree with another split's.
// Walk then fails if the split has other classes.
func (s *Split) ExpectClasses(classes []string) { s.expected = slices.Clone(classes) }

// Walk calls fn for every item of the split, one at a time, in any order, until fn fails. Malformed data end it with a *FormatError.
func (s *Split) Walk(ctx context.Context, fn func(transport.Item) error) error {
	images := 0
	s.seen, s.unlabelled = nil, 0
	w := &transport.Walk{Ctx: ctx}
	l, err := s.Layout.Walk(w, s, func(it transport.Item) error {
		s.see(it.Label)
		if !s.Options.Select.Takes(it.Key) {
			return nil
		}
		if it.Reason = cmp.Or(it.Reason, transport.NameReason(it.Key)); it.Reason == "" {
			images++
		} else {
			it.Size, it.Data, it.Fields = 0, nil, nil
		}
		return fn(it)
	})
	if err != nil {
		return err
	}
	if err := s.checkCut(w.Cut, images, len(l.Classes)); err != nil {
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

// Unlabelled says that the layout has no labels, as for test images.
func (s *Split) Unlabelled() bool {
	l, ok := s.Layout.(interface{ Unlabelled() bool })
	return ok && l.Unlabelled()
}

// TakenByContent says that a sample is not called as images are, in a layout that takes all files.
func (s *Split) TakenByContent(key string) bool {
	_, all := s.Layout.(interface{ AllFiles() })
	return all && !transport.ImageExtension(key)
}

// checkCut refuses tars without their end, or notes them.
func (s *Split) checkCut(tars []string, images, classes int) error {
	if len(tars) == 0 {
		return nil
	}
	if s.Options.AllowTruncated {
		s.Note("%s missing (%s)", bytesize.Counted(len(tars), "tar is taken though its end is", "tars are taken though their end is"),
			transport.SomeNames(tars))
		return nil
	}
	return transport.Refuse(tars[0], "does not end in the two blocks of zeros that end a tar, so it was cut off (one of %d): "+
		"get it again. The part that is here has %s images of %s classes",
		len(tars), bytesize.Grouped(images), bytesize.Grouped(classes)).Or(remedy.Truncated)
}

// Reopen returns the same split for another walk. Standard input can be read only once.
func (s *Split) Reopen() *Split {
	again := *s
	again.notes, again.labels = slices.Clone(s.notes), Labels{}
	return &again
}

// Classes are the names of the labels 0, 1, …; they are known after Walk.
func (s *Split) Classes() []string { return s.labels.Classes }

// Label returns the label of an item by its Item.Label; it is known after Walk.
func (s *Split) Label(of int32) int32 { return s.labels.of(of) }

// Root is the folder or URL that holds the files named by Item.Object and FileOf.
func (s *Split) Root() string { return cmp.Or(s.FileOf(""), s.Path) }

// InFolders says that the split's folders can be built by themselves, as those in tars and zips cannot.
func (s *Split) InFolders() bool { return !s.Streamed() && s.FileOf("") != "" }

// Preview is the result of a short look at a split, without reading all of it.
type Preview struct {
	Images  int  // images seen so far
	Whole   bool // these are all, and Classes are known
	Classes []string
	Samples []PreviewSample
	Notes   []string
	Refused error // the reason why the split cannot be packed as it is; nil if no fault was seen
}

// PreviewSample is one of the first samples.
type PreviewSample struct {
	Key   string `json:"key"`
	Label *int32 `json:"label"`           // nil: it depends on the whole split
	Class string `json:"class"`           // "": not known either
	Words string `json:"words,omitempty"` // WordNet's words for a wnid of ILSVRC2012
}

var errEnough = errors.New("enough")

// Preview walks over a split until limit has passed, or, where its images are read one after the other out of tars, until there are samples
// enough. Each split may be walked over once after that.
func (s *Split) Preview(ctx context.Context, samples int, limit time.Duration) (Preview, error) {
	look := s.Reopen() // Walk changes it
	p := Preview{Samples: []PreviewSample{}}
	var first []transport.Item
	until := time.Now().Add(limit)
	err := look.Walk(ctx, func(it transport.Item) error {
		if it.Reason != "" {
			return nil
		}
		if len(first) < samples {
			first = append(first, it)
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
	for _, it := range first {
		sample := PreviewSample{Key: it.Key}
		switch label := look.Label(it.Label); {
		case p.Whole && label >= 0:
			sample.Label, sample.Class = &label, p.Classes[label]
		case p.Whole, it.Labelled:
			sample.Label = &label
		default:
			sample.Class, _, _ = transport.KeyClass(it.Key, s.Options.ClassesFrom)
		}
		sample.Words = wordnet.Words(sample.Class)
		p.Samples = append(p.Samples, sample)
	}
	return p, nil
}

// A Kind is a format of datasets on disk. To add one, declare it, write the function that opens its splits, add both to the table in
// package source, and let go test -run TestDocuments -docs write the table in docs/packing.md.
type Kind struct {
	// The name, the possible values of SRC, and the meaning of the labels, for `imgshard build --help`, errors and the documents.
	Name   string
	Forms  []string
	Labels string

	Takes        []string // lists the flags for some kinds only that this kind takes
	TestLabelled bool     // test images have labels, so that they are a split like the others
	// Decoded says that images are best packed decoded and in their own size, as they are so small that files save nothing.
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
