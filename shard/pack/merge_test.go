package pack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// buildPart builds a part of all splits of a source, or with 0 parts all of it, and returns the summaries by split.
func buildPart(ctx context.Context, path, out string, o Options, number, of int) (map[string]Summary, error) {
	splits, err := source.Open(path, dataset.Options{})
	if err != nil {
		return nil, err
	}
	o.Part = Part{number, of}
	folder, err := o.Part.Output(out)
	if err != nil {
		return nil, err
	}
	sums := make(map[string]Summary)
	return sums, BuildAll(ctx, Tasks(splits, folder), o, func(s Summary) { sums[s.Split] = s })
}

// mergeParts builds a set by n parts in a random order, one of which is broken off at first, and merges them.
func mergeParts(t *testing.T, path, out string, o Options, n int) map[string]Summary {
	t.Helper()
	order := rand.New(rand.NewPCG(uint64(n), 1)).Perm(n)
	for _, i := range order {
		if i == 0 && n < 60 { // else part 1 may have no sample
			ctx, cancel := context.WithCancel(t.Context())
			broken := o
			broken.Progress = func(p Progress) {
				if p.Stage == StagePack {
					cancel()
				}
			}
			testenv.Fails(buildPart(ctx, path, out, broken, 1, n))(t, context.Canceled)
			testenv.Says(t, "merged without part 1", Merge(t.Context(), out, o, nil), "1/")
		}
		testenv.Must(buildPart(t.Context(), path, out, o, i+1, n))(t)
	}
	sums := make(map[string]Summary)
	testenv.OK(t, Merge(t.Context(), out, Options{Jobs: 3}, func(s Summary) { sums[s.Split] = s }))
	return sums
}

// repeated is a dataset in which images occur again: in their class, in another, in the other split.
func repeated(t *testing.T) (train, val map[string][]byte) {
	train = synthetic(t, 3, 6)
	image := func(class, k int) []byte { return train[fmt.Sprintf("n9000000%d/n9000000%d_%d.JPEG", class, class, k)] }
	train["n90000000/again.JPEG"] = image(0, 2)
	train["n90000000/twice.JPEG"] = image(0, 2)
	train["n90000002/other.JPEG"] = image(1, 3)
	train["n90000001/text"] = []byte("no image")
	train["n90000001/same text"] = []byte("no image")
	train["n90000000/\xff\xfe.JPEG"] = []byte("a name that JSON cannot hold")
	val = map[string][]byte{
		"n90000000/v.JPEG": image(2, 5), "n90000001/v.JPEG": image(0, 2), "n90000002/v.JPEG": synthetic(t, 1, 9)["n90000000/n90000000_8.JPEG"],
		"n90000002/w.JPEG": image(1, 0), "n90000001/w.JPEG": image(1, 0),
	}
	return train, val
}

// repeatedParts lays that dataset out as d, without some of its images, builds out of it in two parts, and returns the folder of both.
func repeatedParts(t *testing.T, without ...string) string {
	t.Helper()
	train, val := repeated(t)
	for _, name := range without {
		delete(train, name)
	}
	dir := t.TempDir()
	sourcetest.WriteTree(t, filepath.Join(dir, "d/train"), train)
	sourcetest.WriteTree(t, filepath.Join(dir, "d/val"), val)
	for i := range 2 {
		testenv.Must(buildPart(t.Context(), filepath.Join(dir, "d"), filepath.Join(dir, "out"), Options{}, i+1, 2))(t)
	}
	return dir
}

// sameSets compares sets, and what the program says of them.
func sameSets(t *testing.T, got, want string, gotSums, wantSums map[string]Summary) {
	t.Helper()
	sameFiles(t, got, want)
	for split, w := range wantSums {
		g := gotSums[split]
		g.Output, w.Output, w.Repaired = "", "", Reasons{} // the parts' summaries name repaired images
		testenv.DeepEqual(t, g, w, "%s: summary", split)
	}
}

