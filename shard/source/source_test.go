package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
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

// openSplits opens a source of n splits.
func openSplits(t *testing.T, n int, opts dataset.Options, paths ...string) []*dataset.Split {
	t.Helper()
	splits := testenv.Must(OpenAll(paths, opts))(t)
	testenv.Require(t, len(splits) == n, "%s: %d splits, want %d", paths, len(splits), n)
	return splits
}

// open opens a source of one split.
func open(t *testing.T, path string, opts dataset.Options) *dataset.Split {
	t.Helper()
	return openSplits(t, 1, opts, path)[0]
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

// described checks how a split describes itself.
func described(t *testing.T, s *dataset.Split, format, name, output string) {
	t.Helper()
	testenv.Equal(t, s.Format, format, "%s: format", s.Path)
	testenv.Equal(t, s.Name, name, "%s: split", s.Path)
	testenv.Equal(t, s.Output, output, "%s: output", s.Path)
}

// holds checks the items of a split.
func holds(t *testing.T, s *dataset.Split, want map[string]item) {
	t.Helper()
	got := mustItems(t, s)
	testenv.Check(t, reflect.DeepEqual(got, want), "%s: %d items, want %d: %.2000v, want %.2000v", s.Path, len(got), len(want), got, want)
}

// labelled checks the labels of a split, as "KEY=LABEL KEY=LABEL", and its classes in their order.
func labelled(t *testing.T, s *dataset.Split, labels, classes string) {
	t.Helper()
	testenv.Equal(t, shown(t, s), labels, "%s: labels", s.Path)
	testenv.Equal(t, strings.Join(s.Classes(), " "), classes, "%s: classes", s.Path)
}

// notes is all notes of a split.
func notes(s *dataset.Split) string { return strings.Join(s.Notes(), "\n") }

// noted checks that a split has as many notes as there are texts, and that these are in them.
func noted(t *testing.T, s *dataset.Split, texts ...string) {
	t.Helper()
	testenv.Equal(t, len(s.Notes()), len(texts), "%s: number of notes", s.Path)
	testenv.Contains(t, notes(s), texts...)
}

// refuses checks that reading a source fails with an error that has each of some texts.
func refuses(t *testing.T, path string, opts dataset.Options, texts ...string) {
	t.Helper()
	err := refusal(path, opts)
	for _, text := range texts {
		testenv.Says(t, filepath.Base(path), err, text)
	}
}

// forms lays a tree out as a folder, G, a tar and a zip, and returns their paths.
func forms(t *testing.T, tree map[string][]byte) []string {
	t.Helper()
	dir := t.TempDir()
	return []string{
		sourcetest.WriteTree(t, filepath.Join(dir, "G"), tree),
		sourcetest.Write(t, filepath.Join(dir, "x.tar"), sourcetest.TarOfTree(t, tree, "", 3)),
		sourcetest.Write(t, filepath.Join(dir, "x.zip"), zipOf(t, tree)),
	}
}

// fromPython runs a script of testdata, which needs a module, and reads the JSON that it prints into said, unless that is nil.
func fromPython(t *testing.T, module, script string, said any, args ...string) {
	t.Helper()
	cmd := exec.Command(testenv.PythonWith(t, module), append([]string{"testdata/" + script}, args...)...)
	cmd.Stderr = t.Output()
	if out := testenv.Must(cmd.Output())(t); said != nil {
		testenv.OK(t, json.Unmarshal(out, said))
	}
}

const jpegStart = "\xff\xd8\xff\xe0"

// tree is a dataset of class folders.
func tree() map[string][]byte {
	return paths("n02/n02_1.JPEG", "n02/n02_10.JPEG", "n01/n01_2.JPEG", "n10/n10_3.JPEG", "n10/deep/er/x.png", "n01/n01_7.JPEG")
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
	testenv.Fails(Open(filepath.Join(dir, "nowhere"), dataset.Options{}))(t, fs.ErrNotExist)
}

func TestEveryLayoutGivesTheSame(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) { sourcetest.Write(t, filepath.Join(dir, name), data) }
	sourcetest.WriteTree(t, filepath.Join(dir, "folders/train"), tree())
	for class, data := range sourcetest.ClassTars(t, tree(), 1) {
		write("tars/train/"+class+".tar", data)
		write("gz/train/"+class+".tar.gz", sourcetest.Gzip(t, data))
	}
	write("ILSVRC2012_img_train.tar", sourcetest.TarOfTars(t, tree(), 2))
	write("plain.tar", sourcetest.TarOfTree(t, tree(), "", 3))
	write("dot.tgz", sourcetest.Gzip(t, sourcetest.TarOfTree(t, tree(), "./", 4)))
	write("named.tar", sourcetest.TarOfTree(t, tree(), "train/", 5))
	write("plain.zip", zipOf(t, tree()))
	inside := make(map[string][]byte)
	for key, data := range tree() {
		inside["data/"+key] = data
	}
	write("inside.zip", zipOf(t, inside))
	for _, tc := range []struct{ path, format, output string }{
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
		described(t, s, tc.format, "train", filepath.Join(dir, tc.output))
		labelled(t, s, "n01/n01_2.JPEG=0 n01/n01_7.JPEG=0 n02/n02_1.JPEG=1 n02/n02_10.JPEG=1 n10/deep/er/x.png=2 n10/n10_3.JPEG=2", "n01 n02 n10")
		noted(t, s)
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
	refuses(t, root, dataset.Options{}, "holds no image (n03)", "--force-classes")
	s := open(t, root, dataset.Options{ForceClasses: true})
	holds(t, s, want)
	noted(t, s, "README.txt", "4 files or folders are skipped, as hidden or a system's (.ipynb_checkpoints, __MACOSX, n02/.x.jpg, n10/@eaDir)")
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
	holds(t, open(t, root, dataset.Options{}), want)
	testenv.OK(t, os.Symlink(root, filepath.Join(root, "n01/circle")))
	testenv.As[*transport.FormatError](t, refusal(root, dataset.Options{}), "more than 32 folders deep")
	testenv.OK(t, os.Remove(filepath.Join(root, "n01/circle")))
	testenv.OK(t, os.Symlink(filepath.Join(root, "n01"), filepath.Join(root, "n01/self")))
	testenv.As[*transport.FormatError](t, refusal(root, dataset.Options{}), "lies in")
}

func TestSplitsOfAFolder(t *testing.T) {
	for _, tc := range []struct{ files, want string }{ // the splits' names and folders
		{"train/a/1 val/a/2", "train train, val val"},
		{"train/a/1 valid/a/2 test/a/3", "train train, val valid"},
		{"Train/a/1 Val/a/2", "train Train, val Val"},
		{"training/a/1 validation/a/2", "train training, val validation"},
		{"Training/a/1 VALID/a/2", "train Training, val VALID"},
		{"train/a/1", "train train"},
		{"val/a/1", "val val"},
		{"train/1 boat/2 car/3", "train ."}, // a class train
		{"cat/1 dog/2", "train ."},
		{"training_set/a/1 validation_set/a/2 test_set/a/3", "train training_set, val validation_set"},
		{"trainset/a/1 valset/a/2", "train trainset, val valset"},
		{"TrainImages/a/1 DevImages/a/2", "train TrainImages, val DevImages"},
		{"train2017/a/1 val2017/a/2 annotations/x.json", "train train2017, val val2017"},
		{"trainval_set/a/1 test_set/a/2", "train trainval_set"},
		{"cars_train/a/1 cars_test/a/2 devkit/x.mat", "train cars_train"},
		{"train/a/1 train_mini/a/1 val/a/2", "train train, val val"},
		{"seg_train/seg_train/sea/1 seg_test/seg_test/sea/2 seg_pred/seg_pred/3.jpg", "train seg_train/seg_train"}, // Kaggle's Intel
		{"imagenette2/train/a/1 imagenette2/val/a/2", "train imagenette2/train, val imagenette2/val"},
		{"bullet_train/1 test_tube/2 cat/3 dog/4 owl/5", "train ."},
	} {
		root := sourcetest.WriteTree(t, filepath.Join(t.TempDir(), "data"), paths(strings.Fields(tc.files)...))
		var got []string
		for _, s := range testenv.Must(Open(root, dataset.Options{}))(t) {
			got = append(got, s.Name+" "+testenv.Must(filepath.Rel(root, s.Path))(t))
		}
		testenv.Equal(t, strings.Join(got, ", "), tc.want, "%s", tc.files)
	}
	for path, want := range map[string]string{"/d/train": "train", "/d/ILSVRC2012_img_val.tar": "val", "/d/imagenet_validation": "val",
		"/d/test": "test", "/d/cats": "train", "/d/interval": "train", "/d/val2017": "val", "/d/testset": "test", "/d/HoldoutDev": "val",
		"/d/eval": "test", "/d/valve_testosterone": "train"} {
		testenv.Equal(t, transport.SplitName(path), want, "split of %s", path)
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
	testenv.Fails(items(splits[1]))(t, "has 2 of the other split's 3 classes (b missing)")
	splits = testenv.Must(Open(root, dataset.Options{ForceClasses: true}))(t)
	splits[1].ExpectClasses([]string{"a", "b", "c"})
	holds(t, splits[1], map[string]item{"a/2": {data: jpegStart + "val/a/2"}, "c/2": {label: 2, data: jpegStart + "val/c/2"}})
	testenv.Equal(t, len(splits[1].Classes()), 3, "classes of val")
	sourcetest.Write(t, filepath.Join(root, "val/d/2"), []byte(jpegStart))
	splits = testenv.Must(Open(root, dataset.Options{}))(t)
	splits[1].ExpectClasses([]string{"a", "b", "c"})
	testenv.Fails(items(splits[1]))(t, "(d)")
}

func TestWhatCannotBeReadSaysWhy(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string { return sourcetest.Write(t, filepath.Join(dir, name), data) }
	writeTree := func(name string, files map[string][]byte) string {
		return sourcetest.WriteTree(t, filepath.Join(dir, name), files)
	}
	tar := func(files ...sourcetest.File) []byte { return sourcetest.Tar(t, files...) }
	inner := webDatasetTar(t, "x.JPEG", "x")
	whole := sourcetest.TarOfTars(t, tree(), 1)
	packed := sourcetest.Gzip(t, whole)
	joined := slices.Concat(whole, whole)
	beside := map[string][]byte{"all.tar": whole}
	for class, data := range sourcetest.ClassTars(t, tree(), 1) {
		beside[class+".tar"] = data
	}
	labelled := webDatasetTar(t, "0000.jpg", jpegStart, "0000.cls", "3")
	for _, tc := range []struct{ path, want string }{
		{writeTree("beside", beside), "unpacked beside itself"},
		{writeTree("named", map[string][]byte{"train_0.tar": inner, "train_1.tar": inner}), "named for a split and not for a class"},
		{"", "the path is empty"},
		{writeTree("mixed", map[string][]byte{"n01/a": nil, "n02.tar": inner}), "class folders and class tars"},
		{writeTree("nottar", map[string][]byte{"n01.tar": []byte("hello")}), "n01.tar: neither a tar"},
		{writeTree("flat", map[string][]byte{"a.JPEG": []byte(jpegStart)}), "sort the images into a folder for each class"},
		{writeTree("labelled", map[string][]byte{"n01.tar": inner, "n02.tar": labelled}), "as WebDataset has it"},
		{write("text.tar", []byte("hello")), "neither a tar"},
		{write("nofiles.tar", tar()), "no files"},
		{write("up.tar", webDatasetTar(t, "n01/../../etc/passwd", "")), `climbs out`},
		{write("abs.tar", webDatasetTar(t, "/n01/x.JPEG", "")), "absolute"},
		{write("long.tar", webDatasetTar(t, "n01/"+strings.Repeat("x", 5000), "")), "5004 bytes"},
		{write("inup.tar", tar(sourcetest.File{Name: "n01.tar", Data: webDatasetTar(t, "../x.JPEG", "")})), `n01.tar: ../x.JPEG`},
		{write("twice.tar", tar(sourcetest.File{Name: "n01.tar", Data: inner}, sourcetest.File{Name: "a/n01.tar", Data: inner})), "n01 occurs in two tars"},
		{write("fake.tar", webDatasetTar(t, "n01.tar", "no tar")), "neither a tar"},
		{write("cut.tar", whole[:len(whole)/2]), "incomplete"},
		{write("cut.tgz", packed[:len(packed)-9]), "incomplete"},
		{write("joined.tar", joined), "after the archive's end"},
		{write("joined.tgz", sourcetest.Gzip(t, joined)), "after the archive's end"},
		{write("joinedin.tar", tar(sourcetest.File{Name: "n01.tar", Data: slices.Concat(inner, inner)})), "after the archive's end"},
		{write("sum.tgz", append(packed[:len(packed)-8:len(packed)-8], 0, 0, 0, 0, 0, 0, 0, 0)), "checksum"},
		{write("beside.tar", webDatasetTar(t, "train/n01/x.JPEG", "", "val/n01/x.JPEG", "")), "lies beside train/"},
		{write("several.tar", webDatasetTar(t, "several/train/n01/x.JPEG", "")), "several splits"},
	} {
		refuses(t, tc.path, dataset.Options{}, tc.want)
		if tc.path != "" {
			refuses(t, tc.path, dataset.Options{}, filepath.Base(tc.path))
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
	holds(t, s, want)
	testenv.Equal(t, strings.Join(s.Classes(), " "), "n01 n02", "classes")
	noted(t, s, "1 file beside the classes is left out (README)")
}

func TestNamesThatAreTooLongTogether(t *testing.T) {
	class, name := strings.Repeat("c", 200), strings.Repeat("x", 4096-200)
	inner := webDatasetTar(t, name, "x", name[1:], "y")
	data := sourcetest.Tar(t, sourcetest.File{Name: class + ".tar", Data: inner})
	s := open(t, sourcetest.Write(t, filepath.Join(t.TempDir(), "train.tar"), data), dataset.Options{ForceClasses: true})
	holds(t, s, map[string]item{class + "/" + name: {reason: "its name has more than 4096 bytes"}, class + "/" + name[1:]: {data: "y"}})
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
		refuses(t, path, dataset.Options{}, "has 6 images of 3 classes; to take the part that is here, add --allow-truncated")
		s := open(t, path, dataset.Options{AllowTruncated: true})
		holds(t, s, wantTree())
		noted(t, s, "taken though")
	}
}

func TestShardSetsAreNoDatasets(t *testing.T) {
	root := sourcetest.WriteTree(t, t.TempDir(), map[string][]byte{"train/n01/a.JPEG": nil})
	writeSet(t, filepath.Join(root, "train-shards"))
	testenv.Equal(t, open(t, root, dataset.Options{}).Path, filepath.Join(root, "train"), "the dataset beside its set")
	testenv.Fails(Open(filepath.Join(root, "train-shards"), dataset.Options{}))(t, "already a shard set")
	writeSet(t, filepath.Join(root, "train/set"))
	testenv.Fails(Open(filepath.Join(root, "train"), dataset.Options{}))(t, "within the dataset")
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
	f.Add(webDatasetTar(f, "n01/../x", "x"))
	f.Add(webDatasetTar(f, "a.cls", "1", "a.jpg", jpegStart, "b.jpg", jpegStart, "b.json", "{}", "b.cls", "0"))
	f.Add(webDatasetTar(f, "a.cls", "1", "a.jpg", jpegStart, "b.cls", "-1", "a.png", "", "b.jpg", ""))
	path := filepath.Join(f.TempDir(), "x.tar")
	f.Fuzz(func(t *testing.T, data []byte) {
		sourcetest.Write(t, path, data)
		splits, err := Open(path, dataset.Options{})
		if err == nil {
			err = splits[0].Walk(context.Background(), func(it transport.Item) error {
				testenv.Check(t, it.Key != "" && !strings.HasPrefix(it.Key, "/") && !slices.Contains(strings.Split(it.Key, "/"), ".."),
					"key %q", it.Key)
				if it.Data != nil {
					if _, err := io.Copy(io.Discard, it.Data); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			testenv.As[*transport.FormatError](t, err)
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
		testenv.Check(t, errors.Is(err, context.Canceled) && n <= 3, "%s: %v after %d items", name, err, n)
	}
}
