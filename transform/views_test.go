package transform

import (
	"bytes"
	"fmt"
	"image"
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

func mustParseViews(t testing.TB, text string) Views {
	t.Helper()
	return testenv.Must(ParseViews(text, Pillow13))(t)
}

// makeViews returns what an engine is asked for, with memory of its own.
func makeViews(views Views, layout resample.Layout, index int) []View {
	made := make([]View, len(views))
	for v, spec := range views {
		made[v] = View{Spec: spec, Dst: Output{Pix: make([]byte, spec.OutputBytes()), Layout: layout}, RNG: NewViewRNG(7, 1, index, 0, v)}
	}
	return made
}

const dinoLike = `{"views": [{"repeat": 2, "ops": [{"op":"RandomResizedCrop","size":64,"scale":[0.4,1]},{"op":"RandomHorizontalFlip"},{"op":"ColorJitter","brightness":0.4,"hue":0.1}]},
	{"repeat": 8, "ops": [{"op":"RandomResizedCrop","size":24,"scale":[0.05,0.4]},{"op":"RandomHorizontalFlip"},{"op":"RandomSolarize","threshold":128,"p":0.5}]}]}`

var viewSpecs = []string{
	dinoLike,
	`{"views": ["train", "train"]}`,
	`{"views": ["eval", [{"op":"CenterCrop","size":32}], [{"op":"RandomCrop","size":[40,20],"padding":8}]]}`,
	`{"views": [[{"op":"RandomResizedCrop","size":8,"scale":[0.001,0.002]}], [{"op":"RandomResizedCrop","size":8,"scale":[0.001,0.002]}]]}`, // far apart
	`{"views": [[{"op":"RandomInvert"},{"op":"RandomResizedCrop","size":20}], [{"op":"RandomRotation","degrees":30},{"op":"CenterCrop","size":16}], "cifar"]}`,
	`{"views": [[{"op":"CenterCrop","size":4}], [{"op":"RandomCrop","size":8,"padding":2000}]]}`, // one that mostly sees borders
}

// TestViewsAreThoseOfSingleTransforms compares every view with what its transform gives alone, decoded for it.
func TestViewsAreThoseOfSingleTransforms(t *testing.T) {
	engine, alone := NewEngine(kernel.Active()), NewEngine(kernel.Generic)
	shared, apart := 0, 0
	for s, size := range [][2]int{{300, 200}, {97, 260}, {64, 64}} {
		w, h := size[0], size[1]
		pix := randomImage(w, h, uint64(s))
		for _, src := range madeSources(t, pix, w, h) {
			for _, text := range viewSpecs {
				views := mustParseViews(t, text)
				for index := range 6 {
					layout := []resample.Layout{resample.NHWC, resample.NCHW}[index%2]
					made := makeViews(views, layout, index)
					testenv.OK(t, engine.ApplyViews(src, made), "%s of %d×%d", text, w, h)
					if engine.sharedRegion(made, w, h).Empty() {
						apart++
					} else {
						shared++
					}
					for v, got := range made {
						want := make([]byte, len(got.Dst.Pix))
						drawn := testenv.Must(alone.Apply(views[v], Output{Pix: want, Layout: layout}, src, NewViewRNG(7, 1, index, 0, v)))(t)
						testenv.Require(t, drawn == got.Params && bytes.Equal(got.Dst.Pix, want),
							"%s of %d×%d (%v), sample %d: view %d differs from its transform alone", text, w, h, src.Format, index, v)
					}
				}
			}
		}
	}
	testenv.Check(t, shared > 0 && apart > 0, "%d samples were decoded once, %d once a view: both are to be tested", shared, apart)
}

// TestViewsDrawApart checks that equal transforms have other draws, and the first those of the transform alone.
func TestViewsDrawApart(t *testing.T) {
	pix := randomImage(50, 50, 3)
	src, engine := Source{Image: encodePNG(t, pix, 50, 50)}, NewEngine(kernel.Active())
	views := mustParseViews(t, `{"views": [{"repeat": 8, "ops": [{"op":"RandomResizedCrop","size":16}]}]}`)
	made := makeViews(views, resample.NHWC, 4)
	testenv.OK(t, engine.ApplyViews(src, made))
	boxes := map[Params]bool{}
	for _, v := range made {
		boxes[v.Params] = true
	}
	testenv.Equal(t, len(boxes), 8, "boxes of 8 views")
	first := testenv.Must(engine.Apply(views[0], Output{Pix: make([]byte, views[0].OutputBytes())}, src, NewRNG(7, 1, 4)))(t)
	testenv.Equal(t, made[0].Params, first, "the first view, and the transform alone")
}

// TestSharedRegion checks when an image is decoded once: not where two small views lie far apart.
func TestSharedRegion(t *testing.T) {
	w := 1000
	for _, c := range []struct {
		a, b image.Rectangle
		once bool
	}{
		{image.Rect(0, 0, 1000, 1000), image.Rect(400, 400, 500, 500), true},
		{image.Rect(0, 0, 700, 700), image.Rect(300, 300, 1000, 1000), true},
		{image.Rect(0, 0, 500, 500), image.Rect(500, 500, 1000, 1000), false},
		{image.Rect(0, 0, 100, 100), image.Rect(900, 0, 1000, 100), true}, // the same rows
		{image.Rect(0, 0, 100, 100), image.Rect(0, 900, 100, 1000), false},
	} {
		once := decodingWork(c.a.Union(c.b), w) <= decodingWork(c.a, w)+decodingWork(c.b, w)
		testenv.Equal(t, once, c.once, "%v and %v: decoded once", c.a, c.b)
	}
}

func TestViewsParse(t *testing.T) {
	for text, want := range map[string]int{"eval": 1, `"train"`: 1, dinoLike: 10, viewSpecs[2]: 3, `{"views":["eval"]}`: 1} {
		views := mustParseViews(t, text)
		testenv.Equal(t, len(views), want, "%s: views", text)
		readsBack(t, views)
	}
	for text, want := range map[string]string{
		`{"op": "CenterCrop", "size": 3}`:           `an operation must be in a list: [{"op": "CenterCrop", "size": 3}]`,
		`{"views": []}`:                             "no views",
		`{}`:                                        "no views",
		`{"views": "eval"}`:                         `not {"views": [transform, …]}`,
		`{"views": ["eval"], "x": 1}`:               `not {"views": [transform, …]}: unknown field "x"`,
		`{"views": ["eval"]} 1`:                     `not {"views": [transform, …]}: text after the value`,
		`{"views": ["eval", 7]}`:                    `view 1: unknown transform "7"`,
		`{"views": ["eval", "foo"]}`:                `view 1: unknown transform "foo"`,
		`{"views": [{"repeat": 0, "ops": "eval"}]}`: "view 0: repeat is 0, want a whole number from 1 to 64",
		`{"views": [{"repeat": 1000000000, "ops": "eval"}]}`:                        "view 0: repeat is 1000000000",
		`{"views": [{"repeat": 60, "ops": "eval"}, {"repeat": 40, "ops": "eval"}]}`: "at least 100 views, want at most 64",
		`{"views": [{"repeat": 2}]}`:                                                "view 0: ops is missing",
		`{"views": [{"ops": {"views": ["eval"]}}]}`:                                 "view 0: unknown transform \"{\\\"views",
		`{"views": [[{"op":"Resize"}]]}`:                                            "view 0: operation 0 (Resize): ",
		`{"views": [[{"op":"CenterCrop","size":4}], []]}`:                           "view 1: no operations",
		`{"views": [[{"op":"Resize","size":4}]]}`:                                   "view 0: the images would differ in size",
		"foo": `unknown transform "foo"`,
	} {
		testenv.FailsAs[*SpecError](ParseViews(text, Pillow13))(t, "transform: "+want)
	}
}

// TestViewPresets checks the sizes and the number of views, and that each gives its bits with draws of all kinds.
func TestViewPresets(t *testing.T) {
	want := map[string][]int{"simclr": {224, 224}, "byol": {224, 224}, "moco-v3": {224, 224},
		"dino": {224, 224, 96, 96, 96, 96, 96, 96, 96, 96}, "dinov2": {224, 224, 96, 96, 96, 96, 96, 96, 96, 96}}
	data, aux := encodeJPEG(t, randomImage(120, 90, 1), 120, 90)
	engine, alone := NewEngine(kernel.Active()), NewEngine(kernel.Generic)
	for _, name := range ViewPresets() {
		views := mustParseViews(t, name)
		var sizes []int
		for _, spec := range views {
			h, w := spec.OutputSize()
			sizes = append(sizes, h)
			testenv.Equal(t, w, h, "%s: width of a view", name)
		}
		testenv.Equal(t, fmt.Sprint(sizes), fmt.Sprint(want[name]), "%s: sizes of the views", name)
		made := makeViews(views, resample.NHWC, 3)
		testenv.OK(t, engine.ApplyViews(Source{Image: data, Aux: aux}, made))
		for v, got := range made[:min(len(made), 4)] {
			whole := make([]byte, len(got.Dst.Pix))
			testenv.Must(alone.Apply(views[v], Output{Pix: whole}, Source{Image: data}, NewViewRNG(7, 1, 3, 0, v)))(t)
			testenv.Same(t, whole, got.Dst.Pix, "%s: view %d differs from its transform alone", name, v)
		}
		testenv.Fails(Parse(name))(t, "views of an image, but only one is possible here", "%v", name)
	}
	testenv.Equal(t, len(ViewPresets()), len(want), "presets")
}

// TestViewErrors names the view that an image does not fit.
func TestViewErrors(t *testing.T) {
	sources := madeSources(t, randomImage(20, 10, 1), 20, 10)
	views := mustParseViews(t, `{"views": [[{"op":"CenterCrop","size":8}], [{"op":"RandomCrop","size":16}]]}`)
	for _, src := range sources {
		testenv.As[*SizeError](t, NewEngine(kernel.Active()).ApplyViews(src, makeViews(views, resample.NHWC, 0)), "view 1: ")
	}
	data := sources[1].Image
	half := Source{Image: data[:len(data)/2]}
	testenv.As[*ImageError](t, NewEngine(kernel.Active()).ApplyViews(half, makeViews(views[:1], resample.NHWC, 0)))
}

func TestViewsDoNotAllocate(t *testing.T) {
	for _, src := range madeSources(t, randomImage(300, 256, 1), 300, 256)[2:] {
		for _, text := range slices.Concat(viewSpecs[:4], ViewPresets(), []string{`[{"op":"Resize","size":256},{"op":"TenCrop","size":224,"vertical_flip":true}]`}) {
			engine, index, samples := NewEngine(kernel.Active()), 0, 20
			made := makeViews(mustParseViews(t, text), resample.NHWC, 0)
			if made[0].Spec.OutputBytes() == 224*224*3 {
				samples = 6 // which take long
			}
			run := func() {
				for v := range made {
					made[v].RNG = NewViewRNG(1, 1, index%samples, 0, v)
				}
				index++
				testenv.OK(t, engine.ApplyViews(src, made))
			}
			for range samples {
				run()
			}
			testenv.NoAllocations(t, 2*samples, run, "%v %s", src.Format, text)
		}
	}
}

// TestResized compares the text of resized transforms.
func TestResized(t *testing.T) {
	for _, c := range []struct {
		text string
		size int
		want string
	}{
		{"eval", 160, `[{"op": "Resize", "size": 183}, {"op": "CenterCrop", "size": 160}]`},
		{"train", 96, `[{"op": "RandomResizedCrop", "size": 96}, {"op": "RandomHorizontalFlip"}]`},
		{`[{"op": "Resize", "size": [300, 200]}]`, 100, `[{"op": "Resize", "size": [150, 100]}]`},
		{`[{"op": "Resize", "size": 256, "max_size": 300}, {"op": "CenterCrop", "size": 128}]`, 64, `[{"op": "Resize", "size": 128, "max_size": 150}, {"op": "CenterCrop", "size": 64}]`},
		{`{"views": ["train", {"repeat": 8, "ops": [{"op": "CenterCrop", "size": 96}]}]}`, 112,
			`{"views": [[{"op": "RandomResizedCrop", "size": 112}, {"op": "RandomHorizontalFlip"}], {"repeat": 8, "ops": [{"op": "CenterCrop", "size": 48}]}]}`},
		{`[{"op": "RandomApply", "p": 0.5, "transforms": [{"op": "ColorJitter", "hue": 0.1}]}, {"op": "CenterCrop", "size": 3}]`, 1,
			`[{"op": "RandomApply", "p": 0.5, "transforms": [{"op": "ColorJitter", "hue": 0.1}]}, {"op": "CenterCrop", "size": 1}]`},
		{"train", 0, "a size of 0 pixels"},
		{"eval", SizeMax, "size is 18725"},
	} {
		got, err := mustParseViews(t, c.text).Resized(c.size)
		if err != nil {
			testenv.Says(t, c, err, c.want)
		} else if want := mustParseViews(t, c.want); got.String() != want.String() {
			t.Errorf("%s with %d is %s, want %s", c.text, c.size, got, want)
		}
	}
}

// TestFitted compares the text of transforms with another size and ratio.
func TestFitted(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"train", `[{"op": "RandomResizedCrop", "size": [20, 30], "ratio": [1.5, 1.5]}, {"op": "RandomHorizontalFlip"}]`},
		{`{"views": ["train", [{"op": "RandomResizedCrop", "size": 8, "scale": [1, 1]}]]}`,
			`{"views": [[{"op": "RandomResizedCrop", "size": [20, 30], "ratio": [1.5, 1.5]}, {"op": "RandomHorizontalFlip"}], [{"op": "RandomResizedCrop", "size": [20, 30], "scale": [1, 1], "ratio": [1.5, 1.5]}]]}`},
		{"eval", "whose only size is that of a RandomResizedCrop"},
		{`[{"op": "RandomResizedCrop", "size": 8}, {"op": "CenterCrop", "size": 4}]`, "whose only size is that of a RandomResizedCrop"},
	} {
		got, err := mustParseViews(t, c.text).Fitted(20, 30)
		if err != nil {
			testenv.Says(t, c.text, err, c.want)
		} else if want := mustParseViews(t, c.want); got.String() != want.String() {
			t.Errorf("%s is %s, want %s", c.text, got, want)
		}
	}
}

