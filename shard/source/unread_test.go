package source

import (
	"archive/zip"
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// TestUnreadFormats names what is not read, and says what to do instead.
func TestUnreadFormats(t *testing.T) {
	for file, want := range map[string]string{
		"train-00000-of-00002":    "TFRecord, which is not read: write its images into class folders, WebDataset's tars or parquet",
		"data-0000.arrow":         "to_parquet(",
		"train-images-idx3-ubyte": "imgfeed.from_torch",
		"x.npz":                   "a file of numpy arrays",
		"x.lst":                   "x.lst) > ",
		"x.tar.zst":               "x.tar.zst | imgshard build - -o ",
	} {
		dir := sourcetest.WriteTree(t, t.TempDir(), map[string][]byte{file: []byte("PK\x03\x04"), "dataset_info.json": []byte("{}")})
		for _, path := range []string{dir, filepath.Join(dir, file)} {
			refuses(t, path, dataset.Options{}, want, file)
		}
	}
	for file, want := range map[string]string{"a.json": "JSON, of which lists have an object in each line", "x.jpg": "Of a single image give the folder", "train.txt": ".csv, .tsv or .jsonl and begins with path,label"} {
		refuses(t, sourcetest.Write(t, filepath.Join(t.TempDir(), file), []byte("apple_pie/0\n")), dataset.Options{}, want)
	}
	// A folder of images is read, whatever lies beside them.
	beside := paths("cat/1.jpg", "dog/2.jpg")
	beside["embeddings.npy"] = []byte("\x93NUMPY")
	labelled(t, open(t, sourcetest.WriteTree(t, t.TempDir(), beside), dataset.Options{}), "cat/1.jpg=0 dog/2.jpg=1", "cat dog")
}

// TestTinyImageNet opens the whole of it, as it unpacks and as it is downloaded: the labels of val stand in a list.
func TestTinyImageNet(t *testing.T) {
	files := paths("train/n01443537/images/n01443537_0.JPEG", "train/n01629819/images/n01629819_0.JPEG", "test/images/test_0.JPEG")
	files["val/images/val_0.JPEG"], files["val/images/val_1.JPEG"] = []byte(jpegStart+"val_0.JPEG"), []byte(jpegStart+"val_1.JPEG")
	files["val/val_annotations.txt"] = []byte("val_0.JPEG\tn01629819\t0\t32\t44\t62\nval_1.JPEG\tn01443537\t52\t55\t57\t59\n")
	files["wnids.txt"] = []byte("n01443537\nn01629819\n")
	dir := sourcetest.WriteTree(t, filepath.Join(t.TempDir(), "tiny-imagenet-200"), files)
	inside := make(map[string][]byte)
	for name, data := range files {
		inside["t/"+name] = data
	}
	for _, path := range []string{dir, sourcetest.Write(t, filepath.Join(t.TempDir(), "t.zip"), zipOf(t, inside))} {
		splits := openSplits(t, 2, dataset.Options{}, path)
		mustItems(t, splits[0])
		splits[1].ExpectClasses(splits[0].Classes())
		labelled(t, splits[1], "val_0.JPEG=1 val_1.JPEG=0", "n01443537 n01629819")
		testenv.Equal(t, splits[1].Name, "val", "%s: the second split", path)
		if path == dir {
			testenv.Equal(t, splits[1].Output, filepath.Join(dir, "val-shards"), "output")
		}
	}
}

// TestTinyImageNetUnnamed notes validation images without an annotation.
func TestTinyImageNetUnnamed(t *testing.T) {
	files := paths("val/images/val_0.JPEG", "val/images/val_1.JPEG")
	files["val/val_annotations.txt"] = []byte("val_0.JPEG\tn01629819\t0\t32\t44\t62\n")
	s := open(t, filepath.Join(sourcetest.WriteTree(t, t.TempDir(), files), "val"), dataset.Options{})
	mustItems(t, s)
	testenv.Contains(t, strings.Join(s.Notes(), "\n"), "1 image that val_annotations.txt does not name is left out (val_1.JPEG)")
}

// TestMetadataAboveFolders takes the labels of metadata above numbered folders, and the splits of folders below it.
func TestMetadataAboveFolders(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want, note string }{
		"numbered folders": {"metadata.csv", "file_name,label\n00/1.jpg,cat\n00/2.jpg,dog\n01/3.jpg,cat\n", "train: 00/1.jpg=0 00/2.jpg=1 01/3.jpg=0",
			"1 image that metadata.csv does not name is left out (01/4.jpg)"},
		"JSON lines":  {"metadata.jsonl", `{"file_name": "00/1.jpg", "label": 3}` + "\n" + `{"file_name": "01/4.jpg", "label": 0}`, "train: 00/1.jpg=3 01/4.jpg=0", "2 images that"},
		"no labels":   {"metadata.csv", "file_name,caption\n00/1.jpg,one\n", "train: 00/1.jpg=0 00/2.jpg=0 01/3.jpg=1 01/4.jpg=1", "(metadata.csv)"},
		"no captions": {"metadata.jsonl", `{"file_name": "00/1.jpg", "caption": "one"}`, "train: 00/1.jpg=0 00/2.jpg=0 01/3.jpg=1 01/4.jpg=1", "(metadata.jsonl)"},
		"no paths":    {"metadata.csv", "key,label\n1,2\n", "train: 00/1.jpg=0 00/2.jpg=0 01/3.jpg=1 01/4.jpg=1", "(metadata.csv)"},
	} {
		files := paths("00/1.jpg", "00/2.jpg", "01/3.jpg", "01/4.jpg")
		files[tc.file] = []byte(tc.text)
		for _, path := range forms(t, files) {
			if filepath.Ext(path) == ".tar" {
				continue
			}
			s := open(t, path, dataset.Options{})
			testenv.Equal(t, s.Name+": "+shown(t, s), tc.want, "%s, %s", name, filepath.Base(path))
			testenv.Contains(t, notes(s), tc.note)
		}
	}
	files := paths("00/1.jpg", "01/3.jpg")
	files["metadata.csv"] = []byte("file_name,label\n00/1.jpg,dog\n01/3.jpg,cat\n")
	tar := sourcetest.Write(t, filepath.Join(t.TempDir(), "x.tar"), sourcetest.TarOfTree(t, files, "", 3))
	testenv.Says(t, tar, refusal(tar, dataset.Options{}), `"metadata.csv": has labels of the images beside it, and is not read from a tar`)
	testenv.Equal(t, shown(t, open(t, tar, dataset.Options{ForceClasses: true})), "00/1.jpg=0 01/3.jpg=1", "items")
	files["metadata.jsonl"] = []byte(`{"file_name": "00/1.jpg", "label": "cat"}`)
	testenv.Fails(Open(sourcetest.WriteTree(t, t.TempDir(), files), dataset.Options{}))(t, "holds metadata.csv and metadata.jsonl, and one of them is wanted")
	delete(files, "metadata.jsonl")
	files["metadata.csv"] = []byte("file_name,caption\n00/1.jpg,a label\n")
	tar = sourcetest.Write(t, filepath.Join(t.TempDir(), "x.tar"), sourcetest.TarOfTree(t, files, "", 3))
	testenv.Equal(t, shown(t, open(t, tar, dataset.Options{})), "00/1.jpg=0 01/3.jpg=1", "items")
	files = paths("train/a/1.jpg", "train/b/2.jpg", "validation/a/3.jpg")
	files["metadata.csv"] = []byte("file_name,label\ntrain/a/1.jpg,cat\ntrain/b/2.jpg,dog\nvalidation/a/3.jpg,dog\n")
	splits := openSplits(t, 2, dataset.Options{}, sourcetest.WriteTree(t, t.TempDir(), files))
	for i, want := range []string{"train train/a/1.jpg=0 train/b/2.jpg=1 []", "val validation/a/3.jpg=1 []"} {
		testenv.Equal(t, fmt.Sprint(splits[i].Name, " ", shown(t, splits[i]), " ", splits[i].Notes()), want, "split %d", i)
	}
}

