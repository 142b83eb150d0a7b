package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"image"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/coefficients"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// targetSpecs are the operations that move boxes and masks, alone and as published recipes have them.
var targetSpecs = []string{
	`[{"op":"Resize","size":[37,50]}]`,
	`[{"op":"RandomHorizontalFlip"},{"op":"RandomVerticalFlip"},{"op":"Resize","size":[37,50]}]`,
	`[{"op":"CenterCrop","size":[41,80]}]`, `[{"op":"CenterCrop","size":[91,20]}]`,
	`[{"op":"RandomCrop","size":30,"pad_if_needed":true,"mask_fill":255}]`,
	`[{"op":"RandomCrop","size":[60,61],"padding":[3,40,0,9],"pad_if_needed":true,"fill":[1,2,3],"mask_fill":7}]`,
	`[{"op":"RandomResizedCrop","size":[33,29]},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"Pad","padding":[5,0,1,7],"fill":9,"mask_fill":3},{"op":"Resize","size":[31,44]}]`,
	`[{"op":"ConvertBoundingBoxFormat","format":"xywh"},{"op":"RandomResizedCrop","size":[33,29]},{"op":"RandomHorizontalFlip"},{"op":"Pad","padding":[5,0,1,7]}]`,
	`[{"op":"ConvertBoundingBoxFormat","format":"cxcywh"},{"op":"RandomResizedCrop","size":[33,29]},{"op":"RandomVerticalFlip"},{"op":"RandomHorizontalFlip"},` +
		`{"op":"ConvertBoundingBoxFormat","format":"xywh"},{"op":"ClampBoundingBoxes"}]`,
	`[{"op":"RandomPhotometricDistort"},{"op":"RandomZoomOut"},{"op":"RandomApply","transforms":[{"op":"RandomIoUCrop"}],"p":0.8},{"op":"SanitizeBoundingBoxes"},` +
		`{"op":"RandomHorizontalFlip"},{"op":"Resize","size":[64,64]},{"op":"SanitizeBoundingBoxes"}]`,
	`[{"op":"RandomZoomOut","fill":[123,117,104],"mask_fill":255},{"op":"RandomIoUCrop"},{"op":"RandomHorizontalFlip"},{"op":"Resize","size":[30,30]},{"op":"SanitizeBoundingBoxes"}]`,
	`[{"op":"ScaleJitter","target_size":[64,64]},{"op":"FixedSizeCrop","size":[64,64],"fill":[123,117,104],"mask_fill":255},{"op":"RandomHorizontalFlip"},{"op":"SanitizeBoundingBoxes"}]`,
	`[{"op":"RandomResize","min_size":26,"max_size":104},{"op":"RandomHorizontalFlip"},{"op":"RandomCrop","size":48,"pad_if_needed":true,"mask_fill":255}]`,
	`[{"op":"RandomResize","min_size":26,"max_size":104},{"op":"RandomCrop","size":51,"pad_if_needed":true,"mask_fill":255},{"op":"RandomHorizontalFlip"},{"op":"RandomPhotometricDistort"}]`,
	`[{"op":"RandomShortestSize","min_size":[20,30,40],"max_size":50},{"op":"CenterCrop","size":52}]`,
	`[{"op":"Letterbox","size":[50,70]}]`, `[{"op":"Resize","max_size":64},{"op":"CenterCrop","size":64}]`,
}

