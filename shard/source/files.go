package source

import (
	"cmp"
	"context"
	"io"
)

// A file is one file of a dataset, or a folder, as a transport meets it.
type file struct {
	key    string // its path below the split's root, with forward slashes
	folder bool
	reason string // why it cannot be read as an image; "": it may be one

	size   int64     // of data
	data   io.Reader // its content, of transports that stream
	offset int64     // of data in the tar's file; -1: it does not lie there as it is

	label    int32 // set by a rule that knows it at once
	labelled bool

	dir, name string     // the folder that it lies in, and its name there
	tar       *tarReader // the tar that it lies in under its name; nil: it lies in a folder
	kind      byte       // of a member of a tar: tar.TypeReg and so on
}

// lies says where a file's data lie, if they do so as they are.
func (it *Item) lies(f *file) {
	if f.offset >= 0 && f.tar != nil {
		it.Object, it.Offset = f.tar.path, f.offset
	}
}

// errorf says what is wrong with a file, and where it is.
func (f *file) errorf(format string, args ...any) error {
	if f.tar != nil {
		return f.tar.errorf(f.name, format, args...)
	}
	return refuseEntry(f.dir, f.name, format, args...)
}

// A transport is where files lie.
type transport interface {
	// files calls fn for every file, and for folders before the files in them. fn returns fs.SkipDir for a folder that is not wanted.
	files(w *walk, fn func(*file) error) error
	// read returns the content of a file that was given without data.
	read(key string, buf []byte) ([]byte, error)
	// streamed says that files come with data, and cannot be read afterwards.
	streamed() bool
	// bytes is about how many bytes files reads; 0 when it reads only folders.
	bytes() int64
}

// walk is the state of one walk over files.
type walk struct {
	ctx     context.Context
	skipped skippedFolders // nil: they are not noted
	cut     []string       // tars that were read to their end and were cut off there
}

// A labelRule tells the labels of files by their names.
type labelRule interface {
	// take says whether a file is a sample. It may set the file's label, and change its key. It is asked about folders too, which never are samples:
	// fs.SkipDir leaves out what is in them.
	take(f *file) (bool, error)
	// labels are those of the files that were taken.
	labels(s *Split) (labels, error)
}

// files is a layout of files that are a sample each.
type files struct {
	transport
	what string // in words
	rule func(s *Split) (labelRule, error)
	test bool // the labels of these images are unknown
}

func (l *files) unlabelled() bool { return l.test }

// place implements placed.
func (l *files) place(key string) string {
	if t, ok := l.transport.(placed); ok {
		return t.place(key)
	}
	return ""
}

func (l *files) describe() string { return l.what }

func (l *files) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	rule, err := l.rule(s)
	if err != nil {
		return labels{}, err
	}
	w := &walk{ctx: ctx, skipped: make(skippedFolders)}
	err = l.transport.files(w, func(f *file) error {
		if take, err := rule.take(f); err != nil || !take {
			return err
		}
		it := Item{Key: f.key, Reason: cmp.Or(f.reason, nameReason(f.key)), Label: f.label, Labelled: f.labelled}
		if it.Reason == "" && f.data != nil {
			it.Size, it.Data = f.size, f.data
			it.lies(f)
		}
		return fn(it)
	})
	if err != nil {
		return labels{}, err
	}
	s.cut = w.cut
	w.skipped.note(s)
	return rule.labels(s)
}
