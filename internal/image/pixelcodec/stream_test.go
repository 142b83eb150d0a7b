package pixelcodec

import (
	"bytes"
	"fmt"
	"image"
	"testing"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

// TestStream compares what is written past the caches with what is not: for every codec and level, widths that can be
// streamed and that cannot, rectangles that begin and end on either row of a pair, mirrored and not, at places that are
// aligned and that are not. Not a byte around the output may change.
func TestStream(t *testing.T) {
	const w, h, margin = 256, 72, 128
	pix := testImage(w, h, 4)
	forEachCodec(t, func(t *testing.T, p Params, level kernel.Level) {
		c := mustNew(t, p, level)
		blob, err := c.Encode(nil, pix, 3*w, w, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []image.Rectangle{
			image.Rect(0, 0, 32, 1), image.Rect(5, 1, 37, 2), image.Rect(31, 31, 127, 34), image.Rect(16, 3, 240, 70),
			image.Rect(0, 0, 256, 72), image.Rect(7, 64, 103, 71), image.Rect(1, 2, 34, 9), image.Rect(9, 9, 29, 12),
		} {
			for variant := range 8 {
				layout, flip, shift := resample.Layout(variant&1), variant&2 != 0, variant>>2*16
				n := 3 * r.Dx() * r.Dy()
				decode := func(stream bool) []byte {
					all := bytes.Repeat([]byte{0xA5}, n+2*margin)
					at := margin - int(uintptr(unsafe.Pointer(&all[0]))%streamAlign) + shift
					c.NonTemporal(stream)
					out := resample.Output{Pix: all[at : at+n], Width: r.Dx(), Height: r.Dy(), Layout: layout, Flip: flip}
					if err := c.DecodeTo(out, blob, r); err != nil {
						t.Fatal(err)
					}
					if around := len(all) - n; bytes.Count(all[:at], []byte{0xA5})+bytes.Count(all[at+n:], []byte{0xA5}) != around {
						t.Fatalf("%v: bytes around the output have changed", r)
					}
					return all[at : at+n]
				}
				if !bytes.Equal(decode(true), decode(false)) {
					t.Errorf("%v: streamed pixels differ", fmt.Sprint(r, layout, flip, shift))
				}
			}
		}
	})
}
