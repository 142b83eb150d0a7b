package transform

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"image/png"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// randomImage returns a w×h image of smooth colours with noise, interleaved.
func randomImage(w, h int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	pix := make([]byte, w*h*3)
	for i := range pix {
		x, y := i/3%w, i/3/w
		pix[i] = byte(x*5 + y*3*(1+i%3) + rng.IntN(24))
	}
	return pix
}

func encodePNG(t testing.TB, pix []byte, w, h int) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		img.SetNRGBA(i%w, i/w, color.NRGBA{pix[3*i], pix[3*i+1], pix[3*i+2], 255})
	}
	var b bytes.Buffer
	testenv.OK(t, png.Encode(&b, img))
	return b.Bytes()
}

// testEncoding stores images by a codec of package pixels.
type testEncoding pixelcodec.Params

func (e *testEncoding) NewDecoder(level Level) Decoder {
	codec, err := pixelcodec.New(pixelcodec.Params(*e), level)
	if err != nil {
		panic(err)
	}
	return &testDecoder{Codec: codec}
}

type testDecoder struct {
	pixelcodec.Codec
	blob []byte
}

func (d *testDecoder) Open(src Source) (int, int, error) {
	d.blob = src.Image
	config, err := pixelcodec.DecodeConfig(src.Image)
	return config.Width, config.Height, err
}

func (d *testDecoder) Decode(dst []byte, stride int, r image.Rectangle) error {
	return d.Codec.Decode(dst, stride, d.blob, r)
}

func (d *testDecoder) DecodeTo(dst Output, r image.Rectangle) (bool, error) {
	return true, d.Codec.DecodeTo(dst, d.blob, r)
}

func encodePixels(t testing.TB, params *testEncoding, pix []byte, w, h int) []byte {
	t.Helper()
	codec := testenv.Must(pixelcodec.New(pixelcodec.Params(*params), kernel.Generic))(t)
	return testenv.Must(codec.Encode(nil, pix, w*3, w, h))(t)
}

// A naiveImage is an image that operations replace one after the other, each alone and at once. TestRecordsAreTorchvisions
// compares the operations themselves with torchvision's.
type naiveImage struct {
	pix  []byte
	w, h int
}

var plainEngine = NewEngine(kernel.Generic)

// do applies an operation to the whole image.
func (m *naiveImage) do(t *testing.T, op Op, d *RNG) {
	t.Helper()
	from := new(imagefile.RGB)
	from.Resize(m.w, m.h)
	copy(from.Pix, m.pix)
	c := &canvas{engine: plainEngine, op: op, draws: *d, from: from, step: wholeImage(m.w, m.h)}
	testenv.OK(t, op.apply(c), "%s of %d×%d", TextOf(op), m.w, m.h)
	m.w, m.h = c.size()
	m.pix = make([]byte, 3*m.w*m.h)
	testenv.OK(t, c.finish(Output{Pix: m.pix, Width: m.w, Height: m.h}))
	*d = c.draws
}

// naive applies a transform as torchvision does: one operation after the other, on whole images. It returns NHWC pixels.
func naive(t *testing.T, spec *Spec, pix []byte, w, h int, d RNG) []byte {
	t.Helper()
	m := &naiveImage{pix, w, h}
	for _, op := range spec.ops {
		m.do(t, op, &d)
	}
	return m.pix
}

// toLayout returns NHWC pixels in another layout.
func toLayout(pix []byte, layout resample.Layout) []byte {
	if layout == resample.NHWC {
		return pix
	}
	out, n := make([]byte, len(pix)), len(pix)/3
	for i, v := range pix {
		out[i%3*n+i/3] = v
	}
	return out
}

