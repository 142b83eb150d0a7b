package pack

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/coefficients"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// brokenIn are ways in which a shard file may be damaged.
var brokenIn = map[string]func(path string, data []byte) error{
	"records": func(path string, data []byte) error {
		for _, at := range []int{len(data) / 3, len(data) / 2} {
			data[at] ^= 0x20
		}
		return os.WriteFile(path, data, 0o640)
	},
	"index": func(path string, data []byte) error {
		data[len(data)-200] ^= 1
		return os.WriteFile(path, data, 0o666)
	},
	"header": func(path string, data []byte) error {
		return os.WriteFile(path, append([]byte("x"), data[1:]...), 0o666)
	},
	"missing": func(path string, _ []byte) error { return os.Remove(path) },
	"cut":     func(path string, data []byte) error { return os.Truncate(path, int64(len(data)/2)) },
	"padding": func(path string, data []byte) error { // the zeros after the last record
		set, err := shard.OpenSet(filepath.Dir(filepath.Dir(path)))
		if err != nil {
			return err
		}
		end := int64(0)
		for i := range set.Len() {
			at, err := set.Locate(i)
			entry, entryErr := set.Entry(i)
			if err := errors.Join(err, entryErr); err != nil {
				return err
			}
			if strings.HasSuffix(path, at.Path) {
				end = max(end, entry.Offset+int64(entry.ImageLength)+int64(entry.AuxLength)+int64(entry.FieldsLength))
			}
		}
		data[end] = 7
		return errors.Join(set.Close(), os.WriteFile(path, data, 0o666))
	},
}

