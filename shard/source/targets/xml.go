package targets

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
	Size struct {
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
		err = fmt.Errorf("cannot be read as XML with boxes: %w", err)
	}
	return f, err
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
				names[strings.TrimSpace(one.Name)] = true
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
			v.counts.add("image has another size than its XML says", "images have other sizes than their XML says", key, 1)
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
		label, ok := m.index[strings.TrimSpace(one.Name)]
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