var testSpecs = []string{
	`[{"op":"Resize","size":24,"resampler":"pillow-12"},{"op":"CenterCrop","size":16}]`,
	`[{"op":"RandomResizedCrop","size":[9,31],"interpolation":"bicubic","resampler":"pillow-12"},{"op":"RandomHorizontalFlip","p":1}]`,
	`[{"op":"RandomResizedCrop","size":[9,31],"interpolation":"bicubic"},{"op":"RandomHorizontalFlip","p":1}]`,
	`[{"op":"Resize","size":24},{"op":"CenterCrop","size":16}]`,
	`[{"op":"Resize","size":[20,30],"interpolation":"bicubic"}]`,
	`[{"op":"Resize","size":24},{"op":"RandomCrop","size":[16,20]},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"RandomResizedCrop","size":16},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"RandomResizedCrop","size":[9,31],"interpolation":"nearest"},{"op":"RandomHorizontalFlip","p":1}]`,
	`[{"op":"RandomCrop","size":32,"padding":4,"pad_if_needed":true},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"RandomCrop","size":24,"padding":[3,1,9,0],"pad_if_needed":true}]`,
	`[{"op":"CenterCrop","size":[60,20]}]`,
	`[{"op":"Resize","size":12},{"op":"CenterCrop","size":[33,14]},{"op":"RandomHorizontalFlip","p":1}]`,
	// What needs several passes, or crops of crops.
	`[{"op":"Resize","size":40},{"op":"RandomCrop","size":36},{"op":"Resize","size":17,"interpolation":"lanczos"}]`,
	`[{"op":"RandomHorizontalFlip","p":1},{"op":"RandomResizedCrop","size":18},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"CenterCrop","size":80},{"op":"Resize","size":22}]`,
	`[{"op":"CenterCrop","size":20},{"op":"RandomCrop","size":22,"padding":3},{"op":"CenterCrop","size":28}]`,
	`[{"op":"CenterCrop","size":[18,20]},{"op":"Resize","size":[9,40]},{"op":"RandomHorizontalFlip"},{"op":"RandomHorizontalFlip"},{"op":"CenterCrop","size":12}]`,
	`[{"op":"CenterCrop","size":21},{"op":"Resize","size":[21,21]},{"op":"Resize","size":21}]`,
}

// shownSpecs change colours before crops, flips, borders and resizes.
var shownSpecs = []string{
	`[{"op":"RandomPhotometricDistort","p":0.8},{"op":"CenterCrop","size":[9,11]},{"op":"RandomInvert"},{"op":"RandomHorizontalFlip","p":1}]`,
	`[{"op":"RandomHorizontalFlip","p":1},{"op":"ColorJitter","saturation":0.9,"hue":0.3},{"op":"CenterCrop","size":13},{"op":"Resize","size":[15,12]}]`,
	`[{"op":"RandomPhotometricDistort"},{"op":"RandomZoomOut","fill":[9,90,200]},{"op":"RandomHorizontalFlip"},{"op":"Resize","size":[20,21]},{"op":"RandomInvert","p":1}]`,
	`[{"op":"RandomCrop","size":[5,3]},{"op":"RandomSolarize","threshold":90,"p":1},{"op":"RandomVerticalFlip"},{"op":"RandomPosterize","bits":3,"p":1}]`,
	`[{"op":"CenterCrop","size":[3,80]},{"op":"RandomInvert","p":1},{"op":"RandomEqualize"},{"op":"Grayscale","num_output_channels":3}]`,
}

// TestColoursOfACrop changes colours before a crop: only the crop's pixels are decoded and changed.
func TestColoursOfACrop(t *testing.T) {
	params := &testEncoding{Codec: pixelcodec.None}
	src := Source{Format: imagefile.Encoded, Image: encodePixels(t, params, randomImage(400, 300, 1), 400, 300), Encoding: params}
	spec := mustParse(`[{"op":"RandomInvert","p":1},{"op":"ColorJitter","saturation":0.5,"hue":0.1},{"op":"RandomHorizontalFlip","p":1},{"op":"CenterCrop","size":8}]`)
	engine := NewEngine(kernel.Active())
	testenv.Must(engine.Apply(spec, Output{Pix: make([]byte, spec.OutputBytes())}, src, RNG{}))(t)
	testenv.Between(t, cap(engine.scratch[0].Pix)+cap(engine.region.Pix), 0, 4096, "bytes that were made for a crop of 192")
}

