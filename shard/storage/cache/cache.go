// Package cache keeps on a disk of this machine the ranges of files that were read over a network.
package cache

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// A Cache keeps ranges of remote files in a folder of this user: records and other parts of shards, as they were read. All processes
// of the user that name the folder share it, and it outlives them.
//
//	DIR/lock        a tally of the folder; processes lock a byte of it (fcntl) for each object that they have open,
//	                and another for each object that they have read a record of.
//	DIR/<id>.kept   the ranges of an object, in a sparse file.
//
//	0 … 4095        URL and size of the object, JSON with zeros behind it.
//	keptAt(offset)  CRC-32C u32 | length u32 | the range that begins at offset in the object.
//	blockAt(offset) the same of a block, for ranges too short for room of their own.
//
// There is no index. A read goes to the offset where its range would be, and the checksum tells whether it is there. So no order of
// writes matters, processes see each other's ranges at once, and damage of any kind costs a request.
//
// What holds between processes: the tally counts the bytes on the disk and the promised ones, and only who has locked its byte
// changes it. Such a lock is the open file's, so the goroutines of one Cache exclude each other by mu, which they take first.
//
// Within a process, each promise of makeRoom is followed by one settle. An object in the map keeps its file open and its byte locked
// until the cache is closed. Reads from the cache and from stores take no lock, except for the first record of an object; mu is held for
// a tally, or while room is made.
type Cache struct {
	Max                 int64        // limit of the bytes on the disk
	HitBytes, MissBytes atomic.Int64 // bytes read by this process, from the cache and from stores
	dir                 string
	lock                *os.File
	folder              *storage.Folder

	mu        sync.Mutex         // guards the rest, but opened
	objects   map[string]*object // objects in use, by id
	last      tally              // this process's last view of it
	measureAt time.Time          // earliest time to measure the folder and make room
	settleBy  time.Time          // latest time to do so, if promises settle before that
	failure   error              // reason of the disk for keeping nothing until then
	unusable  error              // why the first object that could not be opened is not kept; others may be
	opened    time.Time
}

const (
	keptName  = 4 << 10     // bytes for an object's URL and size
	diskBlock = 4 << 10     // usual block of a file system
	keptHead  = 8           // bytes for a range's checksum and length
	keptStep  = 256         // shortest range that never overwrites its neighbour
	prefixMax = 1 << 20     // limit of the bytes that a short read checks in addition
	pauseFor  = time.Minute // pause after the disk has refused a write, and while there is no room
)

// keptAt returns where the range is kept that begins at an offset. There is room for the heads of ranges that do not overlap.
func keptAt(offset int64) int64 { return keptName + offset + (offset+keptStep-1)/keptStep*keptHead }

// idBytes of a hash name an object.
const idBytes = 16

// ErrInUse says that another process uses an object.
var ErrInUse = errors.New("another process uses it")

// headOf returns the head of a range. It depends on the offset, so that no range passes for another.
func headOf(offset int64, data []byte) uint64 {
	return uint64(len(data))<<32 | uint64(crc32c.Checksum(data)^uint32(offset))
}

// An Info describes a file of the cache.
type Info struct {
	URL     string `json:"place"` // URL of the remote file; "" if the name is damaged, or the file is not the cache's
	Bytes   int64  `json:"bytes"` // length of the remote file
	Kept    int64  `json:"-"`     // bytes of the disk that the cache uses for it
	Name    string `json:"-"`     // the file's name in the folder
	id      string // "" if it is not the cache's
	changed time.Time
}

