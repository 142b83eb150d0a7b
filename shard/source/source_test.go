package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// item is what a source says of one sample.
type item struct {
	label  int32
	data   string
	reason string
}

// open opens a source of one split.
func open(t *testing.T, path string, opts dataset.Options) *dataset.Split {
	t.Helper()
	splits := testenv.Must(Open(path, opts))(t)
	if len(splits) != 1 {
		t.Fatalf("%d splits, want 1", len(splits))
	}
	return splits[0]
}

// items walks over a split and reads everything.
func items(s *dataset.Split) (map[string]item, error) {
	got := make(map[string]item)
	err := s.Walk(context.Background(), func(it transport.Item) error {
		if _, twice := got[it.Key]; twice {
			return fmt.Errorf("key %q twice", it.Key)
		}
		var data []byte
		if it.Data != nil {
			var err error
			if data, err = io.ReadAll(it.Data); err != nil {
				return err
			}
			if int64(len(data)) != it.Size {
				return fmt.Errorf("%s: size %d, read %d", it.Key, it.Size, len(data))
			}
		}
		got[it.Key] = item{data: string(data), reason: it.Reason, label: it.Label}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for key, it := range got {
		it.label = s.Label(it.label)
		if !s.Streamed() && it.reason == "" {
			data, err := s.Read(key, nil)
			if err != nil {
				return nil, err
			}
			it.data = string(data)
		}
		got[key] = it
	}
	return got, nil
}

func mustItems(t *testing.T, s *dataset.Split) map[string]item {
	t.Helper()
	return testenv.Must(items(s))(t)
}

const jpegStart = "\xff\xd8\xff\xe0"

// tree is a dataset of class folders.
func tree() map[string][]byte {
	files := make(map[string][]byte)
	for _, p := range []string{"n02/n02_1.JPEG", "n02/n02_10.JPEG", "n01/n01_2.JPEG", "n10/n10_3.JPEG", "n10/deep/er/x.png", "n01/n01_7.JPEG"} {
		files[p] = []byte(jpegStart + p)
	}
	return files
}

func wantTree() map[string]item {
	want := make(map[string]item)
	for p, data := range tree() {
		want[p] = item{label: map[string]int32{"n01": 0, "n02": 1, "n10": 2}[p[:3]], data: string(data)}
	}
	return want
}

// TestErrorsEndWithWhatToDo checks that no Go error hangs after the words for the user.
func TestErrorsEndWithWhatToDo(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "notes.txt")
	testenv.OK(t, os.WriteFile(file, []byte("no tar"), 0o666))
	empty := filepath.Join(dir, "empty")
	testenv.OK(t, os.Mkdir(empty, 0o777))
	for path, want := range map[string]string{
		file:                          ".csv && imgshard build " + filepath.Join(dir, "notes.csv"),
		empty:                         ", class folders",
		filepath.Join(dir, "nowhere"): ": there is no such file or folder",
	} {
		if _, err := Open(path, dataset.Options{}); err == nil || !strings.HasPrefix(err.Error(), path) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want the end %q", path, err, want)
		}
	}
	if _, err := Open(filepath.Join(dir, "nowhere"), dataset.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is no fs.ErrExist", err)
	}
}