// TestEngineMatchesNaive compares every way through the engine with the operations done one by one on whole images: of
// files and stored pixels, in both layouts, at every level.
func TestEngineMatchesNaive(t *testing.T) {
	codecs := []*testEncoding{{Codec: pixelcodec.Bitpack}, {Codec: pixelcodec.None}, {Codec: pixelcodec.LZ4}}
	for s, size := range [][2]int{{50, 37}, {37, 50}, {32, 32}, {19, 64}, {21, 21}, {130, 22}, {3, 5}} {
		w, h := size[0], size[1]
		data, index := encodeJPEG(t, randomImage(w, h, uint64(s)), w, h)
		pix, _, _ := decoded(t, NewEngine(kernel.Generic), data)
		sources := []Source{{Image: data}, {Format: imagefile.JPEG, Image: data, Aux: index}, {Image: encodePNG(t, pix, w, h)}}
		for _, params := range codecs {
			sources = append(sources, Source{Format: imagefile.Encoded, Image: encodePixels(t, params, pix, w, h), Encoding: params})
		}
		for _, text := range slices.Concat(recordedSpecs(), blurSpecs, shownSpecs) {
			if w < 16 && (!slices.Contains(paddingSpecs, text) || strings.Contains(text, `"size":19`)) {
				continue // these crops do not fit
			}
			compareWithNaive(t, mustParse(text), sources, pix, w, h)
		}
	}
}

// decoded is the pixels of a file, in memory of their own, and its width and height.
func decoded(t testing.TB, engine *Engine, file []byte) ([]byte, int, int) {
	t.Helper()
	pix, w, h, err := engine.DecodeFull(Source{Image: file})
	testenv.OK(t, err)
	return bytes.Clone(pix), w, h
}

// madeSources are an image as a PNG, as a JPEG without and with its index, and as stored pixels. Those of the JPEG are a little different.
func madeSources(t testing.TB, pix []byte, w, h int) []Source {
	t.Helper()
	data, index := encodeJPEG(t, pix, w, h)
	params := &testEncoding{}
	return []Source{{Image: encodePNG(t, pix, w, h)}, {Image: data}, {Format: imagefile.JPEG, Image: data, Aux: index},
		{Format: imagefile.Encoded, Image: encodePixels(t, params, pix, w, h), Encoding: params}}
}

// encodeJPEG returns a 4:2:0 file and its row index.
func encodeJPEG(t testing.TB, pix []byte, w, h int) (data, index []byte) {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		img.SetRGBA(i%w, i/w, color.RGBA{pix[3*i], pix[3*i+1], pix[3*i+2], 255})
	}
	var b bytes.Buffer
	testenv.OK(t, stdjpeg.Encode(&b, img, nil))
	index, _ = testenv.Must2(jpeg.New(kernel.Generic).AppendIndex(nil, b.Bytes()))(t)
	return b.Bytes(), index
}

func compareWithNaive(t *testing.T, spec *Spec, sources []Source, pix []byte, w, h int) {
	t.Helper()
	for i := range 4 {
		draws := NewRNG(5, 0, i)
		layout := []resample.Layout{resample.NHWC, resample.NCHW}[i%2]
		want := toLayout(naive(t, spec, pix, w, h, draws), layout)
		for _, engine := range everyEngine {
			for _, src := range sources {
				got := bytes.Repeat([]byte{0xA5}, len(want)+64)
				dst := resample.Output{Pix: got[:len(want)], Layout: layout}
				_, err := engine.Apply(spec, dst, src, draws)
				testenv.OK(t, err, "%d×%d %v %s", w, h, src.Format, spec)
				testenv.Same(t, got[:len(want)], want, "%d×%d %v %v %s: differs from the operations one by one", w, h, src.Format, layout, spec)
				testenv.Same(t, got[len(want):], bytes.Repeat([]byte{0xA5}, 64), "%d×%d %v %v %s: wrote past its end", w, h, src.Format, layout, spec)
			}
		}
	}
}

