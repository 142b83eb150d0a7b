package transform

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

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
		var op map[string]json.RawMessage
		testenv.OK(t, json.Unmarshal([]byte(text), &op))
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
