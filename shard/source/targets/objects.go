// Package targets reads boxes and masks, and makes the values of fields of the types objects and mask. Boxes come from COCO's JSON, from
// XML as PASCAL VOC has it, and from YOLO's text, masks from PNGs.
package targets

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// Names of the fields and of objects' numbers.
const (
	objectsName   = "objects"
	maskName      = "mask"
	imageIDName   = "image_id"
	areaName      = "area"
	crowdName     = "iscrowd"
	difficultName = "difficult"
	truncatedName = "truncated"
)

const numbersMax = 2 // bounds the columns of objects here

// An Object is one object of an image.
type Object struct {
	Box     [4]float32 // x1, y1, x2, y2
	Label   int64
	Numbers [numbersMax]float64 // values of the field's columns
}

// Objects makes the values of a field of objects. Many goroutines may use it.
type Objects struct {
	Field   shard.Field
	Options dataset.TargetOptions
	Scanned bool // the classes are all names that were found, in sorted order, so that those of other splits may join them
	index   map[string]int64
	counts  counts
}

// NewObjects makes values of objects. classes name their labels; nil: the labels have no names.
func NewObjects(classes []string, o dataset.TargetOptions, columns ...shard.Column) *Objects {
	m := &Objects{Field: shard.Field{Name: objectsName, Type: shard.Objects, Columns: columns}, Options: o}
	m.setClasses(classes)
	return m
}

func (m *Objects) setClasses(classes []string) {
	m.Field.Classes, m.index = classes, make(map[string]int64, len(classes))
	for i, c := range classes {
		m.index[c] = int64(i)
	}
}

// column is the position of a column, or -1.
func (m *Objects) column(name string) int {
	return slices.IndexFunc(m.Field.Columns, func(c shard.Column) bool { return c.Name == name })
}

func (m *Objects) append(dst []byte, key string, objects []Object, w, h int) ([]byte, error) {
	if len(objects) > shard.ObjectsMax {
		return dst, fmt.Errorf("%s has %d objects, and %d are the most", key, len(objects), shard.ObjectsMax)
	}
	var v shard.ObjectValue
	crowd, difficult := m.column(crowdName), m.column(difficultName)
	columns := make([][]byte, len(m.Field.Columns))
	for _, one := range objects {
		switch {
		case m.Options.DropCrowd && crowd >= 0 && one.Numbers[crowd] != 0:
			m.counts.add("object is a crowd, and left out", "objects are crowds, and left out", key)
			continue
		case m.Options.DropCrowd && difficult >= 0 && one.Numbers[difficult] != 0:
			m.counts.add("object is difficult, and left out", "objects are difficult, and left out", key)
			continue
		}
		m.check(&one, key, float32(w), float32(h))
		v.Boxes = append(v.Boxes, one.Box[:]...)
		v.Labels = append(v.Labels, one.Label)
		for i, c := range m.Field.Columns {
			if c.Type == shard.Float32 {
				columns[i] = shard.AppendFloats(columns[i], float32(one.Numbers[i]))
			} else {
				columns[i] = shard.AppendInts(columns[i], int64(one.Numbers[i]))
			}
		}
	}
	if len(v.Labels) == 0 {
		if m.Options.DropEmpty {
			m.counts.add("image has no objects, and is left out", "images have no objects, and are left out", key)
			return dst, dataset.ErrDropped
		}
		m.counts.add("image has no objects", "images have no objects", key, remedy.DropEmpty)
	}
	v.Columns = columns
	return shard.AppendBytes(dst, v.Append(nil)), nil
}

// check counts a box that is unusual, and cuts it off if the options say so.
func (m *Objects) check(one *Object, key string, w, h float32) {
	b := &one.Box
	switch {
	case b[2] < b[0] || b[3] < b[1]:
		m.counts.add("box is turned over, its right or lower edge before the other", "boxes are turned over, their right or lower edge "+
			"before the other", key)
	case b[2] == b[0] || b[3] == b[1]:
		m.counts.add("box is empty", "boxes are empty", key)
	}
	if min(b[0], b[1], b[2], b[3]) >= 0 && max(b[0], b[2]) <= w && max(b[1], b[3]) <= h {
		return
	}
	if !m.Options.ClipBoxes {
		m.counts.add("box reaches out of its image", "boxes reach out of their images", key, remedy.ClipBoxes)
		return
	}
	m.counts.add("box reached out of its image, and is cut off", "boxes reached out of their images, and are cut off", key)
	for i, edge := range [4]float32{w, h, w, h} {
		b[i] = min(max(b[i], 0), edge)
	}
}

// finite says that all edges of a box are numbers.
func finite(box [4]float32) bool {
	return !slices.ContainsFunc(box[:], func(x float32) bool { return math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) })
}

// counts counts unusual samples and objects, for notes. The zero value is ready. mu guards all counts: the packer's workers add to them.
type counts struct {
	mu sync.Mutex
	of map[string]*count // keyed by the singular
}

type count struct {
	plural  string
	n       int
	ways    []remedy.Remedy
	example string // the first key in sorted order, which does not depend on the goroutines
}