// everyEngine has one engine for each level.
var everyEngine = func() (all []*Engine) {
	for _, level := range kernel.Available() {
		all = append(all, NewEngine(level))
	}
	return all
}()

// TestParamsReplay replays what Params report by hand.
func TestParamsReplay(t *testing.T) {
	w, h := 50, 37
	pix := randomImage(w, h, 1)
	src := Source{Image: encodePNG(t, pix, w, h)}
	engine := NewEngine(kernel.Active())
	for _, text := range []string{
		`[{"op":"RandomResizedCrop","size":16},{"op":"RandomHorizontalFlip"}]`,
		`[{"op":"RandomCrop","size":32,"padding":4},{"op":"RandomHorizontalFlip"}]`,
	} {
		spec := mustParse(text)
		for index := range 20 {
			got := make([]byte, spec.OutputBytes())
			p := testenv.Must(engine.Apply(spec, resample.Output{Pix: got}, src, NewRNG(1, 1, index)))(t)
			pad := 8 // CenterCrop of a padded window replays a crop anywhere
			replay := fmt.Sprintf(`[{"op":"RandomCrop","size":[%d,%d],"padding":%d}]`, h+2*pad, w+2*pad, pad)
			whole := naive(t, mustParse(replay), pix, w, h, RNG{})
			want := make([]byte, 0, len(got))
			for y := range p.Height {
				at := ((y+p.Top+pad)*(w+2*pad) + p.Left + pad) * 3
				want = append(want, whole[at:at+3*p.Width]...)
			}
			tail := fmt.Sprintf(`[{"op":"Resize","size":[%d,%d]},{"op":"RandomHorizontalFlip","p":%d}]`, spec.height, spec.width, p.Int32s()[4])
			want = naive(t, mustParse(tail), want, p.Width, p.Height, RNG{})
			testenv.Same(t, got, want, "%s: parameters %v give other pixels", text, p)
		}
	}
}

// TestTrim applies a transform to a large image: its memory must not stay.
func TestTrim(t *testing.T) {
	w, h := 6000, 4000
	params := &testEncoding{Codec: pixelcodec.None}
	src := Source{Format: imagefile.Encoded, Image: encodePixels(t, params, make([]byte, w*h*3), w, h), Encoding: params}
	spec := mustParse(`[{"op":"Resize","size":[8,8],"interpolation":"box"}]`)
	engine := NewEngine(kernel.Active())
	testenv.Must(engine.Apply(spec, resample.Output{Pix: make([]byte, spec.OutputBytes())}, src, RNG{}))(t)
	testenv.Between(t, cap(engine.region.Pix), 0, imagefile.KeepBytesMax, "bytes that are kept")
}

