package source

import (
	"bytes"
	"io"
)

// standardInputName is what it is called in errors.
const standardInputName = "standard input"

// stdinHeadBytesMax bounds what is kept of the front of standard input, by which it is told what it is.
const stdinHeadBytesMax = 64 << 20

// standardInput is a stream that can be read once: what is looked at beforehand is kept, and read again.
type standardInput struct {
	r    io.Reader
	head bytes.Buffer
	used bool
}

// newStandardInput is a stream of which nothing has been read.
func newStandardInput(r io.Reader) *standardInput { return &standardInput{r: r} }

// front is the part that peek has read.
func (s *standardInput) front() []byte { return s.head.Bytes() }

// peek reads from where the last peek ended, and keeps what it reads.
func (s *standardInput) peek() io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if s.head.Len() >= stdinHeadBytesMax {
			return 0, refuse(standardInputName, "its front does not tell what it is: save it as a file, or unpack it")
		}
		n, err := s.r.Read(p)
		s.head.Write(p[:n])
		return n, err
	})
}

// all reads from the front.
func (s *standardInput) all() (io.Reader, error) {
	if s.used {
		return nil, refuse(standardInputName, "can be read once only, and this takes it a second time: save it as a file")
	}
	s.used = true
	return io.MultiReader(&s.head, s.r), nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
