package transform

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
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
		testenv.Equal(t, testenv.Must(Parse(name))(t).String(), want, "%s", name)
		testenv.Equal(t, testenv.Must(Parse(`"`+name+`"`))(t).String(), want, "the JSON string %q", name)
	}
	const all = "eval train train-resize cifar detection ssd300 lsj1024 segmentation segmentation-eval"
	testenv.Equal(t, strings.Join(Presets(), " "), all, "presets")
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
		`[{"op":"RandomCrop","size":8,"padding":2,"fill":[1,2,3],"padding_mode":"reflect"}]`:                {8, 8},
		`[{"op":"Resize","size":[9,9]},{"op":"Pad","padding":[1,2],"fill":7,"padding_mode":"edge"}]`:        {13, 11},
		`[{"op":"Resize","size":7,"max_size":9},{"op":"CenterCrop","size":4}]`:                              {4, 4},
		`[{"op":"Resize","max_size":9},{"op":"CenterCrop","size":4}]`:                                       {4, 4},
		`[{"op":"CenterCrop","size":6},{"op":"RandomVerticalFlip"},{"op":"RandomRotation","degrees":9}]`:    {6, 6},
		`[{"op":"CenterCrop","size":6},{"op":"RandomRotation","degrees":[0,9],"center":[1,2],"fill":[7]}]`:  {6, 6},
		`[{"op":"CenterCrop","size":6},{"op":"RandomAffine","degrees":9,"shear":[1,2],"translate":[0,1]}]`:  {6, 6},
	} {
		spec := testenv.Must(Parse(text))(t)
		h, w := spec.OutputSize()
		testenv.Check(t, h == size[0] && w == size[1] && spec.OutputBytes() == h*w*3, "%s: size %d×%d, want %v", text, h, w, size)
		readsBack(t, Views{spec})
	}
	for _, text := range slices.Concat(recordedSpecs(), blurSpecs, shownSpecs) { // those that hold operations among them
		readsBack(t, Views{mustParse(text)})
	}
}

// readsBack checks that the text of views gives the same views.
func readsBack(t *testing.T, views Views) {
	t.Helper()
	again := mustParseViews(t, views.String())
	testenv.Check(t, reflect.DeepEqual(again, views) && again.String() == views.String(), "%s is read back as %s", views, again)
}

// refused checks the errors of transforms, by what stands for %s in a frame. Those with "" are taken.
func refused(t *testing.T, frame string, errors map[string]string) {
	t.Helper()
	for text, want := range errors {
		testenv.Fails(ParseViews(strings.Replace(frame, "%s", text, 1), Pillow13))(t, want, "%v", text)
	}
}