func TestApplyErrors(t *testing.T) {
	engine := NewEngine(kernel.Active())
	src := Source{Image: encodePNG(t, randomImage(20, 10, 1), 20, 10)}
	spec := mustParse(`[{"op":"RandomCrop","size":16}]`)
	_, err := engine.Apply(spec, resample.Output{Pix: make([]byte, 16*16*3)}, src, RNG{})
	testenv.Equal(t, testenv.As[*SizeError](t, err).Height, 10, "height of an image that is too small")
	long := Source{Image: encodePNG(t, randomImage(1, 2000, 1), 1, 2000)}
	for text, want := range map[string]string{
		`[{"op":"Resize","size":1024},{"op":"CenterCrop","size":16}]`:                                              "Resize cannot take an image of 1×2000: the result would be 1024×2048000",
		`[{"op":"Resize","size":400},{"op":"Resize","size":[16,16]}]`:                                              "Resize cannot take an image of 400×800000: it would be kept in memory",
		`[{"op":"Resize","size":400},{"op":"RandomInvert","p":1},{"op":"CenterCrop","size":16}]`:                   "RandomInvert cannot take an image of 400×800000",
		`[{"op":"RandomHorizontalFlip","p":1},{"op":"RandomResizedCrop","size":16},{"op":"RandomCrop","size":17}]`: "RandomCrop cannot take an image of 16×16: the crop is 17×17",
	} {
		dst := Output{Pix: make([]byte, 17*17*3)}
		testenv.FailsAs[*SizeError](engine.Apply(mustParse(text), dst, long, RNG{}))(t, want)
	}
	flipped := mustParse(`[{"op":"Resize","size":400},{"op":"RandomHorizontalFlip","p":1},{"op":"CenterCrop","size":16}]`)
	_, err = engine.Apply(flipped, Output{Pix: make([]byte, 16*16*3)}, long, RNG{})
	testenv.Says(t, "a crop of a flipped image, which needs no more than the crop", err, "")
	eval := mustParse("eval")
	testenv.Fails(engine.Apply(eval, resample.Output{Pix: make([]byte, 100)}, src, RNG{}))(t, resample.ErrArgument)

	dst := resample.Output{Pix: make([]byte, eval.OutputBytes())}
	for _, src := range []Source{{}, {Image: []byte("GIF89a")}, {Format: imagefile.Encoded, Image: make([]byte, 100)}, {Format: 99, Image: src.Image}} {
		testenv.FailsAs[*ImageError](engine.Apply(eval, dst, src, RNG{}))(t)
	}
}

func TestApplyDoesNotAllocate(t *testing.T) {
	engine := NewEngine(kernel.Active())
	for _, src := range madeSources(t, randomImage(100, 80, 1), 100, 80)[2:] {
		for _, text := range slices.Concat(Presets(), recordedSpecs(), blurSpecs) {
			spec, i := mustParse(text), 0
			dst := Output{Pix: make([]byte, spec.OutputBytes())}
			run := func() {
				i++
				testenv.Must(engine.Apply(spec, dst, src, NewRNG(1, 1, i%50)))(t)
			}
			for range 50 {
				run()
			}
			testenv.NoAllocations(t, 50, run, "%v %s", src.Format, text)
		}
	}
}