// Open opens the cache in a folder, which it makes if need be. At most max bytes are kept there, by all processes together: the lowest
// limit counts. 0 is nine tenths of the free space.
func Open(dir string, max int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	c, err := Look(dir)
	if err != nil {
		return nil, err
	}
	if c.Max = max; max == 0 {
		var disk unix.Statfs_t
		if err := unix.Statfs(dir, &disk); err != nil {
			return nil, fmt.Errorf("cache: %s: %w", dir, errors.Join(err, c.Close()))
		}
		c.Max = (int64(disk.Bavail)*int64(disk.Bsize) + c.Used()) / 10 * 9
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countLocked(func(*tally) {})
	if c.last.Used > c.last.Limit {
		c.clearLocked(0, true)
	}
	return c, nil
}

// Look opens the cache in a folder to list and remove what it keeps.
func Look(dir string) (c *Cache, err error) {
	c = &Cache{dir: dir, folder: storage.NewFolder(""), objects: map[string]*object{}, opened: time.Now()}
	if err = checkFolder(dir); err == nil {
		c.lock, err = openOwn(filepath.Join(dir, "lock"))
	}
	if err == nil {
		err = c.join()
	}
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return c, nil
}

// Close lets go of the cache. Nobody may use files that were opened through it.
func (c *Cache) Close() error {
	for _, o := range c.objects {
		o.local.Close()
	}
	return c.lock.Close()
}

// path returns the path of an object's file.
func (c *Cache) path(id string) string { return filepath.Join(c.dir, id+".kept") }

// Status returns the bytes on the disk, their limit, and why nothing is kept at the moment, or nil. It reads nothing but the tally, and
// that without its lock: instead of a tally in the middle of a write, it shows the last one.
func (c *Cache) Status() (used, limit int64, failure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.readTally(); ok {
		c.last = t
	}
	if failure = c.failure; len(c.objects) == 0 {
		failure = cmp.Or(failure, c.unusable)
	}
	return c.last.Used, min(c.Max, c.last.Limit), failure
}

// pauseLocked keeps nothing for a while, after an error or because there is no room.
func (c *Cache) pauseLocked(err error) {
	if err != nil && c.failure == nil {
		slog.Warn("the cache keeps nothing for now", "cache", c.dir, "for", pauseFor, "err", err)
	}
	c.measureAt, c.failure = time.Now().Add(pauseFor), err
}

// Used measures how many bytes of the disk the folder uses.
func (c *Cache) Used() (bytes int64) {
	for _, o := range c.list() {
		bytes += o.Kept
	}
	return bytes
}

// list lists the files beside the lock, the one that was opened or written last at the end. It opens none.
func (c *Cache) list() (list []Info) {
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || e.Name() == "lock" {
			continue
		}
		o := Info{Name: e.Name(), Kept: 512 * int64(info.Sys().(*syscall.Stat_t).Blocks), changed: info.ModTime()}
		if id, is := strings.CutSuffix(e.Name(), ".kept"); is && info.Mode().IsRegular() && len(id) == 2*idBytes {
			o.id = id
		}
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b Info) int { return a.changed.Compare(b.changed) })
	return list
}

// Objects lists the files as list does, with their URLs.
func (c *Cache) Objects() []Info {
	list := c.list()
	for i, o := range list {
		if file, err := os.OpenFile(filepath.Join(c.dir, o.Name), os.O_RDONLY|unix.O_NOFOLLOW, 0); o.id != "" && err == nil {
			json.NewDecoder(io.LimitReader(file, keptName)).Decode(&list[i])
			file.Close()
		}
	}
	return list
}

// Remove removes a file: an object that this cache does not use, or else returns [ErrInUse], or a file that is not the cache's.
func (c *Cache) Remove(o Info) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removeLocked(o)
}

// removeLocked removes a file, and takes it out of the tally. An object's byte is locked meanwhile, so no process begins to use it.
func (c *Cache) removeLocked(o Info) error {
	if o.id != "" {
		if c.lockByte(objectByte(o.id), unix.F_WRLCK) != nil {
			return ErrInUse
		}
		defer c.lockByte(objectByte(o.id), unix.F_UNLCK)
	}
	return c.changeLocked(filepath.Join(c.dir, o.Name), os.Remove)
}

