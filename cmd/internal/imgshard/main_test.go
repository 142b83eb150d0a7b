package imgshard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/synth"
)

// trainSet is the committed set of format version 1; see package shard.
const (
	goldenSets = "../../../shard/testdata/v1"
	trainSet   = goldenSets + "/train-shards"
	images     = "../../../shard/testdata/images"
)

// imgshard runs a command line and returns what it prints and its exit status.
func imgshard(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, diag bytes.Buffer
	status = run(context.Background(), args, &out, &diag)
	return out.String(), diag.String(), status
}

// succeed runs a command line that must succeed, and returns what it prints to stdout.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	out, diag, status := imgshard(t, args...)
	testenv.Require(t, status == 0, "%q: status %d, %s", args, status, diag)
	return out
}

// says checks that a command line ends with a status, and with a text on stderr.
func says(t *testing.T, status int, want string, args ...string) {
	t.Helper()
	if _, diag, got := imgshard(t, args...); got != status || !strings.Contains(diag, want) {
		t.Errorf("%q: status %d, %s; want status %d and %q", args, got, diag, status, want)
	}
}

// writeDataset writes a small dataset of class folders.
func writeDataset(t *testing.T, dir string, o synth.Options) {
	t.Helper()
	testenv.Must(synth.Write(t.Context(), dir, o))(t)
}

// pngOf returns an image as a PNG.
func pngOf(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	testenv.OK(t, png.Encode(&b, img))
	return b.Bytes()
}

// copySet returns a copy of trainSet to damage.
func copySet(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "train-shards")
	testenv.OK(t, os.CopyFS(dir, os.DirFS(trainSet)))
	return dir
}

func TestLs(t *testing.T) {
	text, diag, status := imgshard(t, "ls", trainSet)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	testenv.Require(t, status == 0 && diag == "" && len(lines) == 5, "status %d, %q\n%s", status, diag, text)
	objects := strings.Split(strings.TrimSuffix(succeed(t, "ls", "--json", trainSet), "\n"), "\n")
	testenv.Require(t, len(objects) == 5, "%v", objects)
	set := testenv.Must(shard.OpenSet(trainSet))(t)
	defer set.Close()
	for i := range lines {
		var line lsLine
		testenv.OK(t, json.Unmarshal([]byte(objects[i]), &line))
		info := testenv.Must(os.Stat(filepath.Join(images, line.Key)))(t)
		if line.Index != i || line.Partition != i%2 || int64(line.Bytes) != info.Size() || !strings.HasPrefix(line.Key, line.Class+"/") {
			t.Errorf("line %d: %+v", i, line)
		}
		if !strings.HasPrefix(lines[i], strings.Join([]string{objects[i][len(`{"index":`):strings.Index(objects[i], ",")], line.Key}, "\t")) {
			t.Errorf("line %d: %s", i, lines[i])
		}
		record, _, err := set.Read(i, nil)
		testenv.OK(t, err)
		stored := slices.Concat(record.Image, record.Aux, record.Fields)
		if want := fmt.Sprintf("%08x", crc32.Checksum(stored, crc32.MakeTable(crc32.Castagnoli))); line.Checksum != want {
			t.Errorf("line %d: checksum %s, want %s", i, line.Checksum, want)
		}
		columns := strings.Split(lines[i], "\t")
		testenv.Check(t, len(columns) == 9 && columns[7] == line.Shard, "line %d: %q", i, columns)
	}
	var fields map[string]any
	testenv.OK(t, json.Unmarshal([]byte(objects[0]), &fields))
	for _, name := range []string{"index", "key", "label", "class", "width", "height", "bytes", "checksum", "shard", "partition"} {
		_, ok := fields[name]
		testenv.Check(t, ok, "no %q in %s", name, objects[0])
	}
}

func TestLsOfAPart(t *testing.T) {
	dir := copySet(t)
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "rank-0001")))
	text, diag, status := imgshard(t, "ls", dir)
	if status != 0 || strings.Count(text, "\n") != 3 || !strings.Contains(diag, "1 of 2 partitions") {
		t.Errorf("status %d, %q\n%s", status, diag, text)
	}
}

// TestLsNamed lists some samples.
func TestLsNamed(t *testing.T) {
	all, _, _ := imgshard(t, "ls", trainSet)
	lines := strings.SplitAfter(all, "\n")
	last := strings.Split(lines[3], "\t")
	text := succeed(t, "ls", trainSet, last[1], "1")
	testenv.Check(t, text == lines[3]+lines[1], "%v", text)
	says(t, 1, `"nonsense"`, "ls", trainSet, "1", "nonsense")
}

