package transport

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
)

const (
	tarBlockBytes  = 512
	readAheadBytes = 1 << 20
)

// ErrNotTar says that a file is not a tar.
var ErrNotTar = errors.New("not a tar")

// TarReader reads one tar, from a file or from inside another tar, plain or compressed by gzip.
type TarReader struct {
	tar     *tar.Reader
	Path    string    // the file
	inner   string    // the name of the entry that holds this tar, "" for the file itself
	file    io.Closer // nil: it is not to be closed
	count   *endReader
	rest    *endReader // the members, and at the end the rest of the file
	begins  int64      // offset of the tar in the file; -1 if it is compressed
	Peeking bool       // read only the front: nothing after the last member
	member  string     // the name of the current one
}

// Read reads the content of the current member, with errors that say where.
func (t *TarReader) Read(p []byte) (int, error) {
	n, err := t.tar.Read(p)
	if err != nil && err != io.EOF {
		err = t.wrap(t.member, err)
	}
	return n, err
}

// OpenTar opens a tar file. A file of another format gives ErrNotTar.
func OpenTar(path string) (*TarReader, error) {
	if info, err := (FileSystem{}).Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, Refuse(path, "neither a folder nor a regular file").Because(ErrNotTar))
	}
	f, err := FileSystem{}.Open(path)
	if err != nil {
		return nil, err
	}
	t, err := NewTarReader(path, f)
	if t.file = f; err != nil {
		f.Close()
	}
	return t, err
}

// NewTarReader reads a tar that comes from anywhere.
func NewTarReader(path string, r io.Reader) (*TarReader, error) {
	t := &TarReader{Path: path, count: &endReader{r: r}}
	return t, t.start(bufio.NewReaderSize(t.count, readAheadBytes))
}

// within opens the tar in the current member of this one.
func (t *TarReader) within(name string, buf *bufio.Reader) (*TarReader, error) {
	inner := &TarReader{Path: t.Path, inner: name, count: t.count, begins: t.offset()}
	buf.Reset(t.tar)
	return inner, inner.start(buf)
}

// start looks at the first bytes and sets up what unpacks them.
func (t *TarReader) start(buf *bufio.Reader) error {
	head, err := buf.Peek(tarBlockBytes)
	if err != nil && err != io.EOF {
		return t.wrap("", err)
	}
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(buf)
		if err != nil {
			return t.wrap("", err)
		}
		unpacked := bufio.NewReaderSize(zr, readAheadBytes)
		if head, err = unpacked.Peek(tarBlockBytes); err != nil && err != io.EOF {
			return t.wrap("", err)
		}
		buf, t.begins = unpacked, -1
	}
	if !isTar(head) {
		return RefuseEntry(t.Path, t.inner, "neither a tar nor a tar.gz").Because(ErrNotTar)
	}
	t.rest = &endReader{r: buf}
	t.tar = tar.NewReader(t.rest)
	return nil
}

func (t *TarReader) Close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

// offset is where the current member's content begins in the file; -1: it does not lie there as it is. Call it before reading the content.
func (t *TarReader) offset() int64 {
	if t.begins < 0 {
		return -1
	}
	return t.begins + t.rest.n
}

// next returns the next header; io.EOF ends the archive. The checksum of a compressed tar is checked then.
func (t *TarReader) next() (*tar.Header, error) {
	h, err := t.tar.Next()
	if err == io.EOF && !t.Peeking {
		err = cmp.Or(t.checkRest(), io.EOF)
	}
	if err != nil && err != io.EOF {
		err = t.wrap("", err)
	}
	return h, err
}

// checkRest reads the padding after the archive's end. Tars joined by cat have more entries there, which would be left out without a word.
func (t *TarReader) checkRest() error {
	end := t.rest.n - t.rest.zeros
	if _, err := io.Copy(io.Discard, t.rest); err != nil {
		return err
	}
	if t.rest.n-t.rest.zeros > end {
		no := t.Errorf("", "there is more after the archive's end, as when tars are joined by cat")
		if t.inner == "" && Unpack(t.Path) != nil {
			no.Or(remedy.UntarAll.Of(t.Path, Stem(t.Path)))
		}
		return no
	}
	return nil
}

// endReader counts the bytes, and the zeros at their end: a tar ends in two blocks of zeros.
type endReader struct {
	r     io.Reader
	n     int64 // bytes that were read
	zeros int64
}

func (e *endReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.n += int64(n)
	tail := len(bytes.TrimRight(p[:n], "\x00"))
	if tail > 0 {
		e.zeros = 0
	}
	e.zeros += int64(n - tail)
	return n, err
}

// name is an entry's name for people: that of the inner tar too.
func (t *TarReader) name(entry string) string {
	if t.inner == "" || entry == "" {
		return t.inner + entry
	}
	return t.inner + ": " + entry
}

