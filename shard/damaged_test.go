package shard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// partlyCopied writes a set of three partitions, of which partition 1 lacks a shard and has another one cut short.
func partlyCopied(t *testing.T) string {
	t.Helper()
	dir := writeSet(t, makeSamples(30), testOptions(3))
	testenv.OK(t, os.Remove(filepath.Join(dir, "rank-0001/00000.imgshard")))
	testenv.OK(t, os.Truncate(filepath.Join(dir, "rank-0001/00001.imgshard"), 300))
	return dir
}

// TestWholePartitions checks that the partitions that are whole are served, and what is said of the other.
func TestWholePartitions(t *testing.T) {
	dir := partlyCopied(t)
	s := testenv.Must(openWhole(storage.Default, dir, nil))(t)
	defer s.Close()
	if s.Has(1) || !s.Has(0) || !s.Has(2) || !slices.Equal(s.Missing(), []int{1}) {
		t.Errorf("partitions missing: %v", s.Missing())
	}
	damaged := s.Damaged()
	if len(damaged) != 1 || damaged[0].Partition != 1 || len(damaged[0].Problems) != 2 {
		t.Fatalf("damaged: %v", damaged)
	}
	if !isCorrupt(damaged[0]) || !errors.Is(damaged[0], fs.ErrNotExist) {
		t.Errorf("%v does not wrap what is wrong", damaged[0])
	}
	testenv.Contains(t, damaged[0].Error(), filepath.Join(dir, "rank-0001")+": partition 1 of 3 is not whole, 2 of its ",
		filepath.Join(dir, "rank-0001/00000.imgshard is missing"), filepath.Join(dir, "rank-0001/00001.imgshard: "), "imgshard copy GOOD "+dir)
	for i := range s.Len() {
		_, _, err := s.Read(i, nil)
		if i%3 == 1 && !errors.Is(err, error(damaged[0])) || i%3 != 1 && err != nil {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	testenv.OK(t, s.Map())
	if _, err := s.Label(1); !errors.Is(err, error(damaged[0])) {
		t.Errorf("label of a sample in the damaged partition: %v", err)
	}
	if s.Absence(0) != nil || s.Absence(1) == nil {
		t.Errorf("absence of 0: %v, of 1: %v", s.Absence(0), s.Absence(1))
	}
	_, err := OpenSet(dir)
	testenv.As[*DamagedPartitionError](t, err)
}

// TestNothingWhole damages every partition.
func TestNothingWhole(t *testing.T) {
	for partitions := range 6 {
		dir := writeSet(t, makeSamples(30), testOptions(partitions+1))
		for r := range partitions + 1 {
			testenv.OK(t, os.Remove(filepath.Join(dir, filepath.FromSlash(shardPath(r, 0)))))
		}
		_, err := openWhole(storage.Default, dir, nil)
		testenv.As[*DamagedPartitionError](t, err, "rank-0000/00000.imgshard")
		testenv.Equal(t, strings.Count(err.Error(), " is not whole, "), min(partitions+1, namedMax), "of %d partitions named", partitions+1)
	}
}

// TestIsExhausted runs out of descriptors: no reason to call files damaged.
func TestIsExhausted(t *testing.T) {
	if _, err := os.Open(filepath.Join(t.TempDir(), "nothing")); isExhausted(err) {
		t.Error("a file that is not there is taken for a lack of descriptors")
	}
	limitDescriptors(t, 0)
	if _, err := os.Open(os.DevNull); !isExhausted(err) {
		t.Errorf("%v is not taken for a lack of descriptors", err)
	}
}

// TestFindAll finds what is whole beside what is damaged.
func TestFindAll(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{"train-shards", "half", "val"} {
		o := testOptions(1)
		o.Split = name
		testenv.OK(t, os.Rename(writeSet(t, makeSamples(3), o), filepath.Join(parent, name)))
	}
	testenv.OK(t, os.Truncate(filepath.Join(parent, "train-shards", manifestName), 100))
	testenv.OK(t, os.Remove(filepath.Join(parent, "half", manifestName)))
	found, err := FindAll(parent)
	if err != nil || len(found.Sets) != 1 || found.Sets["val"] != filepath.Join(parent, "val") || len(found.Damaged) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	for i, name := range []string{"half", "train-shards"} {
		testenv.Equal(t, found.Damaged[i].Dir, filepath.Join(parent, name), "a damaged set")
	}
	testenv.Says(t, "without a manifest", found.Damaged[0].Err, "it is missing")
	testenv.As[*CorruptError](t, found.Damaged[1].Err) // with half of one
	_, err = FindSets(parent)
	testenv.As[*CorruptError](t, err, "half", "train-shards")
}

// limitDescriptors lets the process open no descriptor with a number from n on, until the test ends.
func limitDescriptors(t *testing.T, n uint64) {
	t.Helper()
	var old unix.Rlimit
	testenv.OK(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	t.Cleanup(func() { testenv.OK(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) })
	testenv.OK(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}))
}
