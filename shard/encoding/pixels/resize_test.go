package pixels

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/transform"
)

// TestParams writes parameters as a manifest keeps them, and reads those of older sets, which name no resampler.
func TestParams(t *testing.T) {
	for text, want := range map[string]Resize{
		`{"codec":"none","resize":"256","interpolation":"bilinear"}`:                           {Height: 256, Interpolation: resample.Bilinear, Resampler: resample.Pillow12},
		`{"codec":"none","resize":"256","interpolation":"bilinear","resampler":"pillow-12"}`:   {Height: 256, Interpolation: resample.Bilinear, Resampler: resample.Pillow12},
		`{"codec":"none","resize":"max:90","interpolation":"lanczos","resampler":"pillow-13"}`: {LongMax: 90, Interpolation: resample.Lanczos},
		`{"codec":"none","resize":"20x30","interpolation":"box"}`:                              {Height: 20, Width: 30, Interpolation: resample.Box, Resampler: resample.Pillow12},
		`{"codec":"none","resize":"none"}`:                                                     {},
		`{"codec":"none"}`:                                                                     {},
	} {
		e := testenv.Must(parse(json.RawMessage(text)))(t)
		if got := e.(*Encoding).resize; got != want {
			t.Errorf("%s is %+v; want %+v", text, got, want)
		}
		written := e.Stored().Params
		if named := strings.Contains(string(written), want.Resampler.String()); named != !want.none() {
			t.Errorf("%+v is written as %s", want, written)
		}
		if again, err := parse(written); err != nil || again.(*Encoding).resize != want {
			t.Errorf("%s reads back as %+v, %v; want %+v", written, again, err, want)
		}
	}
	testenv.Fails(parse(json.RawMessage(`{"codec":"none","resize":"256","resampler":"pillow-99"}`)))(t, "pillow-99")
	for _, size := range []string{"0", "-5", "+5", "256 ", "256x", "x256", "256x0", "256x-1", "2x3x4", "max:", "max:0", "max:-1", "1e3", "99999999", "max:99999999"} {
		if resize, err := ParseResize(size, ""); err == nil {
			t.Errorf("%q is read as %+v", size, resize)
		}
	}
}

// TestNotBitExactResampler stores with one resampler and asks for another.
func TestNotBitExactResampler(t *testing.T) {
	stored := Resize{Height: 256, Interpolation: resample.Bilinear, Resampler: resample.Pillow12}
	note := func(text string, by resample.Algorithm) string {
		views := testenv.Must(transform.ParseViews(text, by))(t)
		return stored.NotBitExact(views[0])
	}
	if note := note("eval", resample.Pillow12); note != "" {
		t.Errorf("the same resampler: %s", note)
	}
	other := note("eval", resample.Pillow13)
	for _, word := range []string{"Resize(256, bilinear) by the resampler pillow-12", "asks for pillow-13"} {
		if !strings.Contains(other, word) {
			t.Errorf("%q does not say %q", other, word)
		}
	}
	stored.Interpolation = resample.Nearest
	if note := note(`[{"op":"Resize","size":256,"interpolation":"nearest"},{"op":"CenterCrop","size":224}]`, resample.Pillow13); note != "" {
		t.Errorf("nearest is the same in all releases: %s", note)
	}
}
