package source

import (
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
