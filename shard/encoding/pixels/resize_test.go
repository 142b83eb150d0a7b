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
		testenv.Equal(t, e.(*Encoding).resize, want, "%s", text)
		written := e.Stored().Params
		testenv.Equal(t, strings.Contains(string(written), want.Resampler.String()), !want.none(), "%s names the resampler", written)
		testenv.Equal(t, testenv.Must(parse(written))(t).(*Encoding).resize, want, "%s reads back", written)
	}
	testenv.Fails(parse(json.RawMessage(`{"codec":"none","resize":"256","resampler":"pillow-99"}`)))(t, "pillow-99")
	for _, size := range []string{"0", "-5", "+5", "256 ", "256x", "x256", "256x0", "256x-1", "2x3x4", "max:", "max:0", "max:-1", "1e3", "99999999", "max:99999999"} {
		resize, err := ParseResize(size, "")
		testenv.Check(t, err != nil, "%q is read as %+v", size, resize)
	}
}

// TestNotBitExactResampler stores with one resampler and asks for another.
func TestNotBitExactResampler(t *testing.T) {
	stored := Resize{Height: 256, Interpolation: resample.Bilinear, Resampler: resample.Pillow12}
	note := func(text string, by resample.Algorithm) string {
		views := testenv.Must(transform.ParseViews(text, by))(t)
		return stored.NotBitExact(views[0])
	}
	testenv.Equal(t, note("eval", resample.Pillow12), "", "the same resampler")
	testenv.Contains(t, note("eval", resample.Pillow13), "Resize(256, bilinear) by the resampler pillow-12", "asks for pillow-13")
	stored.Interpolation = resample.Nearest
	nearest := `[{"op":"Resize","size":256,"interpolation":"nearest"},{"op":"CenterCrop","size":224}]`
	testenv.Equal(t, note(nearest, resample.Pillow13), "", "nearest is the same in all releases")
}
