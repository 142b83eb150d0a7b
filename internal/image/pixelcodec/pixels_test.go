package pixelcodec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// testSizes are widths and heights around every boundary: groups, chunks, vectors, pairs and bands.
var testSizes = [][2]int{
	{1, 1}, {2, 3}, {7, 5}, {8, 2}, {31, 33}, {32, 32}, {33, 31}, {63, 7}, {64, 64}, {65, 65}, {96, 34}, {97, 1}, {130, 70}, {341, 256},
}

// testImage returns a w×h image that mixes what the codecs treat differently: flat areas, ramps, edges, noise weak and strong.
func testImage(w, h int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	pix := make([]byte, 3*w*h)
	for y := range h {
		for x := range w {
			noise := []int{0, 3, 9, 60, 256}[(x/24+y/16)%5]
			for c := range 3 {
				v := 40*c + x + 2*y
				if noise > 0 {
					v += rng.IntN(noise)
				} else {
					v = 200
				}
				pix[3*(y*w+x)+c] = byte(v)
			}
		}
	}
	return pix
}

func mustNew(tb testing.TB, p Params, level kernel.Level) Codec {
	tb.Helper()
	return testenv.Must(New(p, level))(tb)
}

// testRegions returns rectangles of a w×h image: all of it, its corners, and some drawn.
func testRegions(w, h int, rng *rand.Rand) []image.Rectangle {
	rs := []image.Rectangle{image.Rect(0, 0, w, h), image.Rect(0, 0, 1, 1), image.Rect(w-1, h-1, w, h), image.Rect(w/2, 0, w, h)}
	for i := range 12 {
		x, y := rng.IntN(w), rng.IntN(h)
		r := image.Rect(x, y, x+1+rng.IntN(w-x), y+1+rng.IntN(h-y))
		if whole := r.Dx() / streamAlign * streamAlign; i%2 == 0 && whole > 0 { // these can be streamed
			r.Max.X = r.Min.X + whole
		}
		rs = append(rs, r)
	}
	return rs
}

// wantOutput is what DecodeTo must write, one pixel at a time.
func wantOutput(pix []byte, w int, r image.Rectangle, layout resample.Layout, flip bool) []byte {
	want := make([]byte, 3*r.Dx()*r.Dy())
	for y := range r.Dy() {
		for x := range r.Dx() {
			from := x
			if flip {
				from = r.Dx() - 1 - x
			}
			for c := range 3 {
				to := 3*(y*r.Dx()+x) + c
				if layout == resample.NCHW {
					to = (c*r.Dy()+y)*r.Dx() + x
				}
				want[to] = pix[3*((r.Min.Y+y)*w+r.Min.X+from)+c]
			}
		}
	}
	return want
}

func forEachCodec(t *testing.T, f func(t *testing.T, p Params, level kernel.Level)) {
	for _, name := range Names() {
		for _, level := range kernel.Available() {
			t.Run(name+"/"+level.String(), func(t *testing.T) { f(t, Params{Codec: name}, level) })
		}
	}
}

func TestRoundTrip(t *testing.T) {
	forEachCodec(t, func(t *testing.T, p Params, level kernel.Level) {
		rng := rand.New(rand.NewPCG(1, 2))
		c := mustNew(t, p, level)
		for i, size := range testSizes {
			w, h := size[0], size[1]
			pix := testImage(w, h, uint64(i))
			blob := testenv.Must(c.Encode(nil, pix, 3*w, w, h))(t)
			testenv.Equal(t, testenv.Must(DecodeConfig(blob))(t), Config{w, h, p.Codec, 32}, "DecodeConfig of a %d×%d image", w, h)
			for _, r := range testRegions(w, h, rng) {
				checkRegion(t, c, blob, pix, w, r)
			}
		}
	})
}

