package source

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

func TestSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 4 {
		name := fmt.Sprintf("imagenet1k-train-%04d.tar", i)
		sourcetest.Write(t, filepath.Join(dir, name), webDatasetTar(t, fmt.Sprintf("k%d.cls", i), fmt.Sprint(i), fmt.Sprintf("k%d.jpg", i), jpegStart))
	}
	sourcetest.Write(t, filepath.Join(dir, "v/imagenet1k-validation-00.tar"), webDatasetTar(t, "v.cls", "1", "v.jpg", jpegStart))
	sourcetest.Write(t, filepath.Join(dir, "other.txt"), nil)
	train := func(from, to int) (paths []string) {
		for i := from; i <= to; i++ {
			paths = append(paths, filepath.Join(dir, fmt.Sprintf("imagenet1k-train-%04d.tar", i)))
		}
		return paths
	}
	splits, err := OpenAll(train(1, 3), dataset.Options{})
	if err != nil || len(splits) != 1 {
		t.Fatal(splits, err)
	}
	if got := mustItems(t, splits[0]); len(got) != 3 || got["k3"].label != 3 || splits[0].Output != filepath.Join(dir, "imagenet1k-train-shards") || splits[0].Name != "train" {
		t.Errorf("%v to %s", got, splits[0].Output)
	}
	splits, err = OpenAll(append(train(0, 3), filepath.Join(dir, "v/imagenet1k-validation-00.tar")), dataset.Options{})
	if err != nil || len(splits) != 2 || splits[0].Name != "train" || splits[1].Name != "val" {
		t.Fatal(splits, err)
	}
	if got := mustItems(t, splits[1]); len(got) != 1 || splits[1].Output != dir+"-val-shards" {
		t.Errorf("val %v to %s", got, splits[1].Output)
	}
	if got := mustItems(t, splits[0]); len(got) != 4 {
		t.Errorf("train %v", got)
	}
	for _, tc := range []struct {
		want  string
		paths []string
	}{
		{"imagenet1k-train-0004.tar: there is no such file, of the 3 that are given", []string{"imagenet1k-train-0002.tar", "imagenet1k-train-0003.tar", "imagenet1k-train-0004.tar"}},
		{"several paths must be files", []string{"v", "imagenet1k-train-0001.tar"}},
		{"of one dataset and of one format, and this is not", []string{"other.txt", "v/imagenet1k-validation-00.tar", "other.txt.gz"}},
	} {
		for i := range tc.paths {
			tc.paths[i] = filepath.Join(dir, tc.paths[i])
		}
		sourcetest.Write(t, filepath.Join(dir, "other.txt.gz"), nil)
		if _, err := OpenAll(tc.paths, dataset.Options{}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %s", tc.paths, err, tc.want)
		}
	}
	if _, err := OpenAll([]string{"x.tar", ""}, dataset.Options{}); err == nil {
		t.Error("an empty path among others passes")
	}
}

func TestSeveralLists(t *testing.T) {
	file := listOf(t, "train.csv", "path,label\na.jpg,dog\nsub/b.jpg,cat\n")
	val := sourcetest.Write(t, filepath.Join(filepath.Dir(file), "val.csv"), []byte("path,label\nc.jpg,dog\n"))
	testenv.Fails(OpenAll([]string{val, file}, dataset.Options{}))(t, `"train.csv": one of several lists: build them one at a time`)
}

// TestNumbersBesideNames has names for labels in one split, and numbers in the other.
func TestNumbersBesideNames(t *testing.T) {
	files := paths("train/1.jpg", "val/1.jpg")
	files["train/metadata.csv"], files["val/metadata.csv"] = []byte("path,label\n1.jpg,dog\n"), []byte("path,label\n1.jpg,0\n")
	splits := testenv.Must(Open(sourcetest.WriteTree(t, t.TempDir(), files), dataset.Options{}))(t)
	mustItems(t, splits[0])
	splits[1].ExpectClasses(splits[0].Classes())
	testenv.Fails(items(splits[1]))(t, "its labels are numbers, and those of "+splits[0].Path+" are names")
}

// timmInfo is _info.json as it lies beside timm's tars.
const timmInfo = `{"name": "imagenet12k", "splits": {
	"train": {"name": "train", "filenames": ["x-train-0000.tar", "x-train-0001.tar"], "shard_lengths": [3, 1], "num_samples": 4, "alt_label": "alt_label"},
	"validation": {"name": "validation", "filenames": ["x-validation-0000.tar"], "shard_lengths": [2], "num_samples": 2}}}`

