package storage

import (
	"context"
	"os"
	"sync/atomic"
)

// A Fetch is one read of a file at a time. Between Prepare and the moment when it has landed one goroutine may wait for it. It allocates nothing after
// its first use.
type Fetch struct {
	Buf            []byte
	Offset, Length int64
	// Landed, if there is one, is called when the read has landed, before the one who waits is told.
	Landed func()

	file   File
	data   []byte
	err    error
	landed atomic.Bool
	done   chan struct{} // has a token when there is something new to look at; perhaps an old one
	read   func(buf []byte, offset, length int64) ([]byte, error)
	run    func() // is perform

	system  atomic.Pointer[aio] // which has the read under way, or nil: a goroutine has
	submit  func(*os.File) error
	started bool // by submit
}

// Prepare says what is to be read, and into what, for which [File] says how large it is to be. From then on the read can be waited for.
func (f *Fetch) Prepare(file File, buf []byte, offset, length int64) {
	if f.done == nil {
		f.done, f.run, f.submit = make(chan struct{}, 1), f.perform, f.submitTo
	}
	f.file, f.Buf, f.Offset, f.Length, f.data, f.err = file, buf, offset, length, nil, nil
	f.landed.Store(false)
}

// Begin begins to read, and does not wait for it.
func (f *Fetch) Begin() { f.file.Fetch(f) }

// Go has a goroutine read the range, for storages that know of nothing better.
func (f *Fetch) Go(read func(buf []byte, offset, length int64) ([]byte, error)) {
	f.read = read
	go f.run()
}

func (f *Fetch) perform() { f.Land(f.read(f.Buf, f.Offset, f.Length)) }

// Land is for storages: it says what was read, as a part of Buf, or why nothing was.
func (f *Fetch) Land(data []byte, err error) {
	f.data, f.err = data, err
	if f.Landed != nil {
		f.Landed()
	}
	f.landed.Store(true)
	f.poke()
}

// Over reports whether the read has landed, so that another one may be prepared.
func (f *Fetch) Over() bool { return f.landed.Load() }

// poke has the one who waits look again.
func (f *Fetch) poke() {
	select {
	case f.done <- struct{}{}:
	default:
	}
}

// Wait returns what was read once it has landed. It returns false when ctx has ended before.
func (f *Fetch) Wait(ctx context.Context) (data []byte, landed bool, err error) {
	for waited := false; !f.landed.Load(); {
		if system := f.system.Load(); system != nil && ctx.Err() == nil {
			system.await(f, waited)
			waited = true
			continue
		}
		if !waited {
			f.noteWait()
			waited = true
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, false, nil
		}
	}
	return f.data, true, f.err
}

// Memory returns memory for the range, of Buf, to read it in another way.
func (f *Fetch) Memory() []byte { return f.Buf[:f.Length] }

// noteWait tells the storage that somebody waits for the read.
func (f *Fetch) noteWait() {
	if local, ok := f.file.(*localFile); ok {
		local.folder.waits.Add(1)
	}
}

// submitTo has the system read past the page cache, from a file that was opened for that.
func (f *Fetch) submitTo(file *os.File) error {
	if f.started = processAIO().submit(file, f); f.started {
		f.poke() // who waits already, waits in another way from now on
	}
	return nil
}

// sectors returns the whole sectors in which the range lies, and the memory for them.
func (f *Fetch) sectors() (buf []byte, begin int64) {
	begin = f.Offset &^ (sector - 1)
	return f.Buf[:(f.Offset-begin+f.Length+sector-1)&^(sector-1)], begin
}

// sectorsRead lands with a range of whose sectors the system has read so many bytes, or which it could not read. Then a goroutine finds a way, or out why there
// is none.
func (f *Fetch) sectorsRead(bytes int64) {
	f.system.Store(nil)
	if skip := f.Offset & (sector - 1); bytes >= skip+f.Length {
		f.Land(f.Buf[skip:skip+f.Length], nil)
		return
	}
	f.Go(f.file.(*localFile).direct)
}
