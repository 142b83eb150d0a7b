package source

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// paths makes a tree of images with these paths.
func paths(names ...string) map[string][]byte {
	files := make(map[string][]byte)
	for _, name := range names {
		files[name] = []byte(jpegStart + name)
	}
	return files
}

// TestMistakenClasses lays out what people give by mistake: the error names what they meant and what insists, and with that the labels are what
// it said.
func TestMistakenClasses(t *testing.T) {
	known := wordnet.Wnids()
	var most, extra []string
	for _, c := range known[:950] {
		most = append(most, c+"/x.JPEG")
	}
	for _, c := range known {
		extra = append(extra, c+"/x.JPEG")
	}
	extra = append(extra, "ILSVRC2012_img_val/x.JPEG")
	for name, tc := range map[string]struct {
		files map[string][]byte
		want  []string
	}{
		"a folder between": {paths("data/cat/1.jpg", "data/cat/2.jpg", "data/dog/3.jpg"), []string{"data holds no image itself", "(cat, dog)", "--classes-from 2", "--force-classes"}},
		"splits between":   {paths("images/train/cat/1.jpg", "images/val/cat/2.jpg"), []string{"images holds no image itself", "(train/cat, val/cat), which look like splits"}},
		"sets as splits":   {paths("training_set/cat/1.jpg", "test_set/cat/2.jpg", "test_set/dog/2.jpg"), []string{"test_set holds no image itself", "(cat, dog), which look like splits"}},

		"one class":             {paths("cat/1.jpg", "cat/2.jpg"), []string{"one class only, cat"}},
		"a split of another":    {paths("cat/1.jpg", "dog/2.jpg", "test/3.jpg"), []string{"not called as classes are (test)"}},
		"two names of no class": {paths("cat/1.jpg", "train/2.jpg", "data/3.jpg"), []string{"(data, train)"}},
		"groups among classes":  {paths("cat/1.jpg", "birds/owl/2.jpg", "birds/tit/3.jpg"), []string{"birds holds no image itself", "(owl, tit)"}},
		"Kaggle's Intel": {paths("seg_train/seg_train/forest/1.jpg", "seg_train/seg_train/sea/2.jpg", "seg_test/seg_test/forest/3.jpg", "seg_test/seg_test/sea/3.jpg",
			"seg_pred/seg_pred/4.jpg"), []string{"(seg_test/forest, seg_test/sea), which look like splits"}},
		"two archives":    {paths("a1/images/cat/1.jpg", "a1/images/dog/2.jpg", "a2/images/cat/3.jpg", "a2/images/dog/4.jpg"), []string{"a1 holds no image itself", "(images/cat, images/dog)", "--classes-from 3"}},
		"wnids missing":   {paths(most...), []string{"950 of ILSVRC2012's 1,000 classes", "complete the copy"}},
		"another folder":  {paths(extra...), []string{"1000 wnids and beside them ILSVRC2012_img_val"}},
		"Kaggle's folder": {paths("Annotations/x/1.jpg", "Data/y/2.jpg", "ImageSets/z/3.jpg"), []string{"Annotations", "--force-classes"}},
	} {
		dir := t.TempDir()
		roots := []string{sourcetest.Write(t, filepath.Join(dir, "x.tar"), sourcetest.TarOfTree(t, tc.files, "./", 7))}
		if len(tc.files) < 100 { // to make many folders takes time
			roots = append(roots, sourcetest.WriteTree(t, filepath.Join(dir, "G"), tc.files), sourcetest.Write(t, filepath.Join(dir, "x.zip"), zipOf(t, tc.files)))
		}
		for _, root := range roots {
			if name == "a folder between" && filepath.Ext(root) == ".zip" {
				continue // which is read as its only folder
			}
			if strings.Contains(strings.Join(tc.want, ""), "look like splits") && filepath.Ext(root) != ".tar" {
				continue // they are splits, see TestSplitsOfAFolder
			}
			_, err := items(open(t, root, dataset.Options{}))
			if err != nil && strings.Contains(err.Error(), "look like splits") && strings.Contains(err.Error(), "--classes-from") {
				t.Errorf("%s, %s: splits would become one set: %v", name, filepath.Base(root), err)
			}
			if err != nil && filepath.Ext(root) != "" && strings.Contains(err.Error(), "build "+root) {
				t.Errorf("%s, %s: there is no such folder: %v", name, filepath.Base(root), err)
			}
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s, %s: error %v, want %q", name, filepath.Base(root), err, want)
				}
			}
			if _, err := items(open(t, root, dataset.Options{ForceClasses: true})); err != nil {
				t.Errorf("%s, %s: insisted on: %v", name, filepath.Base(root), err)
			}
		}
	}
}

