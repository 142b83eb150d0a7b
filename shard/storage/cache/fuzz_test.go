package cache

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// FuzzCacheFiles puts any bytes over a part of an object's file and over the tally, before they are opened or while they are. Every range
// is read right all the same, twice. The limit holds, and the file is listed and removed as the cache's own.
func FuzzCacheFiles(f *testing.F) {
	const size, most = 20_001, 1 << 20
	data := numbered(size)
	ranges := [][2]int64{{0, 300}, {300, 5000}, {5300, 16}, {5316, 200}, {6000, 12_001}, {19_990, 11}}
	_, c, whole := cachedStore(f, data, f.TempDir(), most)
	for _, r := range ranges {
		whole.ReadAt(make([]byte, r[1]), r[0])
	}
	id := onlyID(c)
	kept, tally := testenv.Must(os.ReadFile(c.path(id)))(f), testenv.Must(os.ReadFile(filepath.Join(c.dir, "lock")))(f)
	f.Add(uint16(0), []byte(`{"place":"https://other/b","bytes":-1}`), []byte("{"), true)
	f.Add(uint16(0), kept[:keptName], tally, false)
	f.Add(uint16(keptAt(0)), kept[keptAt(300):keptAt(5300)], tally[:20], false) // another range's, with its right checksum
	f.Add(uint16(keptAt(300)), kept[keptAt(300):keptAt(300)+100], bytes.Repeat([]byte{0xff}, 28), true)
	f.Add(uint16(keptAt(5300)), []byte{1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff}, []byte{}, true)
	f.Fuzz(func(t *testing.T, at uint16, over, lock []byte, open bool) {
		dir := t.TempDir()
		path := filepath.Join(dir, id+".kept")
		harmed := append(bytes.Clone(kept), make([]byte, max(0, int(at)+len(over)-len(kept)))...)
		copy(harmed[at:], over)
		harm := func(lock []byte) {
			testenv.OK(t, errors.Join(os.WriteFile(path, harmed, 0o600), os.WriteFile(filepath.Join(dir, "lock"), lock, 0o600)))
		}
		harm(lock)
		store, c, cached := cachedStore(t, data, dir, most)
		if open {
			harm(lock)
		}
		for range 2 {
			for _, r := range ranges {
				reads(t, cached, data, r[0], r[1])
				cached.WillNeed(r[0], r[1])
				fetches(t, cached, data, r[0], r[1])
			}
		}
		used, limit, _ := c.Status()
		testenv.Check(t, used >= 0 && limit <= most, "%d bytes of at most %d, and %d were asked for", used, limit, most)
		testenv.Check(t, store.requests <= 4*len(ranges), "%d requests for %d ranges", store.requests, len(ranges))
		list := c.Objects()
		testenv.Check(t, len(list) == 1 && list[0].id == id && c.Remove(list[0]) == nil, "the cache lists %v, or cannot remove it", list)
	})
}