// TestParseResampler has presets and lists with and without a resampler of their own.
func TestParseResampler(t *testing.T) {
	const list = `[{"op":"Resize","size":30},{"op":"RandomResizedCrop","size":20,"resampler":"pillow-13"}]`
	named := regexp.MustCompile(`"resampler": "([^"]*)"`)
	for text, want := range map[string]string{
		"eval":   "pillow-12", // of Resize; CenterCrop has none
		"train":  "pillow-12",
		"cifar":  "",
		`"eval"`: "pillow-12",
		list:     "pillow-12 pillow-13",
		`[{"op":"RandomResizedCrop","size":20},{"op":"Resize","size":8}]`: "pillow-12 pillow-12",
	} {
		spec := parseWith(text, Pillow12)
		var got []string
		for _, match := range named.FindAllStringSubmatch(spec.String(), -1) {
			got = append(got, match[1])
		}
		testenv.Equal(t, strings.Join(got, " "), want, "%s with pillow-12: resamplers", text)
		readsBack(t, Views{spec})
	}
	testenv.Check(t, mustParse("eval").String() != parseWith("eval", Pillow12).String(), "the resampler is not part of the transform's string")
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
		"[1":                              "not valid JSON",
		`[1]`:                             "operation 0",
		`[{"op":"Resize","size":256}]`:    "would differ in size",
		`[{"op":"RandomHorizontalFlip"}]`: "would differ in size",
		`[{"op":"Rotate"}]`:               "unknown operation, want",
		`[{"op":"centrecrop","size":3}]`:  "operation 0 (centrecrop): unknown operation (did you mean \"CenterCrop\"?), want one of",
		`[{"op":"Resize","sise":3}]`:      `no parameter "sise" (did you mean "size"?)`,
		"Trian":                           `unknown transform "Trian" (did you mean "train"?)`,
		"rand-m9-mstd0.5":                 `"rand-m9-mstd0.5" (put timm's policies into a list: {"op": "TimmAugment", "config": "rand-m9-mstd0.5"}), want eval`,
		`[{"op":"CenterCrop","size":3},{"op":"Resize","size":5,"p":1}]`: `operation 1 (Resize): no parameter "p"`,
		`[{"op":"CenterCrop","size":3,"colour":1}]`:                     `operation 0 (CenterCrop): no parameter "colour", want one of size`,
		`[{"size":3}]`: `operation 0: want "op" with the operation's name`,
		`[null]`:       "operation 0: want an object",
		`[{"op":7}]`:   `operation 0: want "op" with the operation's name`,
		`[{"op":"RandomResizedCrop","size":5,"scale":[0.5]}]`:                 "scale has 1 number, want",
		`[{"op":"RandomResizedCrop","size":5,"scale":[]}]`:                    "scale has 0 numbers",
		`[{"op":"RandomResizedCrop","size":5,"ratio":"wide"}]`:                `ratio is "wide", want two numbers`,
		`[{"op":"RandomHorizontalFlip","p":"x"}]`:                             `p is "x", want a number`,
		`[{"op":"RandomCrop","size":5,"pad_if_needed":1}]`:                    "pad_if_needed is 1, want true or false",
		`[{"op":"Resize","size":[5,0]}]`:                                      "size is 0",
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
		`[{"op":"RandomCrop","size":5,"fill":"red"}]`:                         "fill is \"red\"",
		`[{"op":"RandomCrop","size":5,"padding_mode":"wrap"}]`:                "padding_mode is \"wrap\"",
		`[{"op":"RandomResizedCrop","size":5,"scale":[-0.1,1]}]`:              "scale is -0.1, want 0 to 1e+06",
		`[{"op":"RandomResizedCrop","size":5,"scale":[0,0]}]`:                 "scale is [0, 0], want a high above 0",
		`[{"op":"RandomResizedCrop","size":5,"ratio":[0,0]}]`:                 "ratio is 0, want 1e-06 to 1e+06",
		`[{"op":"RandomResizedCrop","size":5,"ratio":[2,1]}]`:                 "ratio",
		`[{"op":"CenterCrop","size":3},{"op":"RandomHorizontalFlip","p":2}]`:  "p is 2",
		`[{"op":"CenterCrop","size":[1,16000]},{"op":"Resize","size":16000}]`: "at most",
		`[{"op":"RandomAdjustSharpness"}]`:                                    "sharpness_factor is missing",
		`[{"op":"RandomAdjustSharpness","sharpness_factor":-1}]`:              "sharpness_factor is -1, want 0 to 1e+06",
		`[{"op":"RandomInvert","p":1.5}]`:                                     "p is 1.5, want 0 to 1",
		`[{"op":"Grayscale"}]`:                                                "num_output_channels is 1, want 3",
	} {
		testenv.FailsAs[*SpecError](Parse(text))(t, want)
	}
}

