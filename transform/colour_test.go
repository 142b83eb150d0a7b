package transform

import (
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

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
		op := mustParse(`[{"op":"CenterCrop","size":1},` + text + `]`).ops[1]
		testenv.Equal(t, TextOf(op), want, "%s", text)
	}
}