// A cut is an operation that cuts out a rectangle.
type cut image.Rectangle

func (o cut) apply(c *canvas) error { return c.crop(image.Rectangle(o)) }

// TestFiveAndTenCrops compares every view with the crops that torchvision's functions cut out of the whole image, by every source and kernel.
func TestFiveAndTenCrops(t *testing.T) {
	for _, level := range kernel.Available() {
		engine := NewEngine(level)
		for s, size := range [][2]int{{50, 37}, {31, 64}, {23, 20}} {
			w, h := size[0], size[1]
			pix := randomImage(w, h, uint64(s))
			data, aux := encodeJPEG(t, pix, w, h)
			decoded, _, _ := decoded(t, engine, data)
			for _, first := range []string{`{"op":"CenterCrop","size":[27,33]}`, `{"op":"Resize","size":29}`, `{"op":"RandomRotation","degrees":20}`} {
				for _, crops := range []string{`{"op":"FiveCrop","size":[18,20]}`, `{"op":"TenCrop","size":17}`, `{"op":"TenCrop","size":[20,19],"vertical_flip":true}`} {
					views := mustParseViews(t, "["+first+","+crops+"]")
					for layout, src := range map[resample.Layout]struct {
						Source
						pix []byte
					}{resample.NHWC: {Source{Image: data, Aux: aux}, decoded}, resample.NCHW: {Source{Image: encodePNG(t, pix, w, h)}, pix}} {
						compareCrops(t, engine, views, src.Source, naiveImage{bytes.Clone(src.pix), w, h}, layout)
					}
				}
			}
		}
	}
}

