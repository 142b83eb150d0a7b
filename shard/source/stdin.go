package source

import (
	"bytes"
	"errors"
	"io"
)

// StandardInput is the path of a tar that comes by Options.Stdin.
const StandardInput = "-"

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

// newStdin is the candidate on standard input: a tar.
func newStdin(opts Options) (*candidate, error) {
	if opts.Stdin == nil {
		return nil, refuse(standardInputName, "is not read here: save it as a file")
	}
	in := &standardInput{r: opts.Stdin}
	t, err := newTarReader(standardInputName, in.peek())
	if err != nil {
		return nil, in.noTar(err)
	}
	t.peeking = true
	return &candidate{path: standardInputName, opts: opts, naming: naming{split: "train"}, front: &front{tar: t, stdin: in}}, nil
}

// noTar says why what is no tar is not read from standard input.
func (s *standardInput) noTar(err error) error {
	what := "neither a tar nor a tar.gz"
	switch head := s.head.Bytes(); {
	case !errors.Is(err, errNotTar):
		return err
	case len(head) == 0:
		what = "is empty"
	case bytes.HasPrefix(head, []byte("PK")):
		what = "a zip, whose list of members stands at its end"
	case bytes.HasPrefix(head, []byte("PAR1")):
		what = "a parquet file, whose columns are found from its end"
	}
	for i := range unreadFormats {
		if u := &unreadFormats[i]; u.has(StandardInput, s.head.Bytes()) {
			return u.errorOf(standardInputName, "")
		}
	}
	return &FormatError{Path: standardInputName, Msg: what + ": only tars are read from it, save anything else as a file", Err: err}
}