func TestMergeGivesTheBytesOfOneBuild(t *testing.T) {
	train, val := repeated(t)
	broken := train["n90000000/n90000000_0.JPEG"]
	train["n90000000/broken.JPEG"], train["n90000001/broken.JPEG"] = broken[:len(broken)/2], broken[:len(broken)/2]
	dir := t.TempDir()
	sourcetest.WriteTree(t, filepath.Join(dir, "d/train"), train)
	sourcetest.WriteTree(t, filepath.Join(dir, "d/val"), val)
	sourcetest.Write(t, filepath.Join(dir, "tars/ILSVRC2012_img_train.tar"), sourcetest.TarOfTars(t, train, 2))
	for i, o := range []Options{{Seed: 7, ShardBytes: 8 << 10, Partitions: 3}, {ShardBytes: 16 << 10}} {
		for k, src := range []string{"d", "d/train", "tars/ILSVRC2012_img_train.tar"} {
			path, want := filepath.Join(dir, src), filepath.Join(dir, "want", fmt.Sprint(i, k), "set")
			wantSums := testenv.Must(buildPart(t.Context(), path, want, o, 0, 0))(t)
			for _, n := range []int{1, 4, 7, 60} {
				if n == 60 && (src != "d" || i > 0) {
					continue
				}
				out := filepath.Join(dir, "got", fmt.Sprint(i, k, n), "set")
				sums := mergeParts(t, path, out, o, n)
				sameSets(t, out, want, sums, wantSums)
				requireNothing(t, filepath.Dir(out), filepath.Base(out))
			}
		}
	}
}

func TestMergeRefusesPartsThatDoNotMatch(t *testing.T) {
	dir := t.TempDir()
	src := sourcetest.WriteTree(t, filepath.Join(dir, "train"), synthetic(t, 3, 4))
	part := func(out string, o Options, number, of int) {
		t.Helper()
		testenv.Must(buildPart(t.Context(), src, out, o, number, of))(t)
	}
	refused := func(out, want string) {
		t.Helper()
		testenv.Says(t, "the refusal", Merge(t.Context(), out, Options{}, nil), want)
	}
	out := filepath.Join(dir, "out")
	refused(out, "has no finished part: run imgshard build SRC -o "+out+" --part 1/N")
	part(out, Options{}, 2, 3)
	refused(out, "lacks parts of 3: 1, 3. Run each, as imgshard build SRC -o "+out+" --part 1/3")
	part(out, Options{Seed: 1}, 1, 3)
	part(out, Options{}, 3, 3)
	refused(out, "part 1: split train, encoding jpeg, seed 1, partitions 1, fields []")
	part(out, Options{Replace: true}, 1, 3)
	sourcetest.Write(t, filepath.Join(src, "n90000000/more.JPEG"), []byte("x"))
	part(out, Options{Replace: true}, 2, 3)
	refused(out, "2-of-3 is from another source than part 1, or was made with other flags: run the part again with --force")
	refused(out, "3 classes bde8c9af, files 13 keys, ")
	part(out, Options{}, 1, 2)
	refused(out, "remove those that are not meant")

	// A part's copy instead of another.
	out = filepath.Join(dir, "copied")
	for number := range 3 {
		part(out, Options{}, number+1, 3)
	}
	second := filepath.Join(dir, ".copied.parts/2-of-3")
	testenv.OK(t, errors.Join(os.RemoveAll(second), os.CopyFS(second, os.DirFS(filepath.Join(dir, ".copied.parts/1-of-3")))))
	refused(out, "lacks parts of 3: 2. Run each, as imgshard build SRC -o "+out+" --part 2/3")
	requireNothing(t, dir, ".copied.parts", ".out.parts", "train")
}

// TestMergeOfAChangedSource changes labels, fields and sizes between two parts, of the same keys. A change of dates is none: another machine
// may have a copy.
func TestMergeOfAChangedSource(t *testing.T) {
	dir := t.TempDir()
	list, image := filepath.Join(dir, "l.csv"), filepath.Join(dir, "n90000000/n90000000_0.JPEG")
	const same = "path,label,note\nn90000000/n90000000_0.JPEG,0,x\nn90000001/n90000001_0.JPEG,1,y\n"
	const changed = "2-of-2 is from another source than part 1"
	for name, tt := range map[string]struct {
		change func() error
		want   string
	}{
		"dates": {func() error { return os.Chtimes(image, time.Time{}, time.Now().Add(time.Hour)) }, ""},
		"labels": {func() error {
			return os.WriteFile(list, []byte(strings.NewReplacer("0,x", "1,x", "1,y", "0,y").Replace(same)), 0o600)
		}, changed},
		"fields": {func() error { return os.WriteFile(list, []byte(strings.Replace(same, "0,x", "0,z", 1)), 0o600) }, changed},
		"size":   {func() error { return os.WriteFile(image, []byte("cut"), 0o600) }, changed},
	} {
		sourcetest.WriteTree(t, dir, synthetic(t, 2, 1))
		sourcetest.Write(t, list, []byte(same))
		out := filepath.Join(dir, "out of "+name)
		for number := range 2 {
			o := Options{Part: Part{number + 1, 2}}
			testenv.Must(build(list, testenv.Must(o.Part.Output(out))(t), o, "note=note"))(t)
			if number == 0 {
				testenv.OK(t, tt.change())
			}
		}
		testenv.Says(t, name, Merge(t.Context(), out, Options{}, func(Summary) {}), tt.want)
	}
}

