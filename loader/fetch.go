package loader

import (
	"context"
	"sync/atomic"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// A fetch reads one range at a time in a goroutine. Between prepare and the end of the read one goroutine may wait for it. It allocates nothing after its
// first use.
type fetch struct {
	ended func() // called when the read has ended, before the goroutine that waits goes on; may be nil

	where storage.Range
	buf   []byte
	data  []byte
	err   error
	over  atomic.Bool
	done  chan struct{} // holds a token once the read has ended; perhaps an old one
	run   func()
}

// prepare sets the range to read and the memory for it, see [storage.File]. From then on the read can be waited for.
func (f *fetch) prepare(where storage.Range, buf []byte) {
	if f.done == nil {
		f.done, f.run = make(chan struct{}, 1), f.read
	}
	f.where, f.buf, f.data, f.err = where, buf, nil, nil
	f.over.Store(false)
}

// begin starts the read.
func (f *fetch) begin() { go f.run() }

func (f *fetch) read() {
	f.data, f.err = f.where.File.Fetch(f.buf, f.where.Offset, f.where.Length)
	if f.ended != nil {
		f.ended()
	}
	f.over.Store(true)
	select {
	case f.done <- struct{}{}:
	default:
	}
}

// wait returns the bytes once they are read. ended is false if ctx ended before.
func (f *fetch) wait(ctx context.Context) (data []byte, ended bool, err error) {
	for waited := false; !f.over.Load(); {
		if file, ok := f.where.File.(storage.Waiter); ok && !waited {
			file.Waited()
		}
		waited = true
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, false, nil
		}
	}
	return f.data, true, f.err
}

// memory returns the memory for the range, to read it in another way.
func (f *fetch) memory() []byte { return f.buf[:f.where.Length] }
