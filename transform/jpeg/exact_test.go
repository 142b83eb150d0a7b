package jpeg

import (
	"bytes"
	"fmt"
	"image"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/imgfeed/imgfeed/transform/kernel"
)

// decodeRegion decodes a region of a file to a new slice. The bytes around the region's rows are checked to be left alone.
func decodeRegion(d *Decoder, data, index []byte, r image.Rectangle) ([]byte, error) {
	if _, err := d.Reset(data, index); err != nil {
		return nil, err
	}
	const gap, mark = 5, 0xa5
	stride := r.Dx()*3 + gap
	dst := bytes.Repeat([]byte{mark}, stride*r.Dy())
	if err := d.Decode(dst, stride, r); err != nil {
		return nil, err
	}
	pix := make([]byte, 0, r.Dx()*r.Dy()*3)
	for row := dst; len(row) > 0; row = row[stride:] {
		pix = append(pix, row[:stride-gap]...)
		for _, b := range row[stride-gap : stride] {
			if b != mark {
				return nil, fmt.Errorf("bytes behind a row of region %v were written", r)
			}
		}
	}
	return pix, nil
}

// cut returns a region of an image's RGB pixels.
func cut(pix []byte, width int, r image.Rectangle) []byte {
	var out []byte
	for y := r.Min.Y; y < r.Max.Y; y++ {
		out = append(out, pix[(y*width+r.Min.X)*3:(y*width+r.Max.X)*3]...)
	}
	return out
}

func randomRegion(rnd *rand.Rand, w, h int) image.Rectangle {
	x0, y0 := rnd.IntN(w), rnd.IntN(h)
	return image.Rect(x0, y0, x0+1+rnd.IntN(w-x0), y0+1+rnd.IntN(h-y0))
}

// difference says where two images differ first.
func difference(got, want []byte, width int) string {
	for i := range want {
		if got[i] != want[i] {
			return fmt.Sprintf("channel %d of pixel (%d, %d) is %d, want %d", i%3, i/3%width, i/3/width, got[i], want[i])
		}
	}
	return "no difference"
}

// TestPhotographs compares full decodes and random regions, with and without index, of all kernels with Pillow.
func TestPhotographs(t *testing.T) {
	files := photographs(t)
	py := startPillow(t)
	if testing.Short() {
		files = files[:50]
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var decoders []*Decoder
	for _, level := range kernel.Available() {
		decoders = append(decoders, New(level))
	}
	images, regions := 0, 0
	for _, file := range files {
		size, want, refused := py.decode(t, file)
		if refused != nil {
			t.Fatalf("%s: Pillow: %v", file, refused)
		}
		data := readFile(t, file)
		index, config, err := decoders[0].AppendIndex(nil, data)
		if err != nil || config.Width != size.X || config.Height != size.Y {
			t.Fatalf("%s: AppendIndex: %+v, %v", filepath.Base(file), config, err)
		}
		for _, d := range decoders {
			for i := range 4 {
				r := image.Rectangle{Max: size}
				if i >= 2 {
					r = randomRegion(rnd, size.X, size.Y)
				}
				var use []byte
				if i%2 == 0 {
					use = index
				}
				got, err := decodeRegion(d, data, use, r)
				if err != nil {
					t.Fatalf("%s: region %v, index %t: %v", filepath.Base(file), r, use != nil, err)
				}
				if want := cut(want, size.X, r); !bytes.Equal(got, want) {
					t.Fatalf("%s: region %v, index %t: %s", filepath.Base(file), r, use != nil, difference(got, want, r.Dx()))
				}
				regions++
			}
		}
		images++
	}
	fmt.Printf("jpeg: %d of %d photographs identical with Pillow, %d full decodes and regions at levels %v\n", images, len(files), regions, kernel.Available())
}