func TestTimmInfo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "wds")
	sample := func(key string, cls, alt int) []string {
		return []string{key + ".cls", fmt.Sprint(cls), key + ".jpg", jpegStart + key, key + ".json", fmt.Sprintf(`{"alt_label": %d, "label": %d}`, alt, cls)}
	}
	tar := func(name string, samples ...[]string) string {
		return sourcetest.Write(t, filepath.Join(dir, name), webDatasetTar(t, slices.Concat(samples...)...))
	}
	first := tar("x-train-0000.tar", sample("a", 900, 1), sample("b", 901, -1), sample("c", 902, 0))
	second := tar("x-train-0001.tar", sample("d", 903, 1))
	tar("x-validation-0000.tar", sample("e", 1, 9))
	sourcetest.Write(t, filepath.Join(dir, "_info.json"), []byte(timmInfo))
	requireNotes := func(s *dataset.Split, want ...string) {
		t.Helper()
		notes := strings.Join(s.Notes(), "\n")
		for _, w := range want {
			if !strings.Contains(notes, w) {
				t.Errorf("no %q in the notes:\n%s", w, notes)
			}
		}
	}
	splits, err := Open(dir, dataset.Options{})
	if err != nil || len(splits) != 2 {
		t.Fatal(splits, err)
	}
	want := map[string]item{"a": {label: 1, data: jpegStart + "a"}, "c": {label: 0, data: jpegStart + "c"}, "d": {label: 1, data: jpegStart + "d"}}
	if got := mustItems(t, splits[0]); !reflect.DeepEqual(got, want) {
		t.Errorf("by the description's alt_label: %v, want %v", got, want)
	}
	requireNotes(splits[0], "there are 4 samples, as _info.json says", "the labels are those of json.alt_label", "1 sample is left out: a json.alt_label that is null or negative is not a class")
	if got := mustItems(t, splits[1]); got["e"].label != 1 {
		t.Errorf("val: %v", got)
	}
	requireNotes(splits[1], "_info.json says 2 samples, and here are 1")
	if splits, err = Open(dir, dataset.Options{Label: "json.label"}); err != nil || mustItems(t, splits[0])["b"].label != 901 {
		t.Errorf("by another key: %v", err)
	}
	if splits, err = OpenAll([]string{second}, dataset.Options{}); err != nil || len(mustItems(t, splits[0])) != 1 {
		t.Errorf("one tar of two: %v", err)
	}
	requireNotes(splits[0], "there are 1 samples")
	testenv.OK(t, os.Remove(first))
	if _, err = Open(dir, dataset.Options{}); err == nil || !strings.Contains(err.Error(), "names 2 tars, of which 1 are not here (x-train-0000.tar)") {
		t.Errorf("a tar less: %v", err)
	}
	if _, err = Open(dir, dataset.Options{AllowTruncated: true}); err != nil {
		t.Error(err)
	}
	tar("y-train-0000.tar", sample("x", 1, 1))
	splits = testenv.Must(Open(dir, dataset.Options{}))(t)
	mustItems(t, splits[0])
	requireNotes(splits[0], "says nothing of these tars")
	for bad, want := range map[string]string{`{"splits": 3}`: "cannot be read as timm's", `{"splits": {"train": {"filenames": ["a"]}}}`: "names 1 tars and the samples of 0"} {
		sourcetest.Write(t, filepath.Join(dir, "_info.json"), []byte(bad))
		if _, err := Open(dir, dataset.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestChooseASplit takes one of several splits by --split: of folders, and of tars named for them.
func TestChooseASplit(t *testing.T) {
	folders, tars := sourcetest.WriteTree(t, t.TempDir(), paths("train/cat/1.jpg", "train/dog/2.jpg", "val/cat/3.jpg", "val/dog/4.jpg")), t.TempDir()
	for _, split := range []string{"train", "val"} {
		sourcetest.Write(t, filepath.Join(tars, "x-"+split+"-0.tar"), webDatasetTar(t, split+"1.jpg", jpegStart, split+"1.cls", "1", split+"2.jpg", jpegStart, split+"2.cls", "1"))
	}
	for _, split := range []string{"train", "val"} {
		if s := open(t, folders, dataset.Options{Split: split}); s.Name != split || s.Output != filepath.Join(folders, split+"-shards") || len(mustItems(t, s)) != 2 {
			t.Errorf("%s: %s at %s", split, s.Name, s.Output)
		}
		if s := open(t, tars, dataset.Options{Split: split}); s.Name != split || mustItems(t, s)[split+"1"].label != 1 || len(mustItems(t, s)) != 2 {
			t.Errorf("%s of tars: %s", split, s.Name)
		}
	}
	testenv.Fails(Open(folders, dataset.Options{Split: "other"}))(t, `cannot both be called "other"`)
}

// TestStandardInput reads every kind of tar from a pipe, whose reads end anywhere, and compares with the file.
func TestStandardInput(t *testing.T) {
	dir := t.TempDir()
	var wds []string
	for i := range 40 {
		wds = append(wds, fmt.Sprintf("%02d.cls", i), fmt.Sprint(i%5), fmt.Sprintf("%02d.jpg", i), jpegStart+strings.Repeat("x", i*700))
	}
	val := sourcetest.Tar(t, sourcetest.File{Name: "ILSVRC2012_val_00000001.JPEG", Data: []byte(jpegStart)}, sourcetest.File{Name: "ILSVRC2012_val_00000490.JPEG", Data: []byte(jpegStart)})
	for name, data := range map[string][]byte{
		"class tars":      sourcetest.TarOfTars(t, tree(), 1),
		"class folders":   sourcetest.TarOfTree(t, tree(), "train/", 3),
		"WebDataset":      webDatasetTar(t, wds...),
		"validation":      val,
		"CIFAR-10":        sourcetest.Gzip(t, sourcetest.TarOfTree(t, sourcetest.CIFARBinary(sourcetest.CIFARBatches(1)), "cifar-10-batches-bin/", 4)),
		"one large image": sourcetest.Tar(t, sourcetest.File{Name: "a/x.jpg", Data: []byte(jpegStart + strings.Repeat("y", 3<<20))}, sourcetest.File{Name: "b/x.jpg", Data: []byte(jpegStart)}),
	} {
		file := sourcetest.Write(t, filepath.Join(dir, "train", strings.ReplaceAll(name, " ", "")), data)
		want := testenv.Must(OpenAll([]string{file}, dataset.Options{}))(t)
		got, err := OpenAll([]string{StandardInput}, dataset.Options{Stdin: &smallReads{data}})
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		for i, s := range got {
			gotItems, wantItems := mustItems(t, s), mustItems(t, want[i])
			if !reflect.DeepEqual(gotItems, wantItems) || len(gotItems) == 0 || !reflect.DeepEqual(s.Classes(), want[i].Classes()) || s.Format != want[i].Format {
				t.Errorf("%s: %d items from standard input, %d from the file; %s, %s", name, len(gotItems), len(wantItems), s.Format, want[i].Format)
			}
			if s.Streamed() && s.Bytes() != 0 {
				t.Errorf("%s: %d bytes", name, s.Bytes())
			}
		}
		if _, err := items(got[0]); got[0].Streamed() && (err == nil || !strings.Contains(err.Error(), "can be read once only")) {
			t.Errorf("%s: a second time gives %v", name, err)
		}
	}
	for want, data := range map[string][]byte{
		"standard input: neither a tar nor a tar.gz":     []byte("words"),
		"standard input: does not end in the two blocks": sourcetest.TarOfTree(t, tree(), "", 3)[:6*1024],
		"ends in the middle of an entry":                 sourcetest.TarOfTars(t, tree(), 3)[:9000],
	} {
		splits, err := OpenAll([]string{StandardInput}, dataset.Options{Stdin: bytes.NewReader(data)})
		if err == nil {
			_, err = items(splits[0])
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := OpenAll([]string{StandardInput}, dataset.Options{}); err == nil {
		t.Error("no standard input at all passes")
	}
	t.Chdir(dir)
	sourcetest.Write(t, filepath.Join(dir, "classes.txt"), []byte("a\nb\nc\nd\ne\n"))
	splits := testenv.Must(OpenAll([]string{StandardInput}, dataset.Options{Stdin: bytes.NewReader(webDatasetTar(t, wds...))}))(t)
	if mustItems(t, splits[0]); splits[0].Classes()[0] != "0" {
		t.Errorf("classes %q of a file that lies in the working directory by chance", splits[0].Classes())
	}
}

// smallReads gives a few bytes at a time, as pipes may.
type smallReads struct{ data []byte }

func (r *smallReads) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1000)], r.data)
	r.data = r.data[n:]
	return n, nil
}

