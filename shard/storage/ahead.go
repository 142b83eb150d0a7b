package storage

import "io"

const (
	// pieceBytesFirst is the size of an aheadReader's first request: most files are only looked at. The next ones are eight times as large each, up to pieceBytesMax.
	pieceBytesFirst = 64 << 10
	pieceBytesMax   = 4 << 20
	// piecesAhead are under way at a time: they fill 8 Gbit/s at 30 ms.
	piecesAhead = 8
)

// NewReader returns a reader of a file from its front to its end. It closes the file.
func NewReader(f File) io.ReadCloser { return &aheadReader{file: f} }

// An aheadReader reads a file from its front, and asks for what comes next while it is read.
type aheadReader struct {
	file   File
	asked  int64 // up to here
	length int64 // of the last request
	queue  []chan piece
	rest   []byte
	err    error
}

type piece struct {
	bytes []byte
	err   error
}

func (r *aheadReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		r.ask()
		if len(r.queue) == 0 {
			return 0, io.EOF
		}
		got := <-r.queue[0]
		r.queue, r.rest, r.err = r.queue[1:], got.bytes, got.err
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// ask begins requests: a second one with the second piece, and then one more with each.
func (r *aheadReader) ask() {
	ahead := 1
	if r.length > 0 {
		ahead = piecesAhead
	}
	for len(r.queue) < ahead && r.asked < r.file.Size() {
		r.length = max(pieceBytesFirst, min(8*r.length, pieceBytesMax))
		offset, length := r.asked, min(r.length, r.file.Size()-r.asked)
		r.asked += length
		done := make(chan piece, 1)
		r.queue = append(r.queue, done)
		go func() {
			buf := make([]byte, length)
			n, err := r.file.ReadAt(buf, offset)
			if int64(n) == length {
				err = nil
			}
			done <- piece{buf[:n], err}
		}()
	}
}

func (r *aheadReader) Close() error { return r.file.Close() }
