package transform

import "slices"

// A preset is a name for the text of a transform.
type preset struct{ name, text string }

// presets are the named transforms, in the order of the documents. Operations that resize take the caller's resampler.
var presets = []preset{
	{"eval", `[{"op": "Resize", "size": 256}, {"op": "CenterCrop", "size": 224}]`},
	{"train", `[{"op": "RandomResizedCrop", "size": 224}, {"op": "RandomHorizontalFlip"}]`},
	{"train-resize", `[{"op": "Resize", "size": 256}, {"op": "RandomCrop", "size": 224}, {"op": "RandomHorizontalFlip"}]`},
	{"cifar", `[{"op": "RandomCrop", "size": 32, "padding": 4}, {"op": "RandomHorizontalFlip"}]`},
	// Peterande/D-FINE, configs/dfine/include/dataloader.yml, and RT-DETRv2's.
	{"detection", `[{"op": "RandomPhotometricDistort", "p": 0.5}, {"op": "RandomZoomOut"},
		{"op": "RandomApply", "p": 0.8, "transforms": [{"op": "RandomIoUCrop"}]}, {"op": "SanitizeBoundingBoxes"},
		{"op": "RandomHorizontalFlip"}, {"op": "Resize", "size": [640, 640]}, {"op": "SanitizeBoundingBoxes"}]`},
	// pytorch/vision, references/detection, preset ssd, with the resize of the model.
	{"ssd300", `[{"op": "RandomPhotometricDistort"}, {"op": "RandomZoomOut", "fill": [123, 117, 104]}, {"op": "RandomIoUCrop"},
		{"op": "RandomHorizontalFlip"}, {"op": "Resize", "size": [300, 300]}, {"op": "SanitizeBoundingBoxes"}]`},
	// pytorch/vision, references/detection, preset lsj.
	{"lsj1024", `[{"op": "ScaleJitter", "target_size": [1024, 1024]}, {"op": "FixedSizeCrop", "size": [1024, 1024], "fill": [123, 117, 104],
		"mask_fill": 255}, {"op": "RandomHorizontalFlip"}, {"op": "SanitizeBoundingBoxes"}]`},
	// pytorch/vision, references/segmentation.
	{"segmentation", `[{"op": "RandomResize", "min_size": 260, "max_size": 1040}, {"op": "RandomHorizontalFlip"},
		{"op": "RandomCrop", "size": 480, "pad_if_needed": true, "mask_fill": 255}]`},
	{"segmentation-eval", `[{"op": "Resize", "size": [520, 520]}]`},
}

