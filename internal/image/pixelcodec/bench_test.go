package pixelcodec

import (
	"fmt"
	"image"
	"math/rand/v2"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
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
		blob, err := c.Encode(nil, img.pix, 3*img.w, img.w, img.h)
		if err != nil {
			tb.Fatal(err)
		}
		blobs = append(blobs, blob)
	}
	return blobs
}

// BenchmarkDecodeCrop takes a 224×224 centre crop of one image after the other, into the places of a batch.
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
				if err := c.DecodeTo(out, blobs[n%len(images)], image.Rect(x, y, x+crop, y+crop)); err != nil {
					b.Fatal(err)
				}
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
					var err error
					if blob, err = c.Encode(blob[:0], img.pix, 3*img.w, img.w, img.h); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkDecodeBox takes boxes as RandomResizedCrop draws them, as rows of RGB: what a resampler is then given.
func BenchmarkDecodeBox(b *testing.B) {
	images := benchImages()
	for _, level := range kernel.Available() {
		b.Run(level.String(), func(b *testing.B) {
			c := mustNew(b, Params{}, level)
			blobs := encodeAll(b, c, images)
			rng := rand.New(rand.NewPCG(3, 3))
			boxes := make([]image.Rectangle, len(images))
			largest := 0
			for i, img := range images {
				w, h := 20+rng.IntN(img.w-20), 20+rng.IntN(img.h-20)
				x, y := rng.IntN(img.w-w+1), rng.IntN(img.h-h+1)
				boxes[i] = image.Rect(x, y, x+w, y+h)
				largest = max(largest, 3*w*h)
			}
			dst := make([]byte, largest)
			for n := 0; b.Loop(); n++ {
				i := n % len(images)
				if err := c.Decode(dst, 3*boxes[i].Dx(), blobs[i], boxes[i]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
