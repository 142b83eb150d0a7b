package pixelcodec

import (
	"bytes"
	"encoding/binary"
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

// guarded is memory with a page on either side that may be neither read nor written.
type guarded struct {
	inside []byte
}

func newGuarded(tb testing.TB, size int) guarded {
	tb.Helper()
	page := syscall.Getpagesize()
	size = (size + page - 1) / page * page
	m := testenv.Must(syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE))(tb)
	for _, edge := range [][]byte{m[:page], m[page+size:]} {
		testenv.OK(tb, syscall.Mprotect(edge, syscall.PROT_NONE))
	}
	tb.Cleanup(func() { testenv.OK(tb, syscall.Munmap(m)) })
	return guarded{m[page : page+size : page+size]}
}

// last returns the n bytes before the guard page at the end, first those behind the one at the start.
func (g guarded) last(n int) []byte  { return g.inside[len(g.inside)-n:] }
func (g guarded) first(n int) []byte { return g.inside[:n:n] }

// damage changes blob in one of several ways that get past different checks, and returns it, perhaps shorter.
func damage(blob []byte, rng *rand.Rand) []byte {
	n := len(blob)
	switch rng.IntN(7) {
	case 0: // anywhere
		for range 1 + rng.IntN(200) {
			blob[rng.IntN(n)] = byte(rng.Uint32())
		}
	case 1: // the header and the offsets
		for range 1 + rng.IntN(3) {
			blob[rng.IntN(min(n, 48))] = byte(rng.Uint32())
		}
	case 2: // cut short
		blob = blob[:rng.IntN(n)]
	case 3: // one bit
		blob[rng.IntN(n)] ^= 1 << rng.IntN(8)
	case 4: // behind the header and the offsets only
		for from := min(n-1, 8+4*int(blob[2])); rng.IntN(20) > 0; {
			blob[from+rng.IntN(n-from)] = byte(rng.Uint32())
		}
	case 5: // exchange neighbours: a pair's sum of widths stays what it was
		for range 1 + rng.IntN(100) {
			i := rng.IntN(n - 1)
			blob[i], blob[i+1] = blob[i+1], blob[i]
		}
	case 6: // band offsets that point elsewhere
		if n >= 16 {
			binary.LittleEndian.PutUint32(blob[8+4*rng.IntN(2):], uint32(rng.IntN(n+8)))
		}
	}
	return blob
}

// TestDamagedBetweenGuardPages decodes damaged blobs from memory that ends where the slack does, into memory that ends where the pixels do.
// A kernel that reads or writes elsewhere ends the test with a fault. What decodes must decode alike at every level.
func TestDamagedBetweenGuardPages(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 40
	}
	sizes := [][2]int{{1, 1}, {33, 3}, {64, 34}, {97, 70}, {300, 40}}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(8, 9))
			codecs := make([]Codec, 0, 3)
			for _, level := range kernel.Available() {
				codecs = append(codecs, mustNew(t, Params{Codec: name}, level))
			}
			refused, accepted := 0, 0
			for i, size := range sizes {
				w, h := size[0], size[1]
				whole := testenv.Must(codecs[0].Encode(nil, testImage(w, h, uint64(i)), 3*w, w, h))(t)
				src, dst := newGuarded(t, len(whole)+SlackBytes), newGuarded(t, 3*w*h)
				for range rounds {
					blob := damage(bytes.Clone(whole), rng)
					x, y := rng.IntN(w), rng.IntN(h)
					r := image.Rect(x, y, x+1+rng.IntN(w-x), y+1+rng.IntN(h-y))
					if decodeGuarded(t, codecs, src, dst, blob, r, rng) {
						accepted++
					} else {
						refused++
					}
				}
			}
			testenv.Check(t, refused != 0 && accepted != 0, "%d blobs refused, %d accepted: the damage does not try both", refused, accepted)
		})
	}
}