// TestNewSpec makes transforms as a Go program does.
func TestNewSpec(t *testing.T) {
	for text, ops := range map[string][]Op{
		"eval":  {Resize{Size: Size{256}}, CenterCrop{Size: Size{224}}},
		"train": {RandomResizedCrop{Size: Size{224, 224}}, RandomHorizontalFlip{P: 0.5}},
		"cifar": {RandomCrop{Size: Size{32}, Padding: [4]int{4, 4, 4, 4}}, RandomHorizontalFlip{P: 0.5}},
	} {
		testenv.DeepEqual(t, testenv.Must(NewSpec(ops...))(t), mustParse(text), "%v", ops)
	}
	for want, op := range map[string]Op{
		"operation 0 (CenterCrop): size is 0, want 1 to 16384": CenterCrop{},
		"size is 0, want 1":             Resize{Size: Size{0, 5}},
		"size is -1, want 1":            RandomCrop{Size: Size{5, -1}},
		"padding is -1":                 RandomCrop{Size: Size{5}, Padding: [4]int{0, -1, 0, 0}},
		"p is NaN":                      RandomHorizontalFlip{P: math.NaN()},
		"scale is [2 1]":                RandomResizedCrop{Size: Size{5}, Scale: [2]float64{2, 1}},
		"scale is NaN, want 0 to 1e+06": RandomResizedCrop{Size: Size{5}, Scale: [2]float64{math.NaN(), math.NaN()}},
		"unknown interpolation":         RandomResizedCrop{Size: Size{5}, Interpolation: 99},
		"unknown resampler":             Resize{Size: Size{5, 5}, Resampler: 99},
	} {
		testenv.Fails(NewSpec(op))(t, want, "%v", op)
	}
	testenv.Fails(NewSpec(slices.Repeat([]Op{CenterCrop{Size: Size{3}}}, opsMax+1)...))(t, "33 operations, want at most 32")
}

// TestOpString has what no Spec holds, and texts with the signs that are spaced elsewhere.
func TestOpString(t *testing.T) {
	testenv.Contains(t, TextOf(RandomHorizontalFlip{P: math.NaN()}), "NaN")
	got := named("CenterCrop", "size", Size{3, 4}, "text", `a,b:"c,d`)
	testenv.Equal(t, got, `{"op": "CenterCrop", "size": [3, 4], "text": "a,b:\"c,d"}`, "text")
}

func TestLeadingResize(t *testing.T) {
	op, ok := mustParse("eval").LeadingResize()
	testenv.Check(t, ok && op.Size == (Size{256}), "eval begins with %v, %v", op, ok)
	op, ok = mustParse("train").LeadingResize()
	testenv.Check(t, !ok, "train begins with %v", op)
}

var update = flag.Bool("update", false, "write the table of operations into docs/transforms.md")

// TestDocumented compares the table of operations in the documentation with what they declare, and looks for every preset.
func TestDocumented(t *testing.T) {
	const path, head, rule = "../docs/transforms.md", "\n| operation | parameters | remarks |\n", "|---|---|---|\n"
	raw := testenv.Must(os.ReadFile(path))(t)
	text := string(raw)
	for _, name := range Presets() {
		testenv.Contains(t, text, "\n| `"+name+"` | ")
	}
	var rows, inexact []string
	for _, listed := range operations() {
		rows = append(rows, documented(listed))
	}
	for _, e := range exceptions {
		inexact = append(inexact, fmt.Sprintf("| %s | %s | %.2g %% | %d | %s |", e.Op, e.On, 100*e.Share, e.Levels, e.Torch))
	}
	text = documentedTable(t, text, head+rule, rows)
	text = documentedTable(t, text, "\n| operation | on | share of the values | levels | torch |\n|---|---|--:|--:|---|\n", inexact)
	if *update {
		testenv.OK(t, os.WriteFile(path, []byte(text), 0o644))
	} else if text != string(raw) {
		t.Errorf("%s does not say what operations declare: go test ./transform -run Documented -update writes it", path)
	}
}

// documentedTable returns the text with other rows under the head of a table.
func documentedTable(t *testing.T, text, head string, rows []string) string {
	t.Helper()
	before, rest, found := strings.Cut(text, head)
	old, after, ends := strings.Cut(rest, "\n\n")
	if strings.HasPrefix(rest, "\n") { // no rows
		old, after, ends = "", rest[1:], true
	}
	testenv.Require(t, found && ends, "the document has no table %q after %q", head, old)
	return before + head + strings.Join(rows, "\n") + "\n\n" + after
}

