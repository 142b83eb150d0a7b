package transform

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// Resized returns the views scaled so that the shorter side of the first view's result has size pixels: every size of
// their operations is multiplied by the same factor, and rounded. "eval" with 160 is Resize(183), CenterCrop(160).
func (v Views) Resized(size int) (Views, error) {
	if size < 1 || size > SizeMax {
		return nil, specError("a size of %d pixels, want 1 to %d", size, SizeMax)
	}
	height, width := v[0].OutputSize()
	factor := float64(size) / float64(min(height, width))
	text := sizes.ReplaceAllStringFunc(v.String(), func(size string) string {
		return digits.ReplaceAllStringFunc(size, func(n string) string {
			pixels, _ := strconv.Atoi(n)
			return strconv.Itoa(max(1, int(math.Round(float64(pixels)*factor))))
		})
	})
	return ParseViews(text, Pillow13)
}

// The sizes of operations and the parameters of RandomResizedCrop, as String writes them.
var (
	sizes        = regexp.MustCompile(`"(max_)?size": (\d+|\[\d+, \d+\])`)
	digits       = regexp.MustCompile(`\d+`)
	resizedCrops = regexp.MustCompile(`("RandomResizedCrop", "size": )\[[^]]*\](, "scale": \[[^]]*\], "ratio": )\[[^]]*\]`)
)

// Fitted returns the views with results of another height and width: every RandomResizedCrop gets this size and its aspect ratio. With a
// scale of 1 it gives the largest central crop of that ratio. The transform must have no other size.
func (v Views) Fitted(height, width int) (Views, error) {
	ratio := float64(width) / float64(height)
	text := resizedCrops.ReplaceAllString(v.String(), fmt.Sprintf("${1}[%d, %d]${2}[%v, %v]", height, width, ratio, ratio))
	views, err := ParseViews(text, Pillow13)
	if err != nil {
		return nil, err
	}
	for _, spec := range views {
		if h, w := spec.OutputSize(); h != height || w != width {
			return nil, specError("buckets take a transform whose only size is that of a RandomResizedCrop, in each view")
		}
	}
	return views, nil
}
