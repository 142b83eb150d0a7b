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
		run := func() epoch {
			t.Helper()
			got, err := serve(t, newTestPool(t, 2), StreamConfig{Dataset: served, Plan: mustPlan(t, order), Views: transform.Views{spec}, Slots: NewSlotPool(newSlots(3, 7, spec)...)})
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		warm := run()
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
		t.Logf("%s: %d of %d in memory", stored, atHand(t, served, set.Len()), set.Len())
		if cold := run(); !bytes.Equal(cold.images, warm.images) || !slices.Equal(cold.labels, warm.labels) || !slices.Equal(cold.indices, warm.indices) {
			t.Errorf("%s: other samples come from the disk", stored)
		}
		if n := atHand(t, served, set.Len()); n < set.Len()-2*turnSamplesMax*len(paths) {
			t.Errorf("%s: %d of %d are in memory after an epoch, which has room for all", stored, n, set.Len())
		}
	}
}

func atHand(t *testing.T, set Dataset, samples int) (n int) {
	t.Helper()
	for i := range samples {
		where, err := set.Range(i)
		if err != nil {
			t.Fatal(err)
		}
		if where.File.Ahead(where.Offset, where.Length) {
			n++
		}
	}
	return n
}
