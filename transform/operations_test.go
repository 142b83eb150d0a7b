package transform

import (
	"bytes"
	"fmt"
	"image"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// mapSpecs have operations that map at the start, in the middle and at the end of a transform.
var mapSpecs = []string{
	`[{"op":"RandomRotation","degrees":30},{"op":"CenterCrop","size":24}]`,
	`[{"op":"Resize","size":[30,41]},{"op":"RandomRotation","degrees":[90,90],"fill":9},{"op":"RandomVerticalFlip"}]`,
	`[{"op":"RandomRotation","degrees":[90,90],"expand":true},{"op":"RandomRotation","degrees":[180,180]},{"op":"CenterCrop","size":20}]`,
	`[{"op":"RandomRotation","degrees":180,"expand":true,"interpolation":"bilinear","fill":[1,2,300]},{"op":"RandomHorizontalFlip"},{"op":"Resize","size":[20,24]}]`,
	`[{"op":"RandomHorizontalFlip","p":1},{"op":"RandomRotation","degrees":[0,45],"center":[3,4],"interpolation":"bicubic"},{"op":"RandomCrop","size":16}]`,
	`[{"op":"CenterCrop","size":[20,30]},{"op":"RandomVerticalFlip","p":1},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"RandomResizedCrop","size":20},{"op":"RandomAffine","degrees":15,"translate":[0.1,0.3],"scale":[0.8,1.2],"shear":10,"interpolation":"bilinear","fill":128}]`,
	`[{"op":"RandomAffine","degrees":0,"shear":[0,0,-20,20],"center":[0,0]},{"op":"RandomCrop","size":19}]`,
	`[{"op":"RandomResizedCrop","size":24},{"op":"RandomHorizontalFlip"},{"op":"PILGaussianBlur"},{"op":"CenterCrop","size":20},{"op":"PILGaussianBlur","radius":[0,5],"p":1}]`,
}

// blurSpecs have torchvision's blur, whose bits are not quite torchvision's.
var blurSpecs = []string{
	`[{"op":"GaussianBlur","kernel_size":[5,13]},{"op":"CenterCrop","size":20},{"op":"RandomHorizontalFlip"},{"op":"GaussianBlur","kernel_size":3,"sigma":0.5}]`,
	`[{"op":"RandomResizedCrop","size":24},{"op":"GaussianBlur","kernel_size":[23,1]},{"op":"GaussianBlur","kernel_size":[1,3]}]`,
}

// TestQuarterTurns compares rotations by multiples of 90° with transposed pixels, for every filter.
func TestQuarterTurns(t *testing.T) {
	engine := NewEngine(kernel.Active())
	for i := range 120 {
		w, h, quarters := 1+i*7%23, 1+i*5%19, 1+i%3
		want := randomImage(w, h, uint64(i))
		src := Source{Image: encodePNG(t, want, w, h)}
		for range quarters {
			var turned []byte
			for x := w - 1; x >= 0; x-- {
				for y := range h {
					turned = append(turned, want[3*(y*w+x):][:3]...)
				}
			}
			want, w, h = turned, h, w
		}
		filter := []Interpolation{Nearest, Bilinear, Bicubic}[i/3%3]
		turn := RandomRotation{Degrees: [2]float64{float64(90 * quarters), float64(90 * quarters)}, Interpolation: filter, Expand: true}
		got := make([]byte, len(want))
		testenv.Must(engine.Apply(must(NewSpec(turn, CenterCrop{Size: Size{h, w}})), Output{Pix: got}, src, RNG{}))(t)
		testenv.Same(t, got, want, "%d×%d by %d quarters, %v: differs from the transposed image", w, h, quarters, filter)
	}
}

func TestMapErrors(t *testing.T) {
	refused(t, `[{"op":"CenterCrop","size":8},%s]`, map[string]string{
		`{"op":"RandomRotation"}`:                                       "degrees is missing",
		`{"op":"RandomRotation","degrees":-5}`:                          "a single number must be positive",
		`{"op":"RandomRotation","degrees":1e9}`:                         "degrees is 1e+09, want -1e+06 to 1e+06",
		`{"op":"RandomRotation","degrees":[3,1]}`:                       "want the lower first",
		`{"op":"RandomRotation","degrees":[3,1,2]}`:                     "degrees has 3 numbers",
		`{"op":"RandomRotation","degrees":3,"interpolation":"lanczos"}`: "want nearest, bilinear or bicubic",
		`{"op":"RandomRotation","degrees":3,"interpolation":"linear"}`:  "unknown interpolation",
		`{"op":"RandomRotation","degrees":3,"fill":[1,2]}`:              "fill has 2 numbers",
		`{"op":"RandomRotation","degrees":3,"fill":"red"}`:              "fill is \"red\", want a number or [red, green, blue]",
		`{"op":"RandomRotation","degrees":3,"center":7}`:                "center has 1 number, want [x, y]",
		`{"op":"RandomRotation","degrees":3,"center":[1e300,0]}`:        "center is",
		`{"op":"RandomAffine","degrees":0,"translate":[2,0]}`:           "translate is 2, want 0 to 1",
		`{"op":"RandomAffine","degrees":0,"scale":[0,1]}`:               "scale is 0, want 1e-06",
		`{"op":"RandomAffine","degrees":0,"scale":[0,0]}`:               "scale is 0, want 1e-06 to 1e+06",
		`{"op":"RandomAffine","degrees":[5]}`:                           "degrees has 1 number, want n or [low, high]",
		`{"op":"RandomAffine","degrees":0,"shear":[5]}`:                 "shear has 1 number, want n, [low, high] or",
		`{"op":"RandomAffine","degrees":0,"shear":[]}`:                  "shear has 0 numbers, want n",
		`{"op":"RandomAffine","degrees":0,"shear":[1,2,3]}`:             "shear has 3 numbers",
		`{"op":"RandomAffine","degrees":0,"shear":[1,2,3,1e7]}`:         "shear is 1e+07",
		`{"op":"GaussianBlur"}`:                                         "kernel_size is missing",
		`{"op":"GaussianBlur","kernel_size":4}`:                         "kernel_size is 4, want an odd number from 1 to 255",
		`{"op":"GaussianBlur","kernel_size":3,"sigma":0}`:               "sigma is 0, want more than 0",
		`{"op":"GaussianBlur","kernel_size":3,"sigma":[2,1]}`:           "sigma is [2 1], want the lower first",
		`{"op":"GaussianBlur","kernel_size":3,"sigma":[1,2,3]}`:         "sigma has 3 numbers",
		`{"op":"PILGaussianBlur","radius":1e9}`:                         "radius is 1e+09, want 0 to 100",
		`{"op":"PILGaussianBlur","p":2}`:                                "p is 2",
		`{"op":"RandomVerticalFlip","p":-1}`:                            "p is -1",
		`{"op":"RandomRotation","degrees":3,"expand":true}`:             "would differ in size",
	})
}

// TestHostileMaps has the extremes of every parameter, which must end, and with pixels of the image or the fill.
func TestHostileMaps(t *testing.T) {
	src := Source{Image: encodePNG(t, bytes.Repeat([]byte{200}, 30*20*3), 30, 20)}
	engine := NewEngine(kernel.Active())
	for _, how := range []string{"nearest", "bilinear", "bicubic"} {
		for _, text := range []string{
			`"degrees":[1000000,1000000]`, `"degrees":[0,0],"shear":[90,90,90,90]`, `"degrees":[0,0],"shear":[-90,-90]`, `"degrees":[0,0],"scale":[1e-6,1e-6]`,
			`"degrees":[5,5],"scale":[1e6,1e6]`, `"degrees":[45,45],"scale":[1e-6,1e-6],"shear":[90,90,89,89],"translate":[1,1],"center":[1e6,-1e6]`,
		} {
			spec := mustParse(`[{"op":"CenterCrop","size":[12,18]},{"op":"RandomAffine",` + text + `,"fill":200,"interpolation":"` + how + `"}]`)
			out := make([]byte, spec.OutputBytes())
			testenv.Must(engine.Apply(spec, Output{Pix: out}, src, NewRNG(1, 1, 1)))(t)
			testenv.Same(t, out, bytes.Repeat([]byte{200}, len(out)), "%s", spec)
		}
	}
}

func TestBlurOfSmallImages(t *testing.T) {
	src := Source{Image: encodePNG(t, make([]byte, 30), 5, 2)}
	for text, want := range map[string]string{
		`[{"op":"GaussianBlur","kernel_size":[9,3]},{"op":"CenterCrop","size":2}]`:   "",
		`[{"op":"GaussianBlur","kernel_size":[11,3]},{"op":"CenterCrop","size":2}]`:  "GaussianBlur cannot take an image of 5×2: half of its kernel of 11×3 must be smaller",
		`[{"op":"GaussianBlur","kernel_size":[3,5]},{"op":"CenterCrop","size":2}]`:   "half of its kernel of 3×5 must be smaller",
		`[{"op":"PILGaussianBlur","radius":100,"p":1},{"op":"CenterCrop","size":2}]`: "",
	} {
		testenv.Fails(NewEngine(kernel.Active()).Apply(mustParse(text), Output{Pix: make([]byte, 12)}, src, RNG{}))(t, want, "%v", text)
	}
}

var paddingSpecs = []string{
	`[{"op":"Resize","size":[20,21]},{"op":"Pad","padding":[1,2,3,40],"fill":[1,2,3]}]`,
	`[{"op":"Pad","padding":3,"fill":9},{"op":"Pad","padding":2,"fill":9},{"op":"Pad","padding":1,"fill":8},{"op":"CenterCrop","size":70}]`,
	`[{"op":"Resize","size":[20,21]},{"op":"Pad","padding":[30,2],"padding_mode":"edge"}]`,
	`[{"op":"RandomHorizontalFlip","p":1},{"op":"Pad","padding":[1,50,7,0],"padding_mode":"reflect"},{"op":"RandomCrop","size":19}]`,
	`[{"op":"Pad","padding":5,"padding_mode":"symmetric"},{"op":"Resize","size":[30,20]},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"RandomCrop","size":32,"padding":4,"pad_if_needed":true,"fill":[7,8,9]},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"RandomCrop","size":64,"padding":[1,2,3,4],"pad_if_needed":true,"padding_mode":"reflect"}]`,
	`[{"op":"RandomCrop","size":[90,40],"padding":30,"pad_if_needed":true,"padding_mode":"symmetric"},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"Resize","size":[16,16]},{"op":"RandomCrop","size":10,"padding":4,"padding_mode":"edge"},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"Resize","size":12,"max_size":15},{"op":"CenterCrop","size":[20,33]},{"op":"Pad","padding":2,"fill":255},{"op":"RandomCrop","size":30,"padding":4}]`,
	`[{"op":"Resize","max_size":23},{"op":"CenterCrop","size":20}]`,
}

// TestPaddingSource has NumPy's own examples of its modes.
func TestPaddingSource(t *testing.T) {
	for mode, want := range map[PaddingMode][]int{
		Edge:      {0, 0, 0, 0, 1, 2, 2, 2, 2},
		Reflect:   {1, 2, 1, 0, 1, 2, 1, 0, 1},
		Symmetric: {2, 1, 0, 0, 1, 2, 2, 1, 0},
	} {
		var got []int
		for at := -3; at < 6; at++ {
			got = append(got, mode.source(at, 3))
		}
		testenv.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "%v", mode)
		testenv.Check(t, mode.source(-5, 1) == 0 && mode.source(7, 1) == 0, "%v of one pixel shows another", mode)
	}
}