// TestMergeKilledAtItsEnd merges again what a merge leaves that is killed while it removes the parts.
func TestMergeKilledAtItsEnd(t *testing.T) {
	parts := repeatedParts(t, "n90000000/\xff\xfe.JPEG") // os.CopyFS takes no such name
	for lost, complete := range map[string]bool{
		"":                                      true,
		".out.parts":                            true,
		".out.parts/1-of-2":                     true,
		".out.parts/2-of-2/train/manifest.json": true,
		".out.parts/2-of-2/val/rank-0000":       true,
		".out.parts/*/*/rank-0000":              true,
		".out.parts/*/*/manifest.json":          true,
		"out/val":                               false, // it was killed before
		"d/train/n90000002/n90000002_0.JPEG":    false, // the parts are newer
	} {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		testenv.OK(t, os.CopyFS(dir, os.DirFS(parts)))
		testenv.OK(t, Merge(t.Context(), out, Options{}, func(Summary) {}))
		testenv.OK(t, os.CopyFS(filepath.Join(dir, ".out.parts"), os.DirFS(filepath.Join(parts, ".out.parts"))))
		found, err := filepath.Glob(filepath.Join(dir, lost))
		testenv.Require(t, err == nil && (lost == "" || len(found) > 0), "%v %v", found, err)
		for _, path := range found {
			if lost != "" {
				os.RemoveAll(path)
			}
		}
		if strings.HasPrefix(lost, "d/") {
			for i := range 2 {
				testenv.Must(buildPart(t.Context(), filepath.Join(dir, "d"), out, Options{Replace: true}, i+1, 2))(t)
			}
		}
		before := sourcetest.ReadTree(t, out)
		kept := 0
		err = Merge(t.Context(), out, Options{}, func(s Summary) {
			if s.Kept {
				kept++
			}
		})
		testenv.Check(t, complete == (err == nil && kept == 2), "without %q: %d are kept, %v", lost, kept, err)
		_, err = os.Stat(filepath.Join(dir, ".out.parts"))
		testenv.Check(t, complete == errors.Is(err, fs.ErrNotExist), "without %q: the parts: %v", lost, err)
		testenv.Check(t, !complete || reflect.DeepEqual(sourcetest.ReadTree(t, out), before), "without %q: the sets changed", lost)
	}
}

// TestMergeAgain ends a merge between two splits: the parts stay, and --force makes both sets of them.
func TestMergeAgain(t *testing.T) {
	dir := repeatedParts(t)
	out := filepath.Join(dir, "out")
	ctx, cancel := context.WithCancel(t.Context())
	testenv.Says(t, "a merge that is ended", Merge(ctx, out, Options{}, func(Summary) { cancel() }), context.Canceled)
	testenv.Says(t, "merged again", Merge(t.Context(), out, Options{}, nil), "--force")
	testenv.OK(t, Merge(t.Context(), out, Options{Replace: true}, func(Summary) {}))
	requireNothing(t, out, "train", "val")
	requireNothing(t, dir, "d", "out")
}

// TestMergeOfFieldsAndPixels merges what is not the files' own bytes.
func TestMergeOfFieldsAndPixels(t *testing.T) {
	list, tar, _ := fieldSource(t, 3)
	dir := t.TempDir()
	want, out := filepath.Join(dir, "want"), filepath.Join(dir, "out")
	o := Options{Partitions: 2, Seed: 7, ShardBytes: 8 << 10, Encoding: mustPixels(t, "", "16", "")}
	testenv.Must(build(list, want, o, fieldFlags...))(t)
	for i, path := range []string{tar, list, tar} { // parts of other forms of the source are the same too
		o.Part = Part{i + 1, 3}
		testenv.Must(build(path, testenv.Must(o.Part.Output(out))(t), o, fieldFlags...))(t)
	}
	testenv.OK(t, Merge(t.Context(), out, Options{}, func(Summary) {}))
	sameSets(t, out, want, nil, nil)
}

