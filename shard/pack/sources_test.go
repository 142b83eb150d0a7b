package pack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/synth"
	"github.com/imgfeed/imgfeed/transform"
)

// build builds the only split of a source, with fields as --field has them.
func build(path, out string, o Options, flags ...string) (sum Summary, err error) {
	var opts dataset.Options
	for _, text := range flags {
		f, err := dataset.ParseField(text)
		if err != nil {
			return sum, err
		}
		opts.Fields = append(opts.Fields, f)
	}
	splits, err := source.Open(path, opts)
	if err != nil {
		return sum, err
	}
	err = BuildAll(context.Background(), Tasks(splits, out), o, func(s Summary) { sum = s })
	return sum, err
}

// fieldSource writes images with values in a list and as a tar of WebDataset.
func fieldSource(t *testing.T, classes int) (listed, tar string, scores map[string]float32) {
	dir, files, scores := t.TempDir(), make(map[string][]byte), make(map[string]float32)
	var members []sourcetest.File
	var list []byte
	names := ""
	for c := range classes {
		names += synth.WNID(c) + "\n"
	}
	for name, data := range synthetic(t, classes, 9) {
		key := strings.TrimSuffix(name, ".JPEG")
		scores[key] = float32(len(scores)) / 2
		meta := fmt.Appendf(nil, `{"score": %v, "tags": [%d]}`, scores[key], len(scores)%5)
		caption := "caption of " + key
		files[key] = data
		list = fmt.Appendf(list, `{"path": %q, "label": %q, "score": %v, "tags": [%d], "txt": %q}`+"\n", key, filepath.Dir(key), scores[key], len(scores)%5, caption)
		members = append(members, sourcetest.File{Name: key + ".json", Data: meta}, sourcetest.File{Name: key + ".cls", Data: []byte(key[len("n9000000"):len("n90000000")])},
			sourcetest.File{Name: key + ".jpg", Data: data}, sourcetest.File{Name: key + ".txt", Data: []byte(caption)})
	}
	files["n90000001/bad"] = []byte("no image")
	files["train.jsonl"] = append(list, `{"path": "n90000001/bad", "label": "n90000001", "score": 1, "tags": [], "txt": ""}`...)
	members = append(members, sourcetest.File{Name: "n90000001/bad.jpg", Data: files["n90000001/bad"]}, sourcetest.File{Name: "n90000001/bad.cls", Data: []byte("1")},
		sourcetest.File{Name: "n90000001/bad.json", Data: []byte(`{"score": 1, "tags": []}`)}, sourcetest.File{Name: "n90000001/bad.txt"})
	sourcetest.Write(t, filepath.Join(dir, "wds/classes.txt"), []byte(names))
	tar = filepath.Dir(sourcetest.Write(t, filepath.Join(dir, "wds/train.tar"), sourcetest.Tar(t, members...)))
	return filepath.Join(sourcetest.WriteTree(t, filepath.Join(dir, "train"), files), "train.jsonl"), tar, scores
}

var fieldFlags = []string{"score=json.score:float32", "caption=txt:text", "tags=json.tags:multihot[5]"}

// TestFieldsGiveTheSameBytes packs fields from a list and from a tar, and packs the sets again.
func TestFieldsGiveTheSameBytes(t *testing.T) {
	list, tar, scores := fieldSource(t, 3)
	dir := t.TempDir()
	out := func(of string) string { return filepath.Join(dir, of) }
	o := Options{Partitions: 2, Seed: 7, ShardBytes: 1 << 20, Encoding: original.Encoding{}}
	sum, err := build(list, out("list"), o, fieldFlags...)
	if err != nil || sum.Rejected != 1 || sum.Manifest.Samples != len(scores) {
		t.Fatalf("%+v, %v", sum, err)
	}
	o.Jobs, o.spoolBytes = 5, 4<<10
	testenv.Must(build(tar, out("tar"), o, fieldFlags...))(t)
	sameFiles(t, out("list"), out("tar"))

	set := openSet(t, out("list"))
	want := shard.Fields{{Name: "score", Type: shard.Float32}, {Name: "caption", Type: shard.Text, BytesMax: len("caption of n90000000/n90000000_1")}, {Name: "tags", Type: shard.Float32, Size: 5}}
	if got := set.Manifest().Fields; got[1].BytesMax < 20 || !got.Equal(want) {
		t.Errorf("fields %v, want %v", got, want)
	}
	for i := range set.Len() {
		key := testenv.Must(set.Key(i))(t)
		r, _, err := set.Read(i, nil)
		if err != nil {
			t.Fatal(err)
		}
		values, err := set.Manifest().Fields.Split(r.Fields, nil)
		if err != nil || !reflect.DeepEqual(values[0], shard.AppendFloats(nil, scores[key])) || string(values[1]) != "caption of "+key {
			t.Errorf("%s: %q, %v", key, values, err)
		}
	}

	small := Options{Partitions: 3, Seed: 7, ShardBytes: 1 << 20, Encoding: mustPixels(t, "", "16", "")}
	testenv.Must(Repack(t.Context(), set, out("repacked"), small))(t)
	testenv.Must(build(list, out("small"), small, fieldFlags...))(t)
	a, b := sourcetest.ReadTree(t, out("repacked")), sourcetest.ReadTree(t, out("small"))
	if !reflect.DeepEqual(a, b) {
		t.Error("a repacked set differs from one that is built")
	}
}

