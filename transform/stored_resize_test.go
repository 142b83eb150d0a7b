package transform

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/pixels"
	"github.com/imgfeed/imgfeed/internal/resample"
)

// TestPixelsParams writes parameters as a manifest keeps them, and reads those of older sets, which name no resampler.
func TestPixelsParams(t *testing.T) {
	for text, want := range map[string]StoredResize{
		`{"codec":"none","resize":"256","interpolation":"bilinear"}`:                           {Height: 256, Interpolation: resample.Bilinear, Resampler: resample.Pillow12},
		`{"codec":"none","resize":"256","interpolation":"bilinear","resampler":"pillow-12"}`:   {Height: 256, Interpolation: resample.Bilinear, Resampler: resample.Pillow12},
		`{"codec":"none","resize":"max:90","interpolation":"lanczos","resampler":"pillow-13"}`: {LongMax: 90, Interpolation: resample.Lanczos},
		`{"codec":"none","resize":"20x30","interpolation":"box"}`:                              {Height: 20, Width: 30, Interpolation: resample.Box, Resampler: resample.Pillow12},
		`{"codec":"none","resize":"none"}`:                                                     {},
		`{"codec":"none"}`:                                                                     {},
	} {
		var p PixelsParams
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		got, err := p.Stored()
		if err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
		written, err := json.Marshal(NewPixelsParams(pixels.Params{Codec: "none"}, want))
		if err != nil {
			t.Fatal(err)
		}
		if named := strings.Contains(string(written), want.Resampler.String()); named != !want.none() {
			t.Errorf("%+v is written as %s", want, written)
		}
		var again PixelsParams
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatal(err)
		}
		if got, err := again.Stored(); err != nil || got != want {
			t.Errorf("%s reads back as %+v, %v; want %+v", written, got, err, want)
		}
	}
	p := PixelsParams{Resize: "256", Resampler: "pillow-99"}
	if _, err := p.Stored(); err == nil || !strings.Contains(err.Error(), "pillow-99") {
		t.Errorf("a resampler of the future: %v", err)
	}
}

// TestNotBitExactResampler stores with one resampler and asks for another.
func TestNotBitExactResampler(t *testing.T) {
	stored := StoredResize{Height: 256, Interpolation: resample.Bilinear, Resampler: resample.Pillow12}
	if note := stored.NotBitExact(must(ParseWith("eval", resample.Pillow12))); note != "" {
		t.Errorf("the same resampler: %s", note)
	}
	note := stored.NotBitExact(mustParse("eval"))
	for _, word := range []string{"Resize(256, bilinear) by the resampler pillow-12", "asks for pillow-13"} {
		if !strings.Contains(note, word) {
			t.Errorf("%q does not say %q", note, word)
		}
	}
	stored.Interpolation = resample.Nearest
	if note := stored.NotBitExact(mustParse(`[{"op":"Resize","size":256,"interpolation":"nearest"},{"op":"CenterCrop","size":224}]`)); note != "" {
		t.Errorf("nearest is the same in all releases: %s", note)
	}
}
