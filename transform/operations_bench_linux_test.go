package transform

import (
	"syscall"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// benchmarked are operations with nothing left to chance, by the names that bench/peers/operations.py has for them.
var benchmarked = []struct{ name, op string }{
	{"invert", `{"op":"RandomInvert","p":1}`},
	{"posterize", `{"op":"RandomPosterize","bits":3,"p":1}`},
	{"solarize", `{"op":"RandomSolarize","threshold":100,"p":1}`},
	{"rgb_to_grayscale", `{"op":"Grayscale","num_output_channels":3}`},
	{"adjust_brightness", `{"op":"ColorJitter","brightness":[1.3,1.3]}`},
	{"adjust_contrast", `{"op":"ColorJitter","contrast":[0.6,0.6]}`},
	{"adjust_saturation", `{"op":"ColorJitter","saturation":[1.4,1.4]}`},
	{"adjust_hue", `{"op":"ColorJitter","hue":[0.1,0.1]}`},
	{"adjust_sharpness", `{"op":"RandomAdjustSharpness","sharpness_factor":1.8,"p":1}`},
	{"autocontrast", `{"op":"RandomAutocontrast","p":1}`},
	{"equalize", `{"op":"RandomEqualize","p":1}`},
	{"vflip", `{"op":"RandomVerticalFlip","p":1}`},
	{"rotate, nearest", `{"op":"RandomRotation","degrees":[23,23]}`},
	{"rotate, bilinear", `{"op":"RandomRotation","degrees":[23,23],"interpolation":"bilinear"}`},
	{"affine, nearest", `{"op":"RandomAffine","degrees":[0,0],"shear":[13,13]}`},
	{"affine, bilinear", `{"op":"RandomAffine","degrees":[0,0],"shear":[13,13],"interpolation":"bilinear"}`},
	{"affine, bicubic", `{"op":"RandomAffine","degrees":[0,0],"shear":[13,13],"interpolation":"bicubic"}`},
	{"gaussian_blur 23", `{"op":"GaussianBlur","kernel_size":23,"sigma":[1.2,1.2]}`},
	{"Pillow's GaussianBlur 1.2", `{"op":"PILGaussianBlur","radius":[1.2,1.2],"p":1}`},
	{"RandAugment", `{"op":"RandAugment"}`},
	{"TrivialAugmentWide", `{"op":"TrivialAugmentWide"}`},
	{"AutoAugment", `{"op":"AutoAugment"}`},
	{"AugMix", `{"op":"AugMix"}`},
	{"rand-m9-mstd0.5-inc1", `{"op":"TimmAugment","config":"rand-m9-mstd0.5-inc1"}`},
}

// BenchmarkOperations does each to an image of 224 × 224 pixels that lies in memory, and that is copied there before. It reports the
// process's CPU time, too, which on a busy machine is less than what passes.
func BenchmarkOperations(b *testing.B) {
	src := randomImage(224, 224, 1)
	for _, c := range benchmarked {
		op := mustParse(`[{"op":"CenterCrop","size":224},` + c.op + `]`).ops[1]
		engine, index := NewEngine(kernel.Active()), 0
		b.Run(c.name, func(b *testing.B) {
			started := cpuTime(b)
			for b.Loop() {
				index++
				engine.between[0].Resize(224, 224)
				copy(engine.between[0].Pix, src)
				c := &engine.canvas
				*c = canvas{engine: engine, op: op, draws: NewDraws(1, 1, index), from: &engine.between[0], step: wholeImage(224, 224), rendered: 1}
				if err := op.apply(c); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-started)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime returns what the process has used so far, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