// tensorSpecs are transforms of tensors, with sizes between 16 and 512, odd ones among them.
var tensorSpecs = []string{
	`[{"op":"Resize","size":256,"backend":"tensor"},{"op":"CenterCrop","size":224}]`,
	`[{"op":"Resize","size":[141,97],"backend":"tensor"}]`,
	`[{"op":"Resize","size":[17,512],"interpolation":"bicubic","backend":"tensor"}]`,
	`[{"op":"ToImage"},{"op":"Resize","size":33,"max_size":61,"interpolation":"bicubic"},{"op":"CenterCrop","size":[40,31]}]`,
	`[{"op":"Resize","size":301,"interpolation":"bicubic"},{"op":"ToImage"},{"op":"CenterCrop","size":300},{"op":"Resize","size":[75,111]}]`,
	`[{"op":"RandomResizedCrop","size":224,"backend":"tensor"},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"Resize","size":[1,2],"backend":"tensor"}]`,
	`[{"op":"Resize","size":[91,67],"antialias":false,"backend":"tensor"},{"op":"CenterCrop","size":50}]`,
	`[{"op":"RandomResizedCrop","size":[32,67],"interpolation":"bicubic","antialias":false,"backend":"tensor"}]`,
	`[{"op":"RandomResizedCrop","size":[31,87],"interpolation":"nearest","backend":"tensor"},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"Resize","size":[131,97],"interpolation":"nearest-exact","backend":"tensor"},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"Resize","size":[30,43],"interpolation":"nearest-exact"}]`,
	`[{"op":"RandomResize","min_size":30,"max_size":60,"interpolation":"nearest-exact","backend":"tensor"},{"op":"CenterCrop","size":40}]`,
	`[{"op":"ScaleJitter","target_size":40,"interpolation":"nearest-exact"},{"op":"ToImage"},{"op":"RandomShortestSize","min_size":[45],"interpolation":"nearest-exact"},{"op":"CenterCrop","size":40}]`,
	`[{"op":"Resize","size":[3,1],"interpolation":"bicubic","backend":"tensor"}]`,
	`[{"op":"Resize","size":[90,40],"interpolation":"lanczos","backend":"tensor"}]`,
	`[{"op":"RandomResizedCrop","size":[37,95],"interpolation":"bicubic","backend":"tensor"},{"op":"RandomVerticalFlip"}]`,
	`[{"op":"ToImage"},{"op":"Resize","size":40},{"op":"RandomCrop","size":64,"padding":[3,4],"fill":[1,2,3],"pad_if_needed":true},{"op":"Resize","size":[16,29]}]`,
	`[{"op":"ToImage"},{"op":"Resize","size":48},{"op":"Pad","padding":9,"padding_mode":"reflect"},{"op":"RandomCrop","size":47},{"op":"Resize","size":[130,61]}]`,
	`[{"op":"Resize","size":150,"backend":"tensor"},{"op":"TenCrop","size":[120,101]}]`,

	`[{"op":"RandomResizedCrop","size":224,"backend":"tensor"},{"op":"ColorJitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1}]`,
	`[{"op":"RandomResizedCrop","size":[64,41],"backend":"tensor"},{"op":"ColorJitter","brightness":0.9,"contrast":0.9,"saturation":0.9,"hue":0.5}]`,
	`[{"op":"CenterCrop","size":[40,55],"backend":"tensor"},{"op":"ColorJitter","saturation":[0,3],"hue":[0.2,0.3]},{"op":"RandomGrayscale","p":0.5}]`,
	`[{"op":"ToImage"},{"op":"RandomApply","transforms":[{"op":"Grayscale","num_output_channels":3},{"op":"Resize","size":50}]},{"op":"CenterCrop","size":48}]`,
	`[{"op":"CenterCrop","size":33,"backend":"tensor"},{"op":"RandomAutocontrast","p":0.7},{"op":"RandomEqualize"},{"op":"RandomInvert"}]`,
	`[{"op":"Resize","size":[65,30],"backend":"tensor"},{"op":"RandomAdjustSharpness","sharpness_factor":2.3},{"op":"RandomPosterize","bits":3}]`,
	`[{"op":"Resize","size":[2,30],"backend":"tensor"},{"op":"RandomAdjustSharpness","sharpness_factor":0.1,"p":1},{"op":"RandomSolarize","threshold":99.5}]`,
	`[{"op":"RandomResizedCrop","size":224,"backend":"tensor"},{"op":"RandomRotation","degrees":180}]`,
	`[{"op":"RandomResizedCrop","size":[99,130],"backend":"tensor"},{"op":"RandomRotation","degrees":180,"interpolation":"bilinear"}]`,
	`[{"op":"CenterCrop","size":[37,51],"backend":"tensor"},{"op":"RandomRotation","degrees":[-30,60],"interpolation":"bilinear","center":[10,200],"fill":[3,200,90]}]`,
	`[{"op":"CenterCrop","size":[37,51],"backend":"tensor"},{"op":"RandomRotation","degrees":180,"expand":true,"fill":9},{"op":"CenterCrop","size":60}]`,
	`[{"op":"Resize","size":44,"backend":"tensor"},{"op":"RandomRotation","degrees":45,"expand":true,"interpolation":"bilinear"},{"op":"CenterCrop","size":60}]`,
	`[{"op":"CenterCrop","size":33,"backend":"tensor"},{"op":"RandomChoice","transforms":[{"op":"RandomRotation","degrees":[90,90]},{"op":"RandomRotation","degrees":[180,180]},{"op":"RandomRotation","degrees":[-90,-90],"interpolation":"bilinear"}]}]`,
	`[{"op":"CenterCrop","size":[30,41],"backend":"tensor"},{"op":"RandomRotation","degrees":[90,90]},{"op":"RandomRotation","degrees":[180,180],"interpolation":"bilinear"}]`,
	`[{"op":"RandomResizedCrop","size":[50,61],"backend":"tensor"},{"op":"RandomAffine","degrees":0,"translate":[0.3,0.3]}]`,
	`[{"op":"RandomResizedCrop","size":101,"backend":"tensor"},{"op":"RandomAffine","degrees":30,"translate":[0.2,0.1],"scale":[0.6,1.7],"shear":[-20,20,-10,10],"interpolation":"bilinear"}]`,
	`[{"op":"Resize","size":[224,224],"backend":"tensor"},{"op":"RandAugment","num_ops":3,"interpolation":"bilinear"}]`,
	`[{"op":"CenterCrop","size":20,"backend":"tensor"},{"op":"RandomAffine","degrees":[5,90],"scale":[0.01,9],"fill":[3,200,90],"center":[3,4]}]`,
	`[{"op":"Resize","size":[1,37],"backend":"tensor"},{"op":"RandomAffine","degrees":10,"interpolation":"bilinear","fill":7},{"op":"RandomRotation","degrees":90}]`,
	`[{"op":"RandomResizedCrop","size":64,"backend":"tensor"},{"op":"TrivialAugmentWide"}]`,
	`[{"op":"RandomResizedCrop","size":[64,96],"backend":"tensor"},{"op":"TrivialAugmentWide","interpolation":"bilinear","fill":[124,116,104]}]`,
	`[{"op":"CenterCrop","size":[40,48],"backend":"tensor"},{"op":"RandAugment","num_ops":4,"interpolation":"bilinear"}]`,
	`[{"op":"CenterCrop","size":[40,48],"backend":"tensor"},{"op":"RandAugment","num_ops":3,"magnitude":14,"fill":128},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"CenterCrop","size":32,"backend":"tensor"},{"op":"AutoAugment"},{"op":"AutoAugment","policy":"svhn"}]`,
	`[{"op":"CenterCrop","size":32,"backend":"tensor"},{"op":"AutoAugment","policy":"cifar10","interpolation":"bilinear","fill":7}]`,
	`[{"op":"CenterCrop","size":[32,31],"backend":"tensor"},{"op":"AugMix"}]`,
	`[{"op":"CenterCrop","size":[16,30],"backend":"tensor"},{"op":"AugMix","severity":10,"mixture_width":2,"alpha":0.3,"all_ops":false,"interpolation":"nearest"}]`,
	`[{"op":"ColorJitter","hue":0.5},{"op":"ToImage"},{"op":"ColorJitter","hue":0.5},{"op":"RandomHorizontalFlip"},{"op":"CenterCrop","size":60}]`,
}

