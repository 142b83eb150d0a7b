package storage

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// testFolder returns a storage with a file of random bytes, whose page cache has so much room.
func testFolder(t *testing.T, size int, room int64) (*Folder, File, []byte) {
	t.Helper()
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{1}).Read(data)
	dir := t.TempDir()
	testenv.OK(t, os.Mkdir(filepath.Join(dir, "rank-0000"), 0o777))
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "rank-0000", "a"), data, 0o666))
	folder := NewFolder(dir)
	folder.Memory = func() int64 { return room }
	f := testenv.Must(folder.Open("rank-0000/a", -1, ""))(t)
	t.Cleanup(func() { f.Close() })
	return folder, f, data
}

// evict puts a file out of the page cache.
func evict(t *testing.T, f *localFile) {
	t.Helper()
	f.buffered.Sync() // dirty pages stay
	testenv.OK(t, unix.Fadvise(int(f.buffered.Fd()), 0, 0, unix.FADV_DONTNEED))
}

// fetches checks that a file gives the bytes of a range.
func fetches(t *testing.T, f File, buf, data []byte, offset, length int64) {
	t.Helper()
	testenv.Same(t, testenv.Must(f.Fetch(buf, offset, length))(t), data[offset:offset+length], "%d bytes at %d", length, offset)
}

func testMemory(t *testing.T, bytes int) []byte {
	t.Helper()
	memory := testenv.Must(NewMemory(bytes))(t)
	t.Cleanup(func() { Unmap(memory) })
	return memory
}

// TestFetch reads ranges anywhere in a file, through the page cache and past it.
func TestFetch(t *testing.T) {
	const size = 1<<20 + 777
	for _, room := range []int64{0, size, 1 << 40} {
		folder, f, data := testFolder(t, size, room)
		testenv.Check(t, f.Size() == size && folder.pages.files.Load() == size,
			"the file has %d bytes, and the folder %d", f.Size(), folder.pages.files.Load())
		buf := testMemory(t, 512<<10)
		rng := rand.New(rand.NewPCG(1, 2))
		for range 500 {
			length := rng.Int64N(300 << 10)
			offset := rng.Int64N(size - length)
			f.WillNeed(offset, length)
			fetches(t, f, buf[:length+FetchRoom], data, offset, length)
		}
		fetches(t, f, buf, data, size-100, 100)
		testenv.Fails(f.Fetch(buf, size-100, 200))(t, io.EOF)
		// The race detector makes sync.Pool forget some of what it is given.
		n := testing.AllocsPerRun(100, func() { f.WillNeed(5000, 6000); f.Fetch(buf, 5000, 6000) })
		testenv.Check(t, n == 0 || testenv.UnderRace(), "room %d: a read takes %v allocations", room, n)
	}
}

// TestFileThatMayHang has no range ready, although all are in memory, and fetches them from there. Closing it waits for nobody.
func TestFileThatMayHang(t *testing.T) {
	folder, f, data := testFolder(t, 1<<20, 0)
	local := f.(*localFile)
	may, limit := f.Hangs()
	testenv.Check(t, !may && limit == folder.client.Timeout, "a file of this disk may hang: %v, for %v", may, limit)
	local.blocks, local.hangs = true, true
	may, _ = f.Hangs()
	testenv.Check(t, may && !f.WillNeed(5000, 6000), "a read that may hang is ready")
	fetches(t, f, testMemory(t, 64<<10), data, 5000, 6000)
	testenv.Check(t, local.direct == nil, "it was read directly, and not from memory")
	opening := make(chan struct{})
	go local.openDirect.Do(func() { close(opening); select {} })
	<-opening
	testenv.OK(t, f.Close())
	err := Overdue("a", 5, 3, time.Minute)
	testenv.Contains(t, err.Error(), "a, bytes 5 to 7: the file system does not answer", "--store-timeout")
	testenv.Check(t, IsDown(err), "%v", err)
}

// TestFetchWithoutDirectReads reads through the page cache where the file system has no direct reads.
func TestFetchWithoutDirectReads(t *testing.T) {
	folder, f, data := testFolder(t, 1<<20, 0)
	folder.noDirect.Store(true)
	fetches(t, f, testMemory(t, 100_000+FetchRoom), data, 5_001, 100_000)
}