func (t *TarReader) wrap(entry string, err error) error {
	var format *FormatError
	if errors.As(err, &format) {
		return err
	}
	msg := "cannot be read as a tar"
	if errors.Is(err, io.ErrUnexpectedEOF) {
		msg = "the tar ends in the middle of an entry: the download or copy is incomplete"
	}
	return &FormatError{Path: t.Path, Entry: t.name(entry), Offset: t.count.n, Msg: msg, Err: err}
}

// Errorf is an error about a member; "" is the tar itself.
func (t *TarReader) Errorf(entry, format string, args ...any) *FormatError {
	return &FormatError{Path: t.Path, Entry: t.name(entry), Offset: t.count.n, Msg: fmt.Sprintf(format, args...)}
}

// isTar says that a file that begins so is a tar: its first block is a header with the right checksum, or all zeros (an empty tar).
func isTar(head []byte) bool {
	_, err := tar.NewReader(bytes.NewReader(head)).Next()
	return len(head) >= tarBlockBytes && !errors.Is(err, tar.ErrHeader)
}

// StdinName is the name of standard input in errors.
const StdinName = "standard input"

const stdinHeadBytesMax = 64 << 20 // bounds the front of standard input that is kept to detect the format

// Stdin is a stream that can be read once. It keeps the bytes that were peeked at, and reads them again.
type Stdin struct {
	r    io.Reader
	head bytes.Buffer
	used bool
}

// NewStdin returns the stream before anything is read.
func NewStdin(r io.Reader) *Stdin { return &Stdin{r: r} }

// Peek reads from where the last peek ended, and keeps what it reads.
func (s *Stdin) Peek() io.Reader { return io.TeeReader(s.r, s) }

// Write keeps bytes of the front.
func (s *Stdin) Write(front []byte) (int, error) {
	if s.head.Len() >= stdinHeadBytesMax {
		return 0, Refuse(StdinName, "its beginning does not show its format: save it as a file")
	}
	return s.head.Write(front)
}

// all reads from the front.
func (s *Stdin) all() (io.Reader, error) {
	if s.used {
		return nil, Refuse(StdinName, "can be read once only, and this takes it a second time: save it as a file")
	}
	s.used = true
	return io.MultiReader(&s.head, s.r), nil
}

// Stream is the common part of layouts and transports that read files one after the other. They cannot find a file by its key.
type Stream struct{ Size int64 }

func (s *Stream) Streamed() bool { return true }
func (s *Stream) Bytes() int64   { return s.Size }

func (s *Stream) FileOf(string) string { return "" }

func (s *Stream) Inputs() []string { return nil }

func (s *Stream) Read(key string, _ []byte) ([]byte, error) {
	return nil, fmt.Errorf("source: %q lies in a tar or a table, and cannot be read by its key", key)
}

func (s *Stream) AppendFields(_ []byte, key string) ([]byte, error) { return s.Read(key, nil) }

// TarFiles is the transport of the members of tars, one tar after the other.
type TarFiles struct {
	Stream
	Paths []string
	Stdin *Stdin // read instead of the path
	Strip string // "train/": the folder that all members lie in, no part of a key
}

// FileOf returns the folder of all tars; the tar of a key is unknown.
func (t *TarFiles) FileOf(string) string { return filepath.Dir(CommonPrefix(t.Paths)) }

func (t *TarFiles) Inputs() []string { return t.Paths }

func (t *TarFiles) Files(w *Walk, fn func(*Item) error) error {
	for _, path := range t.Paths {
		if err := t.Each(w, path, func(r *TarReader) error { return w.Files(r, t.Strip, fn) }); err != nil {
			return err
		}
	}
	return nil
}

// Each opens one of the tars for fn, which reads it to its end.
func (t *TarFiles) Each(w *Walk, path string, fn func(*TarReader) error) error {
	r, err := t.open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	return w.read(r, fn)
}

// read calls fn, which reads a tar to its end, and notes a tar that was cut off there: between two entries. It reads well, but lacks the
// two blocks of zeros that every tar should end in.
func (w *Walk) read(r *TarReader, fn func(*TarReader) error) error {
	err := fn(r)
	if err == nil && r.rest.zeros < 2*tarBlockBytes {
		w.Cut = append(w.Cut, strings.TrimSuffix(r.Path+": "+r.inner, ": "))
	}
	return err
}

func (t *TarFiles) open(path string) (*TarReader, error) {
	if t.Stdin == nil {
		return OpenTar(path)
	}
	r, err := t.Stdin.all()
	if err != nil {
		return nil, err
	}
	in, err := NewTarReader(path, r)
	in.begins = -1 // it cannot be read again
	return in, err
}