// checkRegion decodes r in every way and compares each byte, also those around the destination: past the caches and not, at
// aligned addresses and at others, with another blob fetched meanwhile.
func checkRegion(t *testing.T, c Codec, blob, pix []byte, w int, r image.Rectangle) {
	t.Helper()
	const guard = 0xA5
	stride := 3*r.Dx() + 5
	dst := bytes.Repeat([]byte{guard}, stride*r.Dy()+64)
	testenv.OK(t, c.Decode(dst, stride, blob, r))
	want := wantOutput(pix, w, r, resample.NHWC, false)
	for y := range r.Dy() {
		row := dst[y*stride:][:stride]
		testenv.Same(t, row[:3*r.Dx()], want[3*r.Dx()*y:][:3*r.Dx()], "Decode of %v: row %d differs", r, y)
		testenv.Same(t, row[3*r.Dx():], bytes.Repeat([]byte{guard}, 5), "Decode of %v: wrote behind row %d", r, y)
	}
	around := bytes.Repeat([]byte{guard}, 64)
	for variant := range 16 {
		layout, flip, shift := resample.Layout(variant&1), variant&2 != 0, variant>>2&1*16
		n := 3 * r.Dx() * r.Dy()
		all := bytes.Repeat([]byte{guard}, n+256)
		all = all[streamAlign-int(uintptr(unsafe.Pointer(&all[0]))%streamAlign)+shift:][:n+128]
		c.NonTemporal(variant&8 != 0)
		c.Prefetch(blob[:len(blob)*variant/16])
		testenv.OK(t, c.DecodeTo(resample.Output{Pix: all[64:], Width: r.Dx(), Height: r.Dy(), Layout: layout, Flip: flip}, blob, r))
		testenv.Same(t, all, slices.Concat(around, wantOutput(pix, w, r, layout, flip), around), "DecodeTo of %v, variant %d differs", r, variant)
	}
}

// TestLevelsEncodeAlike checks that every level writes the same bytes, whatever the stride and what dst holds.
func TestLevelsEncodeAlike(t *testing.T) {
	for _, name := range Names() {
		for i, size := range testSizes {
			w, h := size[0], size[1]
			pix := testImage(w, h, uint64(i))
			want := testenv.Must(mustNew(t, Params{Codec: name}, kernel.Generic).Encode(nil, pix, 3*w, w, h))(t)
			wide := make([]byte, (3*w+11)*h)
			for y := range h {
				copy(wide[y*(3*w+11):], pix[3*w*y:][:3*w])
			}
			for _, level := range kernel.Available() {
				got, err := mustNew(t, Params{Codec: name}, level).Encode([]byte("before"), wide, 3*w+11, w, h)
				testenv.Check(t, err == nil && bytes.Equal(got[6:], want) && string(got[:6]) == "before",
					"%s at level %v encodes %d×%d otherwise than the generic code (%v)", name, level, w, h, err)
			}
		}
	}
}

func TestParams(t *testing.T) {
	groups := []Group{{8, -128}, {0, 0}, {1, -1}, {2, -2}, {3, -4}, {4, -8}, {5, -16}, {6, -32}, {7, -64}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}}
	p := Params{Codec: Bitpack, BandRows: 4, Groups: groups}
	text := testenv.Must(json.Marshal(p))(t)
	back := testenv.FromJSON[Params](t, text)
	testenv.Require(t, reflect.DeepEqual(back, p), "%s comes back as %+v", text, back)
	w, h := 70, 30
	pix := testImage(w, h, 3)
	for _, level := range kernel.Available() {
		c := mustNew(t, back, level)
		testenv.Check(t, reflect.DeepEqual(c.Params(), p), "Params() = %+v, want %+v", c.Params(), p)
		blob := testenv.Must(c.Encode(nil, pix, 3*w, w, h))(t)
		checkRegion(t, c, blob, pix, w, image.Rect(3, 5, 67, 29))
	}
	bad := []Params{
		{Codec: "webp"}, {BandRows: 3}, {BandRows: 1}, {BandRows: 1 << 16}, {Groups: groups[:15]}, {Groups: append(groups[1:16:16], Group{0, 0})},
		{Groups: append(groups[:15:15], Group{9, 0})}, {Groups: append(groups[:15:15], Group{1, 128})}, {Codec: Zstd, Level: 9},
	}
	for _, p := range bad {
		testenv.Fails(New(p, kernel.Generic))(t, nil, "New accepted %+v", p)
	}
}

