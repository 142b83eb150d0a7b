package transform

// What torchvision's policies do to an image, one of them at a time with one magnitude (autoaugment.py).

// An augmentation is one of torchvision's operations of policies, by its name there.
type augmentation string

// augment is torchvision's _apply_op.
func (c *canvas) augment(a augmentation, magnitude float64, how Interpolation, fill Fill) error {
	switch a {
	case "ShearX":
		return c.affine(affineParams{scale: 1, shear: [2]float64{atanDegrees(magnitude), 0}, center: &[2]float64{}}, how, fill)
	case "ShearY":
		return c.affine(affineParams{scale: 1, shear: [2]float64{0, atanDegrees(magnitude)}, center: &[2]float64{}}, how, fill)
	case "TranslateX":
		return c.affine(affineParams{scale: 1, translate: [2]float64{float64(int(magnitude)), 0}}, how, fill)
	case "TranslateY":
		return c.affine(affineParams{scale: 1, translate: [2]float64{0, float64(int(magnitude))}}, how, fill)
	case "Rotate":
		return c.rotate(magnitude, how, false, nil, fill)
	case "Brightness":
		return c.brightness(1 + magnitude)
	case "Color":
		return c.saturation(1 + magnitude)
	case "Contrast":
		return c.contrast(1 + magnitude)
	case "Sharpness":
		return c.sharpness(1 + magnitude)
	case "Posterize":
		return c.posterize(int(magnitude))
	case "Solarize":
		return c.solarize(magnitude)
	case "AutoContrast":
		return c.autocontrast()
	case "Equalize":
		return c.equalize()
	case "Invert":
		return c.invert()
	}
	return nil
}

// A space is what a policy chooses from, and the greatest magnitude of each: torchvision's _augmentation_space.
type space struct {
	augmentations   []augmentation
	shear           float64
	translate       float64
	share           bool // translate is a share of the image's side, not a number of pixels
	rotate          float64
	enhance         float64
	bits, bitsFewer float64 // that posterize keeps at the least magnitude, and how many fewer at the greatest
}

var (
	geometry = []augmentation{"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"}

	randSpace = space{
		augmentations: append(append([]augmentation{"Identity"}, geometry...), "Brightness", "Color", "Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"),
		shear:         0.3, translate: 150. / 331, share: true, rotate: 30, enhance: 0.9, bits: 8, bitsFewer: 4,
	}
	wideSpace = space{
		augmentations: randSpace.augmentations,
		shear:         0.99, translate: 32, rotate: 135, enhance: 0.99, bits: 8, bitsFewer: 6,
	}
	mixSpace = space{
		augmentations: append(append([]augmentation{}, geometry...), "Posterize", "Solarize", "AutoContrast", "Equalize", "Brightness", "Color", "Contrast", "Sharpness"),
		shear:         0.3, translate: 1. / 3, share: true, rotate: 30, enhance: 0.9, bits: 4, bitsFewer: 4,
	}
)

// mixFewer is how many augmentations of mixSpace are left without those that AugMix.AllOps takes in.
const mixFewer = 9

// leveled reports whether an augmentation has magnitudes, and signed whether they may be negative.
func (a augmentation) leveled() bool {
	return a != "Identity" && a != "AutoContrast" && a != "Equalize" && a != "Invert"
}

func (a augmentation) signed() bool { return a.leveled() && a != "Posterize" && a != "Solarize" }

// magnitude returns that of place k of bins, for an image of w × h pixels.
func (s *space) magnitude(a augmentation, k, bins, w, h int) float64 {
	switch a {
	case "ShearX", "ShearY":
		return spaced32(0, s.shear, k, bins)
	case "TranslateX", "TranslateY":
		most := s.translate
		if side := h; s.share {
			if a == "TranslateX" {
				side = w
			}
			most *= float64(side)
		}
		return spaced32(0, most, k, bins)
	case "Rotate":
		return spaced32(0, s.rotate, k, bins)
	case "Brightness", "Color", "Contrast", "Sharpness":
		return spaced32(0, s.enhance, k, bins)
	case "Posterize":
		return s.bits - float64(roundToInt(float64(float32(k)/float32(float64(bins-1)/s.bitsFewer))))
	case "Solarize":
		return spaced32(255, 0, k, bins)
	}
	return 0
}

// spaced32 is torch.linspace(low, high, bins)[k], in its float32: from both ends to the middle.
func spaced32(low, high float64, k, bins int) float64 {
	from, to := float32(low), float32(high)
	step := (to - from) / float32(bins-1)
	if k < bins/2 {
		return float64(from + float32(step*float32(k)))
	}
	return float64(to - float32(step*float32(bins-k-1)))
}

// drawn augments the image by place k of bins, with a sign that is drawn where there is one.
func (c *canvas) drawn(s *space, a augmentation, k, bins int, how Interpolation, fill Fill) error {
	w, h := c.size()
	magnitude := s.magnitude(a, k, bins, w, h)
	if a.signed() && c.draws.below(2) == 1 {
		magnitude = -magnitude
	}
	return c.augment(a, magnitude, how, fill)
}

// binsMax bounds the number of magnitudes.
const binsMax = 1 << 20