func TestPaddingErrors(t *testing.T) {
	refused(t, `[{"op":"CenterCrop","size":8},%s]`, map[string]string{
		`{"op":"Pad"}`:                                              "padding is missing",
		`{"op":"Pad","padding":null}`:                               "padding is missing",
		`{"op":"Pad","padding":[]}`:                                 "padding has 0 numbers, want n, [x, y] or",
		`{"op":"RandomCrop","size":4,"padding":[]}`:                 "padding has 0 numbers, want n, [x, y] or",
		`{"op":"Pad","padding":-1}`:                                 "padding is -1, want 0 to",
		`{"op":"Pad","padding":[1,2,3]}`:                            "padding has 3 numbers",
		`{"op":"Pad","padding":1.5}`:                                "padding is 1.5, want whole numbers",
		`{"op":"Pad","padding":1,"padding_mode":"wrap"}`:            `padding_mode is "wrap", want one of ["constant" "edge" "reflect" "symmetric"]`,
		`{"op":"Pad","padding":10000}`:                              "the result would be 20008×20008",
		`{"op":"RandomCrop","size":4,"padding":1,"fill":[1]}`:       "",
		`{"op":"RandomCrop","size":4,"padding":1,"fill":[1,2,3,4]}`: "fill has 4 numbers",
		`{"op":"Resize","size":8,"max_size":8}`:                     "max_size is 8, want more than size, which is 8",
		`{"op":"Resize","size":[8,8],"max_size":9}`:                 "max_size is for a size of one number",
		`{"op":"Resize","max_size":0}`:                              "size is missing",
		`{"op":"Resize","max_size":-4}`:                             "max_size is -4",
	})
	testenv.Fails(NewSpec(CenterCrop{Size: Size{4}}, Pad{Mode: 4}))(t, `padding_mode is "transform.PaddingMode(4)"`)
}