// targetMapSpecs are those of rotations and affine maps.
var targetMapSpecs = []string{
	`[{"op":"RandomRotation","degrees":180,"mask_fill":255},{"op":"CenterCrop","size":[40,41]}]`,
	`[{"op":"CenterCrop","size":[40,52]},{"op":"RandomRotation","degrees":[90,90]}]`,
	`[{"op":"CenterCrop","size":[40,40]},{"op":"RandomChoice","transforms":[{"op":"RandomRotation","degrees":[90,90]},{"op":"RandomRotation","degrees":[180,180]},{"op":"RandomRotation","degrees":[-90,-90]}]}]`,
	`[{"op":"RandomRotation","degrees":30,"center":[10,20],"mask_fill":4},{"op":"Resize","size":[40,41]}]`,
	`[{"op":"RandomAffine","degrees":30,"translate":[0.2,0.1],"scale":[0.6,1.7],"shear":[-20,20,-10,10],"mask_fill":9},{"op":"Resize","size":[40,41]}]`,
	`[{"op":"RandomCrop","size":[30,40]},{"op":"RandomAffine","degrees":5,"translate":[0.1,0.1],"scale":[0.8,1.2],"shear":5},{"op":"RandomResizedCrop","size":32}]`,
}

// madeBoxes makes boxes of an image of w × h pixels: some touch its edges, reach over them, are empty or turned over.
func madeBoxes(rng *rand.Rand, w, h int) []float32 {
	var boxes []float32
	for range rng.IntN(9) {
		var x, y [2]float64
		for i := range 2 {
			x[i], y[i] = (rng.Float64()*1.2-0.1)*float64(w), (rng.Float64()*1.2-0.1)*float64(h)
			if rng.IntN(5) == 0 {
				x[i], y[i] = float64(i*w), float64(i*h)
			}
		}
		slices.Sort(x[:])
		slices.Sort(y[:])
		box := []float32{float32(x[0]), float32(y[0]), float32(x[1]), float32(y[1])}
		if rng.IntN(10) == 0 {
			box[2] = 0
		}
		boxes = append(boxes, box...)
	}
	return boxes
}