func compareCrops(t *testing.T, engine *Engine, views Views, src Source, m naiveImage, layout resample.Layout) {
	t.Helper()
	draws := NewRNG(7, 1, 3)
	m.do(t, views[0].ops[0], &draws)
	made := make([]View, len(views))
	for v, spec := range views {
		made[v] = View{Spec: spec, Dst: Output{Pix: make([]byte, spec.OutputBytes()), Layout: layout}, RNG: views.RNG(7, 1, 3, 0, v)}
	}
	testenv.OK(t, engine.ApplyViews(src, made), "%s", views)
	ten, _ := views[0].ops[1].(TenCrop)
	for v, got := range made {
		from := m
		if v >= 5 && ten.VerticalFlip {
			from.do(t, RandomVerticalFlip{P: 1}, &draws)
		} else if v >= 5 {
			from.do(t, RandomHorizontalFlip{P: 1}, &draws)
		}
		ch, cw := views[v].OutputSize()
		box := []image.Point{{}, {from.w - cw, 0}, {0, from.h - ch}, {from.w - cw, from.h - ch}, {roundToInt(float64(from.w-cw) / 2), roundToInt(float64(from.h-ch) / 2)}}[v%5]
		from.do(t, cut(image.Rect(box.X, box.Y, box.X+cw, box.Y+ch)), &draws)
		testenv.Same(t, got.Dst.Pix, toLayout(from.pix, layout), "%s, view %d of %v: differs from torchvision's crop", views, v, layout)
	}
}

