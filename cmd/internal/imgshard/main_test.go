package imgshard

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/storage"
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

// says checks that a command line ends with a status, and with a text on stderr. It returns what is printed to stdout.
func says(t *testing.T, status int, want string, args ...string) string {
	t.Helper()
	out, diag, got := imgshard(t, args...)
	testenv.Check(t, got == status && strings.Contains(diag, want), "%q: status %d, %s; want status %d and %q", args, got, diag, status, want)
	return out
}

// refused is [says] of a command line that prints nothing to stdout.
func refused(t *testing.T, status int, want string, args ...string) {
	t.Helper()
	testenv.Equal(t, says(t, status, want, args...), "", "%q: stdout", args)
}

// quietly is [succeed] of a command line that prints nothing to stderr.
func quietly(t *testing.T, args ...string) string {
	t.Helper()
	out, diag, status := imgshard(t, args...)
	testenv.Require(t, status == 0 && diag == "", "%q: status %d, %s", args, status, diag)
	return out
}

// datasetOf writes a small dataset of class folders, and returns its folder.
func datasetOf(t *testing.T, o synth.Options) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	testenv.Must(synth.Write(t.Context(), dir, o))(t)
	return dir
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
	lines := strings.Split(strings.TrimSuffix(quietly(t, "ls", trainSet), "\n"), "\n")
	testenv.Require(t, len(lines) == 5, "%q", lines)
	objects := strings.Split(strings.TrimSuffix(succeed(t, "ls", "--json", trainSet), "\n"), "\n")
	testenv.Require(t, len(objects) == 5, "%v", objects)
	set := testenv.Opened(shard.OpenSet(trainSet))(t)
	for i := range lines {
		line := testenv.FromJSON[lsLine](t, objects[i])
		info := testenv.Must(os.Stat(filepath.Join(images, line.Key)))(t)
		testenv.Check(t, line.Index == i && line.Partition == i%2 && int64(line.Bytes) == info.Size(), "line %d: %+v", i, line)
		testenv.Check(t, strings.HasPrefix(line.Key, line.Class+"/"), "line %d: %+v", i, line)
		testenv.Check(t, strings.HasPrefix(lines[i], fmt.Sprintf("%d\t%s", i, line.Key)), "line %d: %s", i, lines[i])
		record, _ := testenv.Must2(set.Read(i, nil))(t)
		stored := slices.Concat(record.Image, record.Aux, record.Fields)
		testenv.Equal(t, line.Checksum, fmt.Sprintf("%08x", crc32.Checksum(stored, crc32.MakeTable(crc32.Castagnoli))), "line %d: checksum", i)
		columns := strings.Split(lines[i], "\t")
		testenv.Check(t, len(columns) == 9 && columns[7] == line.Shard, "line %d: %q", i, columns)
	}
	fields := testenv.FromJSON[map[string]any](t, objects[0])
	for _, name := range []string{"index", "key", "label", "class", "width", "height", "bytes", "checksum", "shard", "partition"} {
		_, ok := fields[name]
		testenv.Check(t, ok, "no %q in %s", name, objects[0])
	}
}

func TestLsOfAPart(t *testing.T) {
	dir := copySet(t)
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "rank-0001")))
	text, diag, status := imgshard(t, "ls", dir)
	testenv.Check(t, status == 0 && strings.Count(text, "\n") == 3 && strings.Contains(diag, "1 of 2 partitions"),
		"status %d, %q\n%s", status, diag, text)
}

// TestLsNamed lists some samples.
func TestLsNamed(t *testing.T) {
	all, _, _ := imgshard(t, "ls", trainSet)
	lines := strings.SplitAfter(all, "\n")
	last := strings.Split(lines[3], "\t")
	testenv.Equal(t, succeed(t, "ls", trainSet, last[1], "1"), lines[3]+lines[1], "the lines of two samples")
	says(t, 1, `"nonsense"`, "ls", trainSet, "1", "nonsense")
}