func floatBytes(numbers []float32) (b []byte) {
	for _, n := range numbers {
		bits := math.Float32bits(n)
		b = append(b, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	return b
}

// TestTargetsAreTorchvisions has torchvision.transforms.v2 repeat records of images with boxes and masks, and compares every bit.
func TestTargetsAreTorchvisions(t *testing.T) {
	var result struct {
		judged
		MappedNumbers int `json:"mapped_numbers"`
		NumbersOff    int `json:"numbers_off"`
		MappedLabels  int `json:"mapped_labels"`
		LabelsOff     int `json:"labels_off"`
	}
	if judge(t, "targets", &result, func(w io.Writer, resampler Resampler) {
		sendTargets(t, w, drawsAsked(12), resampler)
	}, "torchvision.tv_tensors") {
		t.Logf("off after affine maps: %d of %d numbers of boxes, %d of %d labels", result.NumbersOff, result.MappedNumbers, result.LabelsOff, result.MappedLabels)
		result.check(t)
	}
}

// photographedTargets are the lists that photographs are compared by: the presets, and what they leave out.
var photographedTargets = append([]string{"detection", "ssd300", "lsj1024", "segmentation", "segmentation-eval",
	`[{"op":"RandomResize","min_size":256,"max_size":1024},{"op":"RandomCrop","size":512,"pad_if_needed":true,"fill":[123,117,104],"mask_fill":255},` +
		`{"op":"RandomHorizontalFlip"},{"op":"RandomPhotometricDistort"}]`,
	`[{"op":"RandomShortestSize","min_size":[200,300,400],"max_size":500},{"op":"CenterCrop","size":520}]`, `[{"op":"Letterbox","size":[500,640]}]`,
}, targetSpecs[6:10]...)

// asCoefficients decodes JPEGs from their coefficients.
type asCoefficients struct{}

func (asCoefficients) NewDecoder(level Level) Decoder {
	return &coefficientDecoder{coefficients.NewDecoder(level)}
}

type coefficientDecoder struct{ *coefficients.Decoder }

func (d *coefficientDecoder) Open(src Source) (int, int, error) {
	config, err := d.Reset(src.Image)
	return config.Width, config.Height, err
}

func (d *coefficientDecoder) DecodeTo(Output, image.Rectangle) (bool, error) { return false, nil }

// sameElsewhere makes a view of a photograph by other engines, of its file and of its coefficients, and compares the image, boxes and mask with
// the view's.
func sameElsewhere(t *testing.T, engines []*Engine, view View, file Source, record []byte, boxes []float32) {
	t.Helper()
	want, made := view.Dst.Pix, view.Targets
	targets := *made
	targets.Kept, targets.mask, targets.marked = nil, maskSteps{}, nil
	view.Targets, view.Dst.Pix = &targets, make([]byte, len(want))
	targets.MaskTo = make([]byte, len(made.MaskTo))
	for _, engine := range engines {
		for _, src := range []Source{file, {Format: imagefile.Encoded, Image: record, Encoding: asCoefficients{}}} {
			if len(src.Image) == 0 {
				continue
			}
			targets.Boxes = slices.Clone(boxes)
			testenv.OK(t, engine.ApplyViews(src, []View{view}))
			testenv.Check(t, bytes.Equal(view.Dst.Pix, want) && bytes.Equal(targets.MaskTo, made.MaskTo) && slices.Equal(targets.Boxes, made.Boxes),
				"%v of %v: %s differs", engine.stored.level, src.Format, view.Spec)
		}
	}
}

// sendTargets sends made images, or photographs of the folder IMGFEED_TEST_IMAGES, with made boxes and masks. Photographs have the same
// pixels at every level, of which the generic one does a quarter of the draws, and in both encodings.
func sendTargets(t *testing.T, w io.Writer, draws int, resampler Resampler) {
	engine := NewEngine(kernel.Active())
	var targets Targets
	rng := rand.New(rand.NewPCG(1, 2))
	sizes, specs := [][2]int{{61, 47}, {33, 50}, {100, 75}}, slices.Concat(targetSpecs, targetMapSpecs)
	files, _ := filepath.Glob(filepath.Join(liveOnly("IMGFEED_TEST_IMAGES"), "*.*"))
	if liveOnly("IMGFEED_TEST_IMAGES") != "" {
		sizes, specs = make([][2]int, len(files)), photographedTargets
	}
	for s, size := range sizes {
		width, height := size[0], size[1]
		var src Source
		var pix, record []byte
		if width > 0 {
			pix = randomImage(width, height, uint64(s))
			src = Source{Image: encodePNG(t, pix, width, height)}
		} else {
			src.Image = testenv.Must(os.ReadFile(files[s]))(t)
			var err error
			if record, _, err = coefficients.NewEncoder(kernel.Active()).Encode(nil, src.Image); err != nil {
				record = nil // not a JPEG that it takes
			}
			record = append(record, make([]byte, 64)...)[:len(record)]
			pix, width, height = decoded(t, engine, src.Image)
		}
		for _, text := range specs {
			spec := parseWith(text, resampler)
			for d := range draws {
				if width*height > 3e6 {
					continue
				}
				boxes, mask := madeBoxes(rng, width, height), make([]byte, width*height)
				for i := range mask {
					mask[i] = byte(rng.IntN(256))
				}
				targets.Boxes = append(targets.Boxes[:0], boxes...)
				targets.Format = BoxFormat(d % 3)
				targets.Mask, targets.MaskTo = mask, make([]byte, spec.height*spec.width)
				view := View{Spec: spec, Dst: Output{Pix: make([]byte, spec.OutputBytes())}, RNG: NewRNG(1, d, s), Targets: &targets}
				calls, err := engine.RecordView(&view, src)
				if _, small := errors.AsType[*SizeError](err); small {
					continue
				}
				testenv.OK(t, err, "%s", text)
				if liveOnly("IMGFEED_TEST_IMAGES") != "" {
					sameElsewhere(t, everyEngine[min(d%4, 1):], view, src, record, boxes)
				}
				line := testenv.Must(json.Marshal(map[string]any{"transform": text, "width": width, "height": height, "objects": len(boxes) / 4,
					"record": json.RawMessage(calls), "size": []int{spec.height, spec.width}, "format": targets.Format.String(),
					"kept": append([]int32{}, targets.Kept...)}))(t)
				result := slices.Concat(view.Dst.Pix, targets.MaskTo, floatBytes(targets.Boxes))
				testenv.Must(w.Write(slices.Concat(line, []byte("\n"), pix, mask, floatBytes(boxes), result)))(t)
			}
		}
	}
}

func TestCheckTargets(t *testing.T) {
	for text, want := range map[string]string{
		"detection": "", "segmentation": "", "lsj1024": "",
		"simclr": "the transform makes 2",
		`[{"op":"CenterCrop","size":9},{"op":"RandAugment"}]`:                                                                          "operation 1 (RandAugment)",
		`[{"op":"CenterCrop","size":9},{"op":"RandomApply","transforms":[{"op":"TrivialAugmentWide"}]}]`:                               "operation 1 (RandomApply): operation 0 (TrivialAugmentWide)",
		`[{"op":"RandomRotation","degrees":9,"expand":true},{"op":"CenterCrop","size":9}]`:                                             "leave expand out",
		`[{"op":"RandomCrop","size":9,"padding":3,"padding_mode":"edge"}]`:                                                             "constant only",
		`[{"op":"RandomApply","transforms":[{"op":"RandomIoUCrop"}]},{"op":"Resize","size":[9,9]}]`:                                    "",
		`[{"op":"RandomRotation","degrees":9},{"op":"RandomOrder","transforms":[{"op":"RandomInvert"}]},{"op":"CenterCrop","size":9}]`: "",
	} {
		testenv.Says(t, text, mustParseViews(t, text).CheckTargets(true, true), want)
	}
	testenv.Says(t, "RandomIoUCrop without boxes", mustParseViews(t, "detection").CheckTargets(false, true), "it needs boxes")
	masks := mustParseViews(t, `[{"op":"RandomCrop","size":9,"padding":3,"padding_mode":"edge"}]`)
	testenv.Says(t, "a mask with another padding_mode", masks.CheckTargets(false, true), "")
	testenv.Says(t, "simclr without targets", mustParseViews(t, "simclr").CheckTargets(false, false), "")
}

// TestTargetsAllocateNothing makes samples with boxes and a mask again and again.
func TestTargetsAllocateNothing(t *testing.T) {
	const w, h = 64, 48
	data, index := encodeJPEG(t, randomImage(w, h, 1), w, h)
	src := Source{Image: data, Aux: index}
	engine, boxes, mask := NewEngine(kernel.Active()), madeBoxes(rand.New(rand.NewPCG(3, 3)), w, h), make([]byte, w*h)
	for _, name := range []string{"detection", "segmentation", "lsj1024"} {
		spec := mustParse(name)
		targets := Targets{Mask: mask, MaskTo: make([]byte, spec.height*spec.width)}
		views := []View{{Spec: spec, Dst: Output{Pix: make([]byte, spec.OutputBytes())}, Targets: &targets}}
		draw := 0
		apply := func() {
			views[0].RNG = NewRNG(1, draw%8, 0)
			draw++
			targets.Boxes = append(targets.Boxes[:0], boxes...)
			testenv.OK(t, engine.ApplyViews(src, views))
		}
		for range 8 {
			apply()
		}
		testenv.NoAllocations(t, 8, apply, "%s", name)
	}
}

// TestMaskOfAMirroredBorder puts a mirror image of a border around it, which so has labels to both sides.
func TestMaskOfAMirroredBorder(t *testing.T) {
	var m maskSteps
	m.begin([]byte{1, 2}, 2, 1)
	m.pad([4]int{1, 0, 1, 1}, Constant, 7)
	m.pad([4]int{3, 0, 2, 0}, Reflect, 0)
	got := make([]byte, 18)
	m.write(got)
	testenv.Same(t, got, []byte{7, 2, 1, 7, 1, 2, 7, 2, 1, 7, 7, 7, 7, 7, 7, 7, 7, 7}, "the mask")
}
