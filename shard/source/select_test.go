package source

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// TestClassesSelectAndOrder packs some classes of a dataset by a list, as ImageNet-21K-P is of ImageNet-21k, and ImageNet-A's into ILSVRC2012's
// labels.
func TestClassesSelectAndOrder(t *testing.T) {
	dir := t.TempDir()
	list := sourcetest.Write(t, filepath.Join(dir, "list"), []byte("n10\nn77\nn01\n"))
	writeTree(t, filepath.Join(dir, "folders"), tree())
	classTars := make(map[string][]byte)
	for class, data := range sourcetest.ClassTars(t, tree(), 1) {
		classTars[class+".tar"] = data
	}
	writeTree(t, filepath.Join(dir, "classes"), classTars)
	sourcetest.Write(t, filepath.Join(dir, "winter21_whole.tar.gz"), sourcetest.Gzip(t, sourcetest.TarOfTree(t, classTars, "winter21_whole/", 1)))
	sourcetest.Write(t, filepath.Join(dir, "x.tar"), sourcetest.TarOfTree(t, tree(), "x/", 1))
	for _, name := range []string{"folders", "classes", "winter21_whole.tar.gz", "x.tar"} {
		s := open(t, filepath.Join(dir, name), dataset.Options{Classes: list})
		got := mustItems(t, s)
		if len(got) != 4 || got["n01/n01_2.JPEG"].label != 2 || got["n10/deep/er/x.png"].label != 0 || !slices.Equal(s.Classes(), []string{"n10", "n77", "n01"}) {
			t.Errorf("%s: %v, classes %q", name, got, s.Classes())
		}
		if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "of its 3 classes 2 are here, and 1 others are left out") {
			t.Errorf("%s: notes %q", name, notes)
		}
		if _, err := items(open(t, filepath.Join(dir, name), dataset.Options{Classes: "ilsvrc2012"})); err == nil || !strings.Contains(err.Error(), "none of its classes (n01, n02, n10)") {
			t.Errorf("%s: no class of the list: %v", name, err)
		}
	}
	few := writeTree(t, filepath.Join(dir, "imagenet-a"), paths("n01498041/1.jpg", "n12144580/2.jpg"))
	s := open(t, few, dataset.Options{Classes: "ilsvrc2012"})
	got := mustItems(t, s)
	if known := wordnet.Wnids(); got["n01498041/1.jpg"].label != int32(slices.Index(known, "n01498041")) || got["n12144580/2.jpg"].label != int32(slices.Index(known, "n12144580")) {
		t.Errorf("ImageNet-A: %v", got)
	}
}

// TestLabelInJSON reads labels that stand only in the JSON.
func TestLabelInJSON(t *testing.T) {
	dir := t.TempDir()
	data := sourcetest.Tar(t, sourcetest.File{Name: "a.jpg", Data: []byte("A")}, sourcetest.File{Name: "a.json", Data: []byte(`{"label": 3, "alt_label": 1, "width": 5}`)},
		sourcetest.File{Name: "b.json", Data: []byte(`{"label": 0, "alt_label": null}`)}, sourcetest.File{Name: "b.jpg", Data: []byte("B")})
	file := sourcetest.Write(t, filepath.Join(dir, "train.tar"), data)
	s := open(t, file, dataset.Options{Label: "json.label"})
	if got := mustItems(t, s); len(got) != 2 || got["a"].label != 3 || got["b"] != (item{data: "B"}) {
		t.Errorf("items %v", got)
	}
	s = open(t, file, dataset.Options{Label: "json.alt_label"})
	if got := mustItems(t, s); len(got) != 1 || got["a"].label != 1 || !slices.Contains(s.Notes(), "1 sample is left out: a json.alt_label that is null or negative is not a class") {
		t.Errorf("items %v, notes %q", got, s.Notes())
	}
	// A key that a sample lacks is an error, as a misspelt one is, unless the sample is not taken or needs no label.
	missing := sourcetest.Write(t, filepath.Join(dir, "missing.tar"), bytes.ReplaceAll(data, []byte(`"label": 0, "alt`), []byte(`"level": 0, "alt`)))
	for label, key := range map[string]string{"json.label": "b", "json.labl": "a"} {
		_, err := items(open(t, missing, dataset.Options{Label: label}))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the sample %q has no label: the JSON has no key %s", key, strings.TrimPrefix(label, "json."))) {
			t.Errorf("%s: %v", label, err)
		}
	}
	without := sourcetest.Write(t, filepath.Join(dir, "without"), []byte("b\nnot here\n"))
	var excluding dataset.Selection
	testenv.OK(t, excluding.Exclude(without))
	s = open(t, missing, dataset.Options{Label: "json.label", Select: excluding})
	if got := mustItems(t, s); len(got) != 1 || got["a"].label != 3 || !strings.Contains(strings.Join(excluding.Notes(), "\n"), "1 key that "+without+" names is not here (not here)") {
		t.Errorf("items %v, notes %q", got, excluding.Notes())
	}
	if got := mustItems(t, open(t, missing, dataset.Options{Label: "json.label", Test: true})); len(got) != 2 || got["a"].label != 3 || got["b"].label != -1 {
		t.Errorf("items %v", got)
	}
	for label, want := range map[string]string{"alt_label": "it is json.KEY", "json.width": ""} {
		withCls := sourcetest.Tar(t, sourcetest.File{Name: "a.jpg", Data: []byte("A")}, sourcetest.File{Name: "a.cls", Data: []byte("7")}, sourcetest.File{Name: "a.json", Data: []byte(`{"width": 5}`)})
		splits, err := Open(sourcetest.Write(t, filepath.Join(dir, "cls.tar"), withCls), dataset.Options{Label: label})
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v", label, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := mustItems(t, splits[0]); got["a"].label != 5 {
			t.Errorf("%s: %v", label, got)
		}
	}
	bad := sourcetest.Tar(t, sourcetest.File{Name: "a.jpg", Data: []byte("A")}, sourcetest.File{Name: "a.json", Data: []byte(`{"label": "cat"}`)})
	if _, err := items(open(t, sourcetest.Write(t, filepath.Join(dir, "bad.tar"), bad), dataset.Options{Label: "json.label"})); err == nil || !strings.Contains(err.Error(), "not a whole number") {
		t.Errorf("a label that is text: %v", err)
	}
	// timm's class ids are labels where the classes are named.
	ids := sourcetest.Tar(t, sourcetest.File{Name: "a.jpg", Data: []byte("A")}, sourcetest.File{Name: "a.json", Data: []byte(`{"class_id": "n01443537"}`)},
		sourcetest.File{Name: "b.jpg", Data: []byte("B")}, sourcetest.File{Name: "b.json", Data: []byte(`{"class_id": "n00000000"}`)})
	file = sourcetest.Write(t, filepath.Join(dir, "ids.tar"), ids)
	if err := refusal(file, dataset.Options{Label: "json.class_id"}); err == nil || !strings.Contains(err.Error(), "to name them as those of ILSVRC2012, add --classes ilsvrc2012") {
		t.Errorf("class ids without classes: %v", err)
	}
	s = open(t, file, dataset.Options{Label: "json.class_id", Classes: "ilsvrc2012"})
	if got := mustItems(t, s); len(got) != 1 || got["a"].label != 1 || !strings.Contains(strings.Join(s.Notes(), "\n"), "1 sample is left out: ilsvrc2012 does not name its class") {
		t.Errorf("class ids: %v, %q", got, s.Notes())
	}
}
