// Package transport reads the files of a dataset where they lie: in folders, in zips, in tars that may be compressed by gzip, on standard
// input, in buckets and on web servers. Each gives the same [Item], with a key that does not depend on where it lies.
package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
)

// ImageBytesMax bounds image files. A larger file becomes an Item with a Reason.
const ImageBytesMax = 256 << 20

// An Item is a file, a folder or a row that a walk meets. A walk over a split gives only samples, and files that cannot be one.
type Item struct {
	Key    string // a file's path below the split's root, with forward slashes
	Folder bool
	Reason string // why a file cannot be a sample although nothing failed (a dangling link, an invalid name); empty for samples
	Size   int64  // the number of bytes of Data
	// Data is the content if the items are Streamed, valid until the callback returns; otherwise nil, and Read returns the content.
	Data   io.Reader
	Offset int64 // offset of Data in the tar's file; -1 if its bytes are not there verbatim
	// Label is the label already if Labelled; otherwise Split.Label turns it into the label after the walk.
	Label    int32
	Labelled bool
	Fields   []byte // the values of the fields of a Streamed sample, valid as long as Data; Split.AppendFields returns those of others

	dir, Name string // the folder that it lies in, and its name there
	tree      Tree   // the folder's tree; nil: it is not in a folder
	entry     fs.DirEntry
	Tar       *TarReader // the tar that it lies in under its name; nil: it lies in a folder
	Kind      byte       // the type of a tar's member: tar.TypeReg and so on
}

// Pin returns the size of a file, and its date or ETag, without reading it; those of a file that a walk passes along are its size alone.
// A file of this machine that is not called as images are, nor begins as one, is not a sample whatever its size: a log may grow.
func (f *Item) Pin() (size int64, version string, err error) {
	if f.tree == nil || f.Reason != "" {
		return f.Size, f.Reason, nil
	}
	at := filepath.Join(f.dir, f.Name)
	if f.tree == Tree(FileSystem{}) && !isRemote(at) && !NamedImage(f.Name) {
		if is, err := beginsAsImage(f.tree, at); err == nil && !is {
			return 0, "no image", nil
		}
	}
	info, err := f.entry.Info()
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		info, err = f.tree.Stat(at)
	}
	return pinned(info, err)
}

// Object is the tar that holds Data verbatim from Offset on; "" if no file does, as for a compressed tar.
func (f *Item) Object() string {
	if f.Tar == nil || f.Offset < 0 {
		return ""
	}
	return f.Tar.Path
}

// Errorf says what is wrong with a file, and where it is.
func (f *Item) Errorf(format string, args ...any) *FormatError {
	if f.Tar != nil {
		return f.Tar.Errorf(f.Name, format, args...)
	}
	return RefuseEntry(f.dir, f.Name, format, args...)
}

// Contents are those of files or samples with keys.
type Contents interface {
	// Streamed says that a walk passes the contents along, in the order of the tars, and that Read cannot return them later.
	Streamed() bool
	// Read returns a content that is not Streamed, in buf if it is large enough. A file that is too large or not regular gives a
	// *RejectError. Many goroutines may call it.
	Read(key string, buf []byte) ([]byte, error)
	// FileOf returns the path of the file with a content that is not Streamed, or "" if it has no file of its own, as in a zip. For the key
	// "" it returns the folder of all files, or "".
	FileOf(key string) string
	// Bytes is about how many bytes a walk reads; 0 when it reads only folders.
	Bytes() int64
	// Inputs are the files that a walk reads; none when it reads only folders.
	Inputs() []string
}

// A Transport is where files lie.
type Transport interface {
	Contents
	// Files calls fn for every file, and for folders before the files in them. fn returns fs.SkipDir to leave out a folder.
	Files(w *Walk, fn func(*Item) error) error
}

// Walk is the state of one walk over files.
type Walk struct {
	Ctx     context.Context
	Skipped Skipped  // nil: they are not noted
	Cut     []string // tars that were read to their end and were cut off there
}

// FormatError says that a source is malformed, hostile, or in an unknown format. It ends the build: the source should be mended.
type FormatError struct {
	Path     string          // the folder or tar
	Entry    string          // the name of the tar's entry, or the file
	Offset   int64           // offset in the tar if Entry is its member, otherwise 0
	Msg      string          // the fault and the remedy
	Err      error           // what caused it, may be nil
	Remedies []remedy.Remedy // the ways out that the message ends with
	InPlace  string          // the dataset that a program reads in place, which has no flags; "" for imgshard
}

// Or adds ways out.
func (e *FormatError) Or(remedies ...remedy.Remedy) *FormatError {
	e.Remedies = append(e.Remedies, remedies...)
	return e
}

// Because says what caused the error.
func (e *FormatError) Because(err error) *FormatError {
	e.Err = err
	return e
}

// Refuse is a FormatError about a path.
func Refuse(path, format string, args ...any) *FormatError {
	return RefuseEntry(path, "", format, args...)
}

// RefuseEntry is a FormatError about a file in a folder, or a member of an archive.
func RefuseEntry(path, entry, format string, args ...any) *FormatError {
	return &FormatError{Path: path, Entry: entry, Msg: fmt.Sprintf(format, args...)}
}

func (e *FormatError) Error() string {
	var b strings.Builder
	b.WriteString(ShownPath(e.Path))
	if e.Entry != "" {
		fmt.Fprintf(&b, ": entry %q", e.Entry)
	}
	if e.Offset > 0 {
		fmt.Fprintf(&b, " near byte %d", e.Offset)
	}
	b.WriteString(": " + e.Msg)
	// Msg has said these in better words
	if e.Err != nil && !errors.Is(e.Err, errors.ErrUnsupported) && !errors.Is(e.Err, ErrNotTar) && !errors.Is(e.Err, fs.ErrNotExist) {
		b.WriteString(": " + e.Err.Error())
	}
	b.WriteString(remedy.Text(e.Remedies, e.InPlace))
	return b.String()
}

func (e *FormatError) Unwrap() error { return e.Err }

// RejectError says that one file cannot be a sample. Its Reason names no path, so that a list of rejects is the same on every machine.
type RejectError struct{ Reason string }

func (e *RejectError) Error() string { return e.Reason }

// SomeNames lists the first few names for a message.
func SomeNames(names []string) string { return bytesize.Listed(names, 5) }
