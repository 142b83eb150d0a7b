package transform

import (
	"encoding/json"
	"fmt"
	"math"
)

// Resized returns the views scaled so that the shorter side of the first view's result has size pixels: every size of
// their operations is multiplied by the same factor, and rounded. "eval" with 160 is Resize(183), CenterCrop(160).
func (v Views) Resized(size int) (Views, error) {
	if size < 1 || size > SizeMax {
		return nil, &SpecError{Op: -1, Reason: fmt.Sprintf("a size of %d pixels, want 1 to %d", size, SizeMax)}
	}
	var parsed any
	if err := json.Unmarshal([]byte(v.String()), &parsed); err != nil {
		return nil, err // it is our own text
	}
	height, width := v[0].OutputSize()
	factor := float64(size) / float64(min(height, width))
	text, err := json.Marshal(resized(parsed, factor))
	if err != nil {
		return nil, err
	}
	return ParseViews(string(text), Pillow13)
}

// Fitted returns the views with results of another height and width: every RandomResizedCrop gets this size and its
// aspect ratio. With a scale of 1 it gives the largest central crop of that ratio. The transform must have no other
// size.
func (v Views) Fitted(height, width int) (Views, error) {
	var parsed any
	if err := json.Unmarshal([]byte(v.String()), &parsed); err != nil {
		return nil, err // it is our own text
	}
	text, err := json.Marshal(fitted(parsed, height, width))
	if err != nil {
		return nil, err
	}
	views, err := ParseViews(string(text), Pillow13)
	if err != nil {
		return nil, err
	}
	for _, spec := range views {
		if h, w := spec.OutputSize(); h != height || w != width {
			return nil, &SpecError{Op: -1, Reason: "buckets take a transform whose only size is that of a RandomResizedCrop, in each view"}
		}
	}
	return views, nil
}

// fitted sets size and ratio of every RandomResizedCrop in a JSON value.
func fitted(value any, height, width int) any {
	switch value := value.(type) {
	case map[string]any:
		if value["op"] == "RandomResizedCrop" {
			ratio := float64(width) / float64(height)
			value["size"], value["ratio"] = []int{height, width}, []float64{ratio, ratio}
			return value
		}
		for name, member := range value {
			value[name] = fitted(member, height, width)
		}
	case []any:
		for i := range value {
			value[i] = fitted(value[i], height, width)
		}
	}
	return value
}

// resized multiplies the numbers of every size in a JSON value.
func resized(value any, factor float64) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if name == "size" || name == "max_size" {
				value[name] = multiplied(member, factor)
			} else {
				value[name] = resized(member, factor)
			}
		}
	case []any:
		for i := range value {
			value[i] = resized(value[i], factor)
		}
	}
	return value
}

func multiplied(size any, factor float64) any {
	switch size := size.(type) {
	case float64:
		return max(1, math.Round(size*factor))
	case []any:
		for i := range size {
			size[i] = multiplied(size[i], factor)
		}
	}
	return size
}
