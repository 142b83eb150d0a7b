package pixelcodec

import (
	"bytes"
	"errors"
	"image"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// sharedBlob returns two mappings of a file with blob and slack behind it. write is for changes, as another process may make
// them. read is for decoding; a page that may not be read follows it.
func sharedBlob(t *testing.T, blob []byte) (write, read []byte) {
	t.Helper()
	page := syscall.Getpagesize()
	size := (len(blob) + SlackBytes + page - 1) / page * page
	f := testenv.Opened(os.CreateTemp(t.TempDir(), "blob"))(t)
	testenv.OK(t, f.Truncate(int64(size+page)))
	view := func(prot int) []byte {
		m := testenv.Must(syscall.Mmap(int(f.Fd()), 0, size+page, prot, syscall.MAP_SHARED))(t)
		t.Cleanup(func() {
			testenv.OK(t, syscall.Munmap(m))
		})
		return m
	}
	writable, readable := view(syscall.PROT_READ|syscall.PROT_WRITE), view(syscall.PROT_READ)
	testenv.OK(t, syscall.Mprotect(readable[size:], syscall.PROT_NONE))
	at := size - len(blob) - SlackBytes
	write, read = writable[at:at+len(blob)], readable[at:at+len(blob):size]
	copy(write, blob)
	return write, read
}

// scribble damages what is mapped and restores it, over and over, until told to stop.
func scribble(mapped, whole []byte, stop *atomic.Bool) {
	rng := rand.New(rand.NewPCG(3, 4))
	for !stop.Load() {
		for range 1 + rng.IntN(64) {
			at := rng.IntN(len(mapped))
			if rng.IntN(4) == 0 {
				at = rng.IntN(min(len(mapped), 64)) // the header, the offsets and the first pair's headers
			}
			mapped[at] = byte(rng.Uint32())
		}
		copy(mapped, whole)
	}
}

// TestBlobWrittenToMeanwhile decodes blobs from a mapping that is written to all the time, as when a file is overwritten in
// place. Whatever comes out, the decoder reads nothing behind the blob's slack (the next page faults) and writes nothing
// outside its output; once the writing has ended, it yields the pixels.
func TestBlobWrittenToMeanwhile(t *testing.T) {
	duration := 400 * time.Millisecond
	if testing.Short() {
		duration = 40 * time.Millisecond
	}
	forEachCodec(t, func(t *testing.T, p Params, level kernel.Level) {
		const w, h = 96, 40
		c := mustNew(t, p, level)
		pix := testImage(w, h, 9)
		blob := testenv.Must(c.Encode(nil, pix, 3*w, w, h))(t)
		write, read := sharedBlob(t, blob)
		dst := newGuarded(t, len(pix))
		var stop atomic.Bool
		var writer sync.WaitGroup
		writer.Go(func() { scribble(write, blob, &stop) })
		rng := rand.New(rand.NewPCG(1, 2))
		var decoded, refused int
		for began := time.Now(); time.Since(began) < duration; {
			x, y := rng.IntN(w), rng.IntN(h)
			r := image.Rect(x, y, x+1+rng.IntN(w-x), y+1+rng.IntN(h-y))
			n := 3 * r.Dx() * r.Dy()
			c.NonTemporal(rng.IntN(2) == 0)
			out := resample.Output{Pix: dst.last(n), Width: r.Dx(), Height: r.Dy(), Layout: resample.Layout(rng.IntN(2)), Flip: rng.IntN(2) == 0}
			err := c.DecodeTo(out, read, r)
			format, ok := errors.AsType[*FormatError](err)
			testenv.Check(t, !ok || format.Offset >= 0 && format.Offset <= len(blob), "error outside the blob: %v", err)
			if err == nil {
				decoded++
			} else {
				refused++
			}
		}
		stop.Store(true)
		writer.Wait()
		if decoded == 0 || refused == 0 {
			t.Logf("%d decoded, %d refused: the writer was too slow, or too fast", decoded, refused)
		}
		got := make([]byte, len(pix))
		testenv.OK(t, c.Decode(got, 3*w, read, image.Rect(0, 0, w, h)))
		testenv.Same(t, got, pix, "after the writing")
	})
}

// flipAfterMeasure lets the headers of a blob change right behind their check, as a writer may between check and use.
func flipAfterMeasure(k *kernels, mapped []byte, with byte) {
	measure := k.measure
	k.measure = func(t *groupTables, dst, headers []byte, n, skip int) (total, before int) {
		total, before = measure(t, dst, headers, n, skip)
		for i := range mapped {
			mapped[i] = with
		}
		return total, before
	}
}

// TestHeadersChangeAfterCheck lets every header byte become that of the widest groups between the check of a pair and its
// decoding. The pair ends where memory does: a decoder that looked at the headers again would read far behind it.
func TestHeadersChangeAfterCheck(t *testing.T) {
	for _, level := range kernel.Available() {
		const w, h = 320, 2
		c := mustNew(t, Params{}, level).(*bitpackCodec)
		pix := bytes.Repeat([]byte{128}, 3*w*h) // one colour: groups without planes, no payload but the first pixel's
		blob := testenv.Must(c.Encode(nil, pix, 3*w, w, h))(t)
		write, read := sharedBlob(t, blob)
		headers := write[headerBytes+offsetBytes+pairLengthBytes:][:chunkHeaderBytes*w/chunkColumns]
		flipAfterMeasure(&c.kernels, headers, 0x11) // code 1: eight planes
		dst := newGuarded(t, len(pix))
		testenv.OK(t, c.Decode(dst.last(len(pix)), 3*w, read, image.Rect(0, 0, w, h)))
		testenv.Same(t, dst.last(len(pix)), pix, "%v: pixels by the changed headers", level)
	}
}
