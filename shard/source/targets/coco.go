package targets

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

var errNoName = errors.New("it names no file")

// COCO is a file of COCO's JSON (https://cocodataset.org/#format-data):
//
//	{"images": [{"id": 9, "file_name": "000000000009.jpg", "width": 640, "height": 480}, …],
//	 "annotations": [{"image_id": 9, "category_id": 51, "bbox": [x, y, w, h], "area": 120057.1, "iscrowd": 0}, …],
//	 "categories": [{"id": 1, "name": "person"}, …]}
//
// Labels are the positions of the sorted ids of the categories, of which COCO's have gaps.
type COCO struct {
	path       string
	Images     []cocoImage
	objects    []cocoObject // sorted by image, in the order of the file
	categories []cocoCategory
	byName     map[string]int // indexes of Images
}

// cocoID is a whole number, which some programs write as 9.0.
type cocoID int64

const noID cocoID = math.MinInt64 // stands for a missing id: 0 may be another's

func (id *cocoID) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseInt(strings.TrimSuffix(string(text), ".0"), 10, 64)
	if err != nil || cocoID(n) == noID {
		return fmt.Errorf("an id is %.40s, and a whole number is expected", text)
	}
	*id = cocoID(n)
	return nil
}

type cocoImage struct {
	ID       cocoID `json:"id"`
	FileName string `json:"file_name"`
	Width    int    `json:"width"`
	Height   int    `json:"height"`
}

type cocoCategory struct {
	ID   cocoID `json:"id"`
	Name string `json:"name"`
}

type cocoObject struct {
	image cocoID
	Object
}

// cocoAnnotation is an annotation as it stands in the file.
type cocoAnnotation struct {
	ID       json.RawMessage `json:"id"`
	Image    cocoID          `json:"image_id"`
	Category cocoID          `json:"category_id"`
	Box      []float64       `json:"bbox"`
	Area     *float64        `json:"area"` // nil: that of the box
	Crowd    cocoFlag        `json:"iscrowd"`
}

// cocoFlag is 0, 1, false or true.
type cocoFlag bool

func (f *cocoFlag) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "1", "1.0", "true":
		*f = true
	case "0", "0.0", "false", "null":
	default:
		return fmt.Errorf("iscrowd is %.40s, and 0 or 1 is expected", text)
	}
	return nil
}

// IsCOCO says whether a .json file begins as COCO's do: an object with images, annotations or categories among its first members.
func IsCOCO(t transport.Tree, path string) bool {
	if !strings.EqualFold(filepath.Ext(path), ".json") {
		return false
	}
	f, err := t.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	d := json.NewDecoder(io.LimitReader(transport.TextReader(f), 16<<20))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return false
	}
	for range 16 {
		name, err := d.Token()
		if err != nil {
			return false
		}
		if name == "images" || name == "annotations" || name == "categories" {
			next, err := d.Token()
			return err == nil && next == json.Delim('[')
		}
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}

func ReadCOCO(t transport.Tree, path string) (*COCO, error) {
	f, err := t.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, d := &COCO{path: path}, json.NewDecoder(transport.TextReader(f))
	if err := c.read(d); err != nil {
		if refused, ok := errors.AsType[*transport.FormatError](err); ok {
			return nil, refused
		}
		return nil, &transport.FormatError{Path: path, Offset: d.InputOffset(), Err: err,
			Msg: "cannot be read as COCO's JSON, an object with the lists images, annotations and categories"}
	}
	return c, c.resolve()
}

