package transform

import (
	"bytes"
	"image"
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

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
	if len(seen) != 3 || seen[1] != NewViewRNG(1, 2, 3, 4, 1) || seen[2] != NewViewRNG(1, 2, 3, 4, 6) {
		t.Errorf("%d draws of one view and two times five crops, want those of views 0, 1 and 6", len(seen))
	}
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
	_, err := Parse(`[{"op":"FiveCrop","size":8}]`)
	testenv.Says(t, "five crops as one transform", err, "makes 5 views of an image, but only one is possible here")
	src := Source{Image: encodePNG(t, randomImage(20, 10, 1), 20, 10)}
	views := mustParseViews(t, `[{"op":"FiveCrop","size":[11,4]}]`)
	err = NewEngine(kernel.Active()).ApplyViews(src, makeViews(views, resample.NHWC, 0))
	testenv.As[*SizeError](t, err, "view 0: transform: FiveCrop cannot take an image of 20×10: the crops are 4×11; resize first")
}