// TestImagefolder opens a folder of images with metadata.csv, which the package datasets calls an imagefolder.
func TestImagefolder(t *testing.T) {
	dir := t.TempDir()
	train := sourcetest.WriteTree(t, filepath.Join(dir, "train"), paths("1.jpg", "2.jpg"))
	sourcetest.Write(t, filepath.Join(train, "metadata.csv"), []byte("file_name,label,caption\n1.jpg,cat,one\n2.jpg,dog,two\n"))
	caption := asked(t, "caption=caption")
	s := open(t, train, dataset.Options{Fields: caption})
	labelled(t, s, "1.jpg=0 2.jpg=1", "cat dog")
	testenv.Equal(t, s.Output, filepath.Join(dir, "train-shards"), "output")
	sourcetest.Write(t, filepath.Join(train, "metadata.csv"), []byte("file_name,caption,more\n1.jpg,one,x\n2.jpg,two,y\n"))
	testenv.Fails(Open(train, dataset.Options{}))(t, `has no column "label" of labels (file_name, caption, more), `+
		`which can be named by number too, from 1 on; to take another column for the labels, add --label COLUMN`)
	labelled(t, open(t, train, dataset.Options{NoLabels: true, Fields: caption}), "1.jpg=-1 2.jpg=-1", "")
}

