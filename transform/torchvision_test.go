package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// liveOnly returns a variable of the environment that chooses images or draws, which those whose checksums are kept do not heed.
func liveOnly(name string) string {
	if testing.Short() || *update {
		return ""
	}
	return os.Getenv(name)
}

// drawsAsked returns IMGFEED_TEST_DRAWS.
func drawsAsked(otherwise int) int {
	if n, err := strconv.Atoi(liveOnly("IMGFEED_TEST_DRAWS")); err == nil {
		return n
	}
	return otherwise
}

// judged is what a program of testdata says of the results that it compared.
type judged struct {
	Compared, Identical   int
	Transforms, Functions map[string]int
	Differ                []string
}

// check reports results that differ.
func (j *judged) check(t *testing.T) {
	t.Helper()
	t.Logf("compared %d results of %v: %d are identical to torchvision's, which called %v", j.Compared, j.Transforms, j.Identical, j.Functions)
	testenv.Check(t, len(j.Differ) == 0 && j.Compared != 0,
		"%d of %d differ: %.3000s", len(j.Differ), j.Compared, strings.Join(j.Differ, "\n"))
}

// judge has a Python program of testdata, which needs modules, compare what write sends it with torchvision's results, one result at a
// time, and decodes its answer. A quick run compares with the checksums of results that were the same, and returns false.
func judge(t *testing.T, program string, answer any, write func(w io.Writer, resampler Resampler), modules ...string) bool {
	t.Helper()
	return judgeBy(t, program, program, answer, write, modules...)
}

// judgeBy is judge with checksums of a name of their own.
func judgeBy(t *testing.T, program, sums string, answer any, write func(w io.Writer, resampler Resampler), modules ...string) bool {
	t.Helper()
	answers := pillowtest.Load(t, "testdata/"+sums+".crc", *update)
	if !answers.Live {
		write(answers.Writer(nil), Pillow13)
		return false
	}
	python, name := pillowtest.Find(t, append(modules, "torchvision", "numpy")...)
	resampler, err := resample.ParseAlgorithm(name)
	testenv.Require(t, err == nil && (!*update || resampler == Pillow13),
		"Pillow has the bits of %v, %v; the checksums are those of pillow-13", resampler, err)
	cmd := exec.Command(python, "-W", "ignore", "testdata/"+program+".py")
	in := testenv.Must(cmd.StdinPipe())(t)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	testenv.OK(t, cmd.Start())
	defer in.Close() // also if write ends the test
	write(answers.Writer(in), resampler)
	in.Close()
	err = cmd.Wait()
	testenv.Require(t, err == nil, "%v: %s", err, stderr.String())
	testenv.OK(t, json.Unmarshal(out.Bytes(), answer))
	return true
}

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
		`{"op": "crop", "top": 2, "left": 2, "height": 4, "width": 4}, {"op": "posterize", "bits": 3}, `+
		`{"op": "adjust_hue", "hue_factor": 0.25}]`, "record")
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
	testenv.Check(t, result.Off*1000 < max(result.Values, 1),
		"%d of %d values that torchvision blurred are off by one, want less than one in a thousand", result.Off, result.Values)
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

// croppedOps are what photographs are compared by after a RandomResizedCrop to the size of training and before a flip. They draw after the crop,
// which is the same for all of them, so that torchvision makes it once.
var croppedOps = []string{
	`{"op":"ColorJitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1}`, `{"op":"Grayscale","num_output_channels":3}`,
	`{"op":"RandomGrayscale","p":0.3}`, `{"op":"RandomInvert"}`, `{"op":"RandomPosterize","bits":2}`, `{"op":"RandomSolarize","threshold":130}`,
	`{"op":"RandomAdjustSharpness","sharpness_factor":2.3}`, `{"op":"RandomAutocontrast"}`, `{"op":"RandomEqualize"}`,
	`{"op":"RandomRotation","degrees":90}`, `{"op":"RandomRotation","degrees":180,"interpolation":"bilinear","fill":9}`,
	`{"op":"RandomRotation","degrees":[-30,60],"interpolation":"bicubic","center":[10,200]}`,
	`{"op":"RandomAffine","degrees":0,"translate":[0.3,0.3]}`,
	`{"op":"RandomAffine","degrees":[5,90],"scale":[0.4,2.5],"interpolation":"bilinear","fill":[3,200,90]}`,
	`{"op":"RandomAffine","degrees":30,"translate":[0.2,0.1],"scale":[0.6,1.7],"shear":[-20,20,-10,10],"interpolation":"bicubic"}`,
	`{"op":"RandomVerticalFlip"}`, `{"op":"PILGaussianBlur","p":1}`, `{"op":"PILGaussianBlur","radius":[2,9],"p":1}`,
	`{"op":"RandomCrop","size":224,"padding":[3,40,0,9],"fill":[1,2,3]}`, `{"op":"RandomCrop","size":224,"padding":28,"padding_mode":"edge"}`,
	`{"op":"RandomCrop","size":224,"padding":28,"padding_mode":"reflect"}`, `{"op":"RandomCrop","size":224,"padding":28,"padding_mode":"symmetric"}`,
	`{"op":"Pad","padding":[3,40,0,9],"padding_mode":"reflect"},{"op":"CenterCrop","size":224}`,
	`{"op":"RandomApply","transforms":[{"op":"ColorJitter","brightness":0.8,"contrast":0.8,"saturation":0.8,"hue":0.2},{"op":"RandomInvert"}],"p":0.8}`,
	`{"op":"RandomChoice","transforms":[{"op":"RandomEqualize","p":1},{"op":"RandomSolarize","threshold":90,"p":1},{"op":"Grayscale","num_output_channels":3}],"p":[1,2,3]}`,
	`{"op":"RandomOrder","transforms":[{"op":"RandomPosterize","bits":4},{"op":"RandomAutocontrast"},{"op":"RandomAdjustSharpness","sharpness_factor":0.2}]}`,
	`{"op":"TrivialAugmentWide"}`, `{"op":"TrivialAugmentWide","interpolation":"bilinear","fill":[124,116,104]}`,
	`{"op":"RandAugment"}`, `{"op":"RandAugment","magnitude":15,"interpolation":"bilinear"}`, `{"op":"AutoAugment"}`,
	`{"op":"AutoAugment","policy":"cifar10"}`, `{"op":"AutoAugment","policy":"svhn","interpolation":"bilinear"}`, `{"op":"AugMix"}`,
	`{"op":"TimmAugment","config":"rand-m9-mstd0.5-inc1","fill":[124,116,104]}`, `{"op":"TimmAugment","config":"original-mstd0.5","interpolation":"bicubic"}`,
	`{"op":"TimmAugment","config":"v0"}`, `{"op":"TimmAugment","config":"augmix-m5-w4-d2"}`, `{"op":"TimmAugment","config":"3a"}`,
}