// documented returns an operation's row: its parameters with what they may be, their defaults, and their ranges.
func documented(listed listedOp) string {
	var cells []string
	for _, d := range declared(reflect.TypeOf(listed.op)) {
		cell := "`" + d.name + "`"
		if d.kind.want != "" {
			cell += ": " + d.kind.want
		}
		if !d.required && isNull(d.fallback) {
			cell += ", optional"
		} else if !d.required {
			cell += " = " + strings.ReplaceAll(string(d.fallback), "1.3333333333333333", "4/3")
		}
		if len(d.words) > 0 {
			cell += " (one of " + strings.Join(d.words, ", ") + ")"
		} else if d.bounded {
			cell += " (" + d.interval() + ")"
		}
		cells = append(cells, cell)
	}
	row := "| `" + NameOf(listed.op) + "` | " + strings.Join(cells, "; ") + " | "
	if listed.remarks != "" {
		row += listed.remarks + " "
	}
	return row + "|"
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
		testenv.Equal(t, testenv.Must(Parse(spec.String()))(t).String(), spec.String(), "what %q gives, read back", text)
	})
}

func mustParse(text string) *Spec { return must(Parse(text)) }

func parseWith(text string, resampler Resampler) *Spec {
	views, err := ParseViews(text, resampler)
	if err != nil {
		panic(err)
	}
	return views[0]
}

// everyOperation has each operation with all its parameters.
var everyOperation = []string{
	`{"op":"Resize","size":9,"max_size":20,"interpolation":"bicubic","resampler":"pillow-12","antialias":true}`,
	`{"op":"CenterCrop","size":[5,6]}`, `{"op":"FiveCrop","size":4}`, `{"op":"TenCrop","size":[3,4],"vertical_flip":true}`,
	`{"op":"RandomCrop","size":[5,6],"padding":2,"pad_if_needed":true,"fill":3,"padding_mode":"edge","mask_fill":4}`,
	`{"op":"Pad","padding":[1,2],"fill":[1,2,3],"padding_mode":"reflect","mask_fill":4}`,
	`{"op":"RandomResizedCrop","size":5,"scale":[0.2,0.9],"ratio":[0.5,2],"interpolation":"box","resampler":"pillow-13","antialias":true}`,
	`{"op":"ToImage","backend":"tensor"}`, `{"op":"RandomHorizontalFlip","p":0.5}`, `{"op":"RandomVerticalFlip","p":0.5}`,
	`{"op":"RandomRotation","degrees":30,"interpolation":"bilinear","expand":true,"center":[1,2],"fill":9,"mask_fill":4}`,
	`{"op":"RandomAffine","degrees":30,"translate":[0.1,0.2],"scale":[0.5,2],"shear":[-5,5],"interpolation":"nearest","fill":0,"center":[3,4],"mask_fill":4}`,
	`{"op":"GaussianBlur","kernel_size":[3,5],"sigma":[0.1,2]}`, `{"op":"PILGaussianBlur","radius":[0.1,2],"p":1}`,
	`{"op":"RandomInvert","p":1}`, `{"op":"Grayscale","num_output_channels":3}`, `{"op":"RandomGrayscale","p":1}`,
	`{"op":"RandomAdjustSharpness","sharpness_factor":2,"p":1}`, `{"op":"RandomPosterize","bits":3,"p":1}`, `{"op":"RandomSolarize","threshold":90,"p":1}`,
	`{"op":"RandomAutocontrast","p":1}`, `{"op":"RandomEqualize","p":1}`,
	`{"op":"ColorJitter","brightness":0.4,"contrast":[0.5,2],"saturation":0.3,"hue":0.1}`,
	`{"op":"RandomApply","transforms":[{"op":"RandomInvert"}],"p":1}`,
	`{"op":"RandomChoice","transforms":[{"op":"RandomInvert"},{"op":"RandomEqualize"}],"p":[1,2]}`, `{"op":"RandomOrder","transforms":[{"op":"RandomInvert"}]}`,
	`{"op":"RandomPhotometricDistort","brightness":[0.8,1.1],"contrast":[0.5,2],"saturation":[0.5,1.5],"hue":[-0.1,0.1],"p":0.5}`,
	`{"op":"RandomZoomOut","fill":3,"mask_fill":4,"side_range":[1,2],"p":1}`, `{"op":"SanitizeBoundingBoxes","min_size":2,"min_area":4}`, `{"op":"ClampBoundingBoxes"}`,
	`{"op":"RandomIoUCrop","min_scale":0.3,"max_scale":1,"min_aspect_ratio":0.5,"max_aspect_ratio":2,"sampler_options":[0,0.5],"trials":3}`,
	`{"op":"ConvertBoundingBoxFormat","format":"xywh"}`, `{"op":"RandomResize","min_size":3,"max_size":9,"interpolation":"bicubic","resampler":"pillow-12"}`,
	`{"op":"ScaleJitter","target_size":[5,6],"scale_range":[0.5,1],"interpolation":"bilinear","resampler":"pillow-13"}`,
	`{"op":"RandomShortestSize","min_size":[4,5],"max_size":9,"interpolation":"bilinear","resampler":"pillow-13"}`,
	`{"op":"FixedSizeCrop","size":[5,6],"fill":3,"mask_fill":4}`, `{"op":"Letterbox","size":[5,6],"fill":3,"mask_fill":4,"interpolation":"bilinear","resampler":"pillow-13"}`,
	`{"op":"AutoAugment","policy":"svhn","interpolation":"bilinear","fill":3}`,
	`{"op":"RandAugment","num_ops":3,"magnitude":5,"num_magnitude_bins":11,"interpolation":"bicubic","fill":[1,2,3]}`,
	`{"op":"TrivialAugmentWide","num_magnitude_bins":31,"interpolation":"nearest","fill":0}`,
	`{"op":"AugMix","severity":3,"mixture_width":2,"chain_depth":2,"alpha":0.5,"all_ops":false,"interpolation":"bilinear","fill":1}`,
	`{"op":"TimmAugment","config":"rand-m9-mstd0.5-inc1","fill":7,"interpolation":"random"}`,
}