// TestNoLabels packs what has no labels, or whose labels are not wanted: as it lies on disk, and as img2dataset writes it.
func TestNoLabels(t *testing.T) {
	dir := t.TempDir()
	flat := paths("1.jpg", "2.jpg", "deep/down/3.png")
	beside := map[string][]byte{"a/000.jpg": []byte(jpegStart + "0"), "a/000.txt": []byte("a caption"), "a/000.json": []byte(`{"key": "000"}`)}
	pairs := webDatasetTar(t, "000.jpg", jpegStart, "000.json", `{}`, "000.txt", "one",
		"001.jpg", jpegStart, "001.json", `{}`, "001.txt", "two")
	hub := map[string][]byte{"00000.tar": pairs, "00000.parquet": []byte("PAR1"), "00000_stats.json": []byte("{}")}
	written := map[string][]byte{"00000/000.jpg": []byte(jpegStart), "00000/000.txt": []byte("one"), "00001/001.jpg": []byte(jpegStart), "00000_stats.json": []byte("{}"), "00000.parquet": []byte("PAR1")}
	splits := paths("train/1.jpg", "train/2.jpg", "val/3.jpg")
	list := paths("names.csv", "i/a.jpg", "i/b.jpg")
	list["names.csv"] = []byte("path\ni/a.jpg\ni/b.jpg\n")
	for _, tc := range []struct {
		path  string
		keys  string
		error string // without --no-labels
	}{
		{sourcetest.WriteTree(t, filepath.Join(dir, "flat"), flat), "1.jpg 2.jpg deep/down/3.png", ""},
		{sourcetest.WriteTree(t, filepath.Join(dir, "only"), paths("1.jpg", "2.jpg")), "1.jpg 2.jpg", "add --no-labels"},
		{sourcetest.WriteTree(t, filepath.Join(dir, "beside"), beside), "a/000.jpg", "one class only"},
		{sourcetest.Write(t, filepath.Join(dir, "flat.tar"), sourcetest.TarOfTree(t, flat, "", 1)), "1.jpg 2.jpg deep/down/3.png", "--no-labels"},
		{sourcetest.Write(t, filepath.Join(dir, "flat.zip"), zipOf(t, flat)), "1.jpg 2.jpg deep/down/3.png", ""},
		{sourcetest.Write(t, filepath.Join(dir, "pairs.tar"), pairs), "000 001", "add --no-labels"},
		{sourcetest.WriteTree(t, filepath.Join(dir, "tars"), hub), "000 001", "add --no-labels"},
		{sourcetest.WriteTree(t, filepath.Join(dir, "files"), written), "00000/000.jpg 00001/001.jpg", "img2dataset wrote, which are not classes; to take the images without labels, add --no-labels"},
		{sourcetest.WriteTree(t, filepath.Join(dir, "classes"), paths("cat/1.jpg", "dog/2.jpg")), "cat/1.jpg dog/2.jpg", ""},
		{sourcetest.WriteTree(t, filepath.Join(dir, "splits"), splits), "1.jpg 2.jpg", "--no-labels"},
		{filepath.Join(sourcetest.WriteTree(t, filepath.Join(dir, "list"), list), "names.csv"), "i/a.jpg i/b.jpg", ""},
	} {
		of := testenv.Must(Open(tc.path, dataset.Options{NoLabels: true}))(t)
		var keys []string
		for key, it := range mustItems(t, of[0]) {
			keys = append(keys, key)
			testenv.Check(t, it.label == -1 && it.reason == "" && strings.HasPrefix(it.data, jpegStart), "%s: %s is %v", tc.path, key, it)
		}
		testenv.Equal(t, strings.Join(slices.Sorted(slices.Values(keys)), " "), tc.keys, "%s: keys", tc.path)
		testenv.Equal(t, len(of[0].Classes()), 0, "%s: classes", tc.path)
		if tc.error != "" {
			refuses(t, tc.path, dataset.Options{}, tc.error)
		}
	}
	nested := paths("images/train2017/1.jpg", "images/val2017/2.jpg", "images/more/3.jpg", "labels/train2017/1.txt", "labels/val2017/2.txt")
	for _, path := range forms(t, nested)[:2] {
		err := refusal(path, dataset.Options{NoLabels: true})
		testenv.Says(t, path, err, "holds folders of several splits (images/more, images/train2017, images/val2017), and this would join them; "+
			"to take it as it is, add --force-classes\n")
		if err != nil && strings.HasSuffix(path, "G") != strings.HasSuffix(err.Error(), "imgshard build "+path+"/images --no-labels") {
			t.Errorf("%s: %v", path, err)
		}
		testenv.Equal(t, len(mustItems(t, open(t, path, dataset.Options{NoLabels: true, ForceClasses: true}))), 3, "%s: images", path)
	}
	captioned := open(t, filepath.Join(dir, "pairs.tar"), dataset.Options{NoLabels: true, Fields: asked(t, "caption=txt")})
	testenv.Equal(t, testenv.Must(fieldsOf(captioned))(t)["001"]["caption"], "two", "a caption")
}