// TestConfigurations lays out parquet files as Hugging Face does, in a folder for each configuration.
func TestConfigurations(t *testing.T) {
	for name, files := range map[string]map[string][]byte{
		"default": paths("default/train/0000.parquet", "default/validation/0000.parquet"),
		"de":      paths("en/0000.parquet", "de/0000.parquet"),
	} {
		dir := sourcetest.WriteTree(t, t.TempDir(), files)
		for _, path := range []string{dir, sourcetest.Write(t, filepath.Join(t.TempDir(), "x.tar"), sourcetest.TarOfTree(t, files, "", 3))} {
			want := name + " holds parquet files and no images, as a configuration at Hugging Face does"
			if name == "default" && path == dir { // which holds splits, and is opened
				want = "default/train/0000.parquet: does not end as parquet files do"
			}
			if err := refusal(path, dataset.Options{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", path, err, want)
			}
		}
	}
	if err := refusal(sourcetest.Write(t, filepath.Join(t.TempDir(), "x.zip"), zipOf(t, paths("train/0000.parquet", "validation/0000.parquet"))), dataset.Options{}); err == nil ||
		!strings.Contains(err.Error(), "parquet in a zip is not read\n  to unpack it") {
		t.Errorf("a zip: %v", err)
	}
}

// TestFolderWithoutImages finds folders among the classes that hold files and no image, by content where no name tells it.
func TestFolderWithoutImages(t *testing.T) {
	for name, tc := range map[string]struct{ file, content, want string }{
		"checkpoints":   {"checkpoints/last.pt", "PK\x03\x04", "1 folder among the classes holds no image (checkpoints)"},
		"logs":          {"logs/events.out.tfevents.17", "x", "holds no image (logs)"},
		"no extension":  {"notes/README", "read me", "holds no image (notes)"},
		"deeper":        {"runs/a/b/x.txt", "x", "holds no image (runs)"},
		"other names":   {"owl/1.JPG_large", jpegStart, ""},
		"no name":       {"owl/1", jpegStart, ""},
		"a broken file": {"owl/1.jpg", "", ""},
	} {
		files := paths("cat/1.jpg", "dog/2.jpg")
		files[tc.file] = []byte(tc.content)
		dir := t.TempDir()
		for _, path := range []string{sourcetest.WriteTree(t, filepath.Join(dir, "G"), files), sourcetest.Write(t, filepath.Join(dir, "x.tar"), sourcetest.TarOfTree(t, files, "", 3)),
			sourcetest.Write(t, filepath.Join(dir, "x.zip"), zipOf(t, files))} {
			err := refusal(path, dataset.Options{})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s, %s: %v, want %q", name, filepath.Base(path), err, tc.want)
			}
			s := open(t, path, dataset.Options{ForceClasses: true})
			if got := mustItems(t, s); got[tc.file].data != tc.content || len(s.Classes()) != 3 {
				t.Errorf("%s, %s: insisted on: %v of the classes %q", name, filepath.Base(path), got, s.Classes())
			}
		}
	}
}

// TestImagesAboveTheLevel does not leave out images by a level of classes that is too deep for them.
func TestImagesAboveTheLevel(t *testing.T) {
	files := paths("a/airfield/1.jpg", "a/apt/in/2.jpg", "a/apt/out/3.jpg", "b/bar/4.jpg")
	dir := sourcetest.WriteTree(t, t.TempDir(), files)
	for level, want := range map[int]string{0: "a holds no image itself", 2: "apt holds no image itself", 3: "2 images lie above the folders of level 3"} {
		if err := refusal(dir, dataset.Options{ClassesFrom: level}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "--classes-from") {
			t.Errorf("level %d: %v", level, err)
		}
	}
}

