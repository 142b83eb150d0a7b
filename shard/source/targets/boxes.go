package targets

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// xmlFile is a file of boxes as PASCAL VOC, ImageNet's CLS-LOC and labelImg write it, one for each image:
//
//	<annotation><size><width>500</width><height>375</height></size>
//	  <object><name>dog</name><difficult>0</difficult><truncated>0</truncated>
//	    <bndbox><xmin>48</xmin><ymin>240</ymin><xmax>195</xmax><ymax>371</ymax></bndbox></object></annotation>
type xmlFile struct {
	XMLName xml.Name `xml:"annotation"` // other programs' XML would be read as an image without objects
	Size    struct {
		Width  string `xml:"width"`
		Height string `xml:"height"`
	} `xml:"size"`
	Objects []struct {
		Name      string `xml:"name"`
		Difficult string `xml:"difficult"`
		Truncated string `xml:"truncated"`
		Box       *struct {
			XMin string `xml:"xmin"`
			YMin string `xml:"ymin"`
			XMax string `xml:"xmax"`
			YMax string `xml:"ymax"`
		} `xml:"bndbox"`
	} `xml:"object"`
}

func parseXML(data []byte) (f xmlFile, err error) {
	d := xml.NewDecoder(bytes.NewReader(data))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // names are checked to be UTF-8
	if err = d.Decode(&f); err != nil {
		return f, fmt.Errorf("cannot be read as XML with boxes, as PASCAL VOC has it: %w", err)
	}
	for i := range f.Objects {
		one := &f.Objects[i]
		if one.Name = strings.TrimSpace(one.Name); one.Name == "" {
			return f, fmt.Errorf("object %d has no name", i)
		}
	}
	return f, nil
}

// A Beside finds the files that belong to images: below a folder, with an image's key but for the end of its name. Ends are tried in order.
type Beside struct {
	*transport.TreeFiles
	Ends []string
	Drop string // end of the images' names before the extension that the files lack
}

func (b *Beside) name(key, end string) string {
	return strings.TrimSuffix(strings.TrimSuffix(key, path.Ext(key)), b.Drop) + end
}

func (b *Beside) read(key string) (name string, data []byte, err error) {
	for _, end := range b.Ends {
		name = b.name(key, end)
		if data, err = b.Read(name, nil); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return name, data, err
}

// pin appends the size of an image's file, and its date.
func (b *Beside) pin(dst []byte, key string, dates bool) ([]byte, error) {
	for _, end := range b.Ends {
		info, err := b.FS.Stat(filepath.Join(b.Root, filepath.FromSlash(b.name(key, end))))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return dst, err
		}
		dst = append(strconv.AppendInt(append(dst, end...), info.Size(), 10), ' ')
		if dates {
			dst = strconv.AppendInt(dst, info.ModTime().UnixNano(), 10)
		}
		break
	}
	return append(dst, 0), nil
}

// AddXML adds the boxes of XML files below a folder, for images with these keys. Without classes they are the names in the files.
func (v *Values) AddXML(files *transport.TreeFiles, classes, keys []string, o dataset.TargetOptions) error {
	m := NewObjects(classes, o, shard.Column{Name: difficultName, Type: shard.Int64}, shard.Column{Name: truncatedName, Type: shard.Int64})
	beside := &Beside{TreeFiles: files, Ends: []string{".xml"}}
	if len(classes) == 0 {
		names := make(map[string]bool)
		for _, key := range keys {
			name, data, err := beside.read(key)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			var f xmlFile
			if err == nil {
				f, err = parseXML(data)
			}
			if err != nil {
				return transport.RefuseEntry(files.Root, name, "%v", err)
			}
			for _, one := range f.Objects {
				names[one.Name] = true
			}
		}
		m.Scanned = true
		m.setClasses(slices.Sorted(maps.Keys(names)))
	}
	missing := [2]string{"image has no XML, and so no objects", "images have no XML, and so no objects"}
	v.addObjects(m, beside, missing, func(data []byte, key string, w, h int) ([]Object, error) {
		f, err := parseXML(data)
		if err != nil {
			return nil, err
		}
		if width, height := number(f.Size.Width), number(f.Size.Height); width > 0 && height > 0 && (int(width) != w || int(height) != h) {
			v.counts.add("image has another size than its XML says", "images have other sizes than their XML says", key)
		}
		return m.fromXML(&f)
	})
	return nil
}

