package pack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// repeated is a dataset in which images occur again: in their class, in another, in the other split.
func repeated(t *testing.T) (train, val map[string][]byte) {
	train = synthetic(t, 3, 6)
	image := func(class, k int) []byte { return train[fmt.Sprintf("n9000000%d/n9000000%d_%d.JPEG", class, class, k)] }
	train["n90000000/again.JPEG"] = image(0, 2)
	train["n90000000/twice.JPEG"] = image(0, 2)
	train["n90000002/other.JPEG"] = image(1, 3)
	train["n90000001/text"] = []byte("no image")
	train["n90000001/same text"] = []byte("no image")
	val = map[string][]byte{
		"n90000000/v.JPEG": image(2, 5), "n90000001/v.JPEG": image(0, 2), "n90000002/v.JPEG": synthetic(t, 1, 9)["n90000000/n90000000_8.JPEG"],
		"n90000002/w.JPEG": image(1, 0), "n90000001/w.JPEG": image(1, 0),
	}
	return train, val
}

// builtSets builds all splits of a source and returns the summaries by split.
func builtSets(t *testing.T, path, out string, o Options) (map[string]Summary, error) {
	t.Helper()
	splits, err := source.Open(path, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sums := make(map[string]Summary)
	return sums, BuildAll(context.Background(), Tasks(splits, out), o, func(s Summary) { sums[s.Split] = s })
}

// setKeys are the keys of a set.
func setKeys(t *testing.T, dir string) (keys []string) {
	t.Helper()
	set, err := shard.OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for i := range set.Len() {
		key, err := set.Key(i)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func TestDuplicatesAreCounted(t *testing.T) {
	train, val := repeated(t)
	dir := t.TempDir()
	writeTree(t, filepath.Join(dir, "d/train"), train)
	writeTree(t, filepath.Join(dir, "d/val"), val)
	for _, partitions := range []int{1, 3} {
		out := filepath.Join(dir, fmt.Sprint("out", partitions))
		sums, err := builtSets(t, filepath.Join(dir, "d"), out, Options{Partitions: partitions, Seed: 5, ShardBytes: 8 << 10})
		if err != nil {
			t.Fatal(err)
		}
		if m := sums["train"]; m.Manifest.Samples != 21 || m.Rejected != 2 || m.Duplicates != 0 {
			t.Errorf("train: %+v", m)
		}
		notes := strings.Join(sums["train"].Notes, "\n")
		if !strings.Contains(notes, "3 images have the same bytes as another (") || !strings.Contains(notes, "1 of them another label; --dedupe") || strings.Contains(notes, "in train too") {
			t.Errorf("train: %s", notes)
		}
		for _, pair := range []string{"n90000002/other.JPEG as n90000001/n90000001_3.JPEG", "n90000001/n90000001_3.JPEG as n90000002/other.JPEG"} { // whichever comes first
			notes = strings.Replace(notes, pair, "PAIR", 1)
		}
		if !strings.Contains(notes, "PAIR") {
			t.Errorf("train: the images are not named: %s", notes)
		}
		if notes = strings.Join(sums["val"].Notes, "\n"); !strings.Contains(notes, "1 image has the same bytes as another") || !strings.Contains(notes, "4 images are in train too, byte for byte (n9000000") {
			t.Errorf("val: %s", notes)
		}
		if _, err := os.Stat(filepath.Join(out, "train", shard.DuplicatesName)); !errors.Is(err, os.ErrNotExist) {
			t.Error("a list of what was left out, although nothing was")
		}
	}
	clean := writeTree(t, filepath.Join(dir, "clean"), synthetic(t, 2, 3))
	if sum := mustBuild(t, clean, "", Options{}); strings.Contains(strings.Join(sum.Notes, "\n"), "bytes") {
		t.Errorf("notes %q", sum.Notes)
	}
}

// TestDedupe leaves out what the rule says, whatever the source, the seed and the jobs.
func TestDedupe(t *testing.T) {
	train, val := repeated(t)
	dir := t.TempDir()
	writeTree(t, filepath.Join(dir, "folders/train"), train)
	writeTree(t, filepath.Join(dir, "folders/val"), val)
	for class, data := range sourcetest.ClassTars(t, train, 3) {
		sourcetest.Write(t, filepath.Join(dir, "tars/train", class+".tar"), data)
	}
	for class, data := range sourcetest.ClassTars(t, val, 4) {
		sourcetest.Write(t, filepath.Join(dir, "tars/val", class+".tar"), data)
	}
	wantLeft := map[string][]Duplicate{
		"train": {
			{"n90000000/again.JPEG", "n90000001/v.JPEG", "val"}, {"n90000000/n90000000_2.JPEG", "n90000001/v.JPEG", "val"}, {"n90000000/twice.JPEG", "n90000001/v.JPEG", "val"},
			{"n90000001/n90000001_0.JPEG", "n90000001/w.JPEG", "val"}, {"n90000002/n90000002_5.JPEG", "n90000000/v.JPEG", "val"},
			{"n90000002/other.JPEG", "n90000001/n90000001_3.JPEG", "train"},
		},
		"val": {{"n90000002/w.JPEG", "n90000001/w.JPEG", "val"}},
	}
	for i, tc := range []struct {
		source string
		o      Options
	}{{"folders", Options{Jobs: 1}}, {"folders", Options{Jobs: 7, Seed: 9, Partitions: 2}}, {"tars", Options{Jobs: 2, Seed: 3, bucketBytes: 4 << 10}}} {
		tc.o.Dedupe = true
		out := filepath.Join(dir, fmt.Sprint("out", i))
		sums, err := builtSets(t, filepath.Join(dir, tc.source), out, tc.o)
		if err != nil {
			t.Fatal(err)
		}
		for split, files := range map[string]map[string][]byte{"train": train, "val": val} {
			want := slices.Sorted(maps.Keys(files))
			var left []Duplicate
			text, err := os.ReadFile(filepath.Join(out, split, shard.DuplicatesName))
			if err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(text) {
				var d Duplicate
				if err := json.Unmarshal(line, &d); err != nil {
					t.Fatal(err)
				}
				left = append(left, d)
			}
			slices.SortFunc(left, func(a, b Duplicate) int { return strings.Compare(a.Key, b.Key) })
			if !reflect.DeepEqual(left, wantLeft[split]) {
				t.Errorf("%+v, %s: left out %+v, want %+v", tc, split, left, wantLeft[split])
			}
			want = slices.DeleteFunc(want, func(key string) bool {
				return strings.Contains(key, "text") || slices.ContainsFunc(left, func(d Duplicate) bool { return d.Key == key })
			})
			if got := setKeys(t, filepath.Join(out, split)); !slices.Equal(got, want) {
				t.Errorf("%+v, %s: the set holds %q, want %q", tc, split, got, want)
			}
			if sum := sums[split]; sum.Duplicates != len(left) || strings.Contains(strings.Join(sum.Notes, "\n"), "bytes") {
				t.Errorf("%+v, %s: %d left out, notes %q", tc, split, sum.Duplicates, sum.Notes)
			}
		}
		if sums["train"].Rejected != 2 {
			t.Errorf("%+v: %d rejected: files that are no images are rejects, and no duplicates", tc, sums["train"].Rejected)
		}
		if err := os.RemoveAll(filepath.Join(out, "val")); err != nil {
			t.Fatal(err)
		}
		tc.o.Dedupe = false
		if _, err := builtSets(t, filepath.Join(dir, tc.source), out, tc.o); err == nil || !strings.Contains(err.Error(), "built with other options") {
			t.Errorf("going on without --dedupe: %v", err)
		}
	}
}

func TestDedupeOfStandardInput(t *testing.T) {
	train, _ := repeated(t)
	splits, err := source.OpenAll([]string{source.StandardInput}, source.Options{Stdin: bytes.NewReader(sourcetest.TarOfTree(t, train, "", 1))})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	err = BuildAll(context.Background(), Tasks(splits, out), Options{Dedupe: true}, func(Summary) {})
	if err == nil || !strings.Contains(err.Error(), "can be read once only") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	splits, err = source.Open(writeTree(t, filepath.Join(t.TempDir(), "train"), train), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := BuildAll(ctx, Tasks(splits, out), Options{Dedupe: true}, func(Summary) {}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	requireNothing(t, filepath.Dir(out))
}