var updateDocs = flag.Bool("docs", false, "write the table of sources into docs/packing.md")

// TestDocumentsNameEveryKind checks that the table in docs/packing.md is made of the list, and that what stands there is said in full.
func TestDocumentsNameEveryKind(t *testing.T) {
	const doc, head = "../../docs/packing.md", "| SRC | | label |\n|---|---|---|\n"
	var table strings.Builder
	table.WriteString(head)
	kinds := Kinds()
	for i := range kinds { // from the most general
		k := kinds[len(kinds)-1-i]
		testenv.Check(t, k.Name != "" && len(k.Forms) > 0 && k.Labels != "", "%+v says too little of itself", k)
		table.WriteString("| " + k.Name + " | " + strings.Join(k.Forms, "; ") + " | " + k.Labels + " |\n")
	}
	text := testenv.Must(os.ReadFile(doc))(t)
	before, rest, ok := strings.Cut(string(text), head)
	end := strings.Index(rest, "\n\n") + 1
	testenv.Require(t, ok && end != 0, "%s has no table of sources", doc)
	want := before + table.String() + rest[end:]
	if *updateDocs {
		testenv.OK(t, os.WriteFile(doc, []byte(want), 0o666))
	} else if string(text) != want {
		t.Errorf("%s has another table of sources than the list: run this test with -docs", doc)
	}
}

// kaggleTree is a few files as the competition's zip has them, and the label of each key of each split.
func kaggleTree(classes int) (files map[string][]byte, train, val map[string]item) {
	files = make(map[string][]byte)
	train, val = make(map[string]item), make(map[string]item)
	const images = "ILSVRC/Data/CLS-LOC/"
	for label, wnid := range wordnet.Wnids()[:classes] {
		key := fmt.Sprintf("%s/%s_18.JPEG", wnid, wnid)
		files[images+"train/"+key] = []byte(jpegStart + key)
		train[key] = item{label: int32(label), data: jpegStart + key}
	}
	for _, n := range []int{50000, 1, 490} {
		key, label := fmt.Sprintf("ILSVRC2012_val_%08d.JPEG", n), valLabel(n)
		files[images+"val/"+key] = []byte(jpegStart + key)
		val[key] = item{label: label, data: jpegStart + key}
	}
	files[images+"test/ILSVRC2012_test_00000001.JPEG"] = []byte(jpegStart)
	files["LOC_val_solution.csv"] = []byte("ImageId,PredictionString\n")
	files["LOC_synset_mapping.txt"] = []byte("n01440764 tench, Tinca tinca\n")
	files["ILSVRC/Annotations/CLS-LOC/train/n01440764/n01440764_18.xml"] = []byte("<annotation>")
	files["ILSVRC/ImageSets/CLS-LOC/train_cls.txt"] = []byte("n01440764/n01440764_18 1\n")
	return files, train, val
}