// viewPresets are the named transforms with several views, in the order of the documents. They come from the programs
// published by the papers' authors, or from the paper where it gives all numbers.
var viewPresets = []preset{
	// Chen et al., arXiv:2002.05709, appendix A, with strength 1.
	{"simclr", `{"views": [{"repeat": 2, "ops": [{"op": "RandomResizedCrop", "size": 224}, {"op": "RandomHorizontalFlip"},
		{"op": "RandomApply", "p": 0.8, "transforms": [{"op": "ColorJitter", "brightness": 0.8, "contrast": 0.8,
		"saturation": 0.8, "hue": 0.2}]},
		{"op": "RandomGrayscale", "p": 0.2},
		{"op": "RandomApply", "p": 0.5, "transforms": [{"op": "GaussianBlur", "kernel_size": 23, "sigma": [0.1, 2]}]}]}]}`},
	// Grill et al., arXiv:2006.07733, appendix B.
	{"byol", `{"views": [
		[{"op": "RandomResizedCrop", "size": 224, "interpolation": "bicubic"}, {"op": "RandomHorizontalFlip"},
		` + softJitter + `, {"op": "GaussianBlur", "kernel_size": 23, "sigma": [0.1, 2]}],
		[{"op": "RandomResizedCrop", "size": 224, "interpolation": "bicubic"}, {"op": "RandomHorizontalFlip"},
		` + softJitter + `, {"op": "RandomApply", "p": 0.1, "transforms": [{"op": "GaussianBlur", "kernel_size": 23, "sigma": [0.1, 2]}]},
		{"op": "RandomSolarize", "threshold": 128, "p": 0.2}]]}`},
	// github.com/facebookresearch/moco-v3, main_moco.py, with its --crop-min.
	{"moco-v3", `{"views": [
		[{"op": "RandomResizedCrop", "size": 224}, ` + softJitter + `, {"op": "PILGaussianBlur", "p": 1}, {"op": "RandomHorizontalFlip"}],
		[{"op": "RandomResizedCrop", "size": 224}, ` + softJitter + `, {"op": "PILGaussianBlur", "p": 0.1},
		{"op": "RandomSolarize", "threshold": 128, "p": 0.2}, {"op": "RandomHorizontalFlip"}]]}`},
	// github.com/facebookresearch/dino, main_dino.py.
	{"dino", `{"views": [
		[{"op": "RandomResizedCrop", "size": 224, "scale": [0.4, 1], "interpolation": "bicubic"}, {"op": "RandomHorizontalFlip"},
		` + softJitter + `, {"op": "PILGaussianBlur", "p": 1}],
		[{"op": "RandomResizedCrop", "size": 224, "scale": [0.4, 1], "interpolation": "bicubic"}, {"op": "RandomHorizontalFlip"},
		` + softJitter + `, {"op": "PILGaussianBlur", "p": 0.1}, {"op": "RandomSolarize", "threshold": 128, "p": 0.2}],
		{"repeat": 8, "ops": [{"op": "RandomResizedCrop", "size": 96, "scale": [0.05, 0.4], "interpolation": "bicubic"},
		{"op": "RandomHorizontalFlip"}, ` + softJitter + `, {"op": "PILGaussianBlur", "p": 0.5}]}]}`},
	// github.com/facebookresearch/dinov2, data/augmentations.py with configs/ssl_default_config.yaml.
	{"dinov2", `{"views": [
		[{"op": "RandomResizedCrop", "size": 224, "scale": [0.32, 1], "interpolation": "bicubic"}, {"op": "RandomHorizontalFlip"},
		` + softJitter + `, {"op": "GaussianBlur", "kernel_size": 9, "sigma": [0.1, 2]}],
		[{"op": "RandomResizedCrop", "size": 224, "scale": [0.32, 1], "interpolation": "bicubic"}, {"op": "RandomHorizontalFlip"},
		` + softJitter + `, {"op": "RandomApply", "p": 0.1, "transforms": [{"op": "GaussianBlur", "kernel_size": 9, "sigma": [0.1, 2]}]},
		{"op": "RandomSolarize", "threshold": 128, "p": 0.2}],
		{"repeat": 8, "ops": [{"op": "RandomResizedCrop", "size": 96, "scale": [0.05, 0.32], "interpolation": "bicubic"},
		{"op": "RandomHorizontalFlip"}, ` + softJitter + `,
		{"op": "RandomApply", "p": 0.5, "transforms": [{"op": "GaussianBlur", "kernel_size": 9, "sigma": [0.1, 2]}]}]}]}`},
}

// softJitter is the jitter of BYOL and of all later papers; SimCLR's is stronger.
const softJitter = `{"op": "RandomApply", "p": 0.8, "transforms": [
		{"op": "ColorJitter", "brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.1}]},
		{"op": "RandomGrayscale", "p": 0.2}`

// Presets returns the names of the presets, in the order of the documents.
func Presets() []string { return namesOf(presets) }

// ViewPresets returns the names of the presets with several views, in the order of the documents.
func ViewPresets() []string { return namesOf(viewPresets) }

func namesOf(list []preset) []string {
	var names []string
	for _, p := range list {
		names = append(names, p.name)
	}
	return names
}

// textOf returns the text of the preset with this name, or "" if the list has no such preset.
func textOf(list []preset, name string) string {
	if i := slices.IndexFunc(list, func(p preset) bool { return p.name == name }); i >= 0 {
		return list[i].text
	}
	return ""
}