// makeRoom promises room for some more bytes, if there is any. If need be it drops objects that this run does not read. While there is
// none, the folder is measured again only after a pause.
//
// It never drops what this run reads. An epoch has each record once, so no rule finds more in an epoch than the share of the set that the
// cache holds. A part that stays finds all of that, evenly over the epoch. Dropping the least recently used would find 0.005, 0.15 and 0.67
// of the records with caches of 0.1, 0.5 and 0.9 of the set.
func (c *Cache) makeRoom(bytes int64) (room bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil && time.Now().Before(c.measureAt) {
		return false
	}
	promise := func(t *tally) {
		if room = t.Used+bytes <= min(c.Max, t.Limit); room {
			t.Used, t.Promised = t.Used+bytes, t.Promised+bytes
		}
	}
	if c.countLocked(promise); room || time.Now().Before(c.measureAt) {
		return room
	}
	// Bytes that are promised and on the disk already are measured twice. So promises settle first, but those of a killed process never do.
	if c.last.Promised > 0 && c.settleBy.IsZero() {
		c.settleBy = time.Now().Add(time.Second)
	}
	if c.last.Promised > 0 && time.Now().Before(c.settleBy) {
		return false
	}
	c.settleBy = time.Time{}
	c.clearLocked(bytes, false)
	switch c.countLocked(promise); {
	case room:
		c.failure = nil
	case c.last.Promised > 0:
		c.measureAt = time.Now().Add(time.Second)
	default:
		c.pauseLocked(nil)
	}
	return room
}

// clearLocked measures the folder, and drops objects until there is room for some bytes. The oldest go first: those that nobody uses, then
// those that are open, but no process has read a record of, as another rank reads that partition elsewhere. All go for a lower limit.
//
// The folder is measured with the tally locked. So what other processes change meanwhile is counted either here or by them.
func (c *Cache) clearLocked(bytes int64, all bool) {
	if c.lockByte(measureByte, unix.F_WRLCK) != nil {
		return // another process does it
	}
	defer c.lockByte(measureByte, unix.F_UNLCK)
	var list []Info
	c.countLocked(func(t *tally) {
		list, t.Used = c.list(), t.Promised
		for _, o := range list {
			t.Used += o.Kept
		}
	})
	full := func() bool { return c.last.Used+bytes > min(c.Max, c.last.Limit) }
	for _, info := range list {
		if info.id != "" && c.objects[info.id] == nil && full() {
			c.removeLocked(info)
		}
	}
	for _, info := range list {
		if o := c.objects[info.id]; o != nil && !o.wanted.Load() && time.Since(c.opened) > pauseFor && full() {
			wanted := objectByte(info.id) + wantedBytes
			if c.lockByte(wanted, unix.F_WRLCK) == nil { // no other process wants it either
				o.dropLocked()
				c.lockByte(wanted, unix.F_UNLCK)
			}
		}
	}
	for _, info := range list {
		if info.id != "" && all && full() { // its users find nothing any more
			c.changeLocked(c.path(info.id), func(path string) error { return os.Truncate(path, keptName) })
		}
	}
}

// An object is what the cache keeps of one file. It is in the cache's map from the time that it was opened to the cache's end.
//
// mu is held while a range is written, and while all are dropped: what either takes of the disk is the difference of two measurements. It
// is taken after the cache's. Readers take no lock, as a checksum tells them what they have read.
type object struct {
	cache  *Cache
	info   Info
	disk   *os.File
	local  storage.File // disk, for reading
	wanted atomic.Bool  // a record of it was read in this run; written with the cache locked

	mu    sync.Mutex
	named bool // guarded by mu: it has its head, which a file without ranges need not have
}

// openLocked opens the object's file, or makes it.
func (o *object) openLocked(path string) (err error) {
	if o.disk, err = openOwn(path); err != nil {
		return err
	}
	err = o.cache.changeLocked(path, func(string) error {
		if err := o.disk.Truncate(o.diskBytes()); err != nil || o.blocks() == 0 {
			return err
		}
		return o.writeName()
	})
	if err != nil {
		return errors.Join(err, o.disk.Close())
	}
	o.local, err = o.cache.folder.Adopt(o.disk)
	return err
}

// diskBytes is the length of the object's file.
func (o *object) diskBytes() int64 {
	_, length, at := o.block(o.info.Bytes)
	return at + keptHead + length
}

// block returns the block that a short range at an offset is kept with, and where. It is so long that it has all of that range.
func (o *object) block(offset int64) (from, length, at int64) {
	from = offset &^ (diskBlock - 1)
	const most = diskBlock + keptStep
	return from, min(most, o.info.Bytes-from), keptAt(o.info.Bytes) + keptHead + from/diskBlock*(most+keptHead)
}