func TestCat(t *testing.T) {
	key := "n01443537/n01443537_2.JPEG" // a PNG, whatever its name
	want := testenv.Must(os.ReadFile(filepath.Join(images, key)))(t)
	testenv.Same(t, []byte(succeed(t, "cat", trainSet, key)), want, "cat %s", key)
	var byIndex []string
	for _, index := range []string{"0", "1", "2", "3", "4"} {
		byIndex = append(byIndex, succeed(t, "cat", trainSet, index))
	}
	testenv.Check(t, slices.Contains(byIndex, string(want)), "no index gives the bytes of %s", key)
	file := filepath.Join(t.TempDir(), "image")
	succeed(t, "cat", "-o", file, trainSet, key)
	testenv.Same(t, testenv.Must(os.ReadFile(file))(t), want, "cat -o")
	for _, name := range []string{"5", "99999999999999999999", "n01443537/none.JPEG"} {
		refused(t, 1, "no such sample", "cat", trainSet, name)
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
		testenv.Check(t, status == 0 && got == string(files[i].Data) && strings.Contains(diag, "--index "+key) == both,
			"cat %s, of index %s: status %d, %q, right %v", key, indexes[key], status, diag, got == string(files[i].Data))
		testenv.Equal(t, quietly(t, "cat", set, "--index", indexes[key]), string(files[i].Data), "cat --index %s", indexes[key])
		byKey := succeed(t, "ls", set, key)
		testenv.Equal(t, succeed(t, "ls", set, "--index", indexes[key]), byKey, "ls of key %s by its index", key)
		testenv.Check(t, strings.HasPrefix(byKey, indexes[key]+"\t"+key+"\t"), "ls %s: %q", key, byKey)
	}
	for _, args := range [][]string{{"000000001"}, {"--index", "8"}, {"--index", "-1"}} {
		refused(t, 1, "no such sample", append([]string{"cat", set}, args...)...)
	}
}

func TestVerify(t *testing.T) {
	testenv.Contains(t, quietly(t, "verify", trainSet), "5 samples in 3 shards")
	says(t, 1, "", "verify", "--images", images)
	built := filepath.Join(t.TempDir(), "built")
	succeed(t, "build", images, "-o", built)
	testenv.Contains(t, quietly(t, "verify", "--images", built), "every image decodes")
	dir := copySet(t)
	path := filepath.Join(dir, "rank-0001/00000.imgshard")
	data := testenv.Must(os.ReadFile(path))(t)
	data[150] ^= 1 // in the first record
	testenv.OK(t, os.WriteFile(path, data, 0o666))
	says(t, 1, path+": record 0 (sample 1) at byte", "verify", dir)
	says(t, 1, "problems found: 1", "verify", dir)
	refused(t, 1, "CRC-32C", "cat", dir, "1")
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
	testenv.Equal(t, status, 1, "verify's status")
	testenv.Contains(t, text, filepath.Join(parent, "val")+": every checksum is right")
	testenv.Check(t, !strings.Contains(text, "train: every checksum"), "%s", text)
	testenv.Contains(t, diag, filepath.Join(parent, "train/rank-0001/00000.imgshard"), filepath.Join(parent, "lost/manifest.json"),
		filepath.Join(parent, "train: problems found: 1"))
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
		out, diag, status := imgshard(t, args...)
		testenv.Check(t, status == 2 && out == "" && strings.HasPrefix(diag, "imgshard: "), "%q: status %d, %q, %q", args, status, out, diag)
	}
	for _, args := range [][]string{{}, {"--help"}, {"ls", "--help"}, {"--version"}} {
		out, diag, status := imgshard(t, args...)
		testenv.Check(t, status == 0 && strings.Contains(out, "imgshard") && diag == "", "%q: status %d, %q, %q", args, status, out, diag)
	}
	says(t, 1, "not a shard set", "ls", t.TempDir())
}

// roleEnv makes this test program the program itself.
const roleEnv = "IMGSHARD_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) == "" {
		os.Exit(m.Run())
	}
	Main(os.Args[1:])
}