// TestCropsAmongViews: lists with several results stand among others, are written as they were read, and draw as one.
func TestCropsAmongViews(t *testing.T) {
	const five = `[{"op":"RandomRotation","degrees":30},{"op":"Resize","size":[30,30]},{"op":"FiveCrop","size":20},{"op":"RandomInvert"}]`
	for text, want := range map[string]int{
		five: 5, `{"views": [` + five + `]}`: 5, `{"views": ["eval", {"repeat": 3, "ops": ` + five + `}, [{"op":"TenCrop","size":[3,4]}]]}`: 26,
	} {
		views := mustParseViews(t, text)
		testenv.Equal(t, len(views), want, "%s: views", text)
		readsBack(t, views)
	}
	views := mustParseViews(t, `{"views": ["eval", {"repeat": 2, "ops": `+five+`}]}`)
	var seen []RNG
	for v := range views {
		if d := views.RNG(1, 2, 3, 4, v); !slices.Contains(seen, d) {
			seen = append(seen, d)
		}
	}
	testenv.Check(t, len(seen) == 3 && seen[1] == NewViewRNG(1, 2, 3, 4, 1) && seen[2] == NewViewRNG(1, 2, 3, 4, 6),
		"%d draws of one view and two times five crops, want those of views 0, 1 and 6", len(seen))
}

