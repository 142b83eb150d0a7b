package transform

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/resample"
)

func TestPresets(t *testing.T) {
	for name, want := range map[string]string{
		"eval": `[{"op": "Resize", "size": 256, "interpolation": "bilinear", "resampler": "pillow-13"}, {"op": "CenterCrop", "size": [224, 224]}]`,
		"train": `[{"op": "RandomResizedCrop", "size": [224, 224], "scale": [0.08, 1], "ratio": [0.75, 1.3333333333333333], ` +
			`"interpolation": "bilinear", "resampler": "pillow-13"}, {"op": "RandomHorizontalFlip", "p": 0.5}]`,
		"train-resize": `[{"op": "Resize", "size": 256, "interpolation": "bilinear", "resampler": "pillow-13"}, {"op": "RandomCrop", "size": [224, 224], ` +
			`"padding": [0, 0, 0, 0], "pad_if_needed": false}, {"op": "RandomHorizontalFlip", "p": 0.5}]`,
		"cifar": `[{"op": "RandomCrop", "size": [32, 32], "padding": [4, 4, 4, 4], "pad_if_needed": false}, ` +
			`{"op": "RandomHorizontalFlip", "p": 0.5}]`,
	} {
		spec, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if spec.String() != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, spec, want)
		}
		if quoted, err := Parse(`"` + name + `"`); err != nil || quoted.String() != want {
			t.Errorf("the JSON string %q gives %v, %v", name, quoted, err)
		}
	}
	if len(Presets()) != 4 {
		t.Errorf("Presets() = %v", Presets())
	}
}

func TestParseRoundTrip(t *testing.T) {
	for text, size := range map[string][2]int{
		`[{"op":"Resize","size":[10,20]}]`:                                                                  {10, 20},
		`[{"op":"Resize","size":[10]},{"op":"CenterCrop","size":[7,5]}]`:                                    {7, 5},
		`[{"op":"Resize","size":[30,20],"interpolation":"BICUBIC"},{"op":"Resize","size":10}]`:              {15, 10},
		`[{"op":"RandomCrop","size":8,"padding":[1,2],"pad_if_needed":true}]`:                               {8, 8},
		`[{"op":"RandomCrop","size":[8,9],"padding":[1,2,3,4]}]`:                                            {8, 9},
		`[{"op":"RandomCrop","size":8,"padding":null,"fill":0,"padding_mode":"constant"}]`:                  {8, 8},
		`[{"op":"RandomResizedCrop","size":12,"scale":[0.25,0.5],"ratio":[1,1],"interpolation":"lanczos"}]`: {12, 12},
		` [{"op":"CenterCrop","size":3},{"op":"RandomHorizontalFlip","p":0.25}] `:                           {3, 3},
	} {
		spec, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if h, w := spec.OutputSize(); h != size[0] || w != size[1] || spec.OutputBytes() != h*w*3 {
			t.Errorf("%s: size %d×%d, want %v", text, h, w, size)
		}
		again, err := Parse(spec.String())
		if err != nil || !reflect.DeepEqual(again, spec) {
			t.Errorf("%s: does not read back: %v, %v", spec, again, err)
		}
	}
}

// TestParseResampler has presets and lists with and without a resampler of their own.
func TestParseResampler(t *testing.T) {
	const list = `[{"op":"Resize","size":30},{"op":"RandomResizedCrop","size":20,"resampler":"pillow-13"}]`
	for text, want := range map[string][2]resample.Algorithm{
		"eval":   {resample.Pillow12, resample.Pillow13}, // of Resize and CenterCrop, which has none
		"train":  {resample.Pillow12, resample.Pillow13},
		"cifar":  {resample.Pillow13, resample.Pillow13},
		`"eval"`: {resample.Pillow12, resample.Pillow13},
		list:     {resample.Pillow12, resample.Pillow13},
		`[{"op":"RandomResizedCrop","size":20},{"op":"Resize","size":8}]`: {resample.Pillow12, resample.Pillow12},
	} {
		spec, err := ParseWith(text, resample.Pillow12)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]resample.Algorithm{spec.ops[0].Resampler, spec.ops[1].Resampler}; got != want {
			t.Errorf("%s with pillow-12: resamplers %v, want %v", text, got, want)
		}
		if again, err := Parse(spec.String()); err != nil || !reflect.DeepEqual(again, spec) {
			t.Errorf("%s: %s does not read back: %v, %v", text, spec, again, err)
		}
	}
	if mustParse("eval").String() == must(ParseWith("eval", resample.Pillow12)).String() {
		t.Error("the resampler is no part of the transform's string")
	}
}

func must(spec *Spec, err error) *Spec {
	if err != nil {
		panic(err)
	}
	return spec
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "unknown transform",
		"fast":                            "unknown transform",
		"[]":                              "no operations",
		"[1":                              "no valid JSON",
		`[1]`:                             "operation 0",
		`[{"op":"Resize","size":256}]`:    "would differ in size",
		`[{"op":"RandomHorizontalFlip"}]`: "would differ in size",
		`[{"op":"Rotate"}]`:               "unknown operation",
		`[{"op":"CenterCrop","size":3},{"op":"Resize","size":5,"p":1}]`:       `operation 1 (Resize): no parameter "p"`,
		`[{"op":"CenterCrop","size":3,"colour":1}]`:                           "colour",
		`[{"op":"CenterCrop"}]`:                                               "size is missing",
		`[{"op":"CenterCrop","size":[1,2,3]}]`:                                "3 numbers",
		`[{"op":"CenterCrop","size":0}]`:                                      "size is 0",
		`[{"op":"CenterCrop","size":-5}]`:                                     "size is -5",
		`[{"op":"CenterCrop","size":100000}]`:                                 "size is 100000",
		`[{"op":"CenterCrop","size":"a"}]`:                                    "whole numbers",
		`[{"op":"Resize","size":[5,5],"interpolation":"cubic"}]`:              "cubic",
		`[{"op":"Resize","size":[5,5],"antialias":false}]`:                    "antialias",
		`[{"op":"Resize","size":[5,5],"resampler":"pillow-11"}]`:              "pillow-12",
		`[{"op":"CenterCrop","size":5,"resampler":"pillow-12"}]`:              `no parameter "resampler"`,
		`[{"op":"RandomCrop","size":5,"padding":[1,2,3]}]`:                    "padding has 3",
		`[{"op":"RandomCrop","size":5,"padding":-1}]`:                         "padding is -1",
		`[{"op":"RandomCrop","size":5,"fill":7}]`:                             "fill is 7",
		`[{"op":"RandomCrop","size":5,"padding_mode":"reflect"}]`:             "reflect",
		`[{"op":"RandomResizedCrop","size":5,"scale":[0,1]}]`:                 "scale",
		`[{"op":"RandomResizedCrop","size":5,"ratio":[2,1]}]`:                 "ratio",
		`[{"op":"CenterCrop","size":3},{"op":"RandomHorizontalFlip","p":2}]`:  "p is 2",
		`[{"op":"CenterCrop","size":[1,16000]},{"op":"Resize","size":16000}]`: "at most",
	} {
		spec, err := Parse(text)
		var se *SpecError
		if !errors.As(err, &se) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want an error with %q", text, spec, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Presets() {
		f.Add(name)
		f.Add(mustParse(name).String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(spec.String())
		if err != nil || again.String() != spec.String() {
			t.Fatalf("%q gives %s, which gives %v, %v", text, spec, again, err)
		}
	})
}

func mustParse(text string) *Spec { return must(Parse(text)) }
