package transform

import (
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

var controlSpecs = []string{
	`[{"op":"RandomApply","transforms":[{"op":"ColorJitter","brightness":0.4,"hue":0.1},{"op":"RandomInvert"}],"p":0.8},{"op":"CenterCrop","size":20}]`,
	`[{"op":"RandomChoice","transforms":[{"op":"RandomInvert","p":1},{"op":"Grayscale","num_output_channels":3},{"op":"CenterCrop","size":18}]},{"op":"Resize","size":[9,9]}]`,
	`[{"op":"RandomChoice","transforms":[{"op":"CenterCrop","size":18},{"op":"RandomResizedCrop","size":18}],"p":[1,3]}]`,
	`[{"op":"RandomResizedCrop","size":18},{"op":"RandomOrder","transforms":[{"op":"RandomSolarize","threshold":128,"p":1},{"op":"RandomEqualize","p":1},{"op":"RandomHorizontalFlip"}]}]`,
	`[{"op":"CenterCrop","size":18},{"op":"RandomApply","transforms":[{"op":"RandomChoice","transforms":[{"op":"RandomOrder","transforms":[{"op":"RandomPosterize","bits":4}]}]}],"p":1}]`,
}

// TestNestedStrings: what holds operations is written so that it reads back the same.
func TestNestedStrings(t *testing.T) {
	for _, text := range controlSpecs {
		readsBack(t, Views{mustParse(text)})
	}
}

// TestEmptyLists: lists without operations do nothing to the pixels.
func TestEmptyLists(t *testing.T) {
	const empty = `{"op":"RandomOrder","transforms":[]},{"op":"RandomChoice","transforms":[{"op":"RandomApply","transforms":[]}]}`
	w, h := 30, 20
	pix := randomImage(w, h, 1)
	source := []Source{{Image: encodePNG(t, pix, w, h)}}
	without, with := mustParse(`[{"op":"CenterCrop","size":18}]`), mustParse(`[`+empty+`,{"op":"CenterCrop","size":18},`+empty+`]`)
	testenv.Same(t, naive(t, with, pix, w, h, NewRNG(1, 0, 0)), naive(t, without, pix, w, h, NewRNG(1, 0, 0)), "%s changes pixels", empty)
	compareWithNaive(t, with, source, pix, w, h)
	readsBack(t, Views{with})
}

func TestControlErrors(t *testing.T) {
	deep := strings.Repeat(`{"op":"RandomOrder","transforms":[`, 10) + `{"op":"RandomInvert"}` + strings.Repeat("]}", 10)
	refused(t, "%s", map[string]string{
		`[{"op":"RandomApply"}]`:                                                                      "operation 0 (RandomApply): transforms is missing",
		`[{"op":"RandomApply","transforms":3}]`:                                                       "transforms is 3, want a list of operations",
		`[{"op":"RandomApply","transforms":{"op":"RandomInvert"}}]`:                                   `transforms is {"op":"RandomInvert"}, want a list`,
		`[{"op":"CenterCrop","size":9},{"op":"RandomChoice","transforms":[]}]`:                        "transforms is empty, so none can be chosen",
		`[{"op":"RandomApply","transforms":[{"op":"CenterCrop"}]}]`:                                   "operation 0 (RandomApply): transforms: operation 0 (CenterCrop): size is missing",
		`[{"op":"RandomOrder","transforms":[{"op":"Turn"}]}]`:                                         "transforms: operation 0 (Turn): unknown operation",
		`[{"op":"RandomOrder","transforms":[{"op":"RandomInvert","p":3}]}]`:                           "transforms: operation 0 (RandomInvert): p is 3",
		`[{"op":"RandomApply","transforms":[{"op":"CenterCrop","size":3}],"p":2}]`:                    "p is 2",
		`[{"op":"RandomApply","transforms":[{"op":"CenterCrop","size":3}],"p":1}]`:                    "would differ in size",
		`[{"op":"CenterCrop","size":9},{"op":"RandomApply","transforms":[{"op":"Resize","size":4}]}]`: "would differ in size",
		`[{"op":"RandomOrder","transforms":[{"op":"CenterCrop","size":3},{"op":"RandomInvert"}]}]`:    "would differ in size",
		`[{"op":"RandomChoice","transforms":[{"op":"CenterCrop","size":3}],"p":[1,2]}]`:               "p has 2 weights for 1 transforms",
		`[{"op":"RandomChoice","transforms":[{"op":"CenterCrop","size":3}],"p":[0]}]`:                 "want one weight above 0",
		`[{"op":"RandomChoice","transforms":[{"op":"CenterCrop","size":3}],"p":[-1]}]`:                "want weights of at least 0",
		`[{"op":"CenterCrop","size":9},` + deep + `]`:                                                 "nested more than 8 deep",
		`[{"op":"RandomPosterize","bits":9}]`:                                                         "bits is 9, want 0 to 8",
		`[{"op":"RandomPosterize","bits":1e300}]`:                                                     "bits is 1e300, want a whole number",
		`[{"op":"RandomSolarize"}]`:                                                                   "threshold is missing",
		`[{"op":"RandomSolarize","threshold":1e9}]`:                                                   "threshold is 1e+09",
		`[{"op":"ColorJitter","brightness":-0.1}]`:                                                    "brightness is -0.1: a single number must be positive",
		`[{"op":"ColorJitter","brightness":1e9}]`:                                                     "brightness is 1.000000001e+09, want 0 to 1e+06",
		`[{"op":"ColorJitter","contrast":[2,1]}]`:                                                     "contrast is [2 1], want the lower first",
		`[{"op":"ColorJitter","hue":0.6}]`:                                                            "hue is 0.6, want -0.5 to 0.5",
		`[{"op":"ColorJitter","saturation":"much"}]`:                                                  `saturation is "much", want a number or a list of numbers`,
	})
	for want, op := range map[string]Op{
		"bits is -1":                   RandomPosterize{Bits: -1},
		"transforms has 33 operations": RandomOrder{slices.Repeat([]Op{RandomInvert{P: 1}}, opsMax+1)},
	} {
		_, err := NewSpec(CenterCrop{Size: Size{3}}, op)
		testenv.Says(t, op, err, want)
	}
}
