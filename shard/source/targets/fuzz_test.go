package targets

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/mask"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// checkObjects wants a value that a reader of the field takes.
func checkObjects(t *testing.T, m *Objects, objects []Object) {
	t.Helper()
	values := testenv.Must(m.append(nil, "key", objects, 60, 40))(t)
	f := m.Field
	f.BytesMax = shard.RecordBytesMax
	testenv.OK(t, f.ReadObjects(testenv.Must((shard.Fields{f}).Split(values, nil))(t)[0], new(shard.ObjectValue)))
}

func FuzzXML(f *testing.F) {
	f.Add([]byte(`<annotation><size><width>60</width></size><object><name>dog</name><difficult>1</difficult><bndbox><xmin>1</xmin><ymin>2</ymin>` +
		`<xmax>3.5</xmax><ymax>4</ymax></bndbox></object></annotation>`))
	f.Add([]byte(`<?xml version="1.0" encoding="gbk"?><!DOCTYPE a [<!ENTITY b "bb">]><annotation><object><name>&b;</name></object></annotation>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		said, err := parseXML(data)
		if err != nil {
			return
		}
		m := NewObjects([]string{"cat", "dog"}, dataset.TargetOptions{ClipBoxes: true}, shard.Column{Name: difficultName, Type: shard.Int64},
			shard.Column{Name: truncatedName, Type: shard.Int64})
		if objects, err := m.fromXML(&said); err == nil {
			checkObjects(t, m, objects)
		}
	})
}

func FuzzYOLO(f *testing.F) {
	f.Add("0 .5 .5 .1 .1\n1 .1 .1 .2 .2 .3 .3\n")
	f.Fuzz(func(t *testing.T, text string) {
		m := NewObjects([]string{"cat", "dog"}, dataset.TargetOptions{})
		if objects, err := m.fromYOLO(text, 60, 40); err == nil {
			checkObjects(t, m, objects)
		}
	})
}

func FuzzYOLOData(f *testing.F) {
	for _, text := range []string{"train: a\nnames: [x, 'y']", "path: ..\nval: a\nnames:\n  0: x\n", "names: {0: x}\ntrain: a", "names:\n- x\n-\ntrain: ../a"} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(dir, "data.yaml")
		testenv.OK(t, os.WriteFile(file, text, 0o666))
		if d, err := ReadYOLOData(transport.FileSystem{}, file); err == nil && d != nil && len(d.Names) > len(text) {
			t.Errorf("%d names of %d bytes", len(d.Names), len(text))
		}
	})
}

func FuzzMask(f *testing.F) {
	for _, m := range []image.Image{image.NewGray(image.Rect(0, 0, 3, 2)), image.NewGray16(image.Rect(0, 0, 3, 2)), image.NewNRGBA(image.Rect(0, 0, 3, 2)),
		image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black, color.White})} {
		var b bytes.Buffer
		testenv.OK(f, png.Encode(&b, m))
		f.Add(b.Bytes())
	}
	all := dataset.MapOf(255, 0, 1)
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, m := range []*Masks{NewMasks(nil, dataset.TargetOptions{ReduceZero: true}), NewMasks(nil, dataset.TargetOptions{Map: all})} {
			value, err := m.append(nil, file, 3, 2)
			if err != nil {
				continue
			}
			testenv.Must(new(mask.Decoder).Decode(value[4:], 3, 2))(t)
		}
	})
}

func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"bbox": [[1, 2, 3, 4]], "category": ["dog"], "area": [1], "iscrowd": [0]}`))
	f.Add([]byte(`[{"bbox": [1, 2, 3, 4], "category": 1}, {"bbox": null, "category": 0}]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := NewRecords([]string{"cat", "dog"}, false, dataset.TargetOptions{}).Objects
		CategoriesOf(raw)
		if objects, err := m.FromJSON(raw); err == nil {
			checkObjects(t, m, objects)
		}
	})
}
