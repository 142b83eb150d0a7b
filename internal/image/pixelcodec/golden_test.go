package pixelcodec

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

var update = flag.Bool("update", false, "write testdata anew")

// A goldenBlob is one of the files in testdata. The Python tests read them too, with a decoder written from
// docs/format/pixels.md, and compare with the PPM file.
type goldenBlob struct {
	Blob   string `json:"blob"`
	Image  string `json:"image"`
	Params Params `json:"params"`
}

func goldenImages() map[string]rawImage {
	return map[string]rawImage{
		"mixed.ppm":   {testImage(70, 37, 11), 70, 37},
		"tiny.ppm":    {testImage(1, 1, 12), 1, 1},
		"example.ppm": {exampleImage(), 32, 2},
	}
}

func goldenBlobs() []goldenBlob {
	flat := make([]Group, 0, 16)
	for w := 8; w > 0; w-- {
		flat = append(flat, Group{w, -1 << (w - 1)}, Group{w - 1, 0})
	}
	return []goldenBlob{
		{"mixed.bitpack", "mixed.ppm", Params{Codec: Bitpack}},
		{"mixed-groups.bitpack", "mixed.ppm", Params{Codec: Bitpack, BandRows: 8, Groups: flat}},
		{"mixed.zstd", "mixed.ppm", Params{Codec: Zstd}},
		{"mixed.lz4", "mixed.ppm", Params{Codec: LZ4, BandRows: 16}},
		{"mixed.none", "mixed.ppm", Params{Codec: None}},
		{"tiny.bitpack", "tiny.ppm", Params{Codec: Bitpack}},
		{"tiny.lz4", "tiny.ppm", Params{Codec: LZ4}},
		{"example.bitpack", "example.ppm", Params{Codec: Bitpack}},
	}
}

// exampleImage is the worked example of docs/format/pixels.md: 32×2 pixels.
func exampleImage() []byte {
	var pix []byte
	for y := range 2 {
		for x := range 32 {
			g := 100 + 2*(x/8) + y*(x%4)
			pix = append(pix, byte(g+x/16), byte(g), byte(g-60*y*(x/24)))
		}
	}
	return pix
}

func goldenPath(name string) string { return filepath.Join("testdata", name) }

func TestGolden(t *testing.T) {
	images := goldenImages()
	if *update {
		writeGolden(t, images)
	}
	index := testenv.Must(os.ReadFile(goldenPath("index.json")))(t)
	blobs := testenv.FromJSON[[]goldenBlob](t, index)
	testenv.Require(t, len(blobs) == len(goldenBlobs()), "testdata has %d blobs, want %d; -update writes them", len(blobs), len(goldenBlobs()))
	for _, g := range blobs {
		blob := testenv.Must(os.ReadFile(goldenPath(g.Blob)))(t)
		img := images[g.Image]
		ppm := testenv.Must(os.ReadFile(goldenPath(g.Image)))(t)
		testenv.Same(t, ppm, img.ppm(), "%s is not what the test makes; -update writes it", g.Image)
		for _, level := range kernel.Available() {
			c := mustNew(t, g.Params, level)
			checkRegion(t, c, blob, img.pix, img.w, image.Rect(0, 0, img.w, img.h))
			again := testenv.Must(c.Encode(nil, img.pix, 3*img.w, img.w, img.h))(t)
			// What the compressors make may change with their versions; what this package makes may not.
			if g.Params.Codec == Bitpack || g.Params.Codec == None {
				testenv.Same(t, again, blob, "%s: Encode at level %v", g.Blob, level)
			}
		}
	}
}

// ppm returns the image as a binary PPM file.
func (img rawImage) ppm() []byte {
	return append(fmt.Appendf(nil, "P6\n%d %d\n255\n", img.w, img.h), img.pix...)
}

func writeGolden(t *testing.T, images map[string]rawImage) {
	t.Helper()
	write := func(name string, data []byte) { testenv.OK(t, os.WriteFile(goldenPath(name), data, 0o644)) }
	for name, img := range images {
		write(name, img.ppm())
	}
	for _, g := range goldenBlobs() {
		img := images[g.Image]
		blob := testenv.Must(mustNew(t, g.Params, kernel.Generic).Encode(nil, img.pix, 3*img.w, img.w, img.h))(t)
		write(g.Blob, blob)
	}
	index := testenv.Must(json.MarshalIndent(goldenBlobs(), "", "\t"))(t)
	write("index.json", append(index, '\n'))
}

// TestDocumentedExample checks that the worked example in the document is the bytes that Encode makes.
func TestDocumentedExample(t *testing.T) {
	const path = "../../../docs/format/pixels.md"
	text := testenv.Must(os.ReadFile(path))(t)
	_, rest, _ := strings.Cut(string(text), "<!-- example blob -->\n```\n")
	dump, _, found := strings.Cut(rest, "```")
	testenv.Require(t, found, "%s has no example blob", path)
	// A line is an offset, bytes, and what they are behind a semicolon.
	var digits strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(dump), "\n") {
		bytes, _, _ := strings.Cut(line, ";")
		digits.WriteString(strings.Join(strings.Fields(regexp.MustCompile(`^ *\d+:`).ReplaceAllString(bytes, "")), ""))
	}
	got := testenv.Must(hex.DecodeString(digits.String()))(t)
	want := testenv.Must(mustNew(t, Params{}, kernel.Generic).Encode(nil, exampleImage(), 96, 32, 2))(t)
	testenv.Same(t, got, want, "the example in %s is\n% x, Encode makes\n% x", path, got, want)
}

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