// TestFilesBeforeImages reads tars that begin with other files as those that end with them.
func TestFilesBeforeImages(t *testing.T) {
	other := func(name string) sourcetest.File { return sourcetest.File{Name: name, Data: []byte("text")} }
	image := func(name string) sourcetest.File { return sourcetest.File{Name: name, Data: []byte(jpegStart)} }
	for name, files := range map[string][]sourcetest.File{
		"a licence":     {other("fl/LICENSE.txt"), image("fl/daisy/1.jpg"), image("fl/tulip/2.jpg")},
		"annotations":   {other("fl/xml/1.xml"), other("fl/xml/2.xml"), image("fl/a/1.jpg"), image("fl/b/2.jpg")},
		"splits":        {other("fl/a.csv"), image("fl/train/a/1.jpg"), image("fl/val/a/2.jpg")},
		"val in folder": {other("val/README"), image("val/ILSVRC2012_val_00000001.JPEG")},
	} {
		var said []string
		for range 2 {
			err := refusal(sourcetest.Write(t, filepath.Join(t.TempDir(), "fl.tar"), sourcetest.Tar(t, files...)), dataset.Options{})
			said = append(said, "")
			if err != nil {
				_, said[len(said)-1], _ = strings.Cut(err.Error(), "fl.tar: ")
				said[len(said)-1], _, _ = strings.Cut(said[len(said)-1], "\n")
			}
			files = append(slices.Clone(files[1:]), files[0])
		}
		if said[0] != said[1] || (said[0] != "") != (name == "annotations" || name == "splits" || strings.HasPrefix(name, "val")) {
			t.Errorf("%s first: %q; last: %q", name, said[0], said[1])
		}
	}
}

// TestSplitsAboveClasses takes deeper folders for classes: training and test images do not become one set.
func TestSplitsAboveClasses(t *testing.T) {
	files := paths("training_set/a/1.jpg", "training_set/b/2.jpg", "test_set/a/3.jpg", "test_set/b/4.jpg")
	dir := sourcetest.WriteTree(t, filepath.Join(t.TempDir(), "G"), files)
	for _, path := range []string{dir, sourcetest.Write(t, dir+".tar", sourcetest.TarOfTree(t, files, "", 3)), sourcetest.Write(t, dir+".zip", zipOf(t, files))} {
		if err := refusal(path, dataset.Options{ClassesFrom: 2}); err == nil || !strings.Contains(err.Error(), "the folders above the classes look like splits (test_set, training_set)") {
			t.Errorf("%s: %v", path, err)
		}
		if got := mustItems(t, open(t, path, dataset.Options{ClassesFrom: 2, ForceClasses: true})); len(got) != 4 {
			t.Errorf("%s, insisted on: %v", path, got)
		}
	}
}

// TestRightClassesAreNoMistake lays out what looks odd and is right.
func TestRightClassesAreNoMistake(t *testing.T) {
	for name, tc := range map[string]struct {
		files   map[string][]byte
		classes []string
	}{
		"Tiny ImageNet":     {paths("n01443537/images/a.JPEG", "n01443537/boxes.txt", "n01629819/images/b.JPEG"), []string{"n01443537", "n01629819"}},
		"deep beside flat":  {paths("cat/1.jpg", "cat/more/2.jpg", "cat/most/3.jpg", "dog/4.jpg"), []string{"cat", "dog"}},
		"the vehicle":       {paths("bus/1.jpg", "car/2.jpg", "train/3.jpg"), []string{"bus", "car", "train"}},
		"a few of ImageNet": {paths("n01440764/1.jpg", "n02102040/2.jpg"), []string{"n01440764", "n02102040"}},
	} {
		dir := t.TempDir()
		for _, root := range []string{sourcetest.WriteTree(t, filepath.Join(dir, "G"), tc.files), sourcetest.Write(t, filepath.Join(dir, "x.tar"), sourcetest.TarOfTree(t, tc.files, "", 3))} {
			s := open(t, root, dataset.Options{})
			if got := mustItems(t, s); len(got) != len(tc.files) || !slices.Equal(s.Classes(), tc.classes) {
				t.Errorf("%s: items %v, classes %q", name, got, s.Classes())
			}
		}
	}
}

// TestClassesFrom takes a deeper folder for the class.
func TestClassesFrom(t *testing.T) {
	files := paths("a/cat/1.jpg", "a/dog/2.jpg", "b/cat/3.jpg", "b/cat/deep/4.jpg")
	files["a/README"] = []byte("beside")
	dir := t.TempDir()
	for _, root := range []string{sourcetest.WriteTree(t, filepath.Join(dir, "G"), files), sourcetest.Write(t, filepath.Join(dir, "x.tar"), sourcetest.TarOfTree(t, files, "", 3))} {
		s := open(t, root, dataset.Options{ClassesFrom: 2})
		got := mustItems(t, s)
		if len(got) != 4 || !slices.Equal(s.Classes(), []string{"cat", "dog"}) || got["a/dog/2.jpg"].label != 1 || got["b/cat/deep/4.jpg"].label != 0 {
			t.Errorf("%s: items %v, classes %q", root, got, s.Classes())
		}
		if len(s.Notes()) != 1 || !strings.Contains(s.Notes()[0], "a/README") {
			t.Errorf("notes %q", s.Notes())
		}
	}
}

