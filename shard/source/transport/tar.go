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
		return nil, errors.Join(err, &FormatError{Path: path, Msg: "neither a folder nor a regular file", Err: ErrNotTar})
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
		return &FormatError{Path: t.Path, Entry: t.inner, Msg: "neither a tar nor a tar.gz", Err: ErrNotTar}
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

// checkRest reads the padding after the end of the archive. Tars that were joined by cat, for one, have more entries there, which would be
// left out without a word.
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

// endMarked says that a tar that was read to its end has the two blocks of zeros that every tar should end in. One that was cut off between
// two entries reads well but lacks them.
func (t *TarReader) endMarked() bool { return t.rest.zeros >= 2*tarBlockBytes }

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

// stdinHeadBytesMax bounds the front of standard input that is kept to detect the format.
const stdinHeadBytesMax = 64 << 20

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