// TestMaxSize has sizes that torchvision 0.29 gives.
func TestMaxSize(t *testing.T) {
	for _, c := range []struct {
		op         string
		w, h       int
		outW, outH int
	}{
		{`"size":256,"max_size":300`, 500, 375, 300, 225},
		{`"size":256,"max_size":342`, 375, 500, 256, 341},
		{`"max_size":100`, 500, 375, 100, 75},
		{`"max_size":100`, 7, 9, 77, 100},
	} {
		ops := testenv.Must(parseNested([]byte(`[{"op":"Resize",`+c.op+`}]`), parameters{}))(t)
		w, h := testenv.Must2(ops[0].(Resize).Resized(c.w, c.h))(t)
		testenv.Equal(t, [2]int{w, h}, [2]int{c.outW, c.outH}, "%s of %d×%d", c.op, c.w, c.h)
	}
	spec := mustParse(`[{"op":"Resize","size":4,"max_size":9},{"op":"CenterCrop","size":3}]`)
	_, err := NewEngine(kernel.Active()).Apply(spec, Output{Pix: make([]byte, 27)}, Source{Image: encodePNG(t, make([]byte, 15000), 5000, 1)}, RNG{})
	testenv.Says(t, spec, err, "the result would be 9×0")
}

// colourSpecs have operations that change pixels in memory at the start, in the middle and at the end of a transform.
var colourSpecs = []string{
	`[{"op":"CenterCrop","size":[20,30]},{"op":"RandomInvert","p":1}]`,
	`[{"op":"RandomInvert","p":1},{"op":"Grayscale","num_output_channels":3},{"op":"CenterCrop","size":[20,30]}]`,
	`[{"op":"RandomAdjustSharpness","sharpness_factor":1.7},{"op":"CenterCrop","size":[20,30]},{"op":"RandomAdjustSharpness","sharpness_factor":0}]`,
	`[{"op":"RandomHorizontalFlip","p":1},{"op":"RandomGrayscale","p":0.5},{"op":"RandomResizedCrop","size":16},{"op":"RandomInvert"},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"Resize","size":[9,40]},{"op":"RandomInvert"},{"op":"RandomCrop","size":[11,20],"padding":4},{"op":"Grayscale","num_output_channels":3},{"op":"Resize","size":[7,8]}]`,
	`[{"op":"RandomResizedCrop","size":16},{"op":"RandomAutocontrast"},{"op":"RandomEqualize"},{"op":"RandomPosterize","bits":3},{"op":"RandomSolarize","threshold":100.5}]`,
	`[{"op":"RandomResizedCrop","size":[14,20]},{"op":"ColorJitter","brightness":0.4,"contrast":0.4,"saturation":[0.2,3],"hue":0.5}]`,
	`[{"op":"ColorJitter","saturation":2,"hue":[-0.1,0.1]},{"op":"CenterCrop","size":20},{"op":"ColorJitter"}]`,
}