func (c *counts) add(singular, plural, key string, ways ...remedy.Remedy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[string]*count)
	}
	one := c.of[singular]
	if one == nil {
		one = &count{plural: plural, example: key, ways: ways}
		c.of[singular] = one
	}
	one.n++
	one.example = min(one.example, key)
}

func (c *counts) Notes() (notes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, singular := range slices.Sorted(maps.Keys(c.of)) {
		one := c.of[singular]
		note := fmt.Sprintf("%s: %s", bytesize.Counted(one.n, singular, one.plural), one.example)
		for _, way := range one.ways {
			note += "; " + way.String()
		}
		notes = append(notes, note)
	}
	return notes
}

// Align gives the splits of one dataset the same classes of objects, and refuses those that cannot have them.
func Align(splits []*dataset.Split) error {
	var of []*Objects
	for _, s := range splits {
		if v, ok := s.Targets.(*Values); ok && v.Objects != nil {
			of = append(of, v.Objects)
		}
	}
	if len(of) < 2 {
		return nil
	}
	all := make(map[string]bool)
	for _, m := range of {
		if m.Scanned != of[0].Scanned || !m.Scanned && (!slices.Equal(m.Field.Classes, of[0].Field.Classes) ||
			!slices.Equal(m.Field.Ids, of[0].Field.Ids)) {
			return transport.Refuse(splits[0].Path, "its splits have other classes of objects (%s, and %s): build them one at a time",
				transport.SomeNames(of[0].Field.Classes), transport.SomeNames(m.Field.Classes))
		}
		for _, c := range m.Field.Classes {
			all[c] = true
		}
	}
	if of[0].Scanned {
		for _, m := range of {
			m.setClasses(slices.Sorted(maps.Keys(all)))
		}
	}
	return nil
}

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
	v := &Values{Objects: NewObjects(classes, o, shard.Column{Name: crowdName, Type: shard.Int64},
		shard.Column{Name: areaName, Type: shard.Float32})}
	if ids {
		v.IDs = make(map[string]int64)
	}
	return v
}

// Category is the label of a category: its number, or its position among the names of the classes.
func (m *Objects) Category(of any) (int64, error) {
	switch x := of.(type) {
	case int64:
		if m.Scanned {
			return 0, fmt.Errorf("the category %d is a number, and others are names: write names or numbers everywhere", x)
		}
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
		return 0, fmt.Errorf("the category %.60q is not among the %d; %v", x, len(m.index), remedy.NameClasses)
	}
	if of == nil {
		return 0, errors.New("an object has no category")
	}
	return 0, fmt.Errorf("the category %v is neither a number nor a name", of)
}

var unsaid = math.NaN() // stands for an area or iscrowd that one object of several lacks

// Make makes objects of the numbers of all boxes, and the other values, which may be missing, except for the categories. NaN is a
// missing one.
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
		if len(areas) > 0 && !math.IsNaN(areas[i]) {
			o.Numbers[1] = areas[i]
		}
		if len(crowds) > 0 && crowds[i] != 0 && !math.IsNaN(crowds[i]) {
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

// splitJSON returns the values of objects as lists. A value that one object of several lacks is null in JSON.
func splitJSON(raw json.RawMessage) (boxes []float64, categories []any, areas, crowds []float64, err error) {
	var list []map[string]json.RawMessage
	var lists map[string]json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		lists = make(map[string]json.RawMessage)
		for _, keys := range [][]string{BoxKeys, CategoryKeys, AreaKeys, CrowdKeys} {
			all, some := make([]json.RawMessage, len(list)), false
			for i, one := range list {
				all[i] = pick(one, keys)
				some = some || all[i] != nil
			}
			if some {
				lists[keys[0]], _ = json.Marshal(all)
			}
		}
	} else if json.Unmarshal(raw, &lists) != nil {
		return nil, nil, nil, nil, fmt.Errorf("objects are %.60s, and an object of lists or a list of objects is expected", raw)
	}
	var four [][]float64
	var area []*float64
	var crowd []cocoFlag
	for _, one := range []struct {
		keys []string
		to   any
		want string
	}{{BoxKeys, &four, "boxes of 4 numbers"}, {CategoryKeys, &categories, "numbers or names"}, {AreaKeys, &area, "numbers"},
		{CrowdKeys, &crowd, "0 and 1"}} {
		if value := pick(lists, one.keys); value != nil && json.Unmarshal(value, one.to) != nil {
			return nil, nil, nil, nil, fmt.Errorf("%s: %.60s, and a list of %s is expected", one.keys[0], value, one.want)
		}
	}
	for _, box := range four {
		if len(box) != 4 {
			return nil, nil, nil, nil, fmt.Errorf("a box of %d numbers", len(box))
		}
		boxes = append(boxes, box...)
	}
	for _, one := range area {
		if one == nil {
			one = &unsaid
		}
		areas = append(areas, *one)
	}
	for _, one := range crowd {
		crowds = append(crowds, 0)
		if one {
			crowds[len(crowds)-1] = 1
		}
	}
	return boxes, categories, areas, crowds, nil
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
