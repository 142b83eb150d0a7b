package pixelcodec

import (
	"bufio"
	"bytes"
	"fmt"
	"image"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

// dataEnv names a folder of images to measure on, as binary PPM files (P6, maximum 255). Without it the benchmarks make
// some images of their own, whose size ratios mean nothing. Photographs with a short side of 256 are what the encoding
// is for; a folder of JPEGs becomes one of such files by
//
//	python3 - FROM TO <<'END'
//	import pathlib, sys
//	from PIL import Image
//	for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
//	    im = Image.open(path).convert("RGB")
//	    w, h = im.size
//	    size = (256, int(256 * h / w)) if w <= h else (int(256 * w / h), 256)
//	    im.resize(size, Image.BILINEAR).save(pathlib.Path(sys.argv[2], path.stem + ".ppm"))
//	END
const dataEnv = "IMGFEED_PIXELS_DATA"

type rawImage struct {
	pix  []byte
	w, h int
}

// benchImages returns the images to measure on, in a shuffled order.
func benchImages(tb testing.TB) []rawImage {
	var images []rawImage
	dir := os.Getenv(dataEnv)
	if dir == "" {
		for i := range 48 {
			w, h := 256+16*(i%12), 256
			images = append(images, rawImage{testImage(w, h, uint64(i)), w, h})
		}
		return images
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.ppm"))
	if err != nil || len(names) == 0 {
		tb.Fatalf("%s: no *.ppm files in %s (%v)", dataEnv, dir, err)
	}
	for _, name := range names {
		img, err := readPPM(name)
		if err != nil {
			tb.Fatal(err)
		}
		images = append(images, img)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(images), func(i, j int) { images[i], images[j] = images[j], images[i] })
	return images
}

func readPPM(name string) (rawImage, error) {
	f, err := os.Open(name)
	if err != nil {
		return rawImage{}, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	var img rawImage
	var limit int
	if _, err := fmt.Fscanf(r, "P6\n%d %d\n%d\n", &img.w, &img.h, &limit); err != nil || limit != 255 {
		return rawImage{}, fmt.Errorf("%s: not a PPM of bytes: %v", name, err)
	}
	img.pix = make([]byte, 3*img.w*img.h)
	_, err = io.ReadFull(r, img.pix)
	return img, err
}

// rawBytes returns how large the images are unpacked.
func rawBytes(images []rawImage) (n int) {
	for _, img := range images {
		n += len(img.pix)
	}
	return n
}

func encodeAll(tb testing.TB, c Codec, images []rawImage) (blobs [][]byte, total int) {
	var scratch []byte
	for _, img := range images {
		blob, err := c.Encode(scratch[:0], img.pix, 3*img.w, img.w, img.h)
		if err != nil {
			tb.Fatal(err)
		}
		scratch = blob
		kept := make([]byte, len(blob), len(blob)+SlackBytes)
		copy(kept, blob)
		blobs, total = append(blobs, kept), total+len(blob)
	}
	return blobs, total
}

// TestRoundTripOfData stores the images of dataEnv without loss and takes a few rectangles of each.
func TestRoundTripOfData(t *testing.T) {
	if os.Getenv(dataEnv) == "" {
		t.Skip(dataEnv + " is not set")
	}
	images := benchImages(t)
	forEachCodec(t, func(t *testing.T, p Params, level kernel.Level) {
		rng := rand.New(rand.NewPCG(6, 6))
		c := mustNew(t, p, level)
		blobs, _ := encodeAll(t, c, images)
		for i, img := range images {
			dst := make([]byte, len(img.pix))
			if err := c.Decode(dst, 3*img.w, blobs[i], image.Rect(0, 0, img.w, img.h)); err != nil || !bytes.Equal(dst, img.pix) {
				t.Fatalf("image %d does not come back (%v)", i, err)
			}
			x, y := rng.IntN(img.w), rng.IntN(img.h)
			checkRegion(t, c, blobs[i], img.pix, img.w, image.Rect(x, y, x+1+rng.IntN(img.w-x), y+1+rng.IntN(img.h-y)))
		}
	})
}

// benchBatch is how many crops the outputs go round.
const benchBatch, benchCrop = 256, 224

// A contender makes the crop of one image.
type contender struct {
	name  string
	run   func(i int, out []byte, r image.Rectangle) error
	ratio float64
	best  time.Duration // for all images
}

func memcpyContender(images []rawImage) contender {
	return contender{name: "memcpy", ratio: 1, run: func(i int, out []byte, r image.Rectangle) error {
		img := &images[i]
		for y := range r.Dy() {
			copy(out[3*r.Dx()*y:][:3*r.Dx()], img.pix[3*((r.Min.Y+y)*img.w+r.Min.X):])
		}
		return nil
	}}
}

func decodeContender(tb testing.TB, p Params, level kernel.Level, layout resample.Layout, flip bool, images []rawImage) contender {
	c := mustNew(tb, p, level)
	blobs, total := encodeAll(tb, c, images)
	name := fmt.Sprintf("%s-%s", p.Codec, level)
	if layout == resample.NCHW {
		name += "-nchw"
	}
	if flip {
		name += "-flip"
	}
	ratio := float64(total) / float64(rawBytes(images))
	return contender{name: name, ratio: ratio, run: func(i int, out []byte, r image.Rectangle) error {
		return c.DecodeTo(resample.Output{Pix: out, Width: r.Dx(), Height: r.Dy(), Layout: layout, Flip: flip}, blobs[i], r)
	}}
}

// centreCrop is torchvision's CenterCrop.
func centreCrop(w, h, size int) image.Rectangle {
	x, y := (w-size)/2, (h-size)/2
	return image.Rect(x, y, x+size, y+size)
}

// BenchmarkDecodeCrop takes a 224×224 centre crop of every image: one iteration is all images once by every contender in
// turn. It reports the best iteration of each as images/s, and its size as a part of the raw pixels'.
func BenchmarkDecodeCrop(b *testing.B) {
	images := benchImages(b)
	contenders := []contender{memcpyContender(images)}
	for _, level := range kernel.Available() {
		contenders = append(contenders, decodeContender(b, Params{Codec: Bitpack}, level, resample.NHWC, false, images))
	}
	top := kernel.Active()
	contenders = append(contenders,
		decodeContender(b, Params{Codec: Bitpack}, top, resample.NHWC, true, images),
		decodeContender(b, Params{Codec: Bitpack}, top, resample.NCHW, false, images),
		decodeContender(b, Params{Codec: Zstd}, top, resample.NHWC, false, images),
		decodeContender(b, Params{Codec: LZ4}, top, resample.NHWC, false, images),
		decodeContender(b, Params{Codec: None}, top, resample.NHWC, false, images),
		decodeContender(b, Params{Codec: None}, top, resample.NHWC, true, images),
		decodeContender(b, Params{Codec: None}, top, resample.NCHW, false, images),
	)
	batch := make([]byte, benchBatch*3*benchCrop*benchCrop)
	for b.Loop() {
		for c := range contenders {
			began := time.Now()
			for i, img := range images {
				out := batch[i%benchBatch*3*benchCrop*benchCrop:][:3*benchCrop*benchCrop]
				if err := contenders[c].run(i, out, centreCrop(img.w, img.h, benchCrop)); err != nil {
					b.Fatal(err)
				}
			}
			if took := time.Since(began); contenders[c].best == 0 || took < contenders[c].best {
				contenders[c].best = took
			}
		}
	}
	for _, c := range contenders {
		b.ReportMetric(float64(len(images))/c.best.Seconds(), c.name+"-images/s")
		b.ReportMetric(c.ratio, c.name+"-of-raw")
	}
}

func BenchmarkEncode(b *testing.B) {
	images := benchImages(b)
	for _, name := range Names() {
		for _, level := range kernel.Available() {
			b.Run(name+"/"+level.String(), func(b *testing.B) {
				c := mustNew(b, Params{Codec: name}, level)
				var scratch []byte
				n := 0
				for b.Loop() {
					img := images[n%len(images)]
					blob, err := c.Encode(scratch[:0], img.pix, 3*img.w, img.w, img.h)
					if err != nil {
						b.Fatal(err)
					}
					scratch = blob
					n++
				}
				b.SetBytes(int64(rawBytes(images) / len(images)))
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "images/s")
			})
		}
	}
}

// BenchmarkDecodeBox takes boxes as RandomResizedCrop draws them, as rows of RGB: what a resampler is then given.
func BenchmarkDecodeBox(b *testing.B) {
	images := benchImages(b)
	for _, level := range kernel.Available() {
		b.Run(level.String(), func(b *testing.B) {
			c := mustNew(b, Params{}, level)
			blobs, _ := encodeAll(b, c, images)
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
			n := 0
			for b.Loop() {
				i := n % len(images)
				if err := c.Decode(dst, 3*boxes[i].Dx(), blobs[i], boxes[i]); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "images/s")
		})
	}
}