// breakShard damages one shard of a set.
func breakShard(t *testing.T, dir, how string) {
	t.Helper()
	path := filepath.Join(dir, "rank-0001", "00000.imgshard")
	data, err := os.ReadFile(path)
	if err == nil {
		err = brokenIn[how](path, data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// copySet copies a set to another folder.
func copySet(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(out, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return out
}

// originalsOf opens a source or a set.
func originalsOf(t *testing.T, path string) Originals {
	t.Helper()
	if _, err := shard.ReadManifest(path); err == nil {
		set, err := shard.OpenWhole(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { set.Close() })
		return Originals{Set: set}
	}
	splits, err := source.Open(path, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return Originals{Split: splits[0]}
}

// TestRepairGivesWhatWasBuilt, to the byte, of sets of each encoding, from folders, tars and other sets, whatever is damaged.
func TestRepairGivesWhatWasBuilt(t *testing.T) {
	src := writeSource(t)
	tar := filepath.Join(t.TempDir(), "data.tar")
	files := map[string][]byte{}
	err := filepath.WalkDir(src, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(src, path)
			files[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.Write(t, tar, sourcetest.TarOfTree(t, files, "train/", 3))
	coefficientsSet := buildSet(t, src, Options{Partitions: 3, Seed: 1, Encoding: coefficients.Encoding{}})
	for _, e := range []encoding.Encoding{original.Encoding{}, coefficients.Encoding{}, mustPixels(t, "bitpack", "64", "bilinear")} {
		built := buildSet(t, src, Options{Partitions: 2, Seed: 5, Encoding: e})
		other := buildSet(t, src, Options{Partitions: 3, Seed: 1})
		for how := range brokenIn {
			for from, path := range map[string]string{"folder": src, "tar": tar, "copy": copySet(t, built), "set of originals": other, "set of coefficients": coefficientsSet} {
				if how != "records" && (from == "copy" || e.Mapped()) && (how != "missing" || from == "tar") {
					continue // for which the same is done as of another source, or of the other encoding
				}
				t.Run(fmt.Sprintf("%v, %s, from a %s", e, how, from), func(t *testing.T) {
					dir := copySet(t, built)
					breakShard(t, dir, how)
					problems := 0
					report, err := Repair(t.Context(), dir, originalsOf(t, path), RepairOptions{Problem: func(error) { problems++ }})
					if err != nil || report.Damaged != 1 || len(report.Whole) != 1 || report.Left != nil || problems == 0 {
						t.Fatalf("%+v, %v", report, err)
					}
					sameFiles(t, built, dir)
					requireNothing(t, filepath.Dir(dir), filepath.Base(dir))
				})
			}
		}
		sound := copySet(t, built)
		if report, err := Repair(t.Context(), sound, originalsOf(t, src), RepairOptions{}); err != nil || report.Damaged != 0 {
			t.Errorf("a set that is whole: %+v, %v", report, err)
		}
	}
}

// TestRepairDoesWhatItCan: an original that is another file, and one that is not there, are told, and the others put back.
func TestRepairDoesWhatItCan(t *testing.T) {
	src := writeSource(t)
	built := buildSet(t, src, Options{Partitions: 2})
	dir := copySet(t, built)
	breakShard(t, dir, "records")
	report, err := shard.Verify(t.Context(), dir, shard.VerifyOptions{})
	if err != nil || len(report.Damaged) != 1 || len(report.Damaged[0].Keys) != 2 {
		t.Fatalf("%+v, %v", report.Damaged, err)
	}
	keys := report.Damaged[0].Keys
	other, err := os.ReadFile(filepath.Join(src, otherThan(t, src, keys[0])))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(src, keys[0]), other, 0o666); err != nil {
		t.Fatal(err)
	}
	done, err := Repair(t.Context(), dir, originalsOf(t, src), RepairOptions{})
	if err != nil || len(done.Whole) != 0 || done.Records != 1 || len(done.Left) != 1 || !strings.Contains(done.Left[0].Error(), keys[0]) {
		t.Fatalf("%+v, %v", done, err)
	}
	if left, err := shard.Verify(t.Context(), dir, shard.VerifyOptions{}); err != nil || !slices.Equal(left.Damaged[0].Keys, keys[:1]) {
		t.Errorf("%+v, %v", left.Damaged, err)
	}
	if err := os.Remove(filepath.Join(src, keys[0])); err != nil {
		t.Fatal(err)
	}
	if done, err = Repair(t.Context(), dir, originalsOf(t, src), RepairOptions{}); err != nil || len(done.Whole) != 0 || len(done.Left) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	breakShard(t, dir, "missing")
	if _, err = Repair(t.Context(), dir, originalsOf(t, src), RepairOptions{}); err == nil || !strings.Contains(err.Error(), "all keys of the originals") {
		t.Errorf("a lost shard, and an original that is gone: %v", err)
	}
	if done, err = Repair(t.Context(), dir, originalsOf(t, built), RepairOptions{}); err != nil || len(done.Whole) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	sameFiles(t, built, dir)
}

// TestRepairOfALostShardBesideNames that are no UTF-8, which stand in the list of rejects as JSON can write them.
func TestRepairOfALostShardBesideNames(t *testing.T) {
	src := writeSource(t)
	if err := os.WriteFile(filepath.Join(src, filepath.Dir(otherThan(t, src, "")), "\xff\xfe.JPEG"), []byte("any"), 0o666); err != nil {
		t.Skipf("the file system takes no such name: %v", err)
	}
	built := buildSet(t, src, Options{Partitions: 2})
	dir := copySet(t, built)
	breakShard(t, dir, "missing")
	if done, err := Repair(t.Context(), dir, originalsOf(t, src), RepairOptions{}); err != nil || len(done.Whole) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	sameFiles(t, built, dir)
}

// otherThan returns the key of an image that is not that one.
func otherThan(t *testing.T, src, key string) string {
	t.Helper()
	for _, other := range setKeys(t, buildSet(t, src, Options{})) {
		if other != key {
			return other
		}
	}
	t.Fatal("no other image")
	return ""
}

// TestRepairThatIsInterrupted leaves, at any moment, shards that are as they were or as they were built, and nothing beside them.
func TestRepairThatIsInterrupted(t *testing.T) {
	src := writeSource(t)
	built := buildSet(t, src, Options{Partitions: 2})
	chance := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		dir := copySet(t, built)
		for _, how := range []string{"records", "missing"} {
			path := filepath.Join(dir, "rank-0000", "00000.imgshard")
			if how == "missing" {
				path = filepath.Join(dir, "rank-0001", "00000.imgshard")
			}
			data, err := os.ReadFile(path)
			if err := errors.Join(err, brokenIn[how](path, data)); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(chance.IntN(8000))*time.Microsecond)
		Repair(ctx, dir, originalsOf(t, src), RepairOptions{Jobs: 1})
		cancel()
		left, err := filepath.Glob(filepath.Join(dir, "rank-*", ".*"))
		if err != nil || len(left) > 0 {
			t.Fatalf("%v are left, %v", left, err)
		}
		requireNothing(t, filepath.Dir(dir), filepath.Base(dir))
		// What a kill leaves is removed by the next one.
		if err := os.WriteFile(filepath.Join(dir, "rank-0000", ".00000.imgshard.repair"), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if report, err := Repair(t.Context(), dir, originalsOf(t, src), RepairOptions{}); err != nil || len(report.Whole) != report.Damaged {
			t.Fatalf("%+v, %v", report, err)
		}
		sameFiles(t, built, dir)
	}
}

// TestRepairRefuses says what cannot be.
func TestRepairRefuses(t *testing.T) {
	src := writeSource(t)
	built := buildSet(t, src, Options{Partitions: 2})
	small := buildSet(t, src, Options{Partitions: 2, Encoding: mustPixels(t, "bitpack", "64", "bilinear")})
	breakShard(t, built, "records")
	if _, err := Repair(t.Context(), built, originalsOf(t, small), RepairOptions{}); err == nil || !strings.Contains(err.Error(), "does not keep the original files") {
		t.Errorf("from pixels: %v", err)
	}
	first, err := shard.NewRepair(built)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := Repair(t.Context(), built, originalsOf(t, src), RepairOptions{}); err == nil || !strings.Contains(err.Error(), "another process is writing it") {
		t.Errorf("two at once: %v", err)
	}
}
