package transform

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// policySpecs are policies, which have no naive twins: what they did is in their records, and TestRecordsAreTorchvisions repeats that.
var policySpecs = []string{
	`[{"op":"RandomResizedCrop","size":32},{"op":"RandomHorizontalFlip"},{"op":"TrivialAugmentWide"}]`,
	`[{"op":"RandomResizedCrop","size":[30,41],"interpolation":"bicubic"},{"op":"TrivialAugmentWide","interpolation":"bilinear","fill":[120,110,100]}]`,
	`[{"op":"TrivialAugmentWide","num_magnitude_bins":7,"interpolation":"bicubic"},{"op":"Resize","size":[20,20]},{"op":"CenterCrop","size":20}]`,
	`[{"op":"CenterCrop","size":[24,36]},{"op":"RandAugment","interpolation":"bilinear"}]`,
	`[{"op":"CenterCrop","size":[24,36]},{"op":"RandAugment","num_ops":3,"magnitude":14,"fill":128},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"CenterCrop","size":30},{"op":"AutoAugment"}]`,
	`[{"op":"CenterCrop","size":30},{"op":"AutoAugment","policy":"cifar10","interpolation":"bilinear","fill":7}]`,
	`[{"op":"CenterCrop","size":30},{"op":"AutoAugment","policy":"svhn"}]`,
	`[{"op":"CenterCrop","size":30},{"op":"AugMix"}]`,
	`[{"op":"CenterCrop","size":[16,30]},{"op":"AugMix","severity":10,"mixture_width":2,"chain_depth":2,"alpha":0.3,"all_ops":false,"interpolation":"nearest"}]`,
	`[{"op":"CenterCrop","size":[16,30]},{"op":"TimmAugment","config":"rand-m9-mstd0.5-inc1"}]`,
	`[{"op":"RandomResizedCrop","size":30},{"op":"TimmAugment","config":"rand-n3-mstd101-p0.9","fill":[124,116,104],"interpolation":"bicubic"}]`,
	`[{"op":"CenterCrop","size":28},{"op":"TimmAugment","config":"original-mstd0.5"}]`,
	`[{"op":"CenterCrop","size":28},{"op":"TimmAugment","config":"v0r","interpolation":"nearest"}]`,
	`[{"op":"CenterCrop","size":28},{"op":"TimmAugment","config":"augmix-m5-w2"}]`,
	`[{"op":"CenterCrop","size":[19,31]},{"op":"TimmAugment","config":"augmix-m9-w3-b1"}]`,
	`[{"op":"CenterCrop","size":28},{"op":"TimmAugment","config":"rand-m20-mmax20-inc1-n3-p1"}]`,
	`[{"op":"CenterCrop","size":28},{"op":"TimmAugment","config":"3a"}]`,
}

var pillowBlurSpecs = []string{`[{"op":"CenterCrop","size":[28,20]},{"op":"PILGaussianBlur","p":0.8}]`}

// recordedSpecs are all transforms of tests.
func recordedSpecs() []string {
	return slices.Concat(testSpecs, mapSpecs, paddingSpecs, pillowBlurSpecs, colourSpecs, controlSpecs, policySpecs)
}

// TestRecord reads a record.
func TestRecord(t *testing.T) {
	spec := mustParse(`[{"op":"RandomHorizontalFlip","p":1},{"op":"Resize","size":[9,8]},{"op":"CenterCrop","size":4},` +
		`{"op":"RandomPosterize","bits":3,"p":1},{"op":"RandomInvert","p":0},{"op":"ColorJitter","hue":[0.25,0.25]}]`)
	src := Source{Image: encodePNG(t, randomImage(20, 10, 1), 20, 10)}
	_, record, err := NewEngine(kernel.Active()).ApplyRecorded(spec, Output{Pix: make([]byte, spec.OutputBytes())}, src, RNG{})
	testenv.OK(t, err)
	testenv.Equal(t, record, `[{"op": "hflip"}, {"op": "resize", "size": [9, 8], "interpolation": "bilinear"}, `+
		`{"op": "crop", "top": 2, "left": 2, "height": 4, "width": 4}, {"op": "posterize", "bits": 3}, {"op": "adjust_hue", "hue_factor": 0.25}]`, "record")
	nothing := mustParse(`[{"op":"CenterCrop","size":[10,20]},{"op":"RandomInvert","p":0}]`)
	_, record, err = NewEngine(kernel.Active()).ApplyRecorded(nothing, Output{Pix: make([]byte, 600)}, src, RNG{})
	testenv.OK(t, err)
	testenv.Equal(t, record, `[{"op": "crop", "top": 0, "left": 0, "height": 10, "width": 20}]`, "record of a crop alone")
}