// TestColorJitterReads has torchvision's ways to give a range.
func TestColorJitterReads(t *testing.T) {
	for text, want := range map[string]string{
		`{"op":"ColorJitter"}`:                        `{"op": "ColorJitter", "brightness": 0, "contrast": 0, "saturation": 0, "hue": 0}`,
		`{"op":"ColorJitter","brightness":0.4}`:       `{"op": "ColorJitter", "brightness": [0.6, 1.4], "contrast": 0, "saturation": 0, "hue": 0}`,
		`{"op":"ColorJitter","contrast":3,"hue":0.1}`: `{"op": "ColorJitter", "brightness": 0, "contrast": [0, 4], "saturation": 0, "hue": [-0.1, 0.1]}`,
		`{"op":"ColorJitter","saturation":[1,1]}`:     `{"op": "ColorJitter", "brightness": 0, "contrast": 0, "saturation": 0, "hue": 0}`,
		`{"op":"ColorJitter","hue":[-0.5,-0.25]}`:     `{"op": "ColorJitter", "brightness": 0, "contrast": 0, "saturation": 0, "hue": [-0.5, -0.25]}`,
		`{"op":"ColorJitter","brightness":[0.5,0.5]}`: `{"op": "ColorJitter", "brightness": [0.5, 0.5], "contrast": 0, "saturation": 0, "hue": 0}`,
		`{"op":"ColorJitter","brightness":[0,0]}`:     `{"op": "ColorJitter", "brightness": [0, 0], "contrast": 0, "saturation": 0, "hue": 0}`,
		`{"op":"ColorJitter","hue":0,"saturation":0}`: `{"op": "ColorJitter", "brightness": 0, "contrast": 0, "saturation": 0, "hue": 0}`,
		`{"op":"ColorJitter","brightness":null}`:      `{"op": "ColorJitter", "brightness": 0, "contrast": 0, "saturation": 0, "hue": 0}`,
		`{"op":"ColorJitter","brightness":[1.5,1e6]}`: `{"op": "ColorJitter", "brightness": [1.5, 1000000], "contrast": 0, "saturation": 0, "hue": 0}`,
	} {
		testenv.Equal(t, TextOf(mustParse(`[{"op":"CenterCrop","size":1},` + text + `]`).ops[1]), want, "%s", text)
	}
}

