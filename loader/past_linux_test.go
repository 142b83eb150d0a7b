package loader

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/transform"
)

// narrowSet has no room in the page cache, and counts what is read past it.
type narrowSet struct {
	*shardSet
	directs []Direct
}

func (s *narrowSet) Room() float64 { return 0 }

func (s *narrowSet) Direct(bytes int64, count int) (Direct, error) {
	d, err := s.shardSet.Direct(bytes, count)
	s.directs = append(s.directs, d)
	return d, err
}

// TestFromTheDisk serves a set that was put out of memory, and compares it with what is served out of memory.
func TestFromTheDisk(t *testing.T) {
	for _, stored := range []string{"jpeg", "pixels"} {
		var dir string
		if stored == "pixels" {
			dir, _ = pixelsSet(t, "bitpack")
		} else {
			dir = writeSet(t, "jpeg", 60, 2, 40, 30)
		}
		set, served := openTestSet(t, dir)
		spec := mustSpec(t, `[{"op":"RandomResizedCrop","size":24}]`)
		order := plan.Config{Samples: set.Len(), Partitions: set.Partitions(), BatchSize: 7, Shuffle: true, Seed: 5}
		run := func(set Dataset) epoch {
			t.Helper()
			got, err := serve(t, newTestPool(t, 2), StreamConfig{Dataset: set, Plan: mustPlan(t, order), Views: transform.Views{spec}, Slots: NewSlotPool(newSlots(3, 7, spec)...)})
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		warm := run(served)
		paths, err := filepath.Glob(filepath.Join(dir, "*", "*.imgshard"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			f.Sync() // dirty pages stay
			unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
			f.Close()
		}
		narrow := &narrowSet{shardSet: served.(*shardSet)}
		cold := run(narrow)
		if !bytes.Equal(cold.images, warm.images) || !slices.Equal(cold.labels, warm.labels) || !slices.Equal(cold.indices, warm.indices) {
			t.Errorf("%s: other samples come from the disk", stored)
		}
		t.Logf("%s: %d of %d in memory, %d times past the page cache", stored, residents(served, set.Len()), set.Len(), len(narrow.directs))
	}
}

func residents(set Dataset, samples int) (n int) {
	for i := range samples {
		if resident, _ := set.Resident(i); resident {
			n++
		}
	}
	return n
}
