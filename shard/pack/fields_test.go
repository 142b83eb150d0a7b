package pack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/synth"
)

// buildFields is build with fields.
func buildFields(path, out string, o Options, flags ...string) (sum Summary, err error) {
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
	return filepath.Join(writeTree(t, filepath.Join(dir, "train"), files), "train.jsonl"), tar, scores
}

var fieldFlags = []string{"score=json.score:float32", "caption=txt:text", "tags=json.tags:multihot[5]"}

// TestFieldsGiveTheSameBytes packs fields from a list and from a tar, and packs the sets again.
func TestFieldsGiveTheSameBytes(t *testing.T) {
	list, tar, scores := fieldSource(t, 3)
	dir := t.TempDir()
	out := func(of string) string { return filepath.Join(dir, of) }
	o := Options{Partitions: 2, Seed: 7, ShardBytes: 1 << 20, Encoding: original.Encoding{}}
	sum, err := buildFields(list, out("list"), o, fieldFlags...)
	if err != nil || sum.Rejected != 1 || sum.Manifest.Samples != len(scores) {
		t.Fatalf("%+v, %v", sum, err)
	}
	o.Jobs, o.spoolBytes = 5, 4<<10
	testenv.Must(buildFields(tar, out("tar"), o, fieldFlags...))(t)
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
	testenv.Must(buildFields(list, out("small"), small, fieldFlags...))(t)
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
	testenv.Must(buildFields(both, out, Options{}, "caption=txt:text"))(t)
	testenv.OK(t, os.RemoveAll(filepath.Join(out, "val")))
	if _, err := buildFields(both, out, Options{}, "caption=txt:bytes"); !errors.Is(err, errTaken) {
		t.Errorf("%v", err)
	}
	if sum, err := buildFields(both, out, Options{}, "caption=txt:text"); err != nil || sum.Split != "val" || sum.Kept {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestMissingFieldEndsTheBuild leaves out the value of one image.
func TestMissingFieldEndsTheBuild(t *testing.T) {
	list, _, _ := fieldSource(t, 2)
	out := filepath.Join(t.TempDir(), "out")
	_, err := buildFields(list, out, Options{}, "score=json.score:float32", "age=json.age:int64")
	var format *transport.FormatError
	if !errors.As(err, &format) || !strings.Contains(err.Error(), "field \"age\": the JSON has no key age") {
		t.Errorf("%v", err)
	}
	requireNothing(t, filepath.Dir(out))
}