func TestCat(t *testing.T) {
	key := "n01443537/n01443537_2.JPEG" // a PNG, whatever its name
	want := testenv.Must(os.ReadFile(filepath.Join(images, key)))(t)
	if got := succeed(t, "cat", trainSet, key); got != string(want) {
		t.Fatalf("%d bytes, want %d", len(got), len(want))
	}
	var byIndex []string
	for _, index := range []string{"0", "1", "2", "3", "4"} {
		byIndex = append(byIndex, succeed(t, "cat", trainSet, index))
	}
	if !slices.Contains(byIndex, string(want)) {
		t.Error("no index gives the bytes of", key)
	}
	file := filepath.Join(t.TempDir(), "image")
	succeed(t, "cat", "-o", file, trainSet, key)
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("-o wrote %d bytes, %v", len(got), err)
	}
	for _, name := range []string{"5", "99999999999999999999", "n01443537/none.JPEG"} {
		if out, diag, status := imgshard(t, "cat", trainSet, name); status != 1 || out != "" || !strings.Contains(diag, "no such sample") {
			t.Errorf("cat %s: status %d, %q, %q", name, status, out, diag)
		}
	}
}

// TestNumbersAsKeys names samples with keys that are numbers: a key goes before an index, and --index tells them apart.
func TestNumbersAsKeys(t *testing.T) {
	dir := t.TempDir()
	var files []sourcetest.File
	for i := range 8 {
		data := pngOf(t, image.NewGray(image.Rect(0, 0, i+1, 1)))
		key := []string{fmt.Sprintf("%09d", i), fmt.Sprint(i)}[i%2]
		files = append(files, sourcetest.File{Name: key + ".png", Data: data}, sourcetest.File{Name: key + ".cls", Data: []byte("0")})
	}
	set := filepath.Join(dir, "set")
	succeed(t, "build", sourcetest.Write(t, filepath.Join(dir, "x.tar"), sourcetest.Tar(t, files...)), "-o", set)
	indexes := make(map[string]string) // by key
	lines, _, _ := imgshard(t, "ls", set)
	for line := range strings.Lines(lines) {
		columns := strings.Split(line, "\t")
		indexes[columns[1]] = columns[0]
	}
	for i := 0; i < len(files); i += 2 {
		key := strings.TrimSuffix(files[i].Name, ".png")
		got, diag, status := imgshard(t, "cat", set, key)
		both := len(key) == 1 && key != indexes[key]
		if status != 0 || got != string(files[i].Data) || strings.Contains(diag, "--index "+key) != both {
			t.Errorf("cat %s, of index %s: status %d, %q, right %v", key, indexes[key], status, diag, got == string(files[i].Data))
		}
		if got, diag, status := imgshard(t, "cat", set, "--index", indexes[key]); status != 0 || diag != "" || got != string(files[i].Data) {
			t.Errorf("cat --index %s: status %d, %q", indexes[key], status, diag)
		}
		byKey, _, _ := imgshard(t, "ls", set, key)
		byIndex, diag, status := imgshard(t, "ls", set, "--index", indexes[key])
		if status != 0 || byKey != byIndex || !strings.HasPrefix(byKey, indexes[key]+"\t"+key+"\t") {
			t.Errorf("ls %s: %q, by index %q, %s", key, byKey, byIndex, diag)
		}
	}
	for _, args := range [][]string{{"000000001"}, {"--index", "8"}, {"--index", "-1"}} {
		if out, diag, status := imgshard(t, append([]string{"cat", set}, args...)...); status != 1 || out != "" || !strings.Contains(diag, "no such sample") {
			t.Errorf("cat %v: status %d, %q", args, status, diag)
		}
	}
}

