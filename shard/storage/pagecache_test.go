package storage

import "testing"

// TestWhatThePageCacheKeeps counts the ranges of a set that it has room for, by what is waited for.
func TestWhatThePageCacheKeeps(t *testing.T) {
	for _, c := range []struct {
		slow    bool
		waits   [2]int64 // of waitedOf reads, and of the next
		keepsOf int      // of 1,600
	}{
		{false, [2]int64{}, 533}, {false, [2]int64{waitsMin, waitsMin}, 1600}, {false, [2]int64{waitsMin, 0}, 1600},
		{true, [2]int64{waitsMin - 1, waitsMin - 1}, 100}, {true, [2]int64{waitedOf, waitedOf}, 800},
	} {
		var pages pageCache
		kept := 0
		for k := range int64(1600 + 2*waitedOf) {
			if k%waitedOf == 0 {
				pages.waits.Store(c.waits[k/waitedOf%2])
			}
			turn := pages.count(k*100_000, func() int64 { return 1 << 40 })
			keeps := pages.keeps(turn, c.slow)
			if again := pages.keeps(turn, c.slow); again != keeps {
				t.Fatal("asking twice gives two answers")
			}
			if keeps && k >= 2*waitedOf {
				kept++
			}
		}
		if kept < c.keepsOf-1 || kept > c.keepsOf+1 {
			t.Errorf("slow %v, %d of %d reads waited for: %d of 1,600 ranges are kept, want %d", c.slow, c.waits, waitedOf, kept, c.keepsOf)
		}
	}
}

// TestCacheShare is all of what fits, and half of the room of what does not.
func TestCacheShare(t *testing.T) {
	for _, c := range []struct {
		bytes, room int64
		share       float64
	}{{100, 1000, 1}, {800, 1000, 1}, {801, 1000, 500. / 801}, {4000, 1000, 0.125}, {100, 0, 0}} {
		if share := cacheShare(c.bytes, c.room); share != c.share {
			t.Errorf("of %d bytes in a room of %d %v is kept, want %v", c.bytes, c.room, share, c.share)
		}
	}
	var pages pageCache
	pages.files.Store(1 << 20)
	keeps := func(offset int64) bool {
		return pages.keeps(pages.count(offset, func() int64 { return 1 << 20 }), false)
	}
	kept := 0
	for k := range int64(10_000) {
		first, again := keeps(k*140_000), keeps(k*140_000)
		if first != again {
			t.Fatal("the choice is not the same twice")
		}
		if first {
			kept++
		}
	}
	if kept < 4800 || kept > 5200 {
		t.Errorf("%d of 10,000 ranges are kept, want half", kept)
	}
}
