package transform_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"

	"github.com/imgfeed/imgfeed/transform"
)

// gradient returns a PNG file of 500 × 375 pixels.
func gradient() []byte {
	m := image.NewNRGBA(image.Rect(0, 0, 500, 375))
	for y := range 375 {
		for x := range 500 {
			m.SetNRGBA(x, y, color.NRGBA{uint8(x / 2), uint8(y / 2), uint8((x + y) / 4), 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// A file is decoded, resized and cropped as torchvision's evaluation transform does it.
func Example() {
	spec, err := transform.NewSpec(
		transform.Resize{Size: transform.Size{256}},
		transform.CenterCrop{Size: transform.Size{224}},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	engine := transform.NewEngine(transform.ActiveLevel())
	out := transform.Output{Pix: make([]byte, spec.OutputBytes()), Layout: transform.NHWC}
	params, err := engine.Apply(spec, out, transform.Source{Image: gradient()}, transform.RNG{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d bytes; the crop begins at row %d, column %d of the resized image\n", len(out.Pix), params.Top, params.Left)
	fmt.Println("the pixel in the middle:", out.Pix[(112*224+112)*3:][:3])
	// Output:
	// 150528 bytes; the crop begins at row 16, column 58 of the resized image
	// the pixel in the middle: [125 94 109]
}

// The draws of a sample depend on the seed, the epoch and the sample's index, and on nothing else.
func ExampleNewRNG() {
	spec, err := transform.Parse("train")
	if err != nil {
		fmt.Println(err)
		return
	}
	engine := transform.NewEngine(transform.ActiveLevel())
	out := transform.Output{Pix: make([]byte, spec.OutputBytes())}
	for epoch := range 3 {
		p, err := engine.Apply(spec, out, transform.Source{Image: gradient()}, transform.NewRNG(42, epoch, 7))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("epoch %d: %d×%d pixels from row %d, column %d; flipped: %v\n", epoch, p.Width, p.Height, p.Top, p.Left, p.Flip)
	}
	// Output:
	// epoch 0: 215×215 pixels from row 104, column 53; flipped: true
	// epoch 1: 274×313 pixels from row 45, column 206; flipped: false
	// epoch 2: 415×342 pixels from row 27, column 24; flipped: false
}

// A transform is a preset's name or a list of operations; what it leaves out has torchvision's defaults.
func ExampleParse() {
	spec, err := transform.Parse(`[{"op": "RandomResizedCrop", "size": 160, "scale": [0.35, 1]}, {"op": "RandomHorizontalFlip"}]`)
	if err != nil {
		fmt.Println(err)
		return
	}
	height, width := spec.OutputSize()
	fmt.Println(height, width, spec.Random())
	for _, op := range spec.Ops() {
		fmt.Println(transform.TextOf(op))
	}
	_, err = transform.Parse(`[{"op": "CenterCrop", "size": 224, "fill": 0}]`)
	fmt.Println(err)
	// Output:
	// 160 160 true
	// {"op": "RandomResizedCrop", "size": [160, 160], "scale": [0.35, 1], "ratio": [0.75, 1.3333333333333333], "interpolation": "bilinear", "resampler": "pillow-13"}
	// {"op": "RandomHorizontalFlip", "p": 0.5}
	// transform: operation 0 (CenterCrop): no parameter "fill", want one of size
}