func TestParsePart(t *testing.T) {
	for text, want := range map[string]Part{"2/7": {2, 7}, "0/7": {7, 7}} {
		testenv.Equal(t, testenv.Must(ParsePart(text))(t), want, "%s", text)
	}
	testenv.Equal(t, Part{2, 7}.String(), "2/7", "text of a part")
	for _, text := range []string{"", "1", "0/0", "2/1", "-1/2", "1/2/3", "a/b"} {
		p, err := ParsePart(text)
		testenv.Check(t, err != nil, "%q is %v", text, p)
	}
}

func TestReadRejectsNamesTheLine(t *testing.T) {
	dir := t.TempDir()
	const good = `{"key":"a/1.jpg","bytes":3,"reason":"not an image"}` + "\n"
	for _, c := range []struct{ text, want string }{
		{good + "{\"key\":\"a/2", "line 2: unexpected end of JSON input"},
		{good + good + "[1]\n", "line 3: "},
		{good + "{\"reason\":\"x\"}\n", "line 2: it has no \"key\""},
		{"{\"key\":null}\n", "line 1: "},
		{"\n", "line 1: "},
		{good + strings.Repeat("x", rejectBytesMax), "line 2: bufio.Scanner: token too long"},
	} {
		path := filepath.Join(dir, shard.RejectsName)
		testenv.OK(t, os.WriteFile(path, []byte(c.text), 0o666))
		err := ReadRejects(dir, func(Reject) {})
		testenv.Says(t, c.text, err, path+": "+c.want)
		testenv.Check(t, strings.HasSuffix(fmt.Sprint(err), "copy the file again from where the set is whole"), "error %v", err)
	}
	testenv.OK(t, ReadRejects(t.TempDir(), func(Reject) { t.Error("a line") }), "without a list")
}

// What a list is taken for can be written, and is then read as the same; anything else is an error that names file and line.
func FuzzRejects(f *testing.F) {
	src := writeSource(f)
	data := testenv.Must(os.ReadFile(filepath.Join(buildSet(f, src, Options{}), shard.RejectsName)))(f)
	f.Add(data)
	f.Add([]byte(`{"key":"\ud800","key":"x","Reason":1}`))
	read := func(data []byte) (lines []Reject, err error) {
		err = readRejects(bytes.NewReader(data), "set/rejects.jsonl", func(r Reject) { lines = append(lines, r) })
		return lines, err
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := read(data)
		if err != nil {
			testenv.Require(t, strings.HasPrefix(err.Error(), "set/rejects.jsonl: line "), "an error without file and line: %v", err)
			n := bytes.Count(data, []byte("\n"))
			testenv.Require(t, len(first) <= n, "%d lines before the error of %d: %v", len(first), n, err)
		}
		var again bytes.Buffer
		enc := json.NewEncoder(&again)
		for _, l := range first {
			testenv.OK(t, enc.Encode(l))
		}
		second, err := read(again.Bytes())
		testenv.Require(t, err == nil && slices.Equal(second, first), "%v is read again as %v: %v", first, second, err)
	})
}

// TestSpoolOfLongNames has a parquet file's rows name files at any length: they are left out, and what stands behind them in the spool file is not harmed.
func TestSpoolOfLongNames(t *testing.T) {
	s := &spoolInput{split: &dataset.Split{Path: "x.parquet"}}
	testenv.OK(t, s.makeFiles(t.TempDir(), 1))
	t.Cleanup(func() { s.spools[0].file.Close() })
	long := strings.Repeat("n", 1<<16+5)
	for _, it := range []transport.Item{{Key: long, Reason: long + "r"}, {Key: "next"}} {
		testenv.OK(t, s.add(it, []byte("bytes")))
	}
	testenv.OK(t, s.spools[0].w.Flush())
	testenv.OK(t, s.list(s.spools[0]))
	testenv.Equal(t, len(s.items), 2, "items")
	for _, it := range s.items {
		testenv.Check(t, it.at.reason == map[string]string{long: long + "r", "next": ""}[it.key] && it.key != "",
			"a key of %d bytes has a reason of %d", len(it.key), len(it.at.reason))
	}
}
