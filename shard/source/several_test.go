package source

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

func TestSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	var train []string
	for i := range 4 {
		data := webDatasetTar(t, fmt.Sprintf("k%d.cls", i), fmt.Sprint(i), fmt.Sprintf("k%d.jpg", i), fmt.Sprint(jpegStart, "k", i))
		train = append(train, sourcetest.Write(t, filepath.Join(dir, fmt.Sprintf("imagenet1k-train-%04d.tar", i)), data))
	}
	val := sourcetest.Write(t, filepath.Join(dir, "v/imagenet1k-validation-00.tar"), webDatasetTar(t, "v.cls", "1", "v.jpg", jpegStart+"v"))
	other := sourcetest.Write(t, filepath.Join(dir, "other.txt"), nil)
	packed := sourcetest.Write(t, filepath.Join(dir, "other.txt.gz"), nil)
	s := openSplits(t, 1, dataset.Options{}, train[1:]...)[0]
	described(t, s, "3 tars of WebDataset", "train", filepath.Join(dir, "imagenet1k-train-shards"))
	labelled(t, s, "k1=1 k2=2 k3=3", "0 1 2 3")
	splits := openSplits(t, 2, dataset.Options{}, append(slices.Clone(train), val)...)
	described(t, splits[0], "4 tars of WebDataset", "train", dir+"-train-shards")
	described(t, splits[1], "1 tar of WebDataset", "val", dir+"-val-shards")
	labelled(t, splits[0], "k0=0 k1=1 k2=2 k3=3", "0 1 2 3")
	testenv.Equal(t, shown(t, splits[1]), "v=1", "labels of val")
	missing := filepath.Join(dir, "imagenet1k-train-0004.tar")
	for want, paths := range map[string][]string{
		"imagenet1k-train-0004.tar: there is no such file, of the 3 that are given": {train[2], train[3], missing},
		"several paths must be files":                       {filepath.Join(dir, "v"), train[1]},
		"of one dataset and of one format, and this is not": {other, val, packed},
		"the path is empty":                                 {"x.tar", ""},
	} {
		testenv.Fails(OpenAll(paths, dataset.Options{}))(t, want)
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
	splits := openSplits(t, 2, dataset.Options{}, dir)
	labelled(t, splits[0], "a=1 c=0 d=1", "0 1")
	testenv.Contains(t, notes(splits[0]), "there are 4 samples, as _info.json says", "the labels are those of json.alt_label",
		"1 sample is left out: a json.alt_label that is null or negative is not a class")
	testenv.Equal(t, shown(t, splits[1]), "e=1", "labels of val")
	testenv.Contains(t, notes(splits[1]), "_info.json says 2 samples, and here are 1")
	splits = openSplits(t, 2, dataset.Options{Label: "json.label"}, dir)
	testenv.Equal(t, shown(t, splits[0]), "a=900 b=901 c=902 d=903", "labels of another key")
	s := open(t, second, dataset.Options{})
	testenv.Equal(t, shown(t, s), "d=1", "labels of one tar of two")
	testenv.Contains(t, notes(s), "there are 1 samples")
	testenv.OK(t, os.Remove(first))
	testenv.Fails(Open(dir, dataset.Options{}))(t, "names 2 tars, of which 1 are not here (x-train-0000.tar)")
	testenv.Must(Open(dir, dataset.Options{AllowTruncated: true}))(t)
	tar("y-train-0000.tar", sample("x", 1, 1))
	splits = testenv.Must(Open(dir, dataset.Options{}))(t)
	mustItems(t, splits[0])
	testenv.Contains(t, notes(splits[0]), "says nothing of these tars")
	for bad, want := range map[string]string{`{"splits": 3}`: "cannot be read as timm's", `{"splits": {"train": {"filenames": ["a"]}}}`: "names 1 tars and the samples of 0"} {
		sourcetest.Write(t, filepath.Join(dir, "_info.json"), []byte(bad))
		testenv.Fails(Open(dir, dataset.Options{}))(t, want)
	}
}