// refusal is the error of opening a source and walking over its splits.
func refusal(path string, opts dataset.Options) error {
	splits, err := Open(path, opts)
	for _, s := range splits {
		if err == nil {
			_, err = items(s)
		}
	}
	return err
}

// TestRootOfATar reads the entry that Python's tarfile writes for the folder itself where it is added as "/".
func TestRootOfATar(t *testing.T) {
	data := sourcetest.Tar(t, sourcetest.File{Name: "/"}, sourcetest.File{Name: "./"}, sourcetest.File{Name: "a/"}, sourcetest.File{Name: "a/1.jpg", Data: []byte("A")},
		sourcetest.File{Name: "b/2.jpg", Data: []byte("B")})
	got := mustItems(t, open(t, sourcetest.Write(t, filepath.Join(t.TempDir(), "x.tar"), data), dataset.Options{}))
	if want := map[string]item{"a/1.jpg": {data: "A"}, "b/2.jpg": {label: 1, data: "B"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestBackslashes reads a zip with the names that .NET wrote on Windows.
func TestBackslashes(t *testing.T) {
	data := zipOf(t, map[string][]byte{`G\cat\1.jpg`: []byte("A"), `G\dog\2.jpg`: []byte("B"), `G\dog\`: nil})
	got := mustItems(t, open(t, sourcetest.Write(t, filepath.Join(t.TempDir(), "x.zip"), data), dataset.Options{}))
	if want := map[string]item{"cat/1.jpg": {data: "A"}, "dog/2.jpg": {label: 1, data: "B"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestDamagedZips gives zips that are cut, changed or hostile.
func TestDamagedZips(t *testing.T) {
	dir := t.TempDir()
	whole := zipOf(t, map[string][]byte{"a/1.jpg": bytes.Repeat([]byte("A"), 99), "b/2.jpg": []byte("B")})
	damaged := bytes.Clone(whole)
	damaged[bytes.Index(whole, []byte("PK\x01\x02"))+16] ^= 1 // a checksum
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"damaged.zip": {damaged, "damaged.zip/a/1.jpg: zip: checksum error: the zip is damaged there: get it again, or leave out the images that unzip -t names; to leave out the samples with the keys in a file, add --exclude FILE"},
		"x.z01":       {whole, "x.z01: a part of a split zip, which is not read\n  to join its parts:\n    zip -q -s 0 " + dir + "/x.zip --out " + dir + "/x-whole.zip && imgshard build " + dir + "/x-whole.zip"},
		"front.zip":   {whole[40:], "begins with path,label"},
		"cut.zip":     {whole[:len(whole)-30], "download is incomplete"},
		"up.zip":      {zipOf(t, map[string][]byte{"a/x.jpg": nil, "b/../../x.jpg": nil}), "climbs out"},
		"abs.zip":     {zipOf(t, map[string][]byte{"/a/x.jpg": nil}), "absolute"},
		"both.zip":    {zipOf(t, map[string][]byte{"a": nil, "a/x.jpg": nil}), "duplicate entries"},
		"tars.zip":    {zipOf(t, map[string][]byte{"a.tar": nil, "b.tar": nil}), "to unpack it, and build its folder:\n    unzip -q " + dir + "/tars.zip -d " + dir + "/tars-unpacked && imgshard build "},
		"empty.zip":   {zipOf(t, map[string][]byte{"x/": nil}), "x"},
	} {
		path := sourcetest.Write(t, filepath.Join(dir, name), tc.data)
		if err := refusal(path, dataset.Options{}); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}

// TestUnlabelledTestFolder takes test images that lie in no class folders, as --test says.
func TestUnlabelledTestFolder(t *testing.T) {
	for name, files := range map[string]map[string][]byte{
		"flat":   paths("train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/b/4.jpg", "test/5.jpg", "test/6.jpg"),
		"nested": paths("train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/b/4.jpg", "test/images/5.jpg", "test/images/6.jpg"),
	} {
		dir := sourcetest.WriteTree(t, filepath.Join(t.TempDir(), "G"), files)
		for _, path := range []string{dir, sourcetest.Write(t, dir+".zip", zipOf(t, files))} {
			splits, err := Open(path, dataset.Options{Test: true})
			if err != nil || len(splits) != 3 {
				t.Fatalf("%s: %v, %v", path, splits, err)
			}
			splits[2].ExpectClasses([]string{"a", "b"})
			got := mustItems(t, splits[2])
			for key, it := range got {
				if it.label != labelrule.NoLabel || it.reason != "" {
					t.Errorf("%s: %s is %v", path, key, it)
				}
			}
			if len(got) != 2 || splits[2].Name != "test" || len(splits[2].Classes()) != 2 || len(splits[2].Notes()) != 0 {
				t.Errorf("%s: %s: %v of %q, notes %q", name, splits[2].Name, got, splits[2].Classes(), splits[2].Notes())
			}
			if splits, err = Open(path, dataset.Options{}); err != nil || len(splits) != 2 {
				t.Errorf("%s without --test: %v, %v", path, splits, err)
			}
		}
	}
}
