package shard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

var update = flag.Bool("update", false, "write the sets in testdata anew")

const (
	goldenV1 = "testdata/v1"
	goldenV2 = "testdata/v2"
	goldenV3 = "testdata/v3"
)

// goldenSets are the committed sets, by their folders: train of the images in testdata, the others of made-up bytes; these are the worked
// examples of docs/format/shard.md.
func goldenSets(t *testing.T) map[string]goldenSet {
	t.Helper()
	return map[string]goldenSet{
		goldenV1 + "/train-shards": {imageSamples(t), SetOptions{
			Split: "train", Encoding: Encoding{Name: "jpeg"}, Classes: []string{"n01440764", "n01443537"}, Partitions: 2, Seed: 1,
			ShardSamples: 2, Built: map[string]string{"source": "folder", "partitions": "2", "seed": "1"},
		}},
		goldenV1 + "/val-shards": {[]Sample{
			{Key: "b.JPEG", Label: 1, Width: 3, Height: 2, Format: imagefile.JPEG, Image: []byte("first image"), Aux: []byte("ix")},
			{Key: "a.JPEG", Label: 0, Width: 640, Height: 480, Format: imagefile.PNG, Image: []byte("second")},
		}, SetOptions{
			Split: "val", Encoding: Encoding{Name: "example", Params: json.RawMessage(`{"k":1}`)}, Classes: []string{"cat", "dog"}, Seed: 3,
		}},
		goldenV2 + "/val-shards": {[]Sample{
			{Key: "b.JPEG", Label: 1, Width: 3, Height: 2, Format: imagefile.JPEG, Image: []byte("first image"), Aux: []byte("ix"),
				Fields: AppendBytes(AppendInts(AppendFloats(nil, 0.5, 1), -2), []byte("a dog"))},
			{Key: "a.JPEG", Label: 0, Width: 640, Height: 480, Format: imagefile.PNG, Image: []byte("second"),
				Fields: AppendBytes(AppendInts(AppendFloats(nil, 0, -1.5), 7), nil)},
		}, SetOptions{
			Split: "val", Encoding: Encoding{Name: "example"}, Classes: []string{"cat", "dog"}, Seed: 3,
			Fields: Fields{{Name: "box", Type: Float32, Size: 2}, {Name: "age", Type: Int64}, {Name: "caption", Type: Text}},
		}},
		goldenV3 + "/val-shards": {[]Sample{
			{Key: "b.JPEG", Label: -1, Width: 3, Height: 2, Format: imagefile.JPEG, Image: []byte("first image"), Fields: targetValues(2, 3, 2)},
			{Key: "a.JPEG", Label: -1, Width: 640, Height: 480, Format: imagefile.PNG, Image: []byte("second"), Fields: targetValues(0, 640, 480)},
		}, SetOptions{Split: "val", Encoding: Encoding{Name: "example"}, Seed: 3, Fields: targetFields}},
	}
}

type goldenSet struct {
	samples []Sample
	options SetOptions
}

// imageSamples reads the images in testdata, with their class folders.
func imageSamples(t *testing.T) []Sample {
	t.Helper()
	var samples []Sample
	root := os.DirFS("testdata/images")
	paths := testenv.Must(fs.Glob(root, "*/*"))(t)
	for _, path := range paths {
		data := testenv.Must(fs.ReadFile(root, path))(t)
		config, name, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		s := Sample{Key: path, Width: config.Width, Height: config.Height, Format: imagefile.Sniff(data), Image: data}
		if s.Format.String() != name {
			t.Fatalf("%s: told to be %v, is %s", path, s.Format, name)
		}
		if strings.HasPrefix(path, "n01443537/") {
			s.Label = 1
		}
		samples = append(samples, s)
	}
	slices.SortFunc(samples, func(a, b Sample) int { return cmp.Compare(OrderHash(1, a.Key), OrderHash(1, b.Key)) })
	return samples
}

// TestGoldenSets reads the committed sets, which must stay readable for ever.
func TestGoldenSets(t *testing.T) {
	for dir, golden := range goldenSets(t) {
		t.Run(dir, func(t *testing.T) {
			fresh := writeSet(t, golden.samples, golden.options)
			if *update {
				testenv.OK(t, os.RemoveAll(dir))
				testenv.OK(t, os.CopyFS(dir, os.DirFS(fresh)))
			}
			s := openSet(t, dir)
			if s.Len() != len(golden.samples) {
				t.Fatalf("%d samples, want %d", s.Len(), len(golden.samples))
			}
			var buf []byte
			for i := range golden.samples {
				var err error
				if buf, err = compareSample(s, i, &golden.samples[i], buf); err != nil {
					t.Error(err)
				}
			}
			report, err := Verify(context.Background(), dir, VerifyOptions{Problem: func(err error) { t.Error(err) }})
			if err != nil || report.Samples != s.Len() {
				t.Errorf("%+v, %v", report, err)
			}
			for _, info := range s.Manifest().Shards { // the writer still writes the same bytes
				want := testenv.Must(os.ReadFile(filepath.Join(dir, info.Path)))(t)
				if got, err := os.ReadFile(filepath.Join(fresh, info.Path)); !bytes.Equal(got, want) {
					t.Errorf("%s is written differently now: %v", info.Path, err)
				}
			}
		})
	}
}

// TestDocumentedBytes compares the worked examples of docs/format/shard.md with the files that they show.
func TestDocumentedBytes(t *testing.T) {
	doc := testenv.Must(os.ReadFile("../docs/format/shard.md"))(t)
	_, examples, _ := strings.Cut(string(doc), "\n## Worked example")
	v1, v2, _ := strings.Cut(examples, "\n## Worked example")
	for dir, example := range map[string]string{goldenV1: v1, goldenV2: v2} {
		compareDump(t, example, filepath.Join(dir, "val-shards/rank-0000/00000.imgshard"))
		manifest := testenv.Must(os.ReadFile(filepath.Join(dir, "val-shards", manifestName)))(t)
		if !strings.Contains(example, string(manifest)) {
			t.Errorf("the document does not show the manifest:\n%s", manifest)
		}
	}
}

// compareDump compares the bytes that an example shows with a file.
func compareDump(t *testing.T, example, file string) {
	t.Helper()
	var got []byte
	for _, m := range regexp.MustCompile(`(?m)^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)`).FindAllStringSubmatch(example, -1) {
		if at := fmt.Sprintf("%04x", len(got)); m[1] != at {
			t.Fatalf("line %q, expected byte %s", m[0], at)
		}
		bytes := testenv.Must(hex.DecodeString(strings.ReplaceAll(m[2], " ", "")))(t)
		got = append(got, bytes...)
	}
	want := testenv.Must(os.ReadFile(file))(t)
	if !bytes.Equal(got, want) {
		t.Errorf("the document shows %d bytes:\n% x\n%s has %d:\n% x", len(got), got, file, len(want), want)
	}
}