func TestWrongArguments(t *testing.T) {
	forEachCodec(t, func(t *testing.T, p Params, level kernel.Level) {
		c := mustNew(t, p, level)
		pix := testImage(40, 30, 1)
		blob := testenv.Must(c.Encode(nil, pix, 120, 40, 30))(t)
		dst := make([]byte, len(pix))
		for _, r := range []image.Rectangle{{}, image.Rect(-1, 0, 4, 4), image.Rect(0, 0, 41, 30), image.Rect(5, 5, 5, 9)} {
			testenv.Check(t, c.Decode(dst, 200, blob, r) != nil, "Decode accepted rectangle %v", r)
		}
		testenv.Check(t, c.Decode(dst, 119, blob, image.Rect(0, 0, 40, 30)) != nil, "Decode accepted a stride that is too short")
		testenv.Check(t, c.Decode(dst[:len(dst)-1], 120, blob, image.Rect(0, 0, 40, 30)) != nil,
			"Decode accepted a destination that is too short")
		for _, o := range []resample.Output{
			{Pix: dst, Width: 40, Height: 29},
			{Pix: dst[:len(dst)-1], Width: 40, Height: 30, Layout: resample.NCHW, Flip: true},
		} {
			err := c.DecodeTo(o, blob, image.Rect(0, 0, 40, 30))
			testenv.Check(t, err != nil, "DecodeTo accepted an output of %d×%d with %d bytes", o.Width, o.Height, len(o.Pix))
		}
		_, err := c.Encode(nil, pix, 3*(MaxDimension+1), MaxDimension+1, 1)
		testenv.Check(t, errors.As(err, new(*LimitError)), "Encode of too wide an image: %v, want a *LimitError", err)
		for _, args := range [][3]int{{119, 40, 30}, {120, 40, 31}, {120, 0, 30}, {120, 40, 0}} {
			testenv.Fails(c.Encode(nil, pix, args[0], args[1], args[2]))(t, nil, "Encode accepted stride, width and height %v", args)
		}
	})
}

// TestLargestDimensions stores noise as wide and as tall as it may be.
func TestLargestDimensions(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, size := range [][2]int{{MaxDimension, 3}, {2, MaxDimension}} {
		w, h := size[0], size[1]
		pix := make([]byte, 3*w*h)
		for i := range pix {
			pix[i] = byte(rng.Uint32())
		}
		for _, name := range Names() {
			c := mustNew(t, Params{Codec: name}, kernel.Active())
			blob := testenv.Must(c.Encode(nil, pix, 3*w, w, h))(t)
			got := make([]byte, len(pix))
			testenv.OK(t, c.Decode(got, 3*w, blob, image.Rect(0, 0, w, h)))
			testenv.Same(t, got, pix, "%s: %d×%d does not come back", name, w, h)
			r := image.Rect(w-2, h-3, w, h)
			got = got[:3*2*3]
			testenv.OK(t, c.Decode(got, 6, blob, r))
			testenv.Same(t, got, wantOutput(pix, w, r, resample.NHWC, false), "%s: the last corner of %d×%d does not come back", name, w, h)
		}
	}
}

// TestSteadyStateAllocatesNothing runs every codec until it has seen its largest image.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	forEachCodec(t, func(t *testing.T, p Params, level kernel.Level) {
		if testenv.UnderRace() && (p.Codec == Zstd || p.Codec == LZ4) {
			t.Skip("the race detector makes the compressors' sync.Pool drop things now and then")
		}
		c := mustNew(t, p, level)
		w, h := 300, 260
		pix := testImage(w, h, 5)
		blob := testenv.Must(c.Encode(nil, pix, 3*w, w, h))(t)
		out := resample.Output{Pix: make([]byte, 3*224*224), Width: 224, Height: 224, Layout: resample.NCHW}
		scratch := make([]byte, 0, 2*len(pix))
		exact := bytes.Clone(blob)[:len(blob):len(blob)]
		testenv.NoAllocations(t, 20, func() {
			testenv.Must(c.Encode(scratch, pix, 3*w, w, h))(t)
			for _, b := range [][]byte{blob, exact} {
				testenv.OK(t, c.DecodeTo(out, b, image.Rect(38, 18, 262, 242)))
			}
		}, "in the steady state")
	})
}