// TestNumberedClasses is ImageNet-V2's layout.
func TestNumberedClasses(t *testing.T) {
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("%d/x.jpeg", i))
	}
	dir := t.TempDir()
	for _, root := range []string{sourcetest.WriteTree(t, filepath.Join(dir, "G"), paths(names...)), sourcetest.Write(t, filepath.Join(dir, "x.tar"), sourcetest.TarOfTree(t, paths(names...), "x/", 3))} {
		s := open(t, root, dataset.Options{})
		got := mustItems(t, s)
		for i := range 12 {
			if key := names[i]; got[key].label != int32(i) {
				t.Errorf("%s has the label %d", key, got[key].label)
			}
		}
		if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "2 has the label 2; torchvision's ImageFolder, which sorts them as strings, would give it 4; to take the order of ImageFolder, add --class-order string") {
			t.Errorf("notes %q", notes)
		}
		s = open(t, root, dataset.Options{ClassOrder: dataset.ClassOrderString})
		if got := mustItems(t, s); got["2/x.jpeg"].label != 4 || got["10/x.jpeg"].label != 2 || len(s.Notes()) != 1 {
			t.Errorf("as strings: %v, notes %q", got, s.Notes())
		}
	}
	padded := open(t, sourcetest.WriteTree(t, filepath.Join(dir, "padded"), paths("00/x", "01/x", "10/x")), dataset.Options{})
	if mustItems(t, padded); len(padded.Notes()) != 0 {
		t.Errorf("notes on numbers that sort alike: %q", padded.Notes())
	}
}

// TestImageFolder compares labels with torchvision's, of trees that it and this read alike.
func TestImageFolder(t *testing.T) {
	python, _ := pillowtest.Find(t, "torchvision")
	var numbers []string
	for i := range 23 {
		numbers = append(numbers, fmt.Sprintf("%d/x.jpeg", i))
	}
	trees := []struct {
		files map[string][]byte
		opts  dataset.Options
	}{
		{paths("b/1.jpg", "B/2.jpg", "a/3.png", "a/deep/er/4.jpg", "ä/5.jpg", "Z-1/6.webp", "Z 1/7.jpg"), dataset.Options{}},
		{paths(numbers...), dataset.Options{ClassOrder: dataset.ClassOrderString}},
		{paths("data/cat/1.jpg", "data/dog/2.jpg"), dataset.Options{ForceClasses: true}},
	}
	script := "import json, os, sys; from torchvision.datasets import ImageFolder\n" +
		"print(json.dumps([{os.path.relpath(p, r): [l, f.classes[l]] for p, l in f.samples} for r in sys.argv[1:] for f in [ImageFolder(r)]]))"
	args := []string{"-W", "ignore", "-c", script}
	for _, tc := range trees {
		args = append(args, sourcetest.WriteTree(t, t.TempDir(), tc.files))
	}
	out := testenv.Must(exec.Command(python, args...).Output())(t)
	var all []map[string][2]any
	testenv.OK(t, json.Unmarshal(out, &all))
	for i, want := range all {
		s := open(t, args[4+i], trees[i].opts)
		got := mustItems(t, s)
		if len(got) != len(want) {
			t.Errorf("%v: %d items, torchvision has %d", want, len(got), len(want))
		}
		for key, w := range want {
			if label := got[key].label; float64(label) != w[0] || s.Classes()[label] != w[1] {
				t.Errorf("%s has the label %d, %s; torchvision's is %v", key, label, s.Classes()[label], w)
			}
		}
	}
}

// TestManyNames tells what very many names are: the square of their number would take minutes.
func TestManyNames(t *testing.T) {
	const n = 200_000
	numbers, f := make([]string, n), &folder{}
	for i := range numbers {
		numbers[i] = fmt.Sprint(i)
		f.folders, f.files = append(f.folders, fmt.Sprintf("%06d", i)), append(f.files, fmt.Sprintf("%06d.json", i))
	}
	slices.Sort(numbers)
	loose := &folder{files: f.files}
	if !f.besideImages(f.files[n-1]) || slices.ContainsFunc(f.files, loose.besideImages) || dataset.OrderClasses(&dataset.Split{}, numbers)[n-1] != fmt.Sprint(n-1) {
		t.Error("the names are told wrongly")
	}
}
