package transform

// The policies and sets of operations of timm.data.auto_augment (1.0).

// timmPolicies returns the policies of a name, or nil.
func timmPolicies(name string) [][]policyStep {
	switch name {
	case "v0":
		return timmV0("Posterize")
	case "v0r":
		return timmV0("PosterizeIncreasing")
	case "original":
		return imagenetPolicies("PosterizeOriginal")
	case "originalr":
		return imagenetPolicies("PosterizeIncreasing")
	case "3a":
		return [][]policyStep{{{"Solarize", 1, 5}}, {{"Desaturate", 1, 10}}, {{"GaussianBlurRand", 1, 10}}}
	}
	return nil
}

// timmV0 is the policy of TPU's EfficientNet.
func timmV0(posterize string) [][]policyStep {
	return [][]policyStep{
		{{"Equalize", 0.8, 1}, {"ShearY", 0.8, 4}},
		{{"Color", 0.4, 9}, {"Equalize", 0.6, 3}},
		{{"Color", 0.4, 1}, {"Rotate", 0.6, 8}},
		{{"Solarize", 0.8, 3}, {"Equalize", 0.4, 7}},
		{{"Solarize", 0.4, 2}, {"Solarize", 0.6, 2}},
		{{"Color", 0.2, 0}, {"Equalize", 0.8, 8}},
		{{"Equalize", 0.4, 8}, {"SolarizeAdd", 0.8, 3}},
		{{"ShearX", 0.2, 9}, {"Rotate", 0.6, 8}},
		{{"Color", 0.6, 1}, {"Equalize", 1, 2}},
		{{"Invert", 0.4, 9}, {"Rotate", 0.6, 0}},
		{{"Equalize", 1, 9}, {"ShearY", 0.6, 3}},
		{{"Color", 0.4, 7}, {"Equalize", 0.6, 0}},
		{{posterize, 0.4, 6}, {"AutoContrast", 0.4, 7}},
		{{"Solarize", 0.6, 8}, {"Color", 0.6, 9}},
		{{"Solarize", 0.2, 4}, {"Rotate", 0.8, 9}},
		{{"Rotate", 1, 7}, {"TranslateYRel", 0.8, 9}},
		{{"ShearX", 0, 0}, {"Solarize", 0.8, 4}},
		{{"ShearY", 0.8, 0}, {"Color", 0.6, 4}},
		{{"Color", 1, 0}, {"Rotate", 0.6, 2}},
		{{"Equalize", 0.8, 4}, {"Equalize", 0, 8}},
		{{"Equalize", 1, 4}, {"AutoContrast", 0.6, 2}},
		{{"ShearY", 0.4, 7}, {"SolarizeAdd", 0.6, 7}},
		{{posterize, 0.8, 2}, {"Solarize", 0.6, 10}},
		{{"Solarize", 0.6, 8}, {"Equalize", 0.6, 1}},
		{{"Color", 0.8, 6}, {"Rotate", 0.4, 5}},
	}
}

// policySteps are rand's operations.
var policySteps = []string{
	"AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "Solarize", "SolarizeAdd", "Color",
	"Contrast", "Brightness", "Sharpness", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel",
}

// timmIncreasing are rand's operations with inc1.
var timmIncreasing = []string{
	"AutoContrast", "Equalize", "Invert", "Rotate", "PosterizeIncreasing", "SolarizeIncreasing",
	"SolarizeAdd", "ColorIncreasing", "ContrastIncreasing", "BrightnessIncreasing",
	"SharpnessIncreasing", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel",
}

// timmMixSteps are augmix's operations.
var timmMixSteps = []string{
	"AutoContrast", "ColorIncreasing", "ContrastIncreasing", "BrightnessIncreasing",
	"SharpnessIncreasing", "Equalize", "Rotate", "PosterizeIncreasing", "SolarizeIncreasing",
	"ShearX", "ShearY", "TranslateXRel", "TranslateYRel",
}