// TestReadsOfAFileThatChanges reports one that was cut short, as often as it is asked.
func TestReadsOfAFileThatChanges(t *testing.T) {
	folder, f, data := testFolder(t, 1<<20, 0)
	buf := testMemory(t, 256<<10)
	testenv.OK(t, os.Truncate(filepath.Join(folder.dir, "rank-0000", "a"), 600_000))
	for range 3 {
		fetches(t, f, buf, data, 100_001, 100_000)
		for _, offset := range []int64{550_001, 700_000} {
			got, err := f.Fetch(buf, offset, 100_000)
			testenv.Check(t, errors.Is(err, io.EOF) && got == nil, "%d bytes at %d beyond the end: %v", len(got), offset, err)
		}
	}
}

// TestWillNeed asks for what was just written, and once it has left the page cache.
func TestWillNeed(t *testing.T) {
	_, f, _ := testFolder(t, 1<<20, 0)
	testenv.Check(t, f.WillNeed(1000, 500<<10), "what was just written is to be waited for")
	local := f.(*localFile)
	evict(t, local)
	if countCached(local.buffered.Fd(), 0, 1<<20) == nil {
		t.Skip("this file system keeps everything in memory")
	}
	testenv.Check(t, !f.WillNeed(1000, 500<<10), "what has left the page cache is not to be waited for")
	_, err := f.Fetch(testMemory(t, 1<<20), 1000, 500<<10)
	testenv.Check(t, err == nil && !f.WillNeed(1000, 500<<10), "a direct read fills the page cache, which has no room: %v", err)
}

// TestReplacedFile reads on from the file that was opened, in either way of reading, when another one has its name.
func TestReplacedFile(t *testing.T) {
	folder, f, data := testFolder(t, 100_000, 0)
	path := filepath.Join(folder.dir, "rank-0000", "a")
	testenv.OK(t, errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, make([]byte, 100_000), 0o666)))
	buf := testMemory(t, 128<<10)
	fetches(t, f, buf, data, 0, 50_000)
	testenv.Must(f.ReadAt(buf[:50_000], 10_000))(t)
	testenv.Same(t, buf[:50_000], data[10_000:60_000], "what is read")
	f.Close()
	_, err := f.Fetch(buf, 0, 50_000)
	testenv.Says(t, "a file that was closed", err, os.ErrClosed)
	testenv.Says(t, "a file that was closed", err, path)
	testenv.Equal(t, folder.pages.files.Load(), 0, "bytes that the folder has open")
}

// TestOpenWhatIsNoFile opens no pipe, for whose writer it would wait.
func TestOpenWhatIsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Skip(err)
	}
	folder := NewFolder("")
	testenv.Fails(folder.Open(path, -1, ""))(t, "is not a regular file")
	testenv.Fails(folder.Open(filepath.Dir(path), -1, ""))(t, "is not a regular file")
}

// TestMap gives a file, which nothing is copied for.
func TestMap(t *testing.T) {
	_, f, data := testFolder(t, 100_000, 0)
	m := testenv.Must(f.(*localFile).Map())(t)
	testenv.Same(t, m, data, "the map")
	testenv.OK(t, Unmap(m))
}

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
			testenv.Equal(t, pages.keeps(turn, c.slow), keeps, "asked again")
			if keeps && k >= 2*waitedOf {
				kept++
			}
		}
		testenv.Between(t, kept, c.keepsOf-1, c.keepsOf+1, "slow %v, %d of %d reads waited for: of 1,600 ranges kept", c.slow, c.waits, waitedOf)
	}
}

// TestCacheShare is all of what fits, and half of the room of what does not.
func TestCacheShare(t *testing.T) {
	for _, c := range []struct {
		bytes, room int64
		share       float64
	}{{100, 1000, 1}, {800, 1000, 1}, {801, 1000, 500. / 801}, {4000, 1000, 0.125}, {100, 0, 0}} {
		testenv.Equal(t, cacheShare(c.bytes, c.room), c.share, "share of %d bytes in a room of %d", c.bytes, c.room)
	}
	var pages pageCache
	pages.files.Store(1 << 20)
	keeps := func(offset int64) bool {
		return pages.keeps(pages.count(offset, func() int64 { return 1 << 20 }), false)
	}
	kept := 0
	for k := range int64(10_000) {
		first := keeps(k * 140_000)
		testenv.Equal(t, keeps(k*140_000), first, "the choice, asked again")
		if first {
			kept++
		}
	}
	testenv.Between(t, kept, 4800, 5200, "of 10,000 ranges kept")
}
