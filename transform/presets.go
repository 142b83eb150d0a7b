package transform

// presets are the named transforms, in the order in which they are documented. An operation that resizes has the
// resampler of whoever asks for the preset.
var presets = []struct{ name, ops string }{
	{"eval", `[{"op": "Resize", "size": 256}, {"op": "CenterCrop", "size": 224}]`},
	{"train", `[{"op": "RandomResizedCrop", "size": 224}, {"op": "RandomHorizontalFlip"}]`},
	{"train-resize", `[{"op": "Resize", "size": 256}, {"op": "RandomCrop", "size": 224}, {"op": "RandomHorizontalFlip"}]`},
	{"cifar", `[{"op": "RandomCrop", "size": 32, "padding": 4}, {"op": "RandomHorizontalFlip"}]`},
}

// Presets returns the names of the presets, in the order in which they are documented.
func Presets() []string {
	var names []string
	for _, p := range presets {
		names = append(names, p.name)
	}
	return names
}

// preset returns the operations of a named transform, "" if there is none.
func preset(name string) string {
	for _, p := range presets {
		if p.name == name {
			return p.ops
		}
	}
	return ""
}

// viewPresets are the named transforms with several views, in the order in which they are documented.
var viewPresets = []struct{ name, views string }{}

// ViewPresets returns the names of the presets with several views, in the order in which they are documented.
func ViewPresets() []string {
	var names []string
	for _, p := range viewPresets {
		names = append(names, p.name)
	}
	return names
}

// viewPreset returns the views of a named transform, "" if there is none.
func viewPreset(name string) string {
	for _, p := range viewPresets {
		if p.name == name {
			return p.views
		}
	}
	return ""
}