var controlSpecs = []string{
	`[{"op":"RandomApply","transforms":[{"op":"ColorJitter","brightness":0.4,"hue":0.1},{"op":"RandomInvert"}],"p":0.8},{"op":"CenterCrop","size":20}]`,
	`[{"op":"RandomChoice","transforms":[{"op":"RandomInvert","p":1},{"op":"Grayscale","num_output_channels":3},{"op":"CenterCrop","size":18}]},{"op":"Resize","size":[9,9]}]`,
	`[{"op":"RandomChoice","transforms":[{"op":"CenterCrop","size":18},{"op":"RandomResizedCrop","size":18}],"p":[1,3]}]`,
	`[{"op":"RandomResizedCrop","size":18},{"op":"RandomOrder","transforms":[{"op":"RandomSolarize","threshold":128,"p":1},{"op":"RandomEqualize","p":1},{"op":"RandomHorizontalFlip"}]}]`,
	`[{"op":"CenterCrop","size":18},{"op":"RandomApply","transforms":[{"op":"RandomChoice","transforms":[{"op":"RandomOrder","transforms":[{"op":"RandomPosterize","bits":4}]}]}],"p":1}]`,
}

// TestEmptyLists: lists without operations do nothing to the pixels.
func TestEmptyLists(t *testing.T) {
	const empty = `{"op":"RandomOrder","transforms":[]},{"op":"RandomChoice","transforms":[{"op":"RandomApply","transforms":[]}]}`
	w, h := 30, 20
	pix := randomImage(w, h, 1)
	source := []Source{{Image: encodePNG(t, pix, w, h)}}
	without, with := mustParse(`[{"op":"CenterCrop","size":18}]`), mustParse(`[`+empty+`,{"op":"CenterCrop","size":18},`+empty+`]`)
	testenv.Same(t, naive(t, with, pix, w, h, NewRNG(1, 0, 0)), naive(t, without, pix, w, h, NewRNG(1, 0, 0)), "%s changes pixels", empty)
	compareWithNaive(t, with, source, pix, w, h)
	readsBack(t, Views{with})
}