// TestOtherFieldsAreOtherOptions builds one of two splits again, with other fields than the one that is kept has.
func TestOtherFieldsAreOtherOptions(t *testing.T) {
	_, tar, _ := fieldSource(t, 2)
	both, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	for _, split := range []string{"train", "val"} {
		folder := filepath.Join(both, split)
		err := os.CopyFS(folder, os.DirFS(tar))
		if err == nil {
			err = os.Rename(filepath.Join(folder, "train.tar"), filepath.Join(folder, split+".tar"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	testenv.Must(build(both, out, Options{}, "caption=txt:text"))(t)
	testenv.OK(t, os.RemoveAll(filepath.Join(out, "val")))
	if _, err := build(both, out, Options{}, "caption=txt:bytes"); !errors.Is(err, errTaken) {
		t.Errorf("%v", err)
	}
	if sum, err := build(both, out, Options{}, "caption=txt:text"); err != nil || sum.Split != "val" || sum.Kept {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestMissingFieldEndsTheBuild leaves out the value of one image.
func TestMissingFieldEndsTheBuild(t *testing.T) {
	list, _, _ := fieldSource(t, 2)
	out := filepath.Join(t.TempDir(), "out")
	_, err := build(list, out, Options{}, "score=json.score:float32", "age=json.age:int64")
	var format *transport.FormatError
	if !errors.As(err, &format) || !strings.Contains(err.Error(), "field \"age\": the JSON has no key age") {
		t.Errorf("%v", err)
	}
	requireNothing(t, filepath.Dir(out))
}

// TestCIFARSets packs the archive and the folder of CIFAR-10, in both encodings: these give the same bytes, and every image is served as it was.
func TestCIFARSets(t *testing.T) {
	dir, batches := t.TempDir(), sourcetest.CIFARBatches(7)
	archive := sourcetest.Write(t, filepath.Join(dir, "cifar-10-binary.tar.gz"),
		sourcetest.Gzip(t, sourcetest.TarOfTree(t, sourcetest.CIFARBinary(batches), "cifar-10-batches-bin/", 1)))
	binary := sourcetest.WriteTree(t, filepath.Join(dir, "cifar-10-batches-bin"), sourcetest.CIFARBinary(batches))
	pixels := mustPixels(t, "", "none", "")
	for name, encoder := range map[string]encoding.Encoding{"jpeg": original.Encoding{}, "pixels": pixels} {
		o := Options{Partitions: 2, Seed: 4, Encoding: encoder}
		a, b := filepath.Join(dir, name, "archive"), filepath.Join(dir, name, "folder")
		mustBuild(t, archive, a, o)
		if sum := mustBuild(t, binary, b, o); sum.Split != "val" || sum.Rejected != 0 {
			t.Errorf("%s: the last split is %+v", name, sum)
		}
		sameFiles(t, a, b)
		requireServed(t, filepath.Join(a, "train"), "train", batches[:5], pixels)
		requireServed(t, filepath.Join(a, "val"), "test", batches[5:], pixels)
	}
}

// requireServed checks the labels and pixels of a set of CIFAR-10.
func requireServed(t *testing.T, dir, prefix string, batches []sourcetest.CIFARBatch, e encoding.Encoding) {
	t.Helper()
	var labels, planes []byte
	for _, b := range batches {
		labels, planes = append(labels, b.Labels...), append(planes, b.Planes...)
	}
	spec := testenv.Must(transform.Parse(`[{"op":"CenterCrop","size":32}]`))(t)
	set, engine := openSet(t, dir), transform.NewEngine(0)
	if set.Len() != len(labels) {
		t.Fatalf("%s: %d samples, want %d", dir, set.Len(), len(labels))
	}
	for i := range set.Len() {
		key := testenv.Must(set.Key(i))(t)
		n, err := strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
		if err != nil || n >= len(labels) {
			t.Fatalf("%s: key %q: %v", dir, key, err)
		}
		r, _, err := set.Read(i, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%s/%s/%05d", prefix, sourcetest.CIFARClasses[labels[n]], n); key != want || r.Label != int32(labels[n]) {
			t.Errorf("%s: key %q, label %d, want %q, label %d", dir, key, r.Label, want, labels[n])
		}
		src := transform.Source{Format: r.Format, Image: r.Image, Encoding: e}
		rgb := apply(t, engine, spec, src)
		for k, v := range planes[n*3072:][:3072] {
			if rgb[k%1024*3+k/1024] != v {
				t.Fatalf("%s: %s: pixel %d of plane %d is %d, want %d", dir, key, k%1024, k/1024, rgb[k%1024*3+k/1024], v)
			}
		}
	}
}

// TestWebDatasetGivesTheSameBytes packs images from class folders, whose files have no extension, and from WebDataset's tars with the same keys,
// labels and class names: the sets are the same, byte for byte, whatever the tars.
func TestWebDatasetGivesTheSameBytes(t *testing.T) {
	dir, files := t.TempDir(), make(map[string][]byte)
	for name, data := range synthetic(t, 4, 12) {
		files[strings.TrimSuffix(name, ".JPEG")] = data
	}
	files["n90000001/bad"] = []byte("no image")
	var samples [][]sourcetest.File
	for key, data := range files { // in Go's random order
		label := key[len("n9000000"):len("n90000000")]
		samples = append(samples, []sourcetest.File{{Name: key + ".cls", Data: []byte(label)}, {Name: key + ".jpg", Data: data}, {Name: key + ".json", Data: []byte("{}")}})
	}
	names := ""
	for c := range 4 {
		names += synth.WNID(c) + "\n"
	}
	sourcetest.Write(t, filepath.Join(dir, "wds/train/classes.txt"), []byte(names))
	for i, part := range slices.Collect(slices.Chunk(samples, 20)) {
		var members []sourcetest.File
		for _, s := range part {
			slices.SortFunc(s, func(a, b sourcetest.File) int { return (2*i - 1) * strings.Compare(a.Name, b.Name) }) // the image first in one tar
			members = append(members, s...)
		}
		data := sourcetest.Tar(t, members...)
		sourcetest.Write(t, filepath.Join(dir, fmt.Sprintf("wds/train/train-%06d.tar", i)), data)
		sourcetest.Write(t, filepath.Join(dir, fmt.Sprintf("gz/x-train-%06d.tar.gz", i)), sourcetest.Gzip(t, data))
	}
	folders := sourcetest.WriteTree(t, filepath.Join(dir, "folders/train"), files)
	for name, encoder := range map[string]encoding.Encoding{"jpeg": original.Encoding{}, "pixels": mustPixels(t, "", "16", "")} {
		o := Options{Partitions: 3, Seed: 7, ShardBytes: 16 << 10, Encoding: encoder}
		out := func(of string) string { return filepath.Join(dir, name, of) }
		mustBuild(t, folders, out("folders"), o)
		want := sourcetest.ReadTree(t, out("folders"))
		sum := mustBuild(t, filepath.Join(dir, "wds"), out("wds"), o)
		if sum.Manifest.Samples != 48 || sum.Rejected != 1 || sum.Split != "train" {
			t.Errorf("%s: %d samples, %d rejected, split %s", name, sum.Manifest.Samples, sum.Rejected, sum.Split)
		}
		if got := sourcetest.ReadTree(t, out("wds")); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: another set from tars", name)
		}
		splits := testenv.Must(source.Open(filepath.Join(dir, "gz"), dataset.Options{Classes: filepath.Join(dir, "wds/train/classes.txt")}))(t)
		o.Jobs, o.spoolBytes = 5, 4<<10
		testenv.OK(t, BuildAll(context.Background(), Tasks(splits, out("gz")), o, func(Summary) {}))
		if got := sourcetest.ReadTree(t, out("gz")); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: another set from compressed tars", name)
		}
	}
}
