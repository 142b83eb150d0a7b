package transform

import (
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/transform/internal/pointwise"
)

// Naive operations on colours: drawn as documented, and done one by one by package pointwise, whose own tests compare it with Pillow.

var plainAdjuster = pointwise.New(kernel.Generic)

func (o RandomInvert) naive(m *naiveImage, d *RNG) error {
	if d.unit() < o.P {
		plainAdjuster.Invert(m.pix, m.pix)
	}
	return nil
}

func (Grayscale) naive(m *naiveImage, _ *RNG) error {
	plainAdjuster.Gray(m.pix, m.pix)
	return nil
}

func (o RandomGrayscale) naive(m *naiveImage, d *RNG) error {
	if d.unit() < o.P {
		plainAdjuster.Gray(m.pix, m.pix)
	}
	return nil
}

func (o RandomAutocontrast) naive(m *naiveImage, d *RNG) error {
	if d.unit() < o.P {
		plainAdjuster.Autocontrast(m.pix, m.pix)
	}
	return nil
}

func (o RandomEqualize) naive(m *naiveImage, d *RNG) error {
	if d.unit() < o.P {
		plainAdjuster.Equalize(m.pix, m.pix)
	}
	return nil
}

func (o RandomPosterize) naive(m *naiveImage, d *RNG) error {
	if d.unit() < o.P {
		plainAdjuster.Posterize(m.pix, m.pix, o.Bits)
	}
	return nil
}

func (o RandomSolarize) naive(m *naiveImage, d *RNG) error {
	if d.unit() < o.P {
		for i, v := range m.pix {
			if float64(v) >= o.Threshold {
				m.pix[i] = 255 - v
			}
		}
	}
	return nil
}

func (m *naiveImage) sharpness(factor float64) {
	out := make([]byte, len(m.pix))
	plainAdjuster.Sharpness(out, m.pix, m.w, m.h, float32(factor))
	m.pix = out
}

func (o RandomAdjustSharpness) naive(m *naiveImage, d *RNG) error {
	if d.unit() < o.P {
		m.sharpness(o.Factor)
	}
	return nil
}

func (o ColorJitter) naive(m *naiveImage, d *RNG) error {
	order := []int{0, 1, 2, 3}
	for i := 3; i > 0; i-- {
		j := d.below(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	var factor [4]float64
	ranges := []*[2]float64{o.Brightness, o.Contrast, o.Saturation, o.Hue}
	for i, r := range ranges {
		if r != nil {
			factor[i] = r[0] + (r[1]-r[0])*d.unit()
		}
	}
	for _, i := range order {
		switch {
		case ranges[i] == nil:
		case i == 0:
			plainAdjuster.Brightness(m.pix, m.pix, float32(factor[0]))
		case i == 1:
			plainAdjuster.Contrast(m.pix, m.pix, float32(factor[1]))
		case i == 2:
			plainAdjuster.Saturation(m.pix, m.pix, float32(factor[2]))
		case i == 3:
			plainAdjuster.Hue(m.pix, m.pix, uint8(int(factor[3]*255)))
		}
	}
	return nil
}

// colourSpecs have operations that change pixels in memory at every place of a transform.
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

func TestColourMatchesNaive(t *testing.T) {
	for _, level := range kernel.Available() {
		engine := NewEngine(level)
		for s, size := range [][2]int{{50, 37}, {32, 32}, {19, 64}} {
			w, h := size[0], size[1]
			pix := randomImage(w, h, uint64(s))
			for _, text := range append(colourSpecs, controlSpecs...) {
				compareWithNaive(t, engine, mustParse(text), []Source{{Image: encodePNG(t, pix, w, h)}}, pix, w, h)
			}
		}
	}
}

func TestColourDoesNotAllocate(t *testing.T) {
	data, index := encodeJPEG(t, randomImage(100, 80, 1), 100, 80)
	engine := NewEngine(kernel.Active())
	for _, text := range append(colourSpecs, controlSpecs...) {
		spec, i := mustParse(text), 0
		dst := Output{Pix: make([]byte, spec.OutputBytes())}
		run := func() {
			i++
			if _, err := engine.Apply(spec, dst, Source{Image: data, Aux: index}, NewRNG(1, 1, i%50)); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			run()
		}
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: %v allocations an image", text, n)
		}
	}
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
		if got := TextOf(op); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}