func TestControlErrors(t *testing.T) {
	deep := strings.Repeat(`{"op":"RandomOrder","transforms":[`, 10) + `{"op":"RandomInvert"}` + strings.Repeat("]}", 10)
	refused(t, "%s", map[string]string{
		`[{"op":"RandomApply"}]`:                                                                      "operation 0 (RandomApply): transforms is missing",
		`[{"op":"RandomApply","transforms":3}]`:                                                       "transforms is 3, want a list of operations",
		`[{"op":"RandomApply","transforms":{"op":"RandomInvert"}}]`:                                   `transforms is {"op":"RandomInvert"}, want a list`,
		`[{"op":"CenterCrop","size":9},{"op":"RandomChoice","transforms":[]}]`:                        "transforms is empty, so none can be chosen",
		`[{"op":"RandomApply","transforms":[{"op":"CenterCrop"}]}]`:                                   "operation 0 (RandomApply): transforms: operation 0 (CenterCrop): size is missing",
		`[{"op":"RandomOrder","transforms":[{"op":"Turn"}]}]`:                                         "transforms: operation 0 (Turn): unknown operation",
		`[{"op":"RandomOrder","transforms":[{"op":"RandomInvert","p":3}]}]`:                           "transforms: operation 0 (RandomInvert): p is 3",
		`[{"op":"RandomApply","transforms":[{"op":"CenterCrop","size":3}],"p":2}]`:                    "p is 2",
		`[{"op":"RandomApply","transforms":[{"op":"CenterCrop","size":3}],"p":1}]`:                    "would differ in size",
		`[{"op":"CenterCrop","size":9},{"op":"RandomApply","transforms":[{"op":"Resize","size":4}]}]`: "would differ in size",
		`[{"op":"RandomOrder","transforms":[{"op":"CenterCrop","size":3},{"op":"RandomInvert"}]}]`:    "would differ in size",
		`[{"op":"RandomChoice","transforms":[{"op":"CenterCrop","size":3}],"p":[1,2]}]`:               "p has 2 weights for 1 transforms",
		`[{"op":"RandomChoice","transforms":[{"op":"CenterCrop","size":3}],"p":[0]}]`:                 "want one weight above 0",
		`[{"op":"RandomChoice","transforms":[{"op":"CenterCrop","size":3}],"p":[-1]}]`:                "want weights of at least 0",
		`[{"op":"CenterCrop","size":9},` + deep + `]`:                                                 "nested more than 8 deep",
		`[{"op":"RandomPosterize","bits":9}]`:                                                         "bits is 9, want 0 to 8",
		`[{"op":"RandomPosterize","bits":1e300}]`:                                                     "bits is 1e300, want a whole number",
		`[{"op":"RandomSolarize"}]`:                                                                   "threshold is missing",
		`[{"op":"RandomSolarize","threshold":1e9}]`:                                                   "threshold is 1e+09",
		`[{"op":"ColorJitter","brightness":-0.1}]`:                                                    "brightness is -0.1: a single number must be positive",
		`[{"op":"ColorJitter","brightness":1e9}]`:                                                     "brightness is 1.000000001e+09, want 0 to 1e+06",
		`[{"op":"ColorJitter","contrast":[2,1]}]`:                                                     "contrast is [2 1], want the lower first",
		`[{"op":"ColorJitter","hue":0.6}]`:                                                            "hue is 0.6, want -0.5 to 0.5",
		`[{"op":"ColorJitter","saturation":"much"}]`:                                                  `saturation is "much", want a number or a list of numbers`,
	})
	for want, op := range map[string]Op{
		"bits is -1":                   RandomPosterize{Bits: -1},
		"transforms has 33 operations": RandomOrder{slices.Repeat([]Op{RandomInvert{P: 1}}, opsMax+1)},
	} {
		testenv.Fails(NewSpec(CenterCrop{Size: Size{3}}, op))(t, want, "%v", op)
	}
}

// TestDrawsGolden pins the draws: a change would give other crops to a run that is resumed.
func TestDrawsGolden(t *testing.T) {
	d := NewRNG(42, 3, 1000)
	var got []uint64
	for range 3 {
		got = append(got, d.pcg.Uint64())
	}
	testenv.Equal(t, fmt.Sprintf("%#x", got), "[0xafd15d776d9c6f6a 0x4eb9abd0417ebfa1 0x2bc399ead1817f3d]", "draws")
	train := mustParse("train").ops[0].(RandomResizedCrop)
	for index, want := range []Params{
		{130, 52, 243, 210, false}, {17, 15, 345, 436, false}, {17, 8, 318, 319, false}, {73, 366, 143, 130, false},
	} {
		d := NewRNG(-1, 7, index)
		var p Params
		p.setCrop(train.box(500, 375, &d))
		testenv.Equal(t, p, want, "box %d", index)
	}
}

