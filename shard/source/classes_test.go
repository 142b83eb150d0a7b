package source

import (
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

// TestMistakenClasses lays out what people give by mistake: the error names what they meant and what insists, and with that the labels are
// what it said.
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
		roots := []string{sourcetest.Write(t, filepath.Join(t.TempDir(), "x.tar"), sourcetest.TarOfTree(t, tc.files, "./", 7))}
		if len(tc.files) < 100 { // to make many folders takes time
			roots = append(roots, forms(t, tc.files)...)
		}
		for _, root := range roots {
			if name == "a folder between" && filepath.Ext(root) == ".zip" {
				continue // which is read as its only folder
			}
			if strings.Contains(strings.Join(tc.want, ""), "look like splits") && filepath.Ext(root) != ".tar" {
				continue // they are splits, see TestSplitsOfAFolder
			}
			_, err := items(open(t, root, dataset.Options{}))
			testenv.Check(t, err == nil || !strings.Contains(err.Error(), "look like splits") || !strings.Contains(err.Error(), "--classes-from"),
				"%s, %s: splits would become one set: %v", name, filepath.Base(root), err)
			testenv.Check(t, err == nil || filepath.Ext(root) == "" || !strings.Contains(err.Error(), "build "+root),
				"%s, %s: there is no such folder: %v", name, filepath.Base(root), err)
			for _, want := range tc.want {
				testenv.Says(t, name+", "+filepath.Base(root), err, want)
			}
			mustItems(t, open(t, root, dataset.Options{ForceClasses: true}))
		}
	}
}

// TestConfigurations lays out parquet files as Hugging Face does, in a folder for each configuration.
func TestConfigurations(t *testing.T) {
	for name, files := range map[string]map[string][]byte{
		"default": paths("default/train/0000.parquet", "default/validation/0000.parquet"),
		"de":      paths("en/0000.parquet", "de/0000.parquet"),
	} {
		for _, path := range forms(t, files)[:2] {
			want := name + " holds parquet files and no images, as a configuration at Hugging Face does"
			if name == "default" && filepath.Ext(path) == "" { // which holds splits, and is opened
				want = "default/train/0000.parquet: does not end as parquet files do"
			}
			refuses(t, path, dataset.Options{}, want)
		}
	}
	zip := forms(t, paths("train/0000.parquet", "validation/0000.parquet"))[2]
	refuses(t, zip, dataset.Options{}, "parquet in a zip is not read\n  to unpack it")
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
		for _, path := range forms(t, files) {
			testenv.Says(t, name+", "+filepath.Base(path), refusal(path, dataset.Options{}), tc.want)
			s := open(t, path, dataset.Options{ForceClasses: true})
			testenv.Equal(t, mustItems(t, s)[tc.file].data, tc.content, "%s, %s: insisted on", name, filepath.Base(path))
			testenv.Equal(t, len(s.Classes()), 3, "%s, %s: insisted on: classes", name, filepath.Base(path))
		}
	}
}

// TestImagesAboveTheLevel does not leave out images by a level of classes that is too deep for them.
func TestImagesAboveTheLevel(t *testing.T) {
	dir := forms(t, paths("a/airfield/1.jpg", "a/apt/in/2.jpg", "a/apt/out/3.jpg", "b/bar/4.jpg"))[0]
	for level, want := range map[int]string{0: "a holds no image itself", 2: "apt holds no image itself", 3: "2 images lie above the folders of level 3"} {
		err := refusal(dir, dataset.Options{ClassesFrom: level})
		testenv.Says(t, level, err, want)
		testenv.Check(t, !strings.Contains(fmt.Sprint(err), "--classes-from"), "level %d: %v", level, err)
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
		testenv.Check(t, said[0] == said[1] && (said[0] != "") == (name == "annotations" || name == "splits" || strings.HasPrefix(name, "val")),
			"%s first: %q; last: %q", name, said[0], said[1])
	}
}

// TestSplitsAboveClasses takes deeper folders for classes: training and test images do not become one set.
func TestSplitsAboveClasses(t *testing.T) {
	for _, path := range forms(t, paths("training_set/a/1.jpg", "training_set/b/2.jpg", "test_set/a/3.jpg", "test_set/b/4.jpg")) {
		refuses(t, path, dataset.Options{ClassesFrom: 2}, "the folders above the classes look like splits (test_set, training_set)")
		testenv.Equal(t, len(mustItems(t, open(t, path, dataset.Options{ClassesFrom: 2, ForceClasses: true}))), 4, "%s: images", path)
	}
}

