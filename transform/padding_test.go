package transform

import (
	"fmt"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

var paddingSpecs = []string{
	`[{"op":"Resize","size":[20,21]},{"op":"Pad","padding":[1,2,3,40],"fill":[1,2,3]}]`,
	`[{"op":"Pad","padding":3,"fill":9},{"op":"Pad","padding":2,"fill":9},{"op":"Pad","padding":1,"fill":8},{"op":"CenterCrop","size":70}]`,
	`[{"op":"Resize","size":[20,21]},{"op":"Pad","padding":[30,2],"padding_mode":"edge"}]`,
	`[{"op":"RandomHorizontalFlip","p":1},{"op":"Pad","padding":[1,50,7,0],"padding_mode":"reflect"},{"op":"RandomCrop","size":19}]`,
	`[{"op":"Pad","padding":5,"padding_mode":"symmetric"},{"op":"Resize","size":[30,20]},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"RandomCrop","size":32,"padding":4,"pad_if_needed":true,"fill":[7,8,9]},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"RandomCrop","size":64,"padding":[1,2,3,4],"pad_if_needed":true,"padding_mode":"reflect"}]`,
	`[{"op":"RandomCrop","size":[90,40],"padding":30,"pad_if_needed":true,"padding_mode":"symmetric"},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"Resize","size":[16,16]},{"op":"RandomCrop","size":10,"padding":4,"padding_mode":"edge"},{"op":"RandomHorizontalFlip"}]`,
	`[{"op":"Resize","size":12,"max_size":15},{"op":"CenterCrop","size":[20,33]},{"op":"Pad","padding":2,"fill":255},{"op":"RandomCrop","size":30,"padding":4}]`,
	`[{"op":"Resize","max_size":23},{"op":"CenterCrop","size":20}]`,
}

// TestPaddingSource has NumPy's own examples of its modes.
func TestPaddingSource(t *testing.T) {
	for mode, want := range map[PaddingMode][]int{
		Edge:      {0, 0, 0, 0, 1, 2, 2, 2, 2},
		Reflect:   {1, 2, 1, 0, 1, 2, 1, 0, 1},
		Symmetric: {2, 1, 0, 0, 1, 2, 2, 1, 0},
	} {
		var got []int
		for at := -3; at < 6; at++ {
			got = append(got, mode.source(at, 3))
		}
		testenv.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "%v", mode)
		if mode.source(-5, 1) != 0 || mode.source(7, 1) != 0 {
			t.Errorf("%v of one pixel shows another", mode)
		}
	}
}

func TestPaddingErrors(t *testing.T) {
	refused(t, `[{"op":"CenterCrop","size":8},%s]`, map[string]string{
		`{"op":"Pad"}`:                                              "padding is missing",
		`{"op":"Pad","padding":null}`:                               "padding is missing",
		`{"op":"Pad","padding":[]}`:                                 "padding has 0 numbers, want n, [x, y] or",
		`{"op":"RandomCrop","size":4,"padding":[]}`:                 "padding has 0 numbers, want n, [x, y] or",
		`{"op":"Pad","padding":-1}`:                                 "padding is -1, want 0 to",
		`{"op":"Pad","padding":[1,2,3]}`:                            "padding has 3 numbers",
		`{"op":"Pad","padding":1.5}`:                                "padding is 1.5, want whole numbers",
		`{"op":"Pad","padding":1,"padding_mode":"wrap"}`:            `padding_mode is "wrap", want one of ["constant" "edge" "reflect" "symmetric"]`,
		`{"op":"Pad","padding":10000}`:                              "the result would be 20008×20008",
		`{"op":"RandomCrop","size":4,"padding":1,"fill":[1]}`:       "",
		`{"op":"RandomCrop","size":4,"padding":1,"fill":[1,2,3,4]}`: "fill has 4 numbers",
		`{"op":"Resize","size":8,"max_size":8}`:                     "max_size is 8, want more than size, which is 8",
		`{"op":"Resize","size":[8,8],"max_size":9}`:                 "max_size is for a size of one number",
		`{"op":"Resize","max_size":0}`:                              "size is missing",
		`{"op":"Resize","max_size":-4}`:                             "max_size is -4",
	})
	testenv.Fails(NewSpec(CenterCrop{Size: Size{4}}, Pad{Mode: 4}))(t, `padding_mode is "transform.PaddingMode(4)"`)
}

// TestMaxSize has sizes that torchvision 0.29 gives.
func TestMaxSize(t *testing.T) {
	for _, c := range []struct {
		op         string
		w, h       int
		outW, outH int
	}{
		{`"size":256,"max_size":300`, 500, 375, 300, 225},
		{`"size":256,"max_size":342`, 375, 500, 256, 341},
		{`"max_size":100`, 500, 375, 100, 75},
		{`"max_size":100`, 7, 9, 77, 100},
	} {
		ops := testenv.Must(parseNested([]byte(`[{"op":"Resize",`+c.op+`}]`), parameters{}))(t)
		w, h := testenv.Must2(ops[0].(Resize).Resized(c.w, c.h))(t)
		testenv.Equal(t, [2]int{w, h}, [2]int{c.outW, c.outH}, "%s of %d×%d", c.op, c.w, c.h)
	}
	spec := mustParse(`[{"op":"Resize","size":4,"max_size":9},{"op":"CenterCrop","size":3}]`)
	_, err := NewEngine(kernel.Active()).Apply(spec, Output{Pix: make([]byte, 27)}, Source{Image: encodePNG(t, make([]byte, 15000), 5000, 1)}, RNG{})
	testenv.Says(t, spec, err, "the result would be 9×0")
}