// hostileValues are given to every parameter.
var hostileValues = []string{
	`0`, `-1`, `0.5`, `1e9`, `-1e9`, `1e300`, `-1e300`, `1e-320`, `1e999`, `9223372036854775808`, `[]`, `[0]`, `[0,0]`, `[-1,-1]`, `[1e9,1e9]`, `[5,1]`, `[1,2,3,4,5]`,
	`[1e300,1e300]`, `[-1e300,1e300]`, `[0.5,"a"]`, `[null,null]`, `[[1,2],[3,4]]`, `""`, `"x"`, `"` + strings.Repeat("x", 5000) + `"`, `"1"`, `"\u0000"`, `null`, `true`, `{}`, `{"op":"Resize"}`,
	`[{"op":"RandomInvert","p":1e9}]`,
}

// TestHostileParameters gives every parameter of every operation values that make no sense. Each is refused with the parameter's
// name. Or it is taken, and then the transform makes images, or says why it cannot make this one.
func TestHostileParameters(t *testing.T) {
	src := Source{Image: encodePNG(t, randomImage(13, 11, 1), 13, 11)}
	engine, seen, taken, refused := NewEngine(kernel.Active()), map[string]bool{}, 0, 0
	for _, text := range everyOperation {
		op := testenv.FromJSON[map[string]json.RawMessage](t, text)
		seen[strings.Trim(string(op["op"]), `"`)] = true
		for name, own := range op {
			for _, value := range hostileValues {
				op[name] = json.RawMessage(value)
				changed, err := json.Marshal(op)
				if err != nil {
					changed = []byte(strings.Replace(text, `"`+name+`":`+string(own), `"`+name+`":`+value, 1)) // no JSON
				}
				views, err := ParseViews("["+string(changed)+`,{"op":"CenterCrop","size":7}]`, Pillow13)
				if err != nil {
					refused++
					checkRefusal(t, string(changed), name, err)
				} else if value == "[null,null]" {
					t.Errorf("%s is taken", changed)
				} else if views.OutputBytes() < 1<<16 {
					taken++
					applyHostile(t, engine, views, src)
				}
			}
			op[name] = own
		}
	}
	for _, name := range operationNames() {
		testenv.Check(t, seen[name], "%s is not tried", name)
	}
	testenv.Check(t, taken > 0 && refused > 0, "%d values were taken, %d refused: both are to be tested", taken, refused)
}

// checkRefusal: an error of a value says which parameter it is of.
func checkRefusal(t *testing.T, text, name string, err error) {
	t.Helper()
	said := testenv.As[*SpecError](t, err).Error()
	if name != "op" && !strings.Contains(said, name) && !strings.Contains(said, "not valid JSON") {
		t.Errorf("%s: the error does not name %s: %v", text, name, err)
	} else if len(said) > 1500 || strings.Contains(said, "\x00") {
		t.Errorf("%s: an error of %d bytes: %q", text, len(said), said)
	}
}