func Example() {
	codec, err := New(Params{}, kernel.Active())
	if err != nil {
		panic(err)
	}
	grey := bytes.Repeat([]byte{90}, 3*64*48)
	blob, err := codec.Encode(nil, grey, 3*64, 64, 48)
	if err != nil {
		panic(err)
	}
	out := resample.Output{Pix: make([]byte, 3*8*8), Width: 8, Height: 8, Layout: resample.NCHW}
	if err := codec.DecodeTo(out, blob, image.Rect(10, 20, 18, 28)); err != nil {
		panic(err)
	}
	fmt.Println(len(grey), len(blob), out.Pix[0])
	// Output: 9216 400 90
}

// TestPrefetcher checks that the steps cover the memory, in whole lines but for the last.
func TestPrefetcher(t *testing.T) {
	for _, n := range []int{0, 1, 64, 100, 139_000} {
		for _, steps := range []int{0, 1, 3, 112} {
			var p prefetcher
			p.Prefetch(make([]byte, n))
			p.begin(steps)
			testenv.Check(t, p.step%64 == 0, "%d bytes in %d steps: %d bytes a step", n, steps, p.step)
			for range max(steps, 1) {
				p.fetch()
			}
			testenv.Check(t, len(p.memory) == 0, "%d bytes in %d steps: %d are left", n, steps, len(p.memory))
		}
	}
}

type rawImage struct {
	pix  []byte
	w, h int
}

// benchImages returns images with the sizes of photographs with a short side of 256.
func benchImages() (images []rawImage) {
	for i := range 48 {
		w, h := 256+16*(i%12), 256
		images = append(images, rawImage{testImage(w, h, uint64(i)), w, h})
	}
	return images
}

func encodeAll(tb testing.TB, c Codec, images []rawImage) (blobs [][]byte) {
	for _, img := range images {
		blobs = append(blobs, testenv.Must(c.Encode(nil, img.pix, 3*img.w, img.w, img.h))(tb))
	}
	return blobs
}

// BenchmarkDecodeCrop takes a 224×224 centre crop of one image after the other, into the rows of a batch.
func BenchmarkDecodeCrop(b *testing.B) {
	const batch, crop = 256, 224
	images, pix := benchImages(), make([]byte, batch*3*crop*crop)
	run := func(codec string, level kernel.Level, layout resample.Layout, flip bool) {
		b.Run(fmt.Sprintf("%s/%v/%v/flip=%v", codec, level, layout, flip), func(b *testing.B) {
			c := mustNew(b, Params{Codec: codec}, level)
			blobs := encodeAll(b, c, images)
			for n := 0; b.Loop(); n++ {
				img := images[n%len(images)]
				x, y := (img.w-crop)/2, (img.h-crop)/2
				out := resample.Output{Pix: pix[n%batch*3*crop*crop:][:3*crop*crop], Width: crop, Height: crop, Layout: layout, Flip: flip}
				testenv.OK(b, c.DecodeTo(out, blobs[n%len(images)], image.Rect(x, y, x+crop, y+crop)))
			}
		})
	}
	for _, codec := range Names() {
		for _, level := range kernel.Available() {
			run(codec, level, resample.NHWC, false)
			run(codec, level, resample.NHWC, true)
			run(codec, level, resample.NCHW, false)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	images := benchImages()
	for _, name := range Names() {
		for _, level := range kernel.Available() {
			b.Run(name+"/"+level.String(), func(b *testing.B) {
				c := mustNew(b, Params{Codec: name}, level)
				var blob []byte
				for n := 0; b.Loop(); n++ {
					img := images[n%len(images)]
					blob = testenv.Must(c.Encode(blob[:0], img.pix, 3*img.w, img.w, img.h))(b)
				}
			})
		}
	}
}