func TestEveryLayoutGivesTheSame(t *testing.T) {
	dir := t.TempDir()
	sourcetest.WriteTree(t, filepath.Join(dir, "folders/train"), tree())
	for class, data := range sourcetest.ClassTars(t, tree(), 1) {
		sourcetest.Write(t, filepath.Join(dir, "tars/train", class+".tar"), data)
		sourcetest.Write(t, filepath.Join(dir, "gz/train", class+".tar.gz"), sourcetest.Gzip(t, data))
	}
	sourcetest.Write(t, filepath.Join(dir, "ILSVRC2012_img_train.tar"), sourcetest.TarOfTars(t, tree(), 2))
	sourcetest.Write(t, filepath.Join(dir, "plain.tar"), sourcetest.TarOfTree(t, tree(), "", 3))
	sourcetest.Write(t, filepath.Join(dir, "dot.tgz"), sourcetest.Gzip(t, sourcetest.TarOfTree(t, tree(), "./", 4)))
	sourcetest.Write(t, filepath.Join(dir, "named.tar"), sourcetest.TarOfTree(t, tree(), "train/", 5))
	sourcetest.Write(t, filepath.Join(dir, "plain.zip"), zipOf(t, tree()))
	inside := make(map[string][]byte)
	for key, data := range tree() {
		inside["data/"+key] = data
	}
	sourcetest.Write(t, filepath.Join(dir, "inside.zip"), zipOf(t, inside))
	for _, tc := range []struct{ path, layout, output string }{
		{"folders/train", "a folder of class folders", "folders/train-shards"},
		{"tars/train", "a folder of class tars", "tars/train-shards"},
		{"gz/train", "a folder of class tars", "gz/train-shards"},
		{"ILSVRC2012_img_train.tar", "a tar of class tars", "ILSVRC2012_img_train-shards"},
		{"plain.tar", "a tar of class folders", "plain-shards"},
		{"dot.tgz", "a tar of class folders", "dot-shards"},
		{"named.tar", "a tar of class folders", "named-shards"},
		{"plain.zip", "a folder of class folders", "plain-shards"},
		{"inside.zip", "a folder of class folders", "inside-shards"},
	} {
		s := open(t, filepath.Join(dir, tc.path), dataset.Options{})
		if s.Format != tc.layout || s.Name != "train" || s.Output != filepath.Join(dir, tc.output) {
			t.Errorf("%s: %q, split %q, output %s", tc.path, s.Format, s.Name, s.Output)
		}
		if got := mustItems(t, s); !reflect.DeepEqual(got, wantTree()) {
			t.Errorf("%s: items %v, want %v", tc.path, got, wantTree())
		}
		if want := []string{"n01", "n02", "n10"}; !slices.Equal(s.Classes(), want) {
			t.Errorf("%s: classes %q, want %q", tc.path, s.Classes(), want)
		}
		if len(s.Notes()) > 0 {
			t.Errorf("%s: notes %q", tc.path, s.Notes())
		}
	}
}

func TestJunkIsSkippedAndOthersAreKept(t *testing.T) {
	root := sourcetest.WriteTree(t, filepath.Join(t.TempDir(), "train"), tree())
	for _, p := range []string{".DS_Store", "n01/.DS_Store", "n01/._n01_2.JPEG", "n02/Thumbs.db", ".ipynb_checkpoints/x.JPEG", "__MACOSX/n01/x.JPEG", "n10/@eaDir/x.JPEG", "n02/.x.jpg"} {
		sourcetest.Write(t, filepath.Join(root, p), []byte("junk"))
	}
	sourcetest.Write(t, filepath.Join(root, "README.txt"), []byte("beside"))
	sourcetest.Write(t, filepath.Join(root, "n01/notes.txt"), []byte("not an image"))
	testenv.OK(t, os.Mkdir(filepath.Join(root, "n03"), 0o777))
	want := wantTree()
	want["n01/notes.txt"] = item{data: "not an image"}
	for key, it := range want {
		if strings.HasPrefix(key, "n10") {
			it.label = 3 // after the empty class
			want[key] = it
		}
	}
	if _, err := items(open(t, root, dataset.Options{})); err == nil || !strings.Contains(err.Error(), "holds no image (n03)") || !strings.Contains(err.Error(), "--force-classes") {
		t.Errorf("an empty class gives %v", err)
	}
	s := open(t, root, dataset.Options{ForceClasses: true})
	if got := mustItems(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("items %v, want %v", got, want)
	}
	notes := strings.Join(s.Notes(), "\n")
	skipped := "4 files or folders are skipped, as hidden or a system's (.ipynb_checkpoints, __MACOSX, n02/.x.jpg, n10/@eaDir)"
	if !strings.Contains(notes, "README.txt") || !strings.Contains(notes, skipped) || len(s.Notes()) != 2 {
		t.Errorf("notes %q", s.Notes())
	}
}