// TestBackends: "backend" puts a ToImage where the image becomes a tensor, and what torchvision cannot do there is refused.
func TestBackends(t *testing.T) {
	for text, want := range map[string]string{
		`[{"op":"CenterCrop","size":5,"backend":"pil"},{"op":"RandomInvert","backend":"tensor"}]`:                                               `[CenterCrop ToImage RandomInvert]`,
		`[{"op":"CenterCrop","size":5,"backend":"tensor"},{"op":"RandomInvert","backend":"tensor"}]`:                                            `[ToImage CenterCrop RandomInvert]`,
		`[{"op":"ToImage","backend":"tensor"},{"op":"CenterCrop","size":5}]`:                                                                    `[ToImage CenterCrop]`,
		`[{"op":"CenterCrop","size":5,"backend":"tensor"},{"op":"RandomInvert","backend":"pil"}]`:                                               `operation 1 (RandomInvert): backend is "pil"`,
		`[{"op":"ToImage"},{"op":"CenterCrop","size":5},{"op":"RandomApply","transforms":[{"op":"RandomInvert","backend":"pil"}]}]`:             `backend is "pil"`,
		`[{"op":"CenterCrop","size":5,"backend":"gpu"}]`:                                                                                        `backend is "gpu", want "pil" or "tensor"`,
		`[{"op":"Resize","size":[5,5],"interpolation":"box","backend":"tensor"}]`:                                                               `Resize does not take tensors with the interpolation box`,
		`[{"op":"CenterCrop","size":5},{"op":"ToImage"},{"op":"RandomRotation","degrees":9,"interpolation":"bicubic"}]`:                         `RandomRotation does not take tensors`,
		`[{"op":"CenterCrop","size":5},{"op":"ToImage"},{"op":"RandomApply","transforms":[{"op":"TimmAugment","config":"3a"}]}]`:                `TimmAugment for images of Pillow only`,
		`[{"op":"Resize","size":[5,5],"antialias":false},{"op":"ToImage"}]`:                                                                     `images of Pillow are always antialiased`,
		`[{"op":"ToImage"},{"op":"CenterCrop","size":5},{"op":"RandomApply","transforms":[{"op":"GaussianBlur","kernel_size":3}]}]`:             `GaussianBlur on tensors (`,
		`[{"op":"ToImage","v1":true},{"op":"Resize","size":[5,5]},{"op":"RandomInvert"}]`:                                                       `Resize on tensors of v1 (`,
		`[{"op":"Resize","size":[5,5]},{"op":"AugMix"}]`:                                                                                        `AugMix on images of Pillow (`,
		`[{"op":"ToImage"},{"op":"Resize","size":[5,5],"antialias":false},{"op":"RandAugment"},{"op":"AugMix"},{"op":"ColorJitter","hue":0.1}]`: `[ToImage Resize RandAugment AugMix ColorJitter]`,
	} {
		spec, err := Parse(text)
		said := fmt.Sprint(err)
		if err == nil {
			var names []string
			for _, op := range spec.Ops() {
				names = append(names, NameOf(op))
			}
			if said = spec.Inexact(); said == "" {
				said = fmt.Sprint(names)
			}
			readsBack(t, Views{spec})
		}
		testenv.Contains(t, said, want)
	}
}