// zipOf makes a zip with Go's writer.
func zipOf(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		testenv.Must(testenv.Must(w.Create(name))(t).Write(files[name]))(t)
	}
	testenv.OK(t, w.Close())
	return buf.Bytes()
}

func TestKaggle(t *testing.T) {
	files, few, val := kaggleTree(5) // to make many folders takes time
	all, whole, _ := kaggleTree(1000)
	dir := t.TempDir()
	top := sourcetest.WriteTree(t, filepath.Join(dir, "kaggle"), files)
	archive := sourcetest.Write(t, filepath.Join(dir, "imagenet-object-localization-challenge.zip"), zipOf(t, all))
	tested := map[string]item{"ILSVRC2012_test_00000001.JPEG": {label: -1, data: jpegStart}}
	for _, path := range []string{top, filepath.Join(top, "ILSVRC"), filepath.Join(top, "ILSVRC/Data"), filepath.Join(top, "ILSVRC/Data/CLS-LOC"), archive} {
		splits := openSplits(t, 3, dataset.Options{Test: true}, path)
		testenv.Equal(t, splits[0].Name+" "+splits[1].Name+" "+splits[2].Name, "train val test", "%s: splits", path)
		if path == archive {
			holds(t, splits[0], whole)
			testenv.Contains(t, notes(splits[0]), "has 1,281,167 images, and here are 1,000: 1,280,167 are missing")
			testenv.Equal(t, splits[0].Output, filepath.Join(dir, "imagenet-object-localization-challenge-train-shards"), "output")
			splits[2].ExpectClasses(splits[0].Classes())
		} else {
			holds(t, splits[0], few)
		}
		holds(t, splits[1], val)
		holds(t, splits[2], tested)
		if path == archive {
			testenv.Equal(t, len(splits[2].Classes()), 1000, "classes of test")
		}
	}
	testenv.Contains(t, notes(openSplits(t, 2, dataset.Options{}, top)[0]), "to take images without a label as -1, add --test")
	alone := open(t, filepath.Join(top, "ILSVRC/Data/CLS-LOC/test"), dataset.Options{NoLabels: true})
	holds(t, alone, tested)
	testenv.Equal(t, alone.Name, "test", "test/ alone")
}

// valName is the name of the validation image of that number.
func valName(n int) string { return fmt.Sprintf("ILSVRC2012_val_%08d.JPEG", n) }

// valLabel is the label of the validation image of that number.
func valLabel(n int) int32 {
	label, err := labelrule.ValLabel(valName(n))
	if err != nil {
		panic(err)
	}
	return label
}

// valTree has the first five validation images.
func valTree() (files map[string][]byte, want map[string]item) {
	files, want = make(map[string][]byte), make(map[string]item)
	for k := range 5 {
		name := valName(k + 1)
		files[name] = []byte(jpegStart + name)
		want[name] = item{label: valLabel(k + 1), data: jpegStart + name}
	}
	return files, want
}

// layVal lays the files out as a folder and as tars, and returns their paths.
func layVal(t *testing.T, dir string, files map[string][]byte) []string {
	return []string{sourcetest.WriteTree(t, filepath.Join(dir, "val"), files),
		sourcetest.Write(t, filepath.Join(dir, "ILSVRC2012_img_val.tar"), sourcetest.TarOfTree(t, files, "", 1)),
		sourcetest.Write(t, filepath.Join(dir, "prefixed_val.tar"), sourcetest.TarOfTree(t, files, "val/", 2))}
}