func TestLinksAndOddFiles(t *testing.T) {
	root := sourcetest.WriteTree(t, filepath.Join(t.TempDir(), "train"), map[string][]byte{"n01/a.JPEG": []byte("A")})
	elsewhere := sourcetest.WriteTree(t, t.TempDir(), map[string][]byte{"b.JPEG": []byte("B")})
	for _, l := range []struct{ from, to string }{
		{elsewhere, "n02"}, {filepath.Join(elsewhere, "b.JPEG"), "n01/linked.JPEG"}, {"/nowhere/at/all", "n01/dangling.JPEG"},
	} {
		testenv.OK(t, os.Symlink(l.from, filepath.Join(root, l.to)))
	}
	testenv.OK(t, syscall.Mkfifo(filepath.Join(root, "n01/pipe.JPEG"), 0o666))
	sourcetest.Write(t, filepath.Join(root, "n01/caf\xe9.JPEG"), []byte("latin-1"))
	want := map[string]item{
		"n01/a.JPEG": {data: "A"}, "n02/b.JPEG": {label: 1, data: "B"}, "n01/linked.JPEG": {data: "B"},
		"n01/dangling.JPEG": {reason: transport.ReasonDangling}, "n01/pipe.JPEG": {reason: transport.ReasonNotRegular}, "n01/caf\xe9.JPEG": {reason: "its name is not UTF-8"},
	}
	if got := mustItems(t, open(t, root, dataset.Options{})); !reflect.DeepEqual(got, want) {
		t.Errorf("items %v, want %v", got, want)
	}
	testenv.OK(t, os.Symlink(root, filepath.Join(root, "n01/circle")))
	var format *transport.FormatError
	if _, err := items(open(t, root, dataset.Options{})); !errors.As(err, &format) {
		t.Errorf("a link to the root gives %v", err)
	}
	testenv.OK(t, os.Remove(filepath.Join(root, "n01/circle")))
	testenv.OK(t, os.Symlink(filepath.Join(root, "n01"), filepath.Join(root, "n01/self")))
	if _, err := items(open(t, root, dataset.Options{})); !errors.As(err, &format) || !strings.Contains(err.Error(), "lies in") {
		t.Errorf("a link in a circle gives %v", err)
	}
}