// TestInterruptedIsAStatusOfItsOwn tells scripts an interrupted verify from one of a damaged set.
func TestInterruptedIsAStatusOfItsOwn(t *testing.T) {
	set := copySet(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, words := range [][]string{{"verify", set}, {"stats", set}, {"build", images, "-o", set, "--force"}} {
		var diag strings.Builder
		status := run(ctx, words, io.Discard, &diag)
		testenv.Check(t, status == interruptedStatus && strings.Contains(diag.String(), "interrupted"),
			"%s: status %d, %s", words[0], status, &diag)
	}
}

// TestOneSignalEndsOpening interrupts commands whose set takes long to open, of which a line tells each second.
func TestOneSignalEndsOpening(t *testing.T) {
	set := filepath.Join(t.TempDir(), "set")
	succeed(t, "build", images, "-o", set)
	testenv.Hold(t, filepath.Join(set, "rank-0000/00000.imgshard"))
	for _, words := range [][]string{{"ls", set}, {"view", set, "-o", "-"}, {"repack", set, "-o", set + "2"}} {
		t.Run(words[0], func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], words...)
			cmd.Env = append(os.Environ(), roleEnv+"=1")
			diag := testenv.Must(cmd.StderrPipe())(t)
			testenv.OK(t, cmd.Start())
			said := ""
			for lines := bufio.NewScanner(diag); lines.Scan(); {
				if said += lines.Text() + "\n"; strings.HasSuffix(lines.Text(), "set: 0 of 1 shard opened") {
					cmd.Process.Signal(os.Interrupt)
				}
			}
			cmd.Wait()
			testenv.Check(t, cmd.ProcessState.ExitCode() == interruptedStatus, "%v: %v, %s", words, cmd.ProcessState, said)
		})
	}
}

// TestWorkGrowsWithTheSet counts the bytes that commands allocate for sets of 10,000 and of 100,000 samples.
// Ten times the samples are ten times the work.
func TestWorkGrowsWithTheSet(t *testing.T) {
	const perSample = 4 << 10 // bytes at most; a list that is copied for each of its lines takes hundreds of KB for each
	before := map[string]uint64{}
	for _, n := range []int{10_000, 100_000} {
		for _, kind := range []string{"packed", "index"} {
			dir := filepath.Join(t.TempDir(), kind)
			writeLarge(t, dir, n, kind == "index")
			for _, words := range []string{"ls SET", "ls SET " + largeKey(n/2), "inspect SET", "stats SET"} {
				name := kind + " " + strings.Fields(words)[0] + fmt.Sprint(strings.Count(words, " "))
				var diag strings.Builder
				work := allocated(func() {
					status := run(context.Background(), strings.Fields(strings.ReplaceAll(words, "SET", dir)), io.Discard, &diag)
					testenv.Require(t, status == 0, "%s: %s", words, &diag)
				})
				switch last, met := before[name]; {
				case work > uint64(perSample*n):
					t.Fatalf("%s of %d samples: %d bytes were allocated", name, n, work)
				case met && work > 12*last:
					t.Errorf("%s: %d bytes were allocated for 10,000 samples, and %d for 100,000", name, last, work)
				}
				before[name] = work
			}
		}
	}
}

// allocated returns how many bytes do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func largeKey(i int) string { return fmt.Sprintf("n%08d/%07d.png", i%1000, i) }

// writeLarge writes a set of n samples, or an index of as many files that are nowhere.
func writeLarge(t *testing.T, dir string, n int, index bool) {
	t.Helper()
	classes := make([]string, 1000)
	for i := range classes {
		classes[i] = fmt.Sprintf("n%08d", i)
	}
	w := testenv.Must(shard.NewSetWriter(dir, shard.SetOptions{
		Split: "train", Encoding: shard.Encoding{Name: "jpeg"}, Classes: classes, Partitions: 2, ShardSamples: 5000, Source: "/data",
	}))(t)
	defer w.Abort()
	numbers := map[uint64]int{} // by the hash of their key
	for i := range n {
		numbers[shard.OrderHash(0, largeKey(i))] = i
	}
	for _, hash := range slices.Sorted(maps.Keys(numbers)) {
		i := numbers[hash]
		s := shard.Sample{Key: largeKey(i), Label: int32(i % 1000), Width: 8, Height: 8, Format: imagefile.PNG, Image: []byte("image")}
		if index {
			s.Outside, s.Image = shard.OutsideOf(s.Image), nil
			o := shard.IndexObject{Path: s.Key, Object: storage.Object{Bytes: 5, Version: "1732573041123456789"}}
			s.Outside.Object = testenv.Must(w.AddObject(o))(t)
		}
		testenv.OK(t, w.Append(s))
	}
	testenv.Must(w.Commit())(t)
}
