package jpeg

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// A transformation is a way in which jpegtran rewrites a file without decoding its blocks.
type transformation struct {
	name    string
	options []string
}

// transformations returns what is done to a file of a size. jpegtran makes it grey only where it has luminance, as its first
// component, at full resolution.
func transformations(size image.Point, luminance bool) (all []transformation) {
	jpegtran := func(name string, options ...string) {
		all = append(all, transformation{name, options})
	}
	w, h := size.X, size.Y
	inside := fmt.Sprintf("%dx%d+%d+%d", (w+1)/2, (h+1)/2, w/4, h/4)
	corner := fmt.Sprintf("%dx%d+%d+%d", w-w*2/3, h-h*2/3, w*2/3, h*2/3)
	jpegtran("plain")
	jpegtran("optimised", "-optimize")
	jpegtran("progressive", "-progressive")
	jpegtran("restart-row", "-restart", "1")
	jpegtran("restart-block", "-restart", "1B")
	jpegtran("restart-blocks", "-optimize", "-restart", "3B")
	jpegtran("progressive-restart-row", "-progressive", "-restart", "1")
	jpegtran("progressive-restart-block", "-progressive", "-restart", "1B")
	jpegtran("cropped", "-crop", inside)
	jpegtran("cropped-corner", "-crop", corner, "-optimize")
	jpegtran("cropped-progressive", "-crop", inside, "-progressive")
	jpegtran("cropped-restart", "-crop", corner, "-restart", "1B")
	jpegtran("expanded", "-crop", fmt.Sprintf("%dx%d+0+0", w+21, h+37))
	jpegtran("flipped", "-flip", "horizontal")
	jpegtran("flipped-trimmed", "-flip", "horizontal", "-trim")
	jpegtran("flipped-perfect", "-flip", "horizontal", "-perfect")
	jpegtran("flipped-perfect-progressive", "-flip", "horizontal", "-perfect", "-progressive")
	jpegtran("transposed", "-transpose")
	jpegtran("rotated-trimmed", "-rotate", "90", "-trim", "-restart", "1")
	if luminance {
		jpegtran("grey", "-grayscale")
		jpegtran("grey-progressive", "-grayscale", "-progressive")
		jpegtran("grey-restart", "-grayscale", "-restart", "1B")
		jpegtran("grey-cropped", "-grayscale", "-crop", inside)
	}
	jpegtran("arithmetic", "-arithmetic")
	jpegtran("arithmetic-progressive", "-arithmetic", "-progressive")
	jpegtran("arithmetic-restart", "-arithmetic", "-restart", "1B")
	return all
}

// transformed returns the variants that jpegtran is run on: few samplings, with those of the largest MCUs (4x2 is 4:1:0).
func transformed() (all []variant) {
	for i, s := range []string{"1x1", "2x1", "2x2", "1x2", "4x1", "4x2", "1x4", "2x4", "3x2", "2x2,1x2,2x1", "1x1,2x2,1x1"} {
		all = append(all, variant{s, testenv.Cjpeg, []string{"-quality", fmt.Sprint(40 + 5*i), "-sample", s}})
	}
	return append(all,
		variant{"progressive-2x2", testenv.Cjpeg, []string{"-progressive", "-sample", "2x2"}},
		variant{"progressive-4x2", testenv.Cjpeg, []string{"-progressive", "-sample", "4x2"}},
		variant{"grey", testenv.Cjpeg, []string{"-grayscale"}},
		variant{"rgb", testenv.Cjpeg, []string{"-rgb"}},
		variant{"magick-4x2", testenv.ImageMagick, []string{"-sampling-factor", "4x2"}},
		variant{"magick-cmyk", testenv.ImageMagick, []string{"-colorspace", "CMYK", "-sampling-factor", "2x2"}})
}

// refuseArithmetic checks that every way into the decoders gives an UnsupportedError that names arithmetic coding.
func refuseArithmetic(t testing.TB, decoders []*Decoder, name string, data []byte) {
	t.Helper()
	check := func(call string, err error) {
		t.Helper()
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) || !strings.HasPrefix(unsupported.Msg, "arithmetic coding: convert") {
			t.Fatalf("%s: %s: error %v, want one of unsupported arithmetic coding", name, call, err)
		}
	}
	_, err := DecodeConfig(data)
	check("DecodeConfig", err)
	for _, d := range decoders {
		_, err := d.Reset(data, nil)
		check("Reset", err)
		_, _, err = d.AppendIndex(nil, data)
		check("AppendIndex", err)
	}
}

// TestJpegtran compares what jpegtran makes of files of several samplings with Pillow. Its files are unlike an encoder's:
// the blocks beyond the picture's edges hold other samples than copies of the edge, sampling factors and quantisation tables
// are transposed, and progressive files have restart intervals of one MCU.
func TestJpegtran(t *testing.T) {
	t.Parallel()
	jpegtran := testenv.Jpegtran.Path(t)
	py := startPillow(t)
	rnd := rand.New(rand.NewPCG(7, 8))
	decoders := newDecoders()
	dir := t.TempDir()
	perfect := image.Pt(96, 64) // a multiple of every sampling's MCU width
	sizes := []image.Point{{1, 1}, {5, 3}, {33, 17}, perfect, {70, 131}}
	images, decodes, arithmetic, imperfect, incapable := 0, 0, 0, 0, 0
	missing := make(map[string]bool)
	ppm, path := filepath.Join(dir, "picture.ppm"), filepath.Join(dir, "picture.jpg")
	for i, size := range sizes {
		writePPM(t, ppm, size, uint64(20+i))
		for _, v := range transformed() {
			source := v.encode(t, ppm)
			if source == nil {
				missing[v.tool.String()] = true
				continue
			}
			luminance := v.name != "rgb" && v.name != "magick-cmyk" && v.name != "1x1,2x2,1x1"
			for _, tran := range transformations(size, luminance) {
				name := fmt.Sprintf("%s %s %v", v.name, tran.name, size)
				var stderr strings.Builder
				cmd := exec.Command(jpegtran, tran.options...)
				cmd.Stdin, cmd.Stderr = bytes.NewReader(source), &stderr
				data, err := cmd.Output()
				switch {
				case err != nil && strings.Contains(stderr.String(), "not perfect") && size != perfect:
					imperfect++
					continue
				case err != nil && strings.HasPrefix(tran.name, "arithmetic") && strings.Contains(stderr.String(), "not supported"):
					incapable++
					continue
				case err != nil:
					t.Fatalf("%s: jpegtran %v: %v: %s", name, tran.options, err, stderr.String())
				case strings.HasPrefix(tran.name, "arithmetic"):
					refuseArithmetic(t, decoders, name, data)
					arithmetic++
					continue
				}
				if err := os.WriteFile(path, data, 0o644); err != nil {
					t.Fatal(err)
				}
				size, want, refused := py.decode(t, path)
				if refused != nil {
					t.Fatalf("%s: Pillow: %v", name, refused)
				}
				decodes += compareWith(t, decoders, rnd, name, data, want, size)
				images++
			}
		}
	}
	fmt.Printf("jpeg: %d files of jpegtran identical with Pillow in %d decodes, %d arithmetic ones refused; it found %d flips not perfect\n",
		images, decodes, arithmetic, imperfect)
	if len(missing) > 0 {
		t.Skip(strings.Join(slices.Sorted(maps.Keys(missing)), "\n"))
	}
	if incapable > 0 {
		t.Skipf("this jpegtran cannot make the %d arithmetic files that are to be refused", incapable)
	}
}