// number is a text's number, or 0.
func number(text string) float64 {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return 0
	}
	return x
}

// fromXML returns the objects of a file. Their boxes are the file's numbers, as torchvision takes them, unless the options say that pixels
// are counted from 1: a box then begins one pixel earlier.
func (m *Objects) fromXML(f *xmlFile) (objects []Object, err error) {
	for i, one := range f.Objects {
		label, ok := m.index[one.Name]
		if !ok {
			return nil, fmt.Errorf("object %d has the class %.60q, which is not among the %d", i, one.Name, len(m.index))
		}
		if one.Box == nil {
			return nil, fmt.Errorf("object %d has no bndbox", i)
		}
		o := Object{Label: label, Numbers: [numbersMax]float64{number(one.Difficult), number(one.Truncated)}}
		for k, text := range []string{one.Box.XMin, one.Box.YMin, one.Box.XMax, one.Box.YMax} {
			x, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
			if err != nil {
				return nil, fmt.Errorf("object %d has the edge %.40q, which is not a number", i, text)
			}
			if o.Box[k] = float32(x); m.Options.OneBased && k < 2 {
				o.Box[k]--
			}
		}
		if !finite(o.Box) {
			return nil, fmt.Errorf("object %d has the box %v", i, o.Box)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// AddYOLO adds the boxes of YOLO's text files below a folder, one for each image that has objects. A line is a class and a box, or the
// corners of a polygon, as fractions of the image's size:
//
//	0 0.481719 0.634028 0.690625 0.713278      class, centre, width and height
//	0 0.1 0.1 0.4 0.1 0.4 0.5                  class, and a polygon, of which the box around it is taken
func (v *Values) AddYOLO(files *transport.TreeFiles, classes []string, o dataset.TargetOptions) {
	m := NewObjects(classes, o)
	beside := &Beside{TreeFiles: files, Ends: []string{".txt"}}
	v.addObjects(m, beside, [2]string{}, func(data []byte, _ string, w, h int) ([]Object, error) {
		return m.fromYOLO(string(data), float64(w), float64(h))
	})
}

const fractionMax = 2 // boxes may reach out of the image a bit; larger numbers are pixels

// fromYOLO returns the objects of a file's lines, for an image of w × h pixels.
func (m *Objects) fromYOLO(text string, w, h float64) (objects []Object, err error) {
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		numbers := make([]float64, len(words))
		for i, word := range words {
			if numbers[i], err = strconv.ParseFloat(word, 64); err != nil {
				return nil, fmt.Errorf("line %d: %.40q is not a number", n, word)
			}
		}
		class, rest := numbers[0], numbers[1:]
		switch {
		case class != float64(int32(class)) || class < 0 || len(m.Field.Classes) > 0 && int(class) >= len(m.Field.Classes):
			return nil, fmt.Errorf("line %d: the class %v is not among the %d, counted from 0", n, words[0], len(m.Field.Classes))
		case len(rest) != 4 && (len(rest) < 6 || len(rest)%2 > 0):
			return nil, fmt.Errorf("line %d: %d numbers behind the class: 4 of a box or pairs of a polygon were expected", n, len(rest))
		}
		x1, y1, x2, y2 := rest[0]-rest[2]/2, rest[1]-rest[3]/2, rest[0]+rest[2]/2, rest[1]+rest[3]/2
		if len(rest) > 4 {
			x1, y1, x2, y2 = rest[0], rest[1], rest[0], rest[1]
			for i := 2; i < len(rest); i += 2 {
				x1, y1, x2, y2 = min(x1, rest[i]), min(y1, rest[i+1]), max(x2, rest[i]), max(y2, rest[i+1])
			}
		}
		o := Object{Label: int64(class), Box: [4]float32{float32(x1 * w), float32(y1 * h), float32(x2 * w), float32(y2 * h)}}
		if !finite(o.Box) {
			return nil, fmt.Errorf("line %d: the box %v", n, o.Box)
		}
		if far := slices.IndexFunc(rest, func(x float64) bool { return math.Abs(x) > fractionMax }); far >= 0 {
			return nil, fmt.Errorf("line %d: %s is not a fraction of the image's width or height, as YOLO has it: divide pixels by these",
				n, words[1+far])
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// YOLOData is what YOLO's data.yaml says: the names of the classes, and the folders of each split's images.
type YOLOData struct {
	Names  []string
	Splits map[string]string // train, val, test → a folder of images
}

// ReadYOLOData reads a data.yaml; nil for other YAML. As in ultralytics, folders lie below "path", or below the file's own folder.
func ReadYOLOData(t transport.Tree, file string) (*YOLOData, error) {
	text, err := transport.ReadLines(t, file, "YAML")
	if err != nil {
		return nil, err
	}
	values, names, err := parseYAML(text)
	if err != nil {
		return nil, transport.Refuse(file, "%v", err)
	}
	if names == nil || values["train"] == "" && values["val"] == "" {
		return nil, nil
	}
	d := &YOLOData{Names: names, Splits: make(map[string]string)}
	own := filepath.Dir(file)
	root := values["path"]
	if !filepath.IsAbs(root) {
		root = filepath.Join(own, root)
	}
	for _, split := range []string{"train", "val", "test"} {
		given := values[split]
		if given == "" {
			continue
		}
		given = filepath.FromSlash(given)
		tried := slices.Compact([]string{filepath.Join(root, given), filepath.Join(own, given),
			filepath.Join(own, strings.TrimLeft(given, "."+string(filepath.Separator)))}) // Roboflow writes ../train/images
		if filepath.IsAbs(given) {
			tried = []string{given}
		}
		for _, folder := range tried {
			if info, err := t.Stat(folder); err == nil && info.IsDir() {
				d.Splits[split] = folder
				break
			}
		}
		if d.Splits[split] == "" && split != "test" {
			return nil, transport.Refuse(file, "%s: %s is not a folder of images here (tried %s): correct the path", split, values[split],
				transport.SomeNames(tried))
		}
	}
	return d, nil
}

// parseYAML reads a data.yaml. It returns the texts of its top level, and the class names, which it has as a list or by number.
//
//	train: images/train
//	names: [person, car]        names:              names:
//	                              0: person         - person
func parseYAML(text string) (values map[string]string, names []string, err error) {
	var top map[string]yaml.Node
	if err := yaml.Unmarshal([]byte(text), &top); err != nil && strings.Contains(text, "names:") {
		return nil, nil, fmt.Errorf("cannot be read as YAML: %w", err)
	}
	values = make(map[string]string)
	byNumber, list := make(map[int]string), top["names"]
	for key, node := range top {
		values[key] = node.Value
		switch {
		case len(list.Content) == 0 || node.Kind != yaml.SequenceNode:
		case key == "kpt_shape":
			return nil, nil, errors.New("has keypoints, which are not read: remove kpt_shape if the labels are boxes or polygons")
		case key != "names" && len(node.Content) == 1:
			values[key] = node.Content[0].Value
		case key == "train" || key == "val":
			return nil, nil, fmt.Errorf("%s is a list of %d folders, and one is read: put their images and labels into one", key,
				len(node.Content))
		}
	}
	for i, node := range list.Content {
		if list.Kind == yaml.SequenceNode {
			byNumber[i] = node.Value
		} else if n, err := strconv.Atoi(node.Value); err == nil && i%2 == 0 {
			byNumber[n] = list.Content[i+1].Value
		}
	}
	for i := range len(byNumber) {
		name, ok := byNumber[i]
		if reason := transport.NameReason(name); !ok || reason != "" || name == "" {
			return nil, nil, fmt.Errorf("names has %d names, and none for the class %d, or one that cannot be used", len(byNumber), i)
		}
		names = append(names, name)
	}
	return values, names, nil
}
