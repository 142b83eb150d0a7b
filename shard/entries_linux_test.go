package shard

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// openMapped opens a set as if it had very many samples.
func openMapped(t testing.TB, dir string) *Set {
	t.Helper()
	s, err := openAt(storage.NewFolder(dir, nil))
	if err == nil {
		err = s.openShards(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for i := range s.partitions {
		for k := range s.partitions[i].shards {
			if s.partitions[i].shards[k].Load().entries.sums == nil {
				t.Skip("files are not mapped on this platform")
			}
		}
	}
	return s
}

// manyInShards is a set of shards that have several pieces of entries, the last of them not full.
func manyInShards(t testing.TB) ([]Sample, string) {
	samples := makeSamples(2 * 100)
	options := testOptions(2)
	options.ShardSamples = 70
	return samples, writeSet(t, samples, options)
}

// TestMappedEntries compares all of a set whose entries are mapped with the same in memory.
func TestMappedEntries(t *testing.T) {
	samples, dir := manyInShards(t)
	s, own := openMapped(t, dir), openSet(t, dir)
	if err := s.Map(); err != nil {
		t.Fatal(err)
	}
	var buf []byte
	for i := range samples {
		var err error
		if buf, err = compareSample(s, i, &samples[i], buf); err != nil {
			t.Fatal(err)
		}
		got, err := s.Entry(i)
		want, _ := own.Entry(i)
		if err != nil || got != want {
			t.Fatalf("sample %d: %+v, %v; want %+v", i, got, err, want)
		}
		if rec, err := s.View(i); err != nil || len(rec.Image) != len(samples[i].Image) {
			t.Fatalf("sample %d: viewed: %v", i, err)
		}
	}
	for _, set := range []*Set{s, own} {
		for first := 0; first < len(samples); first += 33 {
			labels := make([]int32, min(91, len(samples)-first))
			if err := set.Labels(first, labels); err != nil {
				t.Fatal(err)
			}
			for i, label := range labels {
				if label != samples[first+i].Label {
					t.Fatalf("sample %d: label %d, want %d", first+i, label, samples[first+i].Label)
				}
			}
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.Entry(77) }); n != 0 {
		t.Errorf("an entry takes %v allocations", n)
	}
}

// TestMappedEntriesChange writes to the entries of a shard that is open: of every byte it is noticed, by those whose piece it is.
func TestMappedEntriesChange(t *testing.T) {
	samples, dir := manyInShards(t)
	s := openMapped(t, dir)
	path := filepath.Join(dir, "rank-0000/00001.imgshard")
	r := s.partitions[0].shards[1].Load()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for j := range r.Len() {
		for range 4 {
			at := r.footer.entriesOffset + int64(entrySize*j+rng.IntN(entrySize))
			var b [1]byte
			if _, err := f.ReadAt(b[:], at); err != nil {
				t.Fatal(err)
			}
			change := b[0] ^ 1<<rng.IntN(8)
			if _, err := f.WriteAt([]byte{change}, at); err != nil {
				t.Fatal(err)
			}
			if err := s.Labels(0, make([]int32, len(samples))); !isCorrupt(err) {
				t.Fatalf("labels with entry %d: %v", j, err)
			}
			_, _, err := s.Read(2*(70+j), nil)
			c, ok := errors.AsType[*CorruptError](err)
			if !ok || c.Section != "entries" || c.Path != path || c.Record != j || c.Index != 2*(70+j) || !strings.Contains(err.Error(), "has changed") {
				t.Fatalf("entry %d: %v", j, err)
			}
			if _, err := compareSample(s, 2, &samples[2], nil); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(b[:], at); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := compareSample(s, 140, &samples[140], nil); err != nil {
		t.Error(err)
	}
}

// TestMappedEntriesForged writes entries whose checksum is that of the good ones, as somebody may who means harm.
func TestMappedEntriesForged(t *testing.T) {
	_, dir := manyInShards(t)
	s := openMapped(t, dir)
	r := s.partitions[1].shards[0].Load()
	f, err := os.OpenFile(r.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e, err := r.Entry(40)
	if err != nil {
		t.Fatal(err)
	}
	for _, forge := range []func(*Entry){
		func(e *Entry) { e.Offset = -8 }, func(e *Entry) { e.Offset = 1 << 62 }, func(e *Entry) { e.Offset++ },
		func(e *Entry) { e.ImageLength = 1 << 31 }, func(e *Entry) { e.FieldsLength = 1 }, func(e *Entry) { e.Width = 0 },
	} {
		forged := e
		forge(&forged)
		var p [entrySize]byte
		forged.put(p[:])
		if _, err := f.WriteAt(p[:], r.footer.entriesOffset+40*entrySize); err != nil {
			t.Fatal(err)
		}
		r.entries.sums[1] = checksum(r.entries.bytes[pieceBytes : 2*pieceBytes])
		if _, err := r.Entry(40); !isCorrupt(err) {
			t.Errorf("%+v: %v", forged, err)
		}
	}
}

// TestMappedEntriesCutShort cuts a shard, and closes a set, whose entries are mapped.
func TestMappedEntriesCutShort(t *testing.T) {
	samples, dir := manyInShards(t)
	s := openMapped(t, dir)
	if err := os.Truncate(filepath.Join(dir, "rank-0000/00001.imgshard"), 100); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Read(190, nil); !isCorrupt(err) || !strings.Contains(err.Error(), "cut short") {
		t.Error(err)
	}
	if _, err := s.WillNeed(190); !isCorrupt(err) {
		t.Error(err)
	}
	if err := s.Corrupt(190, errors.New("something")); !isCorrupt(err) {
		t.Error(err)
	}
	if _, err := compareSample(s, 191, &samples[191], nil); err != nil {
		t.Error(err)
	}
	s.Close()
	if _, _, err := s.Read(191, nil); err == nil {
		t.Error("read after the set was closed")
	}
}

func BenchmarkEntry(b *testing.B) {
	samples := makeSamples(1 << 14)
	options := testOptions(1)
	options.ShardSamples = 0
	dir := writeSet(b, samples, options)
	own, err := OpenSet(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer own.Close()
	for name, s := range map[string]*Set{"own": own, "mapped": openMapped(b, dir)} {
		b.Run(name, func(b *testing.B) {
			i := 0
			for b.Loop() {
				i = (i*5 + 7919) % len(samples)
				if _, err := s.Entry(i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
