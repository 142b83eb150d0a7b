package targets

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
)

// Names of the values of objects, in columns and in JSON, the likeliest first.
var (
	BoxKeys      = []string{"bbox", "bboxes", "box", "boxes"}
	CategoryKeys = []string{"category", "categories", "category_id", "label", "labels", "class", "class_id"}
	AreaKeys     = []string{areaName}
	CrowdKeys    = []string{crowdName, "is_crowd"}
)

// RecordsName is the column or the key of objects, as Hugging Face has it.
const RecordsName = objectsName

// NewRecords are targets that each record of a dataset holds: objects in one of two layouts, a list for each of their values, or a list of
// objects. ids says that records have an image_id.
func NewRecords(classes []string, ids bool, o dataset.TargetOptions) *Values {
	v := &Values{Objects: NewObjects(classes, o, shard.Column{Name: crowdName, Type: shard.Int64}, shard.Column{Name: areaName, Type: shard.Float32})}
	if ids {
		v.IDs = make(map[string]int64)
	}
	return v
}

// Category is the label of a category: its number, or its place among the names of the classes.
func (m *Objects) Category(of any) (int64, error) {
	switch x := of.(type) {
	case int64:
		if x < 0 || len(m.Field.Classes) > 0 && x >= int64(len(m.Field.Classes)) {
			return 0, fmt.Errorf("the category %d is not among the %d, counted from 0", x, len(m.Field.Classes))
		}
		return x, nil
	case float64:
		if x == float64(int64(x)) {
			return m.Category(int64(x))
		}
	case string:
		if label, ok := m.index[x]; ok {
			return label, nil
		}
		return 0, fmt.Errorf("the category %.60q is none of the %d; %v", x, len(m.index), remedy.NameClasses)
	}
	return 0, fmt.Errorf("the category %v is neither a number nor a name", of)
}

// Make makes objects of the numbers of all boxes, and the other values, which may be missing but for the categories.
func (m *Objects) Make(boxes []float64, categories []any, areas, crowds []float64) ([]Object, error) {
	n := len(categories)
	if len(boxes) != 4*n || len(areas) != n && len(areas) > 0 || len(crowds) != n && len(crowds) > 0 {
		return nil, fmt.Errorf("%d numbers of boxes for %d categories, %d areas and %d iscrowd", len(boxes), n, len(areas), len(crowds))
	}
	objects := make([]Object, n)
	for i := range objects {
		o := &objects[i]
		var err error
		if o.Label, err = m.Category(categories[i]); err != nil {
			return nil, err
		}
		o.Box = boxOf(cmp.Or(m.Options.BoxFormat, dataset.BoxFormats[0]), boxes[4*i:])
		o.Numbers[1] = float64(o.Box[2]-o.Box[0]) * float64(o.Box[3]-o.Box[1])
		if len(areas) > 0 {
			o.Numbers[1] = areas[i]
		}
		if len(crowds) > 0 && crowds[i] != 0 {
			o.Numbers[0] = 1
		}
		if !finite(o.Box) {
			return nil, fmt.Errorf("object %d has the box %v", i, o.Box)
		}
	}
	return objects, nil
}

// FromJSON returns the objects of JSON in one of the two layouts.
func (m *Objects) FromJSON(raw json.RawMessage) ([]Object, error) {
	boxes, categories, areas, crowds, err := splitJSON(raw)
	if err != nil {
		return nil, err
	}
	return m.Make(boxes, categories, areas, crowds)
}

// CategoriesOf returns the names among the categories of an image's objects.
func CategoriesOf(raw json.RawMessage) (names []string) {
	_, categories, _, _, _ := splitJSON(raw)
	for _, one := range categories {
		if name, is := one.(string); is {
			names = append(names, name)
		}
	}
	return names
}

func splitJSON(raw json.RawMessage) (boxes []float64, categories []any, areas, crowds []float64, err error) {
	var list []map[string]json.RawMessage
	var lists map[string]json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		lists = make(map[string]json.RawMessage)
		for _, keys := range [][]string{BoxKeys, CategoryKeys, AreaKeys, CrowdKeys} {
			var all []json.RawMessage
			for _, one := range list {
				if value := pick(one, keys); value != nil {
					all = append(all, value)
				}
			}
			if len(all) > 0 {
				lists[keys[0]], _ = json.Marshal(all)
			}
		}
	} else if json.Unmarshal(raw, &lists) != nil {
		return nil, nil, nil, nil, fmt.Errorf("objects are %.60s, and an object of lists or a list of objects is expected", raw)
	}
	var four [][]float64
	for _, one := range []struct {
		keys []string
		to   any
	}{{BoxKeys, &four}, {CategoryKeys, &categories}, {AreaKeys, &areas}, {CrowdKeys, &crowds}} {
		value := pick(lists, one.keys)
		if value == nil {
			continue
		}
		if e := json.Unmarshal(value, one.to); e != nil && !slices.Equal(one.keys, CrowdKeys) {
			err = errors.Join(err, fmt.Errorf("%s: %w", one.keys[0], e))
		}
	}
	for _, box := range four {
		if len(box) != 4 {
			err = errors.Join(err, fmt.Errorf("a box of %d numbers", len(box)))
		}
		boxes = append(boxes, box...)
	}
	return boxes, categories, areas, crowds, err
}

// pick returns the value of the first of the keys that is there.
func pick(values map[string]json.RawMessage, keys []string) json.RawMessage {
	for _, key := range keys {
		if value, ok := values[key]; ok && string(value) != "null" {
			return value
		}
	}
	return nil
}