// blocks returns the bytes of the disk that the object uses.
func (o *object) blocks() int64 {
	info, err := o.disk.Stat()
	if err != nil {
		return 0
	}
	return 512 * int64(info.Sys().(*syscall.Stat_t).Blocks)
}

// writeName writes the head of the object's file, or mends it.
func (o *object) writeName() error {
	o.named = true
	name, _ := json.Marshal(o.info)
	_, err := o.disk.WriteAt(append(name, make([]byte, keptName)...)[:keptName], 0)
	return err
}

// want notes that a record of the object is read, for other processes too: they do not drop it.
func (o *object) want() {
	if o.wanted.Load() {
		return
	}
	o.cache.mu.Lock()
	defer o.cache.mu.Unlock()
	o.cache.awaitByte(objectByte(o.info.id)+wantedBytes, unix.F_RDLCK)
	o.wanted.Store(true)
}

// dropLocked drops all ranges. The cache is locked.
func (o *object) dropLocked() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cache.changeLocked(o.cache.path(o.info.id), func(string) error {
		return errors.Join(o.disk.Truncate(0), o.disk.Truncate(o.diskBytes()), o.writeName())
	})
}

// A file is a file of a network with the cache before it. Files of the same identity share an object. It has no state of its own, so any
// number of goroutines read it.
type file struct {
	storage.File
	*object
}

// Cached implements [storage.Cacher]. If the cache does not work, it returns f.
func (c *Cache) Cached(f storage.File, url, identity string) storage.File {
	sum := sha256.Sum256([]byte(identity))
	id := hex.EncodeToString(sum[:idBytes])
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[id]
	if o == nil {
		o = &object{cache: c, info: Info{URL: url, Bytes: f.Size(), id: id}}
		err := c.awaitByte(objectByte(id), unix.F_RDLCK) // another process may be removing it
		if err == nil {
			err = o.openLocked(c.path(id))
		}
		if err != nil {
			c.lockByte(objectByte(id), unix.F_UNLCK)
			if c.unusable == nil {
				slog.Warn("the cache can't keep a file", "cache", c.dir, "file", url, "err", err)
				c.unusable = err
			}
			return f
		}
		c.objects[id] = o
	}
	return &file{f, o}
}

// Origin implements [storage.Original].
func (f *file) Origin() string {
	if o, is := f.File.(storage.Original); is {
		return o.Origin()
	}
	return ""
}

// Blocks implements [storage.File].
func (f *file) Blocks() bool { return f.local.Blocks() }

// Waited implements [storage.Waiter].
func (f *file) Waited() { f.local.(storage.Waiter).Waited() }

var spareHeads = sync.Pool{New: func() any { return new([keptHead]byte) }}

// head reads the head of the range kept at an offset of the file. Without a range it is 0 or random.
func (f *file) head(at int64) uint64 {
	head := spareHeads.Get().(*[keptHead]byte)
	defer spareHeads.Put(head)
	clear(head[:])
	f.local.ReadAt(head[:], at)
	return binary.LittleEndian.Uint64(head[:])
}

// ReadsMax implements [storage.File]: the disk takes more reads than a slow store.
func (f *file) ReadsMax() int { return max(f.File.ReadsMax(), f.local.ReadsMax()) }

// WillNeed implements [storage.File].
func (f *file) WillNeed(offset, length int64) bool {
	at := keptAt(offset)
	if length < keptStep {
		_, length, at = f.block(offset)
	}
	return f.local.WillNeed(at, keptHead+length) && int64(f.head(at)>>32) >= length
}

// Fetch implements [storage.File].
func (f *file) Fetch(buf []byte, offset, length int64) ([]byte, error) {
	f.want()
	if length < keptStep {
		return storage.ReadRange(f, buf, offset, length)
	}
	got, err := f.local.Fetch(buf, keptAt(offset), keptHead+length)
	if err == nil && headOf(offset, got[keptHead:]) == binary.LittleEndian.Uint64(got) {
		f.cache.HitBytes.Add(length)
		return got[keptHead:], nil
	}
	_, err = f.fill(buf[:length], offset, keptAt(offset))
	return buf[:length], err
}

