package pixelcodec

import (
	"bytes"
	"image"
	"os"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// fuzzPixels bounds what the fuzz targets decode, so that a header that says 16,384×16,384 does not take their time.
const fuzzPixels = 1 << 16

// FuzzDecode compares every level with the generic code on arbitrary blobs.
func FuzzDecode(f *testing.F) {
	for _, g := range goldenBlobs() {
		blob := testenv.Must(os.ReadFile(goldenPath(g.Blob)))(f)
		f.Add(blob, uint16(0), uint16(0), uint16(70), uint16(37), false, false)
		f.Add(blob, uint16(5), uint16(3), uint16(50), uint16(20), true, true)
	}
	codecs := make(map[string][]Codec)
	for _, name := range Names() {
		for _, level := range kernel.Available() {
			codecs[name] = append(codecs[name], mustNew(f, Params{Codec: name}, level))
		}
	}
	f.Fuzz(func(t *testing.T, blob []byte, x, y, w, h uint16, planar, flip bool) {
		cfg, err := DecodeConfig(blob)
		if err != nil {
			return
		}
		r := image.Rect(int(x), int(y), int(x)+int(w), int(y)+int(h)).Intersect(image.Rect(0, 0, cfg.Width, cfg.Height))
		if r.Dx()*r.Dy() > fuzzPixels || cfg.Width*cfg.BandRows > 8*fuzzPixels {
			return
		}
		out := resample.Output{Width: r.Dx(), Height: r.Dy(), Flip: flip}
		if planar {
			out.Layout = resample.NCHW
		}
		var want []byte
		var wantErr error
		for i, c := range codecs[cfg.Codec] {
			out.Pix = make([]byte, 3*r.Dx()*r.Dy())
			err := c.DecodeTo(out, blob, r)
			if i == 0 {
				want, wantErr = out.Pix, err
			} else if (err == nil) != (wantErr == nil) || !bytes.Equal(out.Pix, want) {
				t.Fatalf("level %d: %v; generic: %v; or other pixels", i, err, wantErr)
			}
		}
	})
}
