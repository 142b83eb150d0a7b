package transform

import (
	"encoding/json"
	"math"
)

// Resized returns the views scaled so that the shorter side of the first view's result has size pixels: every size of
// their operations is multiplied by the same factor, and rounded. "eval" with 160 is Resize(183), CenterCrop(160).
func (v Views) Resized(size int) (Views, error) {
	if size < 1 || size > SizeMax {
		return nil, specError("a size of %d pixels, want 1 to %d", size, SizeMax)
	}
	height, width := v[0].OutputSize()
	factor := float64(size) / float64(min(height, width))
	return v.edited(func(object map[string]any) {
		for _, name := range []string{"size", "max_size"} {
			if member, ok := object[name]; ok {
				object[name] = multiplied(member, factor)
			}
		}
	})
}

// Fitted returns the views with results of another height and width: every RandomResizedCrop gets this size and its
// aspect ratio. With a scale of 1 it gives the largest central crop of that ratio. The transform must have no other
// size.
func (v Views) Fitted(height, width int) (Views, error) {
	ratio := float64(width) / float64(height)
	views, err := v.edited(func(object map[string]any) {
		if object["op"] == "RandomResizedCrop" {
			object["size"], object["ratio"] = []int{height, width}, []float64{ratio, ratio}
		}
	})
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

// edited returns the views after a change of every object in their JSON.
func (v Views) edited(edit func(object map[string]any)) (Views, error) {
	var parsed any
	if err := json.Unmarshal([]byte(v.String()), &parsed); err != nil {
		return nil, err // it is our own text
	}
	eachObject(parsed, edit)
	text, err := json.Marshal(parsed)
	if err != nil {
		return nil, err
	}
	return ParseViews(string(text), Pillow13)
}

// eachObject calls edit for every object in a JSON value.
func eachObject(value any, edit func(object map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		edit(value)
		for _, member := range value {
			eachObject(member, edit)
		}
	case []any:
		for _, element := range value {
			eachObject(element, edit)
		}
	}
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