// read reads the lists, each element by itself: the file is much larger than what is kept of it.
func (c *COCO) read(d *json.Decoder) error {
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return fmt.Errorf("it begins with %v: %w", first, errors.Join(err, errors.ErrUnsupported))
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		switch name {
		case "images":
			err = eachElement(d, cocoImage{ID: noID}, func(one cocoImage) error { c.Images = append(c.Images, one); return nil })
		case "annotations":
			err = eachElement(d, cocoAnnotation{Image: noID, Category: noID}, c.add)
		case "categories":
			err = eachElement(d, cocoCategory{ID: noID}, func(one cocoCategory) error {
				c.categories = append(c.categories, one)
				return nil
			})
		default:
			var skipped json.RawMessage
			err = d.Decode(&skipped)
		}
		if err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// eachElement decodes the elements of a list. Members that one lacks are those of empty.
func eachElement[T any](d *json.Decoder, empty T, fn func(T) error) error {
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return fmt.Errorf("a list was expected, and %v stands there: %w", begin, errors.Join(err, errors.ErrUnsupported))
	}
	for d.More() {
		one := empty
		if err := d.Decode(&one); err != nil {
			return err
		}
		if err := fn(one); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// add takes an annotation. x + w is a sum of float32, as torchvision's conversion from XYWH makes it.
func (c *COCO) add(a cocoAnnotation) error {
	if len(a.Box) != 4 {
		return transport.Refuse(c.path, "annotation %s has a bbox of %d numbers, and [x, y, width, height] is expected", a.ID, len(a.Box))
	}
	if a.Image == noID || a.Category == noID {
		return transport.Refuse(c.path, "annotation %s has no image_id or no category_id: add it, or remove the annotation", a.ID)
	}
	o := cocoObject{image: a.Image}
	o.Box, o.Label = boxOf("xywh", a.Box), int64(a.Category)
	if !finite(o.Box) {
		return transport.Refuse(c.path, "annotation %s has the bbox %v, which is too large", a.ID, a.Box)
	}
	if o.Numbers[1] = a.Box[2] * a.Box[3]; a.Area != nil {
		o.Numbers[1] = *a.Area
	}
	if a.Crowd {
		o.Numbers[0] = 1
	}
	c.objects = append(c.objects, o)
	return nil
}

// boxOf makes a box of four numbers in one of dataset.BoxFormats.
func boxOf(format string, n []float64) [4]float32 {
	a, b, c, d := float32(n[0]), float32(n[1]), float32(n[2]), float32(n[3])
	switch format {
	case "xyxy":
		return [4]float32{a, b, c, d}
	case "cxcywh":
		return [4]float32{a - c/2, b - d/2, a + c/2, b + d/2}
	}
	return [4]float32{a, b, a + c, b + d}
}

// resolve sorts the objects by image, and turns ids into labels.
func (c *COCO) resolve() error {
	slices.SortStableFunc(c.categories, func(a, b cocoCategory) int { return cmp.Compare(a.ID, b.ID) })
	labels := make(map[cocoID]int64, len(c.categories))
	for i, one := range c.categories {
		if _, twice := labels[one.ID]; twice {
			return transport.Refuse(c.path, "has the category id %d twice", one.ID)
		}
		if one.ID == noID {
			return transport.Refuse(c.path, "the category %.60q has no id", one.Name)
		}
		if reason := transport.NameReason(one.Name); reason != "" {
			return transport.Refuse(c.path, "category %d cannot be used because %s", one.ID, reason)
		}
		labels[one.ID] = int64(i)
	}
	ids := make(map[cocoID]bool, len(c.Images))
	c.byName = make(map[string]int, len(c.Images))
	for i, one := range c.Images {
		name, err := transport.EntryPath(strings.ReplaceAll(one.FileName, "\\", "/"))
		if first, twice := c.byName[name]; twice {
			return transport.Refuse(c.path, "the images %d and %d are both called %.200q: give each a name of its own",
				c.Images[first].ID, one.ID, name)
		}
		switch {
		case one.ID == noID:
			return transport.Refuse(c.path, "the image %.200q has no id", one.FileName)
		case ids[one.ID]:
			return transport.Refuse(c.path, "the image %.200q has the id %d of an earlier one: its id occurs twice", one.FileName, one.ID)
		case err != nil || name == "":
			return transport.Refuse(c.path, "image %d has the file_name %.200q, which cannot be used: %v", one.ID, one.FileName,
				cmp.Or(err, errNoName))
		}
		c.Images[i].FileName, c.byName[name], ids[one.ID] = name, i, true
	}
	for i := range c.objects {
		label, ok := labels[cocoID(c.objects[i].Label)]
		if !ok || !ids[c.objects[i].image] {
			return transport.Refuse(c.path, "an annotation of the image %d has the category %d, and one of them is not in the file: "+
				"correct or remove it", c.objects[i].image, c.objects[i].Label)
		}
		c.objects[i].Label = label
	}
	slices.SortStableFunc(c.objects, func(a, b cocoObject) int { return cmp.Compare(a.image, b.image) })
	return nil
}

// Values are the targets, of images with the keys that are their file names.
func (c *COCO) Values(o dataset.TargetOptions) *Values {
	classes, ids := make([]string, 0, len(c.categories)), make([]int64, 0, len(c.categories))
	contiguous := true
	for i, one := range c.categories {
		classes, ids = append(classes, one.Name), append(ids, int64(one.ID))
		contiguous = contiguous && int(one.ID) == i
	}
	m := NewObjects(classes, o, shard.Column{Name: crowdName, Type: shard.Int64}, shard.Column{Name: areaName, Type: shard.Float32})
	if !contiguous {
		m.Field.Ids = ids
	}
	v := &Values{Objects: m, IDs: make(map[string]int64, len(c.Images))}
	for _, one := range c.Images {
		v.IDs[one.FileName] = int64(one.ID)
	}
	v.Declared = func(key string) (w, h int) {
		one := c.Images[c.byName[key]]
		return one.Width, one.Height
	}
	v.Read = func(key string, _, _ int) (objects []Object, _ error) {
		id := c.Images[c.byName[key]].ID
		i, _ := slices.BinarySearchFunc(c.objects, id, func(o cocoObject, id cocoID) int { return cmp.Compare(o.image, id) })
		for ; i < len(c.objects) && c.objects[i].image == id; i++ {
			objects = append(objects, c.objects[i].Object)
		}
		return objects, nil
	}
	return v
}

// Listed are the images, without class labels.
func (c *COCO) Listed() *labelrule.Listed {
	l := &labelrule.Listed{Path: c.path, Labels: make(map[string]int32, len(c.Images))}
	for _, one := range c.Images {
		l.Labels[one.FileName] = labelrule.NoLabel
	}
	return l
}