func TestVerify(t *testing.T) {
	if text, diag, status := imgshard(t, "verify", trainSet); status != 0 || diag != "" || !strings.Contains(text, "5 samples in 3 shards") {
		t.Fatalf("status %d, %q, %q", status, diag, text)
	}
	says(t, 1, "", "verify", "--images", images)
	built := filepath.Join(t.TempDir(), "built")
	succeed(t, "build", images, "-o", built)
	if text, diag, status := imgshard(t, "verify", "--images", built); status != 0 || diag != "" || !strings.Contains(text, "every image decodes") {
		t.Errorf("--images: status %d, %q, %q", status, diag, text)
	}
	dir := copySet(t)
	path := filepath.Join(dir, "rank-0001/00000.imgshard")
	data := testenv.Must(os.ReadFile(path))(t)
	data[150] ^= 1 // in the first record
	testenv.OK(t, os.WriteFile(path, data, 0o666))
	_, diag, status := imgshard(t, "verify", dir)
	if status != 1 || !strings.Contains(diag, path+": record 0 (sample 1) at byte") || !strings.Contains(diag, "problems found: 1") {
		t.Errorf("status %d, %q", status, diag)
	}
	if out, diag, status := imgshard(t, "cat", dir, "1"); status != 1 || out != "" || !strings.Contains(diag, "CRC-32C") {
		t.Errorf("cat of the bad record: status %d, %q, %q", status, out, diag)
	}
	testenv.OK(t, os.Truncate(path, 500))
	says(t, 1, path+": ", "verify", dir)
	says(t, 1, path+": ", "ls", dir)
}

// TestVerifyNamesAll verifies a folder with a good set, one copied in part, and one without its manifest.
func TestVerifyNamesAll(t *testing.T) {
	parent := t.TempDir()
	for from, to := range map[string]string{trainSet: "train", filepath.Join(goldenSets, "val-shards"): "val", copySet(t): "lost"} {
		testenv.OK(t, os.CopyFS(filepath.Join(parent, to), os.DirFS(from)))
	}
	succeed(t, "verify", filepath.Join(parent, "val"))
	for _, path := range []string{"train/rank-0001/00000.imgshard", "lost/manifest.json"} {
		testenv.OK(t, os.Remove(filepath.Join(parent, path)))
	}
	text, diag, status := imgshard(t, "verify", parent)
	if status != 1 || !strings.Contains(text, filepath.Join(parent, "val")+": every checksum is right") || strings.Contains(text, "train: every checksum") {
		t.Errorf("status %d, %q", status, text)
	}
	for _, want := range []string{"train/rank-0001/00000.imgshard", "lost/manifest.json", "train: problems found: 1"} {
		testenv.Contains(t, diag, filepath.Join(parent, want))
	}
	testenv.OK(t, os.RemoveAll(filepath.Join(parent, "train/rank-0001")))
	testenv.Contains(t, succeed(t, "verify", filepath.Join(parent, "train")), "not verified: rank-0001")
	says(t, 1, "incomplete: 1 partition is missing: copy rank-0001", "verify", "--complete", filepath.Join(parent, "train"))
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"nonsense"}, {"ls"}, {"ls", "--nonsense", trainSet}, {"cat", trainSet}, {"verify"},
		{"verify", "--jobs", "-1", trainSet}, {"ls", goldenSets}, {"build", images, "--seed", "9223372036854775808"},
		{"repack", trainSet, "-o", "nowhere", "--seed", "9223372036854775808"}, {"synth", "nowhere", "--seed", "9223372036854775808"},
		{"view", trainSet, "-o", "nowhere.html", "--seed", "9223372036854775808"},
		{"build", images, "-o", "nowhere", "--jobs", "4097"}, {"repack", trainSet, "-o", "nowhere", "--jobs", "4097"},
		{"verify", "--jobs", "4097", trainSet}, {"synth", "nowhere", "--jobs", "-1"},
		{"repack", trainSet, "-o", "nowhere", "--shard-size", "1"}, {"ls", ""}, {"ls", trainSet, ""}, {"ls", trainSet, "-1"}, {"build", images, "-o", ""}, {"build", images, "-o", "https://host/x"}, {"synth", "s3://bucket/x"},
		{"build", "s3://bucket/x"}, {"build", images, "--classes", "https://host/x"}, {"build", ""}, {"build", images, "--classes-from", "0"},
		{"build", images, "--class-order", "length"},
	} {
		if out, diag, status := imgshard(t, args...); status != 2 || out != "" || !strings.HasPrefix(diag, "imgshard: ") {
			t.Errorf("%q: status %d, %q, %q", args, status, out, diag)
		}
	}
	for _, args := range [][]string{{}, {"--help"}, {"ls", "--help"}, {"--version"}} {
		if out, diag, status := imgshard(t, args...); status != 0 || !strings.Contains(out, "imgshard") || diag != "" {
			t.Errorf("%q: status %d, %q, %q", args, status, out, diag)
		}
	}
	says(t, 1, "not a shard set", "ls", t.TempDir())
}
