package transform

import (
	"bytes"
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
		_, err := NewEngine(kernel.Active()).Apply(mustParse(text), Output{Pix: make([]byte, 12)}, src, RNG{})
		testenv.Says(t, text, err, want)
	}
}