// ReadKept implements [storage.Keeper].
func (f *file) ReadKept(p []byte, offset int64) bool {
	f.want()
	if len(p) >= keptStep {
		return f.readKept(p, offset, keptAt(offset))
	}
	spare := spareBlocks.Get().(*[diskBlock + keptStep]byte)
	defer spareBlocks.Put(spare)
	from, length, at := f.block(offset)
	return f.readKept(spare[:length], from, at) && copy(p, spare[offset-from:length]) == len(p)
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, offset int64) (n int, err error) {
	part := p[:max(0, min(int64(len(p)), f.info.Bytes-offset))]
	if n = len(part); !f.readKept(part, offset, keptAt(offset)) {
		if n < keptStep && n > 0 {
			n, err = f.readSmall(part, offset)
		} else {
			n, err = f.fill(part, offset, keptAt(offset))
		}
	}
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

var spareBlocks = sync.Pool{New: func() any { return new([diskBlock + keptStep]byte) }}

// readSmall reads a short range, with the block around it.
func (f *file) readSmall(p []byte, offset int64) (int, error) {
	spare := spareBlocks.Get().(*[diskBlock + keptStep]byte)
	defer spareBlocks.Put(spare)
	from, length, at := f.block(offset)
	block := spare[:length]
	if !f.readKept(block, from, at) {
		if n, err := f.fill(block, from, at); n < len(block) {
			return 0, err
		}
	}
	return copy(p, block[offset-from:]), nil
}

// readKept fills p with the beginning of the range at an offset, which is kept at another one of the file, if that is long enough and
// whole. It may read while another goroutine or process writes there or drops it: the checksum then says that nothing is kept.
func (f *file) readKept(p []byte, offset, at int64) bool {
	head, data := f.head(at), p
	switch more := int64(head>>32) - int64(len(p)); {
	case more < 0 || more > prefixMax:
		return false
	case more > 0:
		data = make([]byte, head>>32)
	}
	if n, _ := f.local.ReadAt(data, at+keptHead); n < len(data) || headOf(offset, data) != head {
		return false
	}
	f.cache.HitBytes.Add(int64(copy(p, data)))
	return true
}

// fill reads a range from the remote file, and keeps it at an offset of the file. The error is nil if p is full: whatever goes wrong with
// the disk costs no read. Two goroutines may fill the same range, with the same bytes.
func (f *file) fill(p []byte, offset, at int64) (int, error) {
	n, err := f.File.ReadAt(p, offset)
	if len(p) == 0 || n < len(p) {
		return n, err
	}
	f.cache.MissBytes.Add(int64(n))
	if room := int64(n) + 4*diskBlock; f.cache.makeRoom(room) { // parts of its first and last block, the name, and the file's map
		took, err := f.keep(p, offset, at)
		f.cache.settle(room, max(0, min(took, room)))
		f.cache.noteWrite(err)
	}
	return n, nil
}

// keep writes a range to the object's file: its bytes first, and then the head that says that they are there. It returns how many bytes
// of the disk that took.
func (f *file) keep(p []byte, offset, at int64) (took int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.blocks()
	if !f.named {
		f.writeName()
	}
	if _, err = f.disk.WriteAt(p, at+keptHead); err == nil {
		_, err = f.disk.WriteAt(binary.LittleEndian.AppendUint64(nil, headOf(offset, p)), at)
	}
	return f.blocks() - before, err
}

// noteWrite makes the cache keep nothing for a while if the disk has refused a write. A write that succeeds after such a pause ends the
// failure.
func (c *Cache) noteWrite(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.pauseLocked(err)
	} else if !time.Now().Before(c.measureAt) {
		c.failure = nil
	}
}

// Forget implements [storage.Forgetter].
func (f *file) Forget(offset, length int64) {
	if offset == 0 && length >= f.info.Bytes {
		f.cache.mu.Lock()
		f.dropLocked()
		f.cache.mu.Unlock()
	}
	_, _, block := f.block(offset)
	for _, at := range []int64{keptAt(offset), block} {
		if f.head(at) != 0 { // the other bytes of a sparse file take no room
			_, err := f.disk.WriteAt(make([]byte, keptHead), at)
			f.cache.noteWrite(err)
		}
	}
	if inner, is := f.File.(storage.Forgetter); is {
		inner.Forget(offset, length)
	}
}