// TestImagesBesideSplits notes images that lie beside the folders of splits.
func TestImagesBesideSplits(t *testing.T) {
	dir := sourcetest.WriteTree(t, t.TempDir(), paths("train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/b/4.jpg", "cover.jpg", "README.md"))
	splits := testenv.Must(Open(dir, dataset.Options{}))(t)
	testenv.Equal(t, strings.Join(splits[0].Notes(), "\n"), "1 image beside the folders of splits is left out (cover.jpg)", "notes")
}

// TestRightClassesAreNoMistake lays out what looks odd and is right.
func TestRightClassesAreNoMistake(t *testing.T) {
	for _, tc := range []struct {
		files           map[string][]byte
		labels, classes string
	}{
		{paths("n01443537/images/a.JPEG", "n01443537/boxes.txt", "n01629819/images/b.JPEG"), // Tiny ImageNet
			"n01443537/boxes.txt=0 n01443537/images/a.JPEG=0 n01629819/images/b.JPEG=1", "n01443537 n01629819"},
		{paths("cat/1.jpg", "cat/more/2.jpg", "cat/most/3.jpg", "dog/4.jpg"),
			"cat/1.jpg=0 cat/more/2.jpg=0 cat/most/3.jpg=0 dog/4.jpg=1", "cat dog"},
		{paths("bus/1.jpg", "car/2.jpg", "train/3.jpg"), "bus/1.jpg=0 car/2.jpg=1 train/3.jpg=2", "bus car train"},  // the vehicle
		{paths("n01440764/1.jpg", "n02102040/2.jpg"), "n01440764/1.jpg=0 n02102040/2.jpg=1", "n01440764 n02102040"}, // a few of ImageNet
	} {
		for _, root := range forms(t, tc.files) {
			labelled(t, open(t, root, dataset.Options{}), tc.labels, tc.classes)
		}
	}
}

// TestClassesFrom takes a deeper folder for the class.
func TestClassesFrom(t *testing.T) {
	files := paths("a/cat/1.jpg", "a/dog/2.jpg", "b/cat/3.jpg", "b/cat/deep/4.jpg")
	files["a/README"] = []byte("beside")
	for _, root := range forms(t, files)[:2] {
		s := open(t, root, dataset.Options{ClassesFrom: 2})
		labelled(t, s, "a/cat/1.jpg=0 a/dog/2.jpg=1 b/cat/3.jpg=0 b/cat/deep/4.jpg=0", "cat dog")
		noted(t, s, "a/README")
	}
}

// TestNumberedClasses is ImageNet-V2's layout.
func TestNumberedClasses(t *testing.T) {
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("%d/x.jpeg", i))
	}
	for _, root := range forms(t, paths(names...)) {
		s := open(t, root, dataset.Options{})
		got := mustItems(t, s)
		for i, key := range names {
			testenv.Equal(t, got[key].label, int32(i), "label of %s", key)
		}
		noted(t, s, "2 has the label 2; torchvision's ImageFolder, which sorts them as strings, would give it 4; "+
			"to take the order of ImageFolder, add --class-order string")
		s = open(t, root, dataset.Options{ClassOrder: dataset.ClassOrderString})
		got = mustItems(t, s)
		testenv.Equal(t, got["2/x.jpeg"].label, 4, "label as a string")
		testenv.Equal(t, got["10/x.jpeg"].label, 2, "label as a string")
		noted(t, s, "the classes are numbers and stand in the order of strings, as torchvision's ImageFolder has them: 2 has the label 4")
	}
	padded := open(t, forms(t, paths("00/x", "01/x", "10/x"))[0], dataset.Options{})
	mustItems(t, padded)
	noted(t, padded) // they sort alike
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
	all := testenv.FromJSON[[]map[string][2]any](t, out)
	for i, want := range all {
		s := open(t, args[4+i], trees[i].opts)
		got := mustItems(t, s)
		testenv.Equal(t, len(got), len(want), "%v: number of items", want)
		for key, w := range want {
			label := got[key].label
			testenv.Equal(t, [2]any{float64(label), s.Classes()[label]}, w, "%s: label and class", key)
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
	testenv.Check(t, f.besideImages(f.files[n-1]) && !slices.ContainsFunc(f.files, loose.besideImages), "the names are told wrongly")
	testenv.Equal(t, dataset.OrderClasses(&dataset.Split{}, numbers)[n-1], fmt.Sprint(n-1), "the last class")
}
