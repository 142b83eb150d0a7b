package shard

import (
	"bytes"
	"cmp"
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
		config, name := testenv.Must2(image.DecodeConfig(bytes.NewReader(data)))(t)
		s := Sample{Key: path, Width: config.Width, Height: config.Height, Format: imagefile.Sniff(data), Image: data}
		testenv.Equal(t, s.Format.String(), name, "%s: format", path)
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
			testenv.Equal(t, s.Len(), len(golden.samples), "samples")
			sameSamples(t, s, golden.samples)
			verified(t, dir, s.Len())
			for _, info := range s.Manifest().Shards { // the writer still writes the same bytes
				want := testenv.Must(os.ReadFile(filepath.Join(dir, info.Path)))(t)
				testenv.Same(t, testenv.Must(os.ReadFile(filepath.Join(fresh, info.Path)))(t), want, "%s as it is written now", info.Path)
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
		testenv.Contains(t, example, string(manifest))
	}
}

// compareDump compares the bytes that an example shows with a file.
func compareDump(t *testing.T, example, file string) {
	t.Helper()
	var got []byte
	for _, m := range regexp.MustCompile(`(?m)^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)`).FindAllStringSubmatch(example, -1) {
		testenv.Equal(t, m[1], fmt.Sprintf("%04x", len(got)), "line %q: offset", m[0])
		got = append(got, testenv.Must(hex.DecodeString(strings.ReplaceAll(m[2], " ", "")))(t)...)
	}
	testenv.Same(t, got, testenv.Must(os.ReadFile(file))(t), "what the document shows of %s", file)
}