// otherSpecs are transforms of photographs without that crop; torchvision's blur takes long, and has a small one.
var otherSpecs = []string{
	`[{"op":"RandomResizedCrop","size":96},{"op":"GaussianBlur","kernel_size":[23,9]}]`,
	`[{"op":"RandomResizedCrop","size":[120,96],"interpolation":"lanczos"},{"op":"GaussianBlur","kernel_size":5,"sigma":[0.1,5]}]`,
	`[{"op":"Resize","size":200,"max_size":260},{"op":"RandomCrop","size":[180,200],"pad_if_needed":true}]`,
	`[{"op":"Resize","size":160,"interpolation":"bicubic"},{"op":"RandomRotation","degrees":180,"expand":true},{"op":"CenterCrop","size":[150,230]}]`,
	`[{"op":"Resize","size":256},{"op":"FiveCrop","size":224}]`, `[{"op":"Resize","size":150},{"op":"TenCrop","size":[120,101],"vertical_flip":true}]`,
	`[{"op":"RandomResizedCrop","size":120},{"op":"TenCrop","size":[90,101]}]`,
}

// A photographedView is a transform of photographs, with the view whose draws it has. Its first draw is at the size of training, and those after
// it are of smaller images, of which Pillow takes a fifth of the time.
type photographedView struct {
	name        string
	spec, small *Spec
	view        int
}

// smaller is the size in place of 224: no multiple of what vectors hold.
const smaller = "101"

// photographedViews are every operation, policy and preset; of a preset's views that are alike, the first.
func photographedViews(t *testing.T, algorithm Resampler) []photographedView {
	t.Helper()
	var list []photographedView
	for _, op := range croppedOps {
		spec := parseWith(`[{"op":"RandomResizedCrop","size":224},`+op+`,{"op":"RandomHorizontalFlip"}]`, algorithm)
		list = append(list, photographedView{name: op, spec: spec})
	}
	for _, text := range slices.Concat(otherSpecs, Presets(), ViewPresets()) {
		views := testenv.Must(ParseViews(text, algorithm))(t)
		for v, spec := range views {
			if v == 0 || spec != views[v-1] {
				list = append(list, photographedView{name: fmt.Sprintf("%s, view %d", text, v), spec: spec, view: v - spec.part})
			}
		}
	}
	for i := range list {
		small := mustParseViews(t, strings.ReplaceAll(list[i].spec.String(), "224", smaller))
		list[i].small = small[list[i].spec.part]
	}
	return list
}

// sendPhotographs sends transforms of the images in a folder. The first draw of an image is of its file, and those after it of its pixels, so
// that it is not decoded a thousand times.
func sendPhotographs(t *testing.T, w io.Writer, folder string, draws int, algorithm Resampler) {
	files := testenv.Must(filepath.Glob(filepath.Join(folder, "*.*")))(t)
	engine, views, stored := NewEngine(kernel.Active()), photographedViews(t, algorithm), &testEncoding{Codec: pixelcodec.None}
	for i, file := range files {
		src := Source{Image: testenv.Must(os.ReadFile(file))(t)}
		for d := range draws {
			for _, v := range views {
				spec := v.spec
				if d > 0 && !spec.Random() {
					continue
				}
				if d > 0 {
					spec = v.small
				}
				head := map[string]any{"file": file, "transform": v.name}
				sendRecord(t, w, engine, spec, src, NewViewRNG(1, d, i, 0, v.view), head, nil)
			}
			if d == 0 {
				pix, width, height := decoded(t, engine, src.Image)
				src = Source{Format: imagefile.Encoded, Image: encodePixels(t, stored, pix, width, height), Encoding: stored}
			}
		}
	}
}