// TestChooseASplit takes one of several splits by --split: of folders, and of tars named for them.
func TestChooseASplit(t *testing.T) {
	folders, tars := sourcetest.WriteTree(t, t.TempDir(), paths("train/cat/1.jpg", "train/dog/2.jpg", "val/cat/3.jpg", "val/dog/4.jpg")), t.TempDir()
	for _, split := range []string{"train", "val"} {
		one, two := split+"1", split+"2"
		data := webDatasetTar(t, one+".jpg", jpegStart+one, one+".cls", "1", two+".jpg", jpegStart+two, two+".cls", "1")
		sourcetest.Write(t, filepath.Join(tars, "x-"+split+"-0.tar"), data)
	}
	for _, split := range []string{"train", "val"} {
		s := open(t, folders, dataset.Options{Split: split})
		described(t, s, "a folder of class folders", split, filepath.Join(folders, split+"-shards"))
		testenv.Equal(t, len(mustItems(t, s)), 2, "%s: images", split)
		s = open(t, tars, dataset.Options{Split: split})
		testenv.Equal(t, s.Name+" "+shown(t, s), fmt.Sprintf("%s %[1]s1=1 %[1]s2=1", split), "tars")
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
		want := testenv.Must(Open(file, dataset.Options{}))(t)
		got := openSplits(t, len(want), dataset.Options{Stdin: iotest.HalfReader(bytes.NewReader(data))}, StandardInput)
		for i, s := range got {
			wanted := mustItems(t, want[i])
			holds(t, s, wanted)
			testenv.Equal(t, s.Format, want[i].Format, "%s: format of %d items", name, len(wanted))
			testenv.Check(t, len(wanted) > 0 && slices.Equal(s.Classes(), want[i].Classes()) && (!s.Streamed() || s.Bytes() == 0), "%s: %v", name, s)
		}
		if got[0].Streamed() {
			testenv.Fails(items(got[0]))(t, "can be read once only")
		}
	}
	for want, data := range map[string][]byte{
		"standard input: neither a tar nor a tar.gz":     []byte("words"),
		"standard input: does not end in the two blocks": sourcetest.TarOfTree(t, tree(), "", 3)[:6*1024],
		"ends in the middle of an entry":                 sourcetest.TarOfTars(t, tree(), 3)[:9000],
	} {
		refuses(t, StandardInput, dataset.Options{Stdin: bytes.NewReader(data)}, want)
	}
	testenv.Fails(Open(StandardInput, dataset.Options{}))(t, "standard input: is not read here")
	t.Chdir(dir)
	sourcetest.Write(t, filepath.Join(dir, "classes.txt"), []byte("a\nb\nc\nd\ne\n"))
	s := open(t, StandardInput, dataset.Options{Stdin: bytes.NewReader(webDatasetTar(t, wds...))})
	mustItems(t, s)
	testenv.Equal(t, s.Classes()[0], "0", "a class, beside a list that lies in the working directory by chance")
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

// TestOddNames reads the entry that Python's tarfile writes for the folder itself where it is added as "/", and a zip with the names that
// .NET wrote on Windows.
func TestOddNames(t *testing.T) {
	dir := t.TempDir()
	data := webDatasetTar(t, "/", "", "./", "", "a/", "", "a/1.jpg", jpegStart+"a/1.jpg", "b/2.jpg", jpegStart+"b/2.jpg")
	labelled(t, open(t, sourcetest.Write(t, filepath.Join(dir, "x.tar"), data), dataset.Options{}), "a/1.jpg=0 b/2.jpg=1", "a b")
	data = zipOf(t, map[string][]byte{`G\cat\1.jpg`: []byte(jpegStart + "cat/1.jpg"), `G\dog\2.jpg`: []byte(jpegStart + "dog/2.jpg"),
		`G\dog\`: nil})
	labelled(t, open(t, sourcetest.Write(t, filepath.Join(dir, "x.zip"), data), dataset.Options{}), "cat/1.jpg=0 dog/2.jpg=1", "cat dog")
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
		refuses(t, sourcetest.Write(t, filepath.Join(dir, name), tc.data), dataset.Options{}, tc.want, name)
	}
}

// TestUnlabelledTestFolder takes test images that lie in no class folders, as --test says.
func TestUnlabelledTestFolder(t *testing.T) {
	for _, below := range []string{"", "images/"} {
		files := paths("train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/b/4.jpg", "test/"+below+"5.jpg", "test/"+below+"6.jpg")
		dir := sourcetest.WriteTree(t, filepath.Join(t.TempDir(), "G"), files)
		for _, path := range []string{dir, sourcetest.Write(t, dir+".zip", zipOf(t, files))} {
			test := openSplits(t, 3, dataset.Options{Test: true}, path)[2]
			test.ExpectClasses([]string{"a", "b"})
			want := make(map[string]item)
			for _, name := range []string{"5.jpg", "6.jpg"} {
				want[below+name] = item{label: labelrule.NoLabel, data: jpegStart + "test/" + below + name}
			}
			holds(t, test, want)
			testenv.Equal(t, test.Name+" "+strings.Join(test.Classes(), " "), "test a b", "%s: name and classes", path)
			noted(t, test)
			openSplits(t, 2, dataset.Options{}, path)
		}
	}
}

// goZip is the files of a zip as archive/zip reads them.
func goZip(path string) (map[string]string, error) {
	r, err := zip.OpenReader(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	files := make(map[string]string)
	for _, f := range r.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		m, err := f.Open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(m, 1<<20))
		if err != nil {
			return nil, err
		}
		files[f.Name] = string(data)
	}
	return files, nil
}

// readAllOf are the regular files below a folder of a tree.
func readAllOf(t *transport.ZipTree, zip, folder string, files map[string]string) error {
	entries, err := t.List(filepath.Join(zip, folder))
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		if e.IsDir() {
			err = readAllOf(t, zip, name, files)
		} else if e.Type().IsRegular() {
			var r io.ReadCloser
			if r, err = t.Open(filepath.Join(zip, name)); err == nil {
				var data []byte
				data, err = io.ReadAll(io.LimitReader(r, 1<<20))
				files[name] = string(data)
			}
		}
		if err != nil {
			return err
		}
	}
	return err
}

// TestZipsOfPython reads zips of Python's zipfile, and compares them with what archive/zip reads.
func TestZipsOfPython(t *testing.T) {
	dir := t.TempDir()
	fromPython(t, "zipfile", "zips.py", nil, dir)
	for _, name := range []string{"stored.zip", "packed.zip", "large.zip", "link.zip"} {
		path := filepath.Join(dir, name)
		want, err := goZip(path)
		testenv.Require(t, err == nil && len(want) >= 7, "%s: %d files, %v", name, len(want), err)
		delete(want, "cow/link.jpg")
		z, err := transport.OpenZip(path)
		got := make(map[string]string)
		if err == nil {
			err = readAllOf(z, path, "", got)
		}
		testenv.Check(t, err == nil && maps.Equal(got, want),
			"%s: %q, want %q; %v", name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)), err)
		for key, e := range map[string]bool{"": true, "cat": true, "cow": true, "cat/0é.jpg": false} {
			if info, err := z.Stat(filepath.Join(path, key)); err != nil || info.IsDir() != e || key != "" && info.Name() != filepath.Base(key) {
				t.Errorf("%s: %q: %v, %v", name, key, info, err)
			}
		}
		for _, key := range []string{"ca", "cat/", "cat/0", "x/y"} {
			testenv.Fails(z.Stat(path+"/"+strings.TrimSuffix(key, "/")+"_"))(t, nil, "%s: %q is there", name, key)
		}
	}
	s := open(t, filepath.Join(dir, "link.zip"), dataset.Options{})
	got := mustItems(t, s)
	testenv.Check(t, got["cow/link.jpg"].reason == transport.ReasonLink && got["cow/x.jpg"].data == jpegStart, "a link: %v", got)
	testenv.Fails(items(open(t, filepath.Join(dir, "bzip2.zip"), dataset.Options{})))(t, "cannot be unpacked here: pack it again by deflate")
	data := testenv.Must(os.ReadFile(filepath.Join(dir, "packed.zip")))(t)
	behind := sourcetest.Write(t, filepath.Join(dir, "behind.zip"), append([]byte("PK\x03\x04 what unpacks itself"), data...))
	testenv.Equal(t, len(mustItems(t, open(t, behind, dataset.Options{}))), len(testenv.Must(goZip(behind))(t)), "items behind another file")
	for want, change := range map[string]func([]byte) []byte{
		"zip: checksum error":       func(d []byte) []byte { return bytes.Replace(d, []byte(jpegStart), []byte("\xff\xd8\xff\xe1"), 1) },
		"cannot be read: it is dam": func(d []byte) []byte { return bytes.Replace(d, []byte("PK\x01\x02"), []byte("PK\x01\x03"), 1) },
		"zip: not a valid zip file": func(d []byte) []byte { return bytes.ReplaceAll(d, []byte("PK\x03\x04-"), []byte("PK\x03\x05-")) },
	} {
		data := testenv.Must(os.ReadFile(filepath.Join(dir, "stored.zip")))(t)
		if strings.Contains(want, "not a valid") {
			at := bytes.LastIndex(data, []byte("PK\x03\x04"))
			data[at+2] = 9
		} else {
			data = change(data)
		}
		refuses(t, sourcetest.Write(t, filepath.Join(dir, "bad.zip"), data), dataset.Options{}, want, filepath.Join(dir, "bad.zip"))
	}
}

// TestZipListIsSmall holds the memory of the list to what docs/packing.md says of it.
func TestZipListIsSmall(t *testing.T) {
	const n = 20_000
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for i := range n {
		testenv.Must(w.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("train/n%08d/n%08d_%d.JPEG", i/1000, i/1000, i)}))(t)
	}
	testenv.OK(t, w.Close())
	path := sourcetest.Write(t, filepath.Join(t.TempDir(), "x.zip"), buf.Bytes())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	z := testenv.Must(transport.OpenZip(path))(t)
	testenv.Must(z.List(path))(t)
	runtime.GC()
	runtime.ReadMemStats(&after)
	testenv.Between(t, int64(after.HeapAlloc-before.HeapAlloc)/n, -310, 310, "bytes for each member")
	runtime.KeepAlive(z)
}

// Whatever is changed in a zip, it is read as archive/zip reads it, or refused with its name, and takes no memory for what is not there.
func FuzzZip(f *testing.F) {
	var sorts [][]byte
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		var buf bytes.Buffer
		w := zip.NewWriter(&buf)
		for _, name := range []string{"a/1.jpg", "b/2.jpg", "b/", "b/c/3.jpg"} {
			m := testenv.Must(w.CreateHeader(&zip.FileHeader{Name: name, Method: method}))(f)
			if !strings.HasSuffix(name, "/") {
				m.Write([]byte(jpegStart + name))
			}
		}
		w.Close()
		sorts = append(sorts, buf.Bytes())
		for at := 0; at < buf.Len(); at += 9 {
			f.Add(uint8(len(sorts)-1), uint16(at), []byte{0xff, 0xff, 0xff, 0xff}, uint16(2*at), []byte{0})
		}
	}
	path := filepath.Join(f.TempDir(), "x.zip")
	f.Fuzz(func(t *testing.T, sort uint8, at uint16, change []byte, at2 uint16, change2 []byte) {
		data := bytes.Clone(sorts[int(sort)%len(sorts)])
		copy(data[int(at)%len(data):], change)
		copy(data[int(at2)%len(data):], change2)
		sourcetest.Write(t, path, data)
		before := allocated()
		err := refusal(path, dataset.Options{})
		after := allocated()
		_, reject := errors.AsType[*transport.RejectError](err) // names no path on purpose
		testenv.Check(t, err == nil || reject || strings.Contains(err.Error(), path), "an error without the file's name: %v", err)
		testenv.Between(t, after-before, 0, fuzzAllocatedMax/4, "bytes that are allocated for a file of %d", len(data))
		z, err := transport.OpenZip(path)
		if err != nil {
			return
		}
		got := make(map[string]string)
		want, wantErr := goZip(path)
		if err := readAllOf(z, path, "", got); err != nil || wantErr != nil {
			return
		}
		for name, data := range got {
			w, ok := want[name]
			testenv.Check(t, !ok || w == data, "%s is %q, and archive/zip reads %q", name, data, w)
		}
	})
}
