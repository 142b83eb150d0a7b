package shard

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/crc32c"
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
		testenv.Contains(t, example, string(testenv.Must(os.ReadFile(filepath.Join(dir, "val-shards", manifestName)))(t)))
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

// seeds are the contents of the files that a pattern matches.
func seeds(f *testing.F, pattern string) (all [][]byte) {
	f.Helper()
	for _, path := range testenv.Must(filepath.Glob(pattern))(f) {
		all = append(all, testenv.Must(os.ReadFile(path))(f))
	}
	testenv.Require(f, len(all) > 0, "no file is called %s", pattern)
	return all
}

// FuzzReader opens and reads any bytes; with sign, their checksums are made right first, so that what lies after the checksums is reached.
func FuzzReader(f *testing.F) {
	for _, data := range seeds(f, "testdata/v*/*/*/*.imgshard") {
		f.Add(data, false)
		f.Add(data, true)
		f.Add(data[:len(data)-footerSize], true)
	}
	f.Add(seeds(f, filepath.Join(targetSet(f), shardPath(0, 0)))[0], true)
	f.Add([]byte(magicStart), false)
	f.Fuzz(func(t *testing.T, data []byte, sign bool) {
		if sign && len(data) >= prefixSize+footerSize {
			data = append([]byte(nil), data...)
			foot := parseFooter(data[len(data)-footerSize:])
			resign(data, &foot)
		}
		r, err := openBytes(data)
		if err != nil {
			return
		}
		keys, keysErr := r.Keys()
		var buf []byte
		for j := range r.Len() {
			var rec Record
			rec, buf, err = r.Read(j, buf)
			testenv.Require(t, err == nil || isCorrupt(err), "%v", err)
			testenv.Between(t, len(buf), 0, 2*(len(data)+SlackBytes)+4096, "bytes of a buffer for a file of %d", len(data))
			if err == nil {
				_, _ = rec.Image[:len(rec.Image)+SlackBytes], rec.Aux[:len(rec.Aux)+SlackBytes]
				fields := r.header.Fields.bounded(RecordBytesMax)
				split, _ := fields.Split(rec.Fields, nil)
				for i, value := range split {
					fields[i].JSON(value) // which reads objects
				}
			}
			if keysErr == nil {
				keys.At(j)
			}
		}
	})
}

// FuzzManifest decodes any bytes; with sign, the checksum is made right first. A manifest that is accepted must be
// encoded to one that is accepted, too.
func FuzzManifest(f *testing.F) {
	for _, data := range append(seeds(f, "testdata/v*/*/"+manifestName), seeds(f, filepath.Join(targetSet(f), manifestName))...) {
		f.Add(data, false)
		f.Add(data, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, sign bool) {
		if at := bytes.LastIndex(data, []byte(manifestKey)); sign && at >= 0 {
			data = fmt.Appendf(data[:at:at], manifestTail, crc32c.Checksum(data[:at]))
		}
		m, err := decodeManifest("manifest.json", data)
		if err != nil {
			return
		}
		testenv.Must(decodeManifest("manifest.json", testenv.Must(m.encode())(t)))(t)
	})
}

// TestMutatedFiles writes strange numbers over a shard's structure, with the checksums made right or not, many times:
// reading gives the samples or a *CorruptError.
func TestMutatedFiles(t *testing.T) {
	good := shardBytes(t, 6)
	ranges := sections(t, good)
	names := []string{"header", "entries", "keys", "footer"}
	strange := []uint64{0, 1, 7, 8, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<63 - 1, 1 << 63, 1<<64 - 1, uint64(len(good)), uint64(len(good)) - footerSize}
	rng := rand.New(rand.NewPCG(11, 13))
	refused := 0
	const rounds = 20000
	for round := range rounds {
		p := bytes.Clone(good)
		for range 1 + rng.IntN(3) {
			span := ranges[names[rng.IntN(len(names))]]
			at := span[0] + rng.Int64N(span[1]-span[0])
			value := strange[rng.IntN(len(strange))]
			switch rng.IntN(3) {
			case 0:
				p[at] = byte(rng.Uint32())
			case 1:
				if at = at &^ 3; at+4 <= int64(len(p)) {
					binary.LittleEndian.PutUint32(p[at:], uint32(value))
				}
			case 2:
				if at = at &^ 7; at+8 <= int64(len(p)) {
					binary.LittleEndian.PutUint64(p[at:], value)
				}
			}
		}
		if round%4 != 0 {
			f := parseFooter(p[len(p)-footerSize:])
			resign(p, &f)
		}
		if err := readAll(p); err != nil {
			_, unsupported := errors.AsType[*UnsupportedError](err)
			testenv.Require(t, isCorrupt(err) || unsupported, "round %d: %v", round, err)
			refused++
		}
	}
	testenv.Between(t, refused, rounds/2, rounds-1, "of %d files refused", rounds)
}
