// Package targets reads boxes and masks, and makes the values of fields of the types objects and mask. Boxes come from COCO's JSON, from
// XML as PASCAL VOC has it, and from YOLO's text, masks from PNGs.
package targets

import (
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

// numbersMax bounds the columns of objects here.
const numbersMax = 2

// An Object is one object of an image.
type Object struct {
	Box     [4]float32 // x1, y1, x2, y2
	Label   int64
	Numbers [numbersMax]float64 // of the field's columns
}

// Objects makes the values of a field of objects. Many goroutines may use it.
type Objects struct {
	Field   shard.Field
	Options dataset.TargetOptions
	// Scanned says that the classes are all names that were found, in sorted order, so that those of other splits may join them.
	Scanned bool
	index   map[string]int64
	counts  counts
}

// NewObjects makes values of objects with these classes; nil if there are no names.
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

// column is the place of a column, or -1.
func (m *Objects) column(name string) int {
	return slices.IndexFunc(m.Field.Columns, func(c shard.Column) bool { return c.Name == name })
}

// append appends the value of an image's objects.
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
			m.counts.add("object is a crowd, and left out", "objects are crowds, and left out", key, 1)
			continue
		case m.Options.DropCrowd && difficult >= 0 && one.Numbers[difficult] != 0:
			m.counts.add("object is difficult, and left out", "objects are difficult, and left out", key, 1)
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
			m.counts.add("image has no objects, and is left out", "images have no objects, and are left out", key, 1)
			return dst, dataset.ErrDropped
		}
		m.counts.add("image has no objects", "images have no objects", key, 1, remedy.DropEmpty)
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
			"before the other", key, 1)
	case b[2] == b[0] || b[3] == b[1]:
		m.counts.add("box is empty", "boxes are empty", key, 1)
	}
	if min(b[0], b[1], b[2], b[3]) >= 0 && max(b[0], b[2]) <= w && max(b[1], b[3]) <= h {
		return
	}
	if !m.Options.ClipBoxes {
		m.counts.add("box reaches out of its image", "boxes reach out of their images", key, 1, remedy.ClipBoxes)
		return
	}
	m.counts.add("box reached out of its image, and is cut off", "boxes reached out of their images, and are cut off", key, 1)
	for i, edge := range [4]float32{w, h, w, h} {
		b[i] = min(max(b[i], 0), edge)
	}
}

// finite says that all edges of a box are numbers.
func finite(box [4]float32) bool {
	for _, x := range box {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return false
		}
	}
	return true
}

// counts counts unusual samples and objects, for notes. The zero value is ready.
type counts struct {
	mu sync.Mutex
	of map[string]*count // by the singular
}

type count struct {
	plural  string
	n       int
	ways    []remedy.Remedy
	example string // the first key in sorted order, which does not depend on the goroutines
}

func (c *counts) add(singular, plural, key string, n int, ways ...remedy.Remedy) {
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
	one.n += n
	one.example = min(one.example, key)
}

// Notes lists the counts, with an example each.
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