func applyHostile(t *testing.T, engine *Engine, views Views, src Source) {
	t.Helper()
	for index := range 3 {
		made := make([]View, len(views))
		for v, spec := range views {
			made[v] = View{Spec: spec, Dst: Output{Pix: make([]byte, spec.OutputBytes())}, RNG: views.RNG(1, 1, index, 0, v)}
		}
		if err := engine.ApplyViews(src, made); err != nil {
			testenv.As[*SizeError](t, err)
		}
	}
}

// TestHostileNumbers puts numbers that JSON has not into every field of an operation: Go programs can give them.
func TestHostileNumbers(t *testing.T) {
	tried := 0
	for _, text := range everyOperation {
		ops := testenv.Must(parseNested([]byte("["+text+"]"), parameters{}))(t)
		for i := range reflect.TypeOf(ops[0]).NumField() {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				op := reflect.New(reflect.TypeOf(ops[0])).Elem()
				op.Set(reflect.ValueOf(ops[0]))
				if !op.Field(i).CanSet() || !setFloats(op.Field(i), bad) {
					continue
				}
				tried++
				spec, err := newViews(CenterCrop{Size: Size{9}}, op.Interface().(Op), CenterCrop{Size: Size{7}})
				if field := op.Type().Field(i).Name; field == "Fill" {
					if err == nil {
						applyHostile(t, NewEngine(kernel.Active()), spec, Source{Image: encodePNG(t, randomImage(13, 11, 1), 13, 11)})
					}
				} else if err == nil {
					t.Errorf("%s with %s of %v is taken: %s", text, field, bad, spec)
				}
			}
		}
	}
	testenv.Check(t, tried >= 50, "%d numbers were tried", tried)
}

// setFloats sets all real numbers that a value holds, and reports whether there are some.
func setFloats(v reflect.Value, x float64) bool {
	switch v.Kind() {
	case reflect.Float64, reflect.Float32:
		v.SetFloat(x)
		return true
	case reflect.Array, reflect.Slice:
		if v.Kind() == reflect.Slice {
			v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v)) // the other value keeps its own
		}
		set := false
		for i := range v.Len() {
			set = setFloats(v.Index(i), x) || set
		}
		return set
	case reflect.Pointer:
		if v.IsNil() {
			return false
		}
		p := reflect.New(v.Type().Elem())
		p.Elem().Set(v.Elem())
		v.Set(p)
		return setFloats(p.Elem(), x)
	}
	return false
}

// TestHostileViews: too many views, and lists that are nested, large or empty.
func TestHostileViews(t *testing.T) {
	for text, want := range map[string]string{
		`{"views": [` + strings.TrimSuffix(strings.Repeat(`"eval",`, 100), ",") + `]}`: "at least 65 views, want at most 64",
		`{"views": [{"repeat": 100, "ops": "eval"}]}`:                                  "repeat is 100, want a whole number from 1 to 64",
		`{"views": [{"repeat": -1, "ops": "eval"}]}`:                                   "repeat is -1",
		`{"views": [{"repeat": 1e30, "ops": "eval"}]}`:                                 "repeat is 1e30, want a whole number",
		`{"views": [{"repeat": "2", "ops": "eval"}]}`:                                  `repeat is "2", want a whole number`,
		`{"views": null}`:   "no views",
		`{"views": [null]}`: `unknown transform "null"`,
		`{"views": [[]]}`:   "no operations",
		`{"views": [{}]}`:   "ops is missing",
		"[" + strings.TrimSuffix(strings.Repeat(`{"op":"RandomInvert"},`, 40), ",") + "]": "40 operations, want at most 32",
		strings.Repeat("[", 100000): "not valid JSON",
	} {
		_, err := ParseViews(text, Pillow13)
		testenv.Says(t, text, err, want)
		testenv.Check(t, len(fmt.Sprint(err)) <= 1500, "%.60s: an error of %d bytes", text, len(fmt.Sprint(err)))
	}
}