// TestTensorRecordsAreTorchvisions has torchvision repeat records of tensors. Every level of the kernels must give the same. It
// takes the images of the folder IMGFEED_TEST_IMAGES, or makes them.
func TestTensorRecordsAreTorchvisions(t *testing.T) {
	var result judged
	if judgeBy(t, "records", "tensors", &result, func(w io.Writer, _ Resampler) {
		if folder := liveOnly("IMGFEED_TEST_IMAGES"); folder != "" {
			for i, file := range testenv.Must(filepath.Glob(filepath.Join(folder, "*.*")))(t) {
				sendTensors(t, w, Source{Image: testenv.Must(os.ReadFile(file))(t)}, i, map[string]any{"file": file}, nil)
			}
			return
		}
		for s, size := range [][2]int{{61, 47}, {33, 150}, {515, 389}} {
			pix := randomImage(size[0], size[1], uint64(s))
			src, head := Source{Image: encodePNG(t, pix, size[0], size[1])}, map[string]any{"width": size[0], "height": size[1]}
			sendTensors(t, w, src, s, head, pix)
		}
	}) {
		result.check(t)
	}
}

// sendTensors sends the transforms of an image, and compares the levels of the kernels.
func sendTensors(t *testing.T, w io.Writer, src Source, index int, head map[string]any, pix []byte) {
	levels := kernel.Available()
	for _, text := range tensorSpecs {
		spec := mustParseViews(t, text)[0]
		for d := range drawsAsked(2) {
			made := make([][]byte, len(levels))
			for i, level := range levels {
				made[i] = make([]byte, spec.OutputBytes())
				if _, err := NewEngine(level).Apply(spec, Output{Pix: made[i]}, src, NewRNG(1, d, index)); err != nil {
					made[i] = nil
				} else if !bytes.Equal(made[i], made[0]) {
					t.Fatalf("%s: %v and %v differ", text, level, levels[0])
				}
			}
			head["transform"] = text
			sendRecord(t, w, NewEngine(levels[0]), spec, src, NewRNG(1, d, index), head, pix)
		}
	}
}
