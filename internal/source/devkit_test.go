package source

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/sourcetest"
)

// The synsets of the test's meta.mat: IDs 1 to 4 are the leaves n03, n01, n04, n02; 5 and 600 have children.
func testMeta(t *testing.T) []byte {
	t.Helper()
	meta, err := os.ReadFile("matfile/testdata/synsets.mat")
	if err != nil {
		t.Fatal(err)
	}
	return meta
}

const testTruth = "2\n1\n4\n3\n2\n"

// flatTree is a validation split whose images have the labels of testTruth: n01, n03, n02, n04, n01.
func flatTree() (files map[string][]byte, want map[string]item) {
	files, want = make(map[string][]byte), make(map[string]item)
	for k, label := range []int32{0, 2, 1, 3, 0} {
		name := "ILSVRC2012_val_0000000" + string(rune('1'+k)) + ".JPEG"
		files[name] = []byte(jpegStart + name)
		want[name] = item{label: label, data: jpegStart + name}
	}
	return files, want
}

// writeDevkit writes a devkit in one of its forms and returns where it is.
func writeDevkit(t *testing.T, form, dir string) string {
	t.Helper()
	meta, truth := testMeta(t), []byte(testTruth)
	const top = "ILSVRC2012_devkit_t12"
	tar := func() []byte {
		return sourcetest.Tar(t, sourcetest.File{Name: top + "/readme.txt", Data: []byte("x")},
			sourcetest.File{Name: top + "/data/" + groundTruthName, Data: truth}, sourcetest.File{Name: top + "/data/meta.mat", Data: meta})
	}
	switch form {
	case "tar.gz":
		return sourcetest.Write(t, filepath.Join(dir, top+".tar.gz"), sourcetest.Gzip(t, tar()))
	case "tar":
		return sourcetest.Write(t, filepath.Join(dir, top+".tar"), tar())
	case "unpacked":
		sourcetest.Write(t, filepath.Join(dir, top, "data", groundTruthName), truth)
		sourcetest.Write(t, filepath.Join(dir, top, "data/meta.mat"), meta)
		return filepath.Join(dir, top)
	case "loose":
		sourcetest.Write(t, filepath.Join(dir, groundTruthName), truth)
		sourcetest.Write(t, filepath.Join(dir, "meta.mat"), meta)
		return dir
	}
	t.Fatal(form)
	return ""
}

func TestFlatImagesHaveTheLabelsOfTheDevkit(t *testing.T) {
	files, want := flatTree()
	for _, form := range []string{"tar.gz", "tar", "unpacked", "loose"} {
		dir := t.TempDir()
		writeDevkit(t, form, dir)
		writeTree(t, filepath.Join(dir, "val"), files)
		sourcetest.Write(t, filepath.Join(dir, "val/.DS_Store"), []byte("junk"))
		sourcetest.Write(t, filepath.Join(dir, "ILSVRC2012_img_val.tar"), sourcetest.TarOfTree(t, files, "", 1))
		sourcetest.Write(t, filepath.Join(dir, "prefixed_val.tar"), sourcetest.TarOfTree(t, files, "val/", 2))
		for _, name := range []string{"val", "ILSVRC2012_img_val.tar", "prefixed_val.tar"} {
			s := open(t, filepath.Join(dir, name), Options{})
			if s.Name != "val" {
				t.Errorf("%s: split %q", name, s.Name)
			}
			if got := mustItems(t, s); !reflect.DeepEqual(got, want) {
				t.Errorf("devkit %s, %s: items %v, want %v", form, name, got, want)
			}
			if classes := []string{"n01", "n02", "n03", "n04"}; !slices.Equal(s.Classes(), classes) {
				t.Errorf("%s: classes %q, want %q", name, s.Classes(), classes)
			}
		}
	}
}

func TestDevkitElsewhere(t *testing.T) {
	files, want := flatTree()
	kit := writeDevkit(t, "tar.gz", t.TempDir())
	root := writeTree(t, filepath.Join(t.TempDir(), "images"), files)
	s := open(t, root, Options{Devkit: kit, Split: "holdout"})
	if got := mustItems(t, s); !reflect.DeepEqual(got, want) || s.Name != "holdout" {
		t.Errorf("split %q, items %v, want %v", s.Name, got, want)
	}
}

func TestFlatImagesAreLabelledByTheOtherSplit(t *testing.T) {
	files, want := flatTree()
	dir := t.TempDir()
	writeDevkit(t, "tar.gz", dir)
	writeTree(t, filepath.Join(dir, "val"), files)
	s := open(t, filepath.Join(dir, "val"), Options{})
	s.ExpectClasses([]string{"n00", "n01", "n02", "n03", "n04", "n05"})
	for key, it := range want {
		it.label++ // behind n00
		want[key] = it
	}
	if got := mustItems(t, s); !reflect.DeepEqual(got, want) || len(s.Classes()) != 6 || len(s.Notes()) != 1 {
		t.Errorf("items %v, want %v; classes %q, notes %q", got, want, s.Classes(), s.Notes())
	}
}

func TestDatasetAsDownloaded(t *testing.T) {
	dir := t.TempDir()
	writeDevkit(t, "tar.gz", dir)
	files, _ := flatTree()
	sourcetest.Write(t, filepath.Join(dir, valTarName), sourcetest.TarOfTree(t, files, "", 1))
	sourcetest.Write(t, filepath.Join(dir, trainTarName), sourcetest.TarOfTars(t, tree(), 1))
	splits, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(splits) != 2 || splits[0].Name != "train" || splits[1].Name != "val" {
		t.Fatalf("splits %v", splits)
	}
	if _, err := Open(dir, Options{Split: "x"}); err == nil {
		t.Error("two splits of one name are taken")
	}
}

func TestFlatImagesThatDoNotFitTheGroundTruth(t *testing.T) {
	files, _ := flatTree()
	for name, change := range map[string]func(map[string][]byte){
		"one too few":  func(m map[string][]byte) { delete(m, "ILSVRC2012_val_00000003.JPEG") },
		"one too many": func(m map[string][]byte) { m["zzz.JPEG"] = []byte(jpegStart) },
	} {
		m := make(map[string][]byte)
		for k, v := range files {
			m[k] = v
		}
		change(m)
		dir := t.TempDir()
		writeDevkit(t, "unpacked", dir)
		writeTree(t, filepath.Join(dir, "val"), m)
		sourcetest.Write(t, filepath.Join(dir, "val.tar"), sourcetest.TarOfTree(t, m, "", 1))
		for _, p := range []string{"val", "val.tar"} {
			if _, err := items(open(t, filepath.Join(dir, p), Options{})); err == nil || !strings.Contains(err.Error(), "ground truth") {
				t.Errorf("%s, %s: error %v", name, p, err)
			}
		}
	}
}

func TestDevkitThatIsMalformed(t *testing.T) {
	meta := testMeta(t)
	for name, tc := range map[string]struct {
		meta  []byte
		truth string
		want  string
	}{
		"no number":       {meta, "1\nx\n", `line 2: "x"`},
		"not a leaf":      {meta, "1\n5\n", `line 2: "5"`},
		"no such ID":      {meta, "99\n", "line 1"},
		"empty line":      {meta, "1\n\n2\n", "line 2"},
		"meta cut":        {meta[:200], "1\n", "meta.mat"},
		"meta not MATLAB": {[]byte("hello"), "1\n", "no header"},
	} {
		if _, err := parseDevkit("/kit", tc.meta, []byte(tc.truth)); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "/kit") {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}
