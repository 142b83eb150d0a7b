package targets

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

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
		objects = append(objects, o)
	}
	return objects, nil
}

// YOLOData is what YOLO's data.yaml says: the names of the classes, and the folders of each split's images.
type YOLOData struct {
	Names  []string
	Splits map[string]string // train, val, test → a folder of images
}

// ReadYOLOData reads a data.yaml at a path. Folders are found as ultralytics finds them: below "path", or below the file's own folder. It
// returns nil for any other YAML.
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
	for _, split := range []string{"train", "val", "test"} {
		given := values[split]
		if given == "" {
			continue
		}
		given = filepath.FromSlash(given)
		tried := []string{filepath.Join(own, values["path"], given), filepath.Join(own, given),
			filepath.Join(own, strings.TrimLeft(given, "."+string(filepath.Separator)))} // Roboflow writes ../train/images
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

// parseYAML reads a data.yaml: the texts at its top, and names as a list or by number.
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
	for key, node := range top {
		values[key] = node.Value
	}
	byNumber, list := make(map[int]string), top["names"]
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
