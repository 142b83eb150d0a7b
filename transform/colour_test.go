package transform

import (
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pointwise"
)

// Naive operations on colours, with the arithmetic of package pointwise, which its own tests compare with Pillow.

func (m *naiveImage) each(change func(p []byte)) {
	for i := 0; i < len(m.pix); i += 3 {
		change(m.pix[i : i+3])
	}
}

func (m *naiveImage) grey() {
	m.each(func(p []byte) {
		l := pointwise.Luma(p[0], p[1], p[2])
		p[0], p[1], p[2] = l, l, l
	})
}

func (o RandomInvert) naive(m *naiveImage, d *Draws) error {
	if d.unit() < o.P {
		m.each(func(p []byte) { p[0], p[1], p[2] = 255-p[0], 255-p[1], 255-p[2] })
	}
	return nil
}

func (Grayscale) naive(m *naiveImage, _ *Draws) error {
	m.grey()
	return nil
}

func (o RandomGrayscale) naive(m *naiveImage, d *Draws) error {
	if d.unit() < o.P {
		m.grey()
	}
	return nil
}

func (o RandomAdjustSharpness) naive(m *naiveImage, d *Draws) error {
	if d.unit() < o.P {
		out := make([]byte, len(m.pix))
		pointwise.Sharpen(out, m.pix, m.w, m.h, float32(o.Factor))
		m.pix = out
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
}

func TestColourMatchesNaive(t *testing.T) {
	for _, level := range kernel.Available() {
		engine := NewEngine(level)
		for s, size := range [][2]int{{50, 37}, {32, 32}, {19, 64}} {
			w, h := size[0], size[1]
			pix := randomImage(w, h, uint64(s))
			for _, text := range colourSpecs {
				compareWithNaive(t, engine, mustParse(text), []Source{{Image: encodePNG(t, pix, w, h)}}, pix, w, h)
			}
		}
	}
}

func TestColourDoesNotAllocate(t *testing.T) {
	data, index := encodeJPEG(t, randomImage(100, 80, 1), 100, 80)
	engine := NewEngine(kernel.Active())
	for _, text := range colourSpecs {
		spec, i := mustParse(text), 0
		dst := Output{Pix: make([]byte, spec.OutputBytes())}
		run := func() {
			i++
			if _, err := engine.Apply(spec, dst, Source{Image: data, Aux: index}, NewDraws(1, 1, i%50)); err != nil {
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