func TestFiveCropErrors(t *testing.T) {
	refused(t, "%s", map[string]string{
		`[{"op":"FiveCrop"}]`:                                     "operation 0 (FiveCrop): size is missing, want n or [h, w]",
		`[{"op":"FiveCrop","size":0}]`:                            "size is 0, want 1 to",
		`[{"op":"FiveCrop","size":[1,2,3]}]`:                      "has 3 numbers, want n or [h, w]",
		`[{"op":"TenCrop","size":4,"vertical_flip":"yes"}]`:       `vertical_flip is "yes", want true or false`,
		`[{"op":"FiveCrop","size":8},{"op":"FiveCrop","size":4}]`: "operation 1 (FiveCrop): it makes 5 views of an image, but only one is possible here",
		`[{"op":"RandomApply","transforms":[{"op":"TenCrop","size":8}]},{"op":"CenterCrop","size":4}]`: "operation 0 (TenCrop): it makes 10 views",
		`{"views": [{"repeat":7,"ops":[{"op":"TenCrop","size":8}]}]}`:                                  "at least 70 views, want at most 64",
	})
	testenv.Fails(Parse(`[{"op":"FiveCrop","size":8}]`))(t, "makes 5 views of an image, but only one is possible here")
	src := Source{Image: encodePNG(t, randomImage(20, 10, 1), 20, 10)}
	views := mustParseViews(t, `[{"op":"FiveCrop","size":[11,4]}]`)
	err := NewEngine(kernel.Active()).ApplyViews(src, makeViews(views, resample.NHWC, 0))
	testenv.As[*SizeError](t, err, "view 0: transform: FiveCrop cannot take an image of 20×10: the crops are 4×11; resize first")
}