// TestDrawsDifferByKey checks that every part of the key changes the draws, and pins those of a repetition and of a view.
func TestDrawsDifferByKey(t *testing.T) {
	seen := map[RNG][5]int{}
	for i := range 7 * 7 * 7 * 7 * 7 {
		key := [5]int{i%7 - 3, i / 7 % 7, i / 49 % 7, i / 343 % 7, i / 2401}
		d := NewViewRNG(int64(key[0]), key[1], key[2], key[3], key[4])
		other, ok := seen[d]
		testenv.Require(t, !ok, "%v and %v draw the same", key, other)
		seen[d] = key
		testenv.Require(t, key[3] != 0 || key[4] != 0 || d == NewRNG(int64(key[0]), key[1], key[2]), "%v has other draws than the sample", key)
	}
	for _, c := range []struct {
		repetition, view int
		want             uint64
	}{{2, 0, 0x4bdb5a97c36e391a}, {2, 5, 0x8db50705ef9bf0f5}} {
		d := NewViewRNG(42, 3, 1000, c.repetition, c.view)
		testenv.Equal(t, d.pcg.Uint64(), c.want, "view %d of repetition %d draws", c.view, c.repetition)
	}
}

// TestRandomBoxMatchesTorchvision compares the boxes with histograms of torchvision's own get_params, made by
// testdata/boxes.py: χ² of the two samples.
func TestRandomBoxMatchesTorchvision(t *testing.T) {
	for _, c := range torchvisionBoxes {
		op := mustParse(c.spec).ops[0].(RandomResizedCrop)
		d, got, want := NewRNG(1, 2, 3), drawnCells{}, drawnCells{}
		for range 100000 {
			r := op.box(c.w, c.h, &d)
			testenv.Require(t, !r.Empty() && r.In(image.Rect(0, 0, c.w, c.h)), "%v: box %v", c, r)
			for i, cell := range boxCells(c.w, c.h, r) {
				got.count(boxQuantities[i], fmt.Sprint(cell))
			}
		}
		for i, quantity := range boxQuantities {
			want[quantity] = map[string]int{}
			for cell, n := range c.cells[i] {
				want[quantity][fmt.Sprint(cell)] = int(n)
			}
			alike(t, fmt.Sprintf("%s of %d×%d %s", quantity, c.w, c.h, c.spec), got[quantity], want[quantity])
		}
	}
}

var boxQuantities = [4]string{"area", "ratio", "top", "left"}

// boxCells returns the cells of the histograms that a box counts in, as boxes.py does.
func boxCells(w, h int, r image.Rectangle) [4]int {
	cell := func(x float64) int { return min(max(int(math.Floor(10*x)), 0), 9) }
	area := float64(r.Dx()*r.Dy()) / float64(w*h)
	ratio := float64(r.Dx()) / float64(r.Dy())
	return [4]int{cell(area), cell((math.Log2(ratio) + 1) / 2), cell(float64(r.Min.Y) / float64(h)), cell(float64(r.Min.X) / float64(w))}
}

func TestRandomBoxFallsBackToTheCentre(t *testing.T) {
	for _, c := range []struct {
		w, h int
		want image.Rectangle // torchvision: (height−h)//2, (width−w)//2, …
	}{
		{1000, 10, image.Rect(493, 0, 506, 10)}, // 10 · 4/3 = 13
		{10, 1000, image.Rect(0, 493, 10, 506)}, // 10 / (3/4) = 13
	} {
		spec := must(NewSpec(RandomResizedCrop{Size: Size{5}, Scale: [2]float64{0.9, 1}}))
		op, d := spec.ops[0].(RandomResizedCrop), NewRNG(0, 0, 0)
		testenv.Equal(t, op.box(c.w, c.h, &d), c.want, "%d×%d", c.w, c.h)
	}
}

// TestScaleFromNothing: torchvision takes a scale from 0 on, and tries again where a box of that area has no pixel.
func TestScaleFromNothing(t *testing.T) {
	op := mustParse(`[{"op":"RandomResizedCrop","size":9,"scale":[0,1e-3]}]`).ops[0].(RandomResizedCrop)
	d, most := NewRNG(1, 2, 3), 0
	for range 1000 {
		r := op.box(100, 100, &d)
		testenv.Require(t, !r.Empty() && r.In(image.Rect(0, 0, 100, 100)), "box %v", r)
		most = max(most, r.Dx()*r.Dy())
	}
	testenv.Between(t, most, 10, 20, "pixels of the largest of 1000 boxes")
}

func TestParamsInt32s(t *testing.T) {
	testenv.Equal(t, (Params{-1, 2, 3, 4, true}).Int32s(), [ParamsLen]int32{-1, 2, 3, 4, 1}, "numbers")
	testenv.Equal(t, (Params{}).Int32s(), [ParamsLen]int32{}, "numbers of nothing")
}