// decodeGuarded decodes r from blob between guard pages at every level and reports whether that worked, for all alike.
func decodeGuarded(t *testing.T, codecs []Codec, src, dst guarded, blob []byte, r image.Rectangle, rng *rand.Rand) bool {
	t.Helper()
	in := src.first(len(blob))
	if rng.IntN(2) == 0 {
		withSlack := src.last(len(blob) + SlackBytes)
		for i := range withSlack {
			withSlack[i] = 0xEE
		}
		in = withSlack[:len(blob)]
	} else if rng.IntN(2) == 0 {
		in = src.last(len(blob))
	}
	copy(in, blob)
	n := 3 * r.Dx() * r.Dy()
	out := dst.first(n)
	if rng.IntN(2) == 0 {
		out = dst.last(n)
	}
	target := resample.Output{Pix: out, Width: r.Dx(), Height: r.Dy(), Layout: resample.Layout(rng.IntN(2)), Flip: rng.IntN(2) == 0}
	stream := rng.IntN(2) == 0
	var want []byte
	var wantErr error
	for i, c := range codecs {
		clear(out)
		c.NonTemporal(stream)
		err := c.DecodeTo(target, in, r)
		if i == 0 {
			want, wantErr = bytes.Clone(out), err
		} else if !bytes.Equal(out, want) || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("level %d: %v, the generic code: %v, or other pixels", i, err, wantErr)
		}
		err = c.Decode(out, 3*r.Dx(), in, r)
		testenv.Require(t, (err == nil) == (wantErr == nil), "Decode: %v, DecodeTo: %v", err, wantErr)
	}
	var format *FormatError
	if wantErr == nil {
		return true
	}
	// A damaged size can leave the rectangle outside the image: the one other error there is.
	cfg, err := DecodeConfig(blob)
	outside := err == nil && !r.In(image.Rect(0, 0, cfg.Width, cfg.Height))
	testenv.Require(t, outside || errors.As(wantErr, &format) && format.Offset >= 0 && format.Offset <= len(blob),
		"error %v (%T) for a blob of %d bytes, want a *FormatError inside it", wantErr, wantErr, len(blob))
	return false
}

// TestEncodeBetweenGuardPages encodes images that end where readable memory does.
func TestEncodeBetweenGuardPages(t *testing.T) {
	forEachCodec(t, func(t *testing.T, p Params, level kernel.Level) {
		c := mustNew(t, p, level)
		for i, size := range testSizes {
			w, h := size[0], size[1]
			pix := testImage(w, h, uint64(i))
			g := newGuarded(t, len(pix))
			first, last := g.first(len(pix)), g.last(len(pix))
			copy(first, pix)
			a := testenv.Must(c.Encode(nil, first, 3*w, w, h))(t)
			copy(last, pix)
			testenv.Same(t, testenv.Must(c.Encode(nil, last, 3*w, w, h))(t), a, "the same %d×%d image encoded elsewhere in memory", w, h)
		}
	})
}

// TestHostileWidths decodes row pairs of bitpack whose groups are as wide or as narrow as possible, with lengths that fit,
// at the very end of the memory. Only the arithmetic of widths keeps the kernels from the guard page.
func TestHostileWidths(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	codecs := make([]Codec, 0, 3)
	for _, level := range kernel.Available() {
		codecs = append(codecs, mustNew(t, Params{}, level))
	}
	width := newGroupTables(DefaultGroups()).width
	for range 300 {
		w, h := 1+rng.IntN(400), 2
		head := header{width: w, height: h, bandLog: 5, codec: 1}
		blob := binary.LittleEndian.AppendUint32(head.append(nil), headerBytes+offsetBytes)
		headers, payload := make([]byte, chunkHeaderBytes*head.chunks()), 0
		few := rng.IntN(3) + 1
		for i := range headers {
			left, right := rng.IntN(16), rng.IntN(16)
			if few > 1 {
				left, right = rng.IntN(few), rng.IntN(few) // codes 0 and 1: no plane, and eight
			}
			headers[i] = byte(left | right<<4)
			payload += int(width[left]) + int(width[right])
		}
		blob = binary.LittleEndian.AppendUint16(blob, uint16(payload))
		blob = append(blob, headers...)
		for range 2 * payload {
			blob = append(blob, byte(rng.Uint32()))
		}
		src, dst := newGuarded(t, len(blob)+SlackBytes), newGuarded(t, 3*w*h)
		x := rng.IntN(w)
		for _, r := range []image.Rectangle{image.Rect(0, 0, w, h), image.Rect(x, 0, w, 1), image.Rect(x, 1, x+1+rng.IntN(w-x), 2)} {
			testenv.Require(t, decodeGuarded(t, codecs, src, dst, blob, r, rng), "a hostile but well-formed blob of %d×%d was refused", w, h)
			testenv.Require(t, !decodeGuarded(t, codecs, src, dst, blob[:len(blob)-1], r, rng) || payload == 0,
				"a blob that is cut short was decoded")
		}
	}
}

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
		t.Cleanup(func() { testenv.OK(t, syscall.Munmap(m)) })
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
