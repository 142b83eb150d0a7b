package pixelcodec

import (
	"fmt"
	"image"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

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