func TestValidationImagesNeedNoLabels(t *testing.T) {
	files, want := valTree()
	dir := t.TempDir()
	paths := layVal(t, dir, files)
	sourcetest.Write(t, filepath.Join(dir, "val/.DS_Store"), []byte("junk"))
	sourcetest.Write(t, filepath.Join(dir, "val/ILSVRC2012_devkit_t12.tar.gz"), []byte("the kit, which is not read"))
	for _, path := range paths {
		s := open(t, path, dataset.Options{})
		holds(t, s, want)
		testenv.Check(t, s.Name == "val" && slices.Equal(s.Classes(), wordnet.Wnids()), "%s: split %q, %q", path, s.Name, s.Classes())
		testenv.Check(t, strings.HasSuffix(s.Format, "of ILSVRC2012's validation images"), "%s: %s", path, s.Format)
		noted(t, s, "has 50,000 images, and here are 5")
	}
	s := open(t, paths[0], dataset.Options{Split: "holdout"})
	train := append(slices.Clone(wordnet.Wnids()), "n99999999")
	train[0] = "n00000000" // which none of the five has
	slices.Sort(train)
	s.ExpectClasses(train)
	holds(t, s, want)
	testenv.Equal(t, s.Name, "holdout", "split")
	testenv.Equal(t, len(s.Classes()), 1001, "classes of train")
	s = open(t, paths[0], dataset.Options{})
	s.ExpectClasses([]string{"n01", "n02"})
	testenv.Fails(items(s))(t, "5 of its 5 classes are not among the 2")
}

func TestDatasetAsDownloaded(t *testing.T) {
	dir := t.TempDir()
	files, _ := valTree()
	sourcetest.Write(t, filepath.Join(dir, valTarName), sourcetest.TarOfTree(t, files, "", 1))
	sourcetest.Write(t, filepath.Join(dir, trainTarName), sourcetest.TarOfTars(t, tree(), 1))
	sourcetest.Write(t, filepath.Join(dir, "ILSVRC2012_devkit_t12/data/meta.mat"), nil)
	splits := openSplits(t, 2, dataset.Options{}, dir)
	testenv.Equal(t, splits[0].Name+" "+splits[1].Name, "train val", "splits")
	testenv.Fails(Open(dir, dataset.Options{Split: "x"}))(t, "two splits")
}

func TestOtherImagesWithoutFolders(t *testing.T) {
	files, _ := valTree()
	for _, name := range []string{"ILSVRC2012_val_00000000.JPEG", "ILSVRC2012_val_00050001.JPEG", "ILSVRC2012_val_1.JPEG", "ILSVRC2012_val_00000009.jpg", "zzz.JPEG",
		"ILSVRC2012_val_+0000001.JPEG", "IMG_1.JPEG"} {
		for _, others := range []map[string][]byte{{}, files} {
			m := maps.Clone(others)
			m[name] = []byte(jpegStart)
			for _, p := range layVal(t, t.TempDir(), m) {
				if strings.Contains(p, "prefixed") && !strings.HasPrefix(name, labelrule.ValNamePrefix) {
					continue // where it stands first, val is a class
				}
				err := refusal(p, dataset.Options{})
				want := "are called ILSVRC2012_val_00000001.JPEG to"
				other := want // where a tar begins with the image, the names behind it are not known yet
				if !strings.HasPrefix(name, labelrule.ValNamePrefix) && (len(others) == 0 || strings.HasSuffix(p, ".tar")) {
					other = "sort the images into a folder for each class, or list them"
				}
				said := testenv.As[*transport.FormatError](t, err, name).Error()
				if !(strings.Contains(said, want) && len(others) > 0 || strings.Contains(said, other)) || !strings.HasSuffix(said, "add --no-labels") {
					t.Errorf("%s, %s: error %v", name, p, err)
				}
			}
		}
	}
}

// TestValInWrongClasses refuses validation images most of which lie in the folder of another class than ILSVRC2012's, unless told to take
// them.
func TestValInWrongClasses(t *testing.T) {
	classes, folders := wordnet.Wnids(), map[string][]byte{}
	for k := range 40 {
		folders[classes[(int(valLabel(k+1))+1)%len(classes)]+"/"+valName(k+1)] = []byte(jpegStart)
	}
	path := sourcetest.WriteTree(t, t.TempDir(), folders)
	refuses(t, path, dataset.Options{}, "40 of its 40 validation images of ILSVRC2012 lie in the folder of another class")
	testenv.Equal(t, len(mustItems(t, open(t, path, dataset.Options{ForceClasses: true}))), 40, "images by --force-classes")
}