func TestSplitsOfAFolder(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string
		want  []string // "name path layout"
	}{
		"both":          {[]string{"train/a/1", "val/a/2"}, []string{"train train", "val val"}},
		"valid":         {[]string{"train/a/1", "valid/a/2", "test/a/3"}, []string{"train train", "val valid"}},
		"capitals":      {[]string{"Train/a/1", "Val/a/2"}, []string{"train Train", "val Val"}},
		"long":          {[]string{"training/a/1", "validation/a/2"}, []string{"train training", "val validation"}},
		"long capitals": {[]string{"Training/a/1", "VALID/a/2"}, []string{"train Training", "val VALID"}},
		"train alone":   {[]string{"train/a/1"}, []string{"train train"}},
		"val alone":     {[]string{"val/a/1"}, []string{"val val"}},
		"a class train": {[]string{"train/1", "boat/2", "car/3"}, []string{"train "}},
		"no split name": {[]string{"cat/1", "dog/2"}, []string{"train "}},
		"sets":          {[]string{"training_set/a/1", "validation_set/a/2", "test_set/a/3"}, []string{"train training_set", "val validation_set"}},
		"one word":      {[]string{"trainset/a/1", "valset/a/2"}, []string{"train trainset", "val valset"}},
		"capital words": {[]string{"TrainImages/a/1", "DevImages/a/2"}, []string{"train TrainImages", "val DevImages"}},
		"COCO's":        {[]string{"train2017/a/1", "val2017/a/2", "annotations/x.json"}, []string{"train train2017", "val val2017"}},
		"trainval":      {[]string{"trainval_set/a/1", "test_set/a/2"}, []string{"train trainval_set"}},
		"no val":        {[]string{"cars_train/a/1", "cars_test/a/2", "devkit/x.mat"}, []string{"train cars_train"}},
		"one and mini":  {[]string{"train/a/1", "train_mini/a/1", "val/a/2"}, []string{"train train", "val val"}},
		"Kaggle's Intel": {[]string{"seg_train/seg_train/sea/1", "seg_test/seg_test/sea/2", "seg_pred/seg_pred/3.jpg"},
			[]string{"train seg_train/seg_train"}},
		"unpacked":         {[]string{"imagenette2/train/a/1", "imagenette2/val/a/2"}, []string{"train imagenette2/train", "val imagenette2/val"}},
		"words in classes": {[]string{"bullet_train/1", "test_tube/2", "cat/3", "dog/4", "owl/5"}, []string{"train "}},
	} {
		root := filepath.Join(t.TempDir(), "data")
		for _, p := range tc.files {
			sourcetest.Write(t, filepath.Join(root, p), []byte(jpegStart))
		}
		splits, err := Open(root, dataset.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, s := range splits {
			rel, _ := filepath.Rel(root, s.Path)
			got = append(got, s.Name+" "+strings.TrimPrefix(rel, "."))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	for path, want := range map[string]string{"/d/train": "train", "/d/ILSVRC2012_img_val.tar": "val", "/d/imagenet_validation": "val", "/d/test": "test", "/d/cats": "train", "/d/interval": "train", "/d/val2017": "val",
		"/d/testset": "test", "/d/HoldoutDev": "val", "/d/eval": "test", "/d/valve_testosterone": "train"} {
		if got := transport.SplitName(path); got != want {
			t.Errorf("split of %s is %q, want %q", path, got, want)
		}
	}
}

// TestSplitsOfOneName refuses two folders that are named for one split.
func TestSplitsOfOneName(t *testing.T) {
	dir := sourcetest.WriteTree(t, t.TempDir(), paths("train2014/a/1.jpg", "train2017/a/2.jpg", "val2014/a/3.jpg"))
	testenv.Fails(Open(dir, dataset.Options{}))(t, "train2014 and train2017 are both named for the split train")
}

func TestSplitsAgreeOnLabels(t *testing.T) {
	root := sourcetest.WriteTree(t, t.TempDir(), paths("train/a/1", "train/b/1", "train/c/1", "val/c/2", "val/a/2"))
	splits := testenv.Must(Open(root, dataset.Options{}))(t)
	mustItems(t, splits[0])
	splits[1].ExpectClasses(splits[0].Classes())
	if _, err := items(splits[1]); err == nil || !strings.Contains(err.Error(), "has 2 of the other split's 3 classes (b missing)") {
		t.Errorf("a split that lacks a class gives %v", err)
	}
	splits = testenv.Must(Open(root, dataset.Options{ForceClasses: true}))(t)
	splits[1].ExpectClasses([]string{"a", "b", "c"})
	got := mustItems(t, splits[1])
	if got["c/2"].label != 2 || got["a/2"].label != 0 || len(splits[1].Classes()) != 3 {
		t.Errorf("val: %v, classes %q", got, splits[1].Classes())
	}
	sourcetest.Write(t, filepath.Join(root, "val/d/2"), []byte(jpegStart))
	splits = testenv.Must(Open(root, dataset.Options{}))(t)
	splits[1].ExpectClasses([]string{"a", "b", "c"})
	if _, err := items(splits[1]); err == nil || !strings.Contains(err.Error(), "(d)") {
		t.Errorf("a class of val that train has not gives %v", err)
	}
}

func TestWhatCannotBeReadSaysWhy(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string { return sourcetest.Write(t, filepath.Join(dir, name), data) }
	tar := func(files ...sourcetest.File) []byte { return sourcetest.Tar(t, files...) }
	inner := tar(sourcetest.File{Name: "x.JPEG", Data: []byte("x")})
	whole := sourcetest.TarOfTars(t, tree(), 1)
	packed := sourcetest.Gzip(t, whole)
	joined := slices.Concat(whole, whole)
	sourcetest.WriteTree(t, filepath.Join(dir, "mixed"), map[string][]byte{"n01/a": nil, "n02.tar": inner})
	sourcetest.WriteTree(t, filepath.Join(dir, "nottar"), map[string][]byte{"n01.tar": []byte("hello")})
	labelled := tar(sourcetest.File{Name: "0000.jpg", Data: []byte(jpegStart)}, sourcetest.File{Name: "0000.cls", Data: []byte("3")})
	sourcetest.WriteTree(t, filepath.Join(dir, "labelled"), map[string][]byte{"n01.tar": inner, "n02.tar": labelled})
	sourcetest.WriteTree(t, filepath.Join(dir, "flat"), map[string][]byte{"a.JPEG": []byte(jpegStart)})
	beside := map[string][]byte{"all.tar": whole}
	for class, data := range sourcetest.ClassTars(t, tree(), 1) {
		beside[class+".tar"] = data
	}
	sourcetest.WriteTree(t, filepath.Join(dir, "beside"), beside)
	sourcetest.WriteTree(t, filepath.Join(dir, "named"), map[string][]byte{"train_images_0.tar": inner, "train_images_1.tar": inner})
	for _, tc := range []struct{ path, want string }{
		{filepath.Join(dir, "beside"), "unpacked beside itself"},
		{filepath.Join(dir, "named"), "named for a split and not for a class"},
		{"", "the path is empty"},
		{filepath.Join(dir, "mixed"), "class folders and class tars"},
		{filepath.Join(dir, "nottar"), "n01.tar: neither a tar"},
		{filepath.Join(dir, "flat"), "sort the images into a folder for each class"},
		{filepath.Join(dir, "labelled"), "as WebDataset has it"},
		{write("text.tar", []byte("hello")), "neither a tar"},
		{write("nofiles.tar", tar()), "no files"},
		{write("up.tar", tar(sourcetest.File{Name: "n01/../../etc/passwd"})), `climbs out`},
		{write("abs.tar", tar(sourcetest.File{Name: "/n01/x.JPEG"})), "absolute"},
		{write("long.tar", tar(sourcetest.File{Name: "n01/" + strings.Repeat("x", 5000)})), "5004 bytes"},
		{write("inup.tar", tar(sourcetest.File{Name: "n01.tar", Data: tar(sourcetest.File{Name: "../x.JPEG"})})), `n01.tar: ../x.JPEG`},
		{write("twice.tar", tar(sourcetest.File{Name: "n01.tar", Data: inner}, sourcetest.File{Name: "a/n01.tar", Data: inner})), "n01 occurs in two tars"},
		{write("fake.tar", tar(sourcetest.File{Name: "n01.tar", Data: []byte("no tar")})), "neither a tar"},
		{write("cut.tar", whole[:len(whole)/2]), "incomplete"},
		{write("cut.tgz", packed[:len(packed)-9]), "incomplete"},
		{write("joined.tar", joined), "after the archive's end"},
		{write("joined.tgz", sourcetest.Gzip(t, joined)), "after the archive's end"},
		{write("joinedin.tar", tar(sourcetest.File{Name: "n01.tar", Data: slices.Concat(inner, inner)})), "after the archive's end"},
		{write("sum.tgz", append(packed[:len(packed)-8:len(packed)-8], 0, 0, 0, 0, 0, 0, 0, 0)), "checksum"},
		{write("beside.tar", tar(sourcetest.File{Name: "train/n01/x.JPEG"}, sourcetest.File{Name: "val/n01/x.JPEG"})), "lies beside train/"},
		{write("several.tar", tar(sourcetest.File{Name: "several/train/n01/x.JPEG"})), "several splits"},
	} {
		if err := refusal(tc.path, dataset.Options{}); err == nil || !strings.Contains(err.Error(), tc.want) || tc.path != "" && !strings.Contains(err.Error(), filepath.Base(tc.path)) {
			t.Errorf("%s: error %v, want one with %q", filepath.Base(tc.path), err, tc.want)
		}
	}
}

func TestEntriesOfTarsThatAreNoFiles(t *testing.T) {
	data := sourcetest.Tar(t, sourcetest.File{Name: "n01/"}, sourcetest.File{Name: "n02/"}, sourcetest.File{Name: "n01/a.JPEG", Data: []byte("A")},
		sourcetest.File{Name: "n01/link.JPEG", Type: '2', Link: "/etc/passwd"}, sourcetest.File{Name: "n01/hard.JPEG", Type: '1', Link: "n01/a.JPEG"},
		sourcetest.File{Name: "n01/dev.JPEG", Type: '3'}, sourcetest.File{Name: "n01/._a.JPEG", Data: []byte("junk")}, sourcetest.File{Name: "README", Data: []byte("x")})
	s := open(t, sourcetest.Write(t, filepath.Join(t.TempDir(), "train.tar"), data), dataset.Options{ForceClasses: true})
	want := map[string]item{"n01/a.JPEG": {data: "A"}}
	for name, reason := range map[string]string{"link": transport.ReasonLink, "hard": transport.ReasonLink, "dev": transport.ReasonNotRegular} {
		want["n01/"+name+".JPEG"] = item{reason: reason}
	}
	if got := mustItems(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("items %v, want %v", got, want)
	}
	if !slices.Equal(s.Classes(), []string{"n01", "n02"}) || len(s.Notes()) != 1 {
		t.Errorf("classes %q, notes %q", s.Classes(), s.Notes())
	}
}

func TestNamesThatAreTooLongTogether(t *testing.T) {
	class, name := strings.Repeat("c", 200), strings.Repeat("x", 4096-200)
	inner := sourcetest.Tar(t, sourcetest.File{Name: name, Data: []byte("x")}, sourcetest.File{Name: name[1:], Data: []byte("y")})
	data := sourcetest.Tar(t, sourcetest.File{Name: class + ".tar", Data: inner})
	s := open(t, sourcetest.Write(t, filepath.Join(t.TempDir(), "train.tar"), data), dataset.Options{ForceClasses: true})
	want := map[string]item{class + "/" + name: {reason: "its name has more than 4096 bytes"}, class + "/" + name[1:]: {data: "y"}}
	if got := mustItems(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("%d items, which differ from the %d wanted", len(got), len(want))
	}
}

// TestTarWithoutItsEnd cuts tars where a member ends, which reads well, and loses what came after.
func TestTarWithoutItsEnd(t *testing.T) {
	whole := sourcetest.TarOfTree(t, tree(), "", 1)
	inner := sourcetest.ClassTars(t, tree(), 1)
	end := 2 * 512
	var cutInside []sourcetest.File
	for _, class := range []string{"n01", "n02", "n10"} {
		cutInside = append(cutInside, sourcetest.File{Name: class + ".tar", Data: inner[class][:len(inner[class])-end]})
	}
	for name, data := range map[string][]byte{
		"train.tar": whole[:len(whole)-end], "train.tgz": sourcetest.Gzip(t, whole[:len(whole)-end]), "classes.tar": sourcetest.Tar(t, cutInside...),
	} {
		path := sourcetest.Write(t, filepath.Join(t.TempDir(), name), data)
		if _, err := items(open(t, path, dataset.Options{})); err == nil || !strings.Contains(err.Error(), "has 6 images of 3 classes; to take the part that is here, add --allow-truncated") {
			t.Errorf("%s: error %v", name, err)
		}
		s := open(t, path, dataset.Options{AllowTruncated: true})
		if got := mustItems(t, s); !reflect.DeepEqual(got, wantTree()) {
			t.Errorf("%s: items %v", name, got)
		}
		if len(s.Notes()) != 1 || !strings.Contains(s.Notes()[0], "taken though") {
			t.Errorf("%s: notes %q", name, s.Notes())
		}
	}
}

func TestShardSetsAreNoDatasets(t *testing.T) {
	root := t.TempDir()
	sourcetest.WriteTree(t, root, map[string][]byte{"train/n01/a.JPEG": nil})
	writeSet(t, filepath.Join(root, "train-shards"))
	if s := open(t, root, dataset.Options{}); s.Path != filepath.Join(root, "train") {
		t.Errorf("beside its set the dataset is %s", s.Path)
	}
	for path, want := range map[string]string{"train-shards": "already a shard set", "train": "within the dataset"} {
		if path == "train" {
			writeSet(t, filepath.Join(root, "train/set"))
		}
		if _, err := Open(filepath.Join(root, path), dataset.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", path, err, want)
		}
	}
	only := t.TempDir()
	writeSet(t, filepath.Join(only, "val-shards"))
	testenv.Fails(Open(only, dataset.Options{}))(t, "only shard sets")
}

func writeSet(t *testing.T, dir string) {
	t.Helper()
	w := testenv.Must(shard.NewSetWriter(dir, shard.SetOptions{Split: "train", Encoding: shard.Encoding{Name: "jpeg"}}))(t)
	defer w.Abort()
	testenv.OK(t, w.Append(shard.Sample{Key: "a", Width: 1, Height: 1, Image: []byte("x")}))
	testenv.Must(w.Commit())(t)
}

// Whatever the bytes of a tar, reading it ends, in items or in a *FormatError.
func FuzzTar(f *testing.F) {
	f.Add(sourcetest.TarOfTars(f, tree(), 1))
	f.Add(sourcetest.TarOfTree(f, tree(), "train/", 1))
	f.Add(sourcetest.Gzip(f, sourcetest.TarOfTree(f, tree(), "./", 1)))
	f.Add(sourcetest.Tar(f, sourcetest.File{Name: "n01/../x", Data: []byte("x")}))
	f.Add(webDatasetTar(f, "a.cls", "1", "a.jpg", jpegStart, "b.jpg", jpegStart, "b.json", "{}", "b.cls", "0"))
	f.Add(webDatasetTar(f, "a.cls", "1", "a.jpg", jpegStart, "b.cls", "-1", "a.png", "", "b.jpg", ""))
	path := filepath.Join(f.TempDir(), "x.tar")
	f.Fuzz(func(t *testing.T, data []byte) {
		sourcetest.Write(t, path, data)
		splits, err := Open(path, dataset.Options{})
		if err == nil {
			err = splits[0].Walk(context.Background(), func(it transport.Item) error {
				if it.Key == "" || strings.HasPrefix(it.Key, "/") || slices.Contains(strings.Split(it.Key, "/"), "..") {
					t.Errorf("key %q", it.Key)
				}
				if it.Data != nil {
					if _, err := io.Copy(io.Discard, it.Data); err != nil {
						return err
					}
				}
				return nil
			})
		}
		var format *transport.FormatError
		if err != nil && !errors.As(err, &format) {
			t.Errorf("error of type %T: %v", err, err)
		}
	})
}

func TestWalkStopsWhenTheContextEnds(t *testing.T) {
	dir := t.TempDir()
	sourcetest.WriteTree(t, filepath.Join(dir, "train"), tree())
	sourcetest.Write(t, filepath.Join(dir, "train.tar"), sourcetest.TarOfTars(t, tree(), 1))
	for _, name := range []string{"train", "train.tar"} {
		ctx, cancel := context.WithCancel(context.Background())
		n := 0
		err := open(t, filepath.Join(dir, name), dataset.Options{}).Walk(ctx, func(transport.Item) error { n++; cancel(); return nil })
		if !errors.Is(err, context.Canceled) || n > 3 {
			t.Errorf("%s: %v after %d items", name, err, n)
		}
	}
}