// TestRecordsAreTorchvisions replays records with torchvision on Pillow's images, and compares every bit. The images are those of
// the folder IMGFEED_TEST_IMAGES, or made here; IMGFEED_TEST_DRAWS is the number of draws of each.
func TestRecordsAreTorchvisions(t *testing.T) {
	var result struct {
		judged
		Blurred, Values, Off int
	}
	if !judge(t, "records", &result, func(w io.Writer, resampler Resampler) {
		if folder := liveOnly("IMGFEED_TEST_IMAGES"); folder != "" {
			sendPhotographs(t, w, folder, drawsAsked(12), resampler)
		} else {
			sendPresets(t, w, resampler)
			sendGenerated(t, w, drawsAsked(12), resampler)
		}
	}) {
		return
	}
	t.Logf("of the %d values of %d that torchvision blurred, %d are off by one", result.Values, result.Blurred, result.Off)
	if result.Off*1000 >= max(result.Values, 1) {
		t.Errorf("%d of %d values that torchvision blurred are off by one, want less than one in a thousand", result.Off, result.Values)
	}
	result.check(t)
}

// sendPresets sends the presets of one view of files of every kind, JPEGs with an index.
func sendPresets(t *testing.T, w io.Writer, resampler Resampler) {
	files := testenv.Must(filepath.Glob("../internal/image/imagefile/testdata/kinds/*.*"))(t)
	engine, indexer := NewEngine(kernel.Active()), jpeg.New(kernel.Active())
	for i, file := range files {
		if filepath.Ext(file) == ".rgb" || filepath.Ext(file) == ".gif" {
			continue // the promise is JPEG, PNG and WebP
		}
		src := Source{Image: testenv.Must(os.ReadFile(file))(t)}
		if imagefile.Sniff(src.Image) == imagefile.JPEG {
			src.Aux, _ = testenv.Must2(indexer.AppendIndex(nil, src.Image))(t)
		}
		for _, name := range Presets() {
			spec := parseWith(name, resampler)
			for d := range 2 {
				if d > 0 && !spec.Random() {
					break
				}
				sendRecord(t, w, engine, spec, src, NewRNG(11, d, i), map[string]any{"file": file, "transform": name}, nil)
			}
		}
	}
}

// sendGenerated sends the tests' transforms of generated images.
func sendGenerated(t *testing.T, w io.Writer, draws int, algorithm Resampler) {
	engine := NewEngine(kernel.Active())
	for s, size := range [][2]int{{61, 47}, {33, 50}} {
		width, height := size[0], size[1]
		pix := randomImage(width, height, uint64(s))
		src := Source{Image: encodePNG(t, pix, width, height)}
		for _, text := range recordedSpecs() {
			spec := parseWith(strings.ReplaceAll(text, `,"resampler":"pillow-12"`, ""), algorithm)
			for d := range draws {
				head := map[string]any{"transform": text, "width": width, "height": height}
				sendRecord(t, w, engine, spec, src, NewRNG(1, d, s), head, pix)
			}
		}
	}
}

// sendRecord sends the record of an image, which head names, and its result. Images that are too small for the transform are left out.
func sendRecord(t *testing.T, w io.Writer, engine *Engine, spec *Spec, src Source, draws RNG, head map[string]any, pix []byte) {
	t.Helper()
	made := make([]byte, spec.OutputBytes())
	_, record, err := engine.ApplyRecorded(spec, Output{Pix: made}, src, draws)
	if _, small := errors.AsType[*SizeError](err); small {
		return
	}
	testenv.OK(t, err, "%v", head)
	head["record"], head["size"] = json.RawMessage(record), []int{spec.height, spec.width}
	testenv.Must(w.Write(slices.Concat(testenv.Must(json.Marshal(head))(t), []byte("\n"), pix, made)))(t)
}