// Files gives the members of a tar.
func (w *Walk) Files(r *TarReader, strip string, fn func(*Item) error) error {
	for {
		h, err := w.Next(r, strip)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		f := &Item{Key: h.Name, Folder: h.Typeflag == tar.TypeDir, Reason: memberReason(h), Size: h.Size, Data: r,
			Offset: r.offset(), Name: h.Name, Tar: r, Kind: h.Typeflag}
		if _, sparse := h.PAXRecords["GNU.sparse.size"]; sparse || h.Typeflag == tar.TypeGNUSparse ||
			h.PAXRecords["GNU.sparse.realsize"] != "" {
			f.Offset = -1
		}
		if err := fn(f); err != nil && err != fs.SkipDir {
			return err
		}
	}
}

// Next returns the next member that is not junk, with a clean name.
func (w *Walk) Next(r *TarReader, strip string) (*tar.Header, error) {
	for {
		if err := w.Ctx.Err(); err != nil {
			return nil, err
		}
		h, err := r.next()
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name, err := EntryPath(h.Name)
		if err != nil {
			no := r.Errorf(h.Name, "refused: %v", err)
			if r.inner == "" && strings.HasPrefix(h.Name, "/") {
				no.Or(Unpack(r.Path)...) // tar makes the names relative
			}
			return nil, no
		}
		if strip != "" {
			rest, ok := strings.CutPrefix(name+"/", strip)
			if !ok {
				ways := Unpack(r.Path)
				if folder := strings.TrimSuffix(strip, "/"); ways != nil && FolderSplit(folder) == "" {
					ways[0].Source += "/" + termsafe.Shell(folder)
				}
				return nil, r.Errorf(h.Name, "lies beside %s, in which the first image lies", strip).Or(ways...)
			}
			name = strings.TrimSuffix(rest, "/")
		}
		if name == "" {
			continue
		}
		if slices.ContainsFunc(strings.Split(name, "/"), Junk) {
			w.Skipped.add(name, h.Typeflag == tar.TypeDir)
			continue
		}
		h.Name, r.member = name, name
		return h, nil
	}
}

// memberReason says why a member cannot be read as an image, by its header; empty when it can.
func memberReason(h *tar.Header) string {
	switch {
	case h.Typeflag == tar.TypeLink || h.Typeflag == tar.TypeSymlink:
		return ReasonLink
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse:
		return ReasonNotRegular
	case h.Size > ImageBytesMax:
		return ReasonTooLarge(h.Size)
	}
	return ""
}

// NoLabel refuses a label where names stand for classes.
func (t *TarReader) NoLabel(name string) error {
	if _, label := cutSuffixFold(name, "."+LabelExtension); !label {
		return nil
	}
	return t.Errorf(name, "a label as WebDataset has it, but the tars begin otherwise: there each image stands next to its label, "+
		"as 0000.jpg and 0000.%s do, and no other tars beside them", LabelExtension)
}

// ClassTarFiles is the transport of files in tars, where each tar stands for the folder of a class.
type ClassTarFiles struct {
	TarFiles
	Whole bool // it is one tar of the tars
}

func (t *ClassTarFiles) Files(w *Walk, fn func(*Item) error) error {
	seen := make(map[string]bool)
	// class gives the tar of one class, as a folder.
	class := func(f Item, open func(func(*TarReader) error) error) error {
		f.Key, f.Folder = path.Base(Stem(f.Name)), true
		if err := fn(&f); err == fs.SkipDir {
			return nil
		} else if err != nil {
			return err
		}
		if seen[f.Key] {
			return f.Errorf("class %s occurs in two tars", f.Key)
		}
		seen[f.Key] = true
		return open(func(r *TarReader) error {
			return w.Files(r, "", func(in *Item) error {
				if in.Folder {
					return nil
				}
				// A class tar made of the folder holds "n01440764/x.JPEG"; its key is the same as that of "x.JPEG".
				in.Key = f.Key + "/" + strings.TrimPrefix(in.Key, f.Key+"/")
				return fn(in)
			})
		})
	}
	if !t.Whole {
		for _, p := range t.Paths {
			err := class(Item{dir: path.Dir(p), Name: path.Base(p)}, func(read func(*TarReader) error) error { return t.Each(w, p, read) })
			if err != nil {
				return err
			}
		}
		return nil
	}
	buf := bufio.NewReaderSize(nil, readAheadBytes)
	return t.Each(w, t.Paths[0], func(outer *TarReader) error {
		return w.Files(outer, "", func(f *Item) error {
			if f.Folder {
				return nil
			}
			if f.Kind != tar.TypeReg || !NamedTar(f.Name) {
				f.Key = path.Base(f.Key) // it lies beside the classes
				return fn(f)
			}
			return class(*f, func(read func(*TarReader) error) error {
				inner, err := outer.within(f.Name, buf)
				if err != nil {
					return err
				}
				return w.read(inner, read)
			})
		})
	})
}
