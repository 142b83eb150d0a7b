// Package cache keeps on a disk of this machine the ranges of files that were read over a network.
package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// A Cache keeps ranges of remote files in a folder of this machine: records and other parts of shards, as they were read. All processes
// of the machine that name the folder share it, and it outlives them.
//
//	DIR/lock        processes lock a byte of it (fcntl) for each object that they use
//	DIR/<id>.kept   the ranges of an object, in a sparse file
//
//	0 … 4095        place and size of the object, JSON with zeros behind it
//	keptAt(offset)  CRC-32C u32 | length u32 | the range that begins at offset in the object
//
// There is no index. A read goes to the place where its range would be, and the checksum tells whether it is there. So no order of
// writes matters, processes see each other's ranges at once, and damage of any kind costs a request.
type Cache struct {
	Max                 int64        // limit of the bytes on the disk
	HitBytes, MissBytes atomic.Int64 // bytes read by this process, from the cache and from stores
	dir                 string
	lock                *os.File
	folder              *storage.Folder
	unwritten           atomic.Int64 // bytes with a promise of room

	mu        sync.Mutex
	objects   map[string]*object // objects in use, by id
	allowance int64              // bytes that may be written before the folder is measured again
	measureAt time.Time          // earliest time for that
	failure   error              // reason of the disk for keeping nothing until then
	opened    time.Time
}

const (
	keptName  = 4 << 10     // bytes for an object's place and size
	diskBlock = 4 << 10     // usual block of a file system
	keptHead  = 8           // bytes for a range's checksum and length
	keptStep  = 256         // shortest range that never overwrites its neighbour
	prefixMax = 1 << 20     // limit of the bytes that a short read checks in addition
	pauseFor  = time.Minute // pause after the disk has refused a write, and while there is no room
)

// keptAt returns where the range is kept that begins at an offset. There is room for the heads of ranges that do not overlap.
func keptAt(offset int64) int64 { return keptName + offset + (offset+keptStep-1)/keptStep*keptHead }

// ErrInUse says that another process uses an object.
var ErrInUse = errors.New("another process uses it")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// headOf returns the head of a range. It depends on the offset, so that no range passes for another.
func headOf(offset int64, data []byte) uint64 {
	return uint64(len(data))<<32 | uint64(crc32.Checksum(data, castagnoli)^uint32(offset))
}

// An Info describes an object of the cache.
type Info struct {
	Place   string `json:"place"` // URL of the remote file
	Bytes   int64  `json:"bytes"` // length of the remote file
	Kept    int64  `json:"-"`     // bytes of the disk that the cache uses for it
	id      string
	changed time.Time
}

// Open opens the cache in a folder, which it makes if need be. At most max bytes are kept there.
func Open(dir string, max int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	folder, objects := storage.NewFolder(""), map[string]*object{}
	return &Cache{Max: max, dir: dir, lock: lock, folder: folder, objects: objects, opened: time.Now()}, nil
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

// Status returns the bytes on the disk, their limit, and why nothing is kept at the moment, or nil.
func (c *Cache) Status() (used, limit int64, failure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Used(), c.Max, c.failure
}

// pauseLocked keeps nothing for a while, after an error or because there is no room.
func (c *Cache) pauseLocked(err error) {
	c.allowance, c.measureAt, c.failure = 0, time.Now().Add(pauseFor), err
}

// Used measures how many bytes of the disk the cache uses.
func (c *Cache) Used() (bytes int64) {
	for _, o := range c.Objects() {
		bytes += o.Kept
	}
	return bytes
}

// Objects lists the objects, the one that was opened or written last at the end. The place is "" where the name is damaged.
func (c *Cache) Objects() (list []Info) {
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		id, is := strings.CutSuffix(e.Name(), ".kept")
		info, err := e.Info()
		if !is || err != nil || !info.Mode().IsRegular() {
			continue
		}
		o := Info{id: id, changed: info.ModTime()}
		if file, err := os.Open(c.path(id)); err == nil {
			json.NewDecoder(io.LimitReader(file, keptName)).Decode(&o)
			file.Close()
		}
		o.Kept = 512 * int64(info.Sys().(*syscall.Stat_t).Blocks)
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b Info) int { return a.changed.Compare(b.changed) })
	return list
}

// lockObject locks an object until the cache is closed: for use, or to remove it, which fails while other caches use it, in this process or
// another.
func (c *Cache) lockObject(id string, how int16) error {
	number, _ := strconv.ParseUint(id[:min(15, len(id))], 16, 63)
	return unix.FcntlFlock(c.lock.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: how, Start: int64(number), Len: 1})
}

// Remove drops an object that this cache does not use, or returns [ErrInUse].
func (c *Cache) Remove(o Info) error {
	if c.lockObject(o.id, unix.F_WRLCK) != nil {
		return ErrInUse
	}
	defer c.lockObject(o.id, unix.F_UNLCK)
	return os.Remove(c.path(o.id))
}

// makeRoom reports whether some more bytes may be kept. If need be it drops objects that this run does not read.
//
// It never drops what this run reads. An epoch has each record once, so no rule finds more in an epoch than the share of the set that the
// cache holds. A part that stays finds all of that, evenly over the epoch. Dropping the least recently used would find 0.005, 0.15 and 0.67
// of the records with caches of 0.1, 0.5 and 0.9 of the set.
func (c *Cache) makeRoom(bytes int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.allowance < bytes && time.Now().After(c.measureAt) {
		switch room := c.clearLocked(bytes); {
		case room >= bytes:
			c.allowance, c.failure = max(room/8, bytes), nil // other processes write too
		case c.unwritten.Load() == 0: // Promised bytes may be on the disk already, and count twice.
			c.pauseLocked(nil)
		}
	}
	if c.allowance < bytes {
		return false
	}
	c.allowance -= bytes
	c.unwritten.Add(bytes)
	return true
}

// clearLocked drops objects until there is room for some bytes, and returns the room. The oldest go first: those that nobody uses, then
// those that this run has opened for a while without reading a record, as another rank reads that partition.
func (c *Cache) clearLocked(bytes int64) int64 {
	list, room := c.Objects(), c.Max-c.Used()-c.unwritten.Load()
	for _, info := range list {
		if c.objects[info.id] == nil && room < bytes && c.Remove(info) == nil {
			room += info.Kept
		}
	}
	for _, info := range list {
		o := c.objects[info.id]
		if o != nil && !o.wanted.Load() && time.Since(c.opened) > pauseFor && room < bytes && o.drop() == nil {
			room += info.Kept
		}
	}
	return room
}

// An object is what the cache keeps of one file.
type object struct {
	cache  *Cache
	info   Info
	disk   *os.File
	local  storage.File // disk, for reading
	wanted atomic.Bool  // a record of it was read in this run
}

// open opens the object's file, or makes it.
func (o *object) open(path string) (err error) {
	if o.disk, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := errors.Join(o.disk.Truncate(o.diskBytes()), o.writeName()); err != nil {
		return errors.Join(err, o.disk.Close())
	}
	o.local, err = o.cache.folder.Adopt(o.disk)
	return err
}

// diskBytes is the length of the object's file.
func (o *object) diskBytes() int64 { return keptAt(o.info.Bytes) + keptHead }

// writeName writes the head of the object's file, or mends it.
func (o *object) writeName() error {
	name, _ := json.Marshal(o.info)
	_, err := o.disk.WriteAt(append(name, make([]byte, keptName)...)[:keptName], 0)
	return err
}

// drop drops all ranges.
func (o *object) drop() error {
	return errors.Join(o.disk.Truncate(0), o.disk.Truncate(o.diskBytes()), o.writeName())
}

// A file is a file of a network with the cache before it.
type file struct {
	storage.File
	*object
}

// Cached implements [storage.Cacher]. If the cache does not work, it returns f.
func (c *Cache) Cached(f storage.File, place, identity string) storage.File {
	sum := sha256.Sum256([]byte(identity))
	id := hex.EncodeToString(sum[:16])
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[id]
	if o == nil {
		o = &object{cache: c, info: Info{Place: place, Bytes: f.Size()}}
		err := c.lockObject(id, unix.F_RDLCK)
		if err == nil {
			err = o.open(c.path(id))
		}
		if err != nil {
			c.pauseLocked(err)
			return f
		}
		c.objects[id] = o
	}
	return &file{f, o}
}

// Blocks implements [storage.File].
func (f *file) Blocks() bool { return f.local.Blocks() }

// Waited implements [storage.Waiter].
func (f *file) Waited() { f.local.(storage.Waiter).Waited() }

var spareHeads = sync.Pool{New: func() any { return new([keptHead]byte) }}

// head reads the head of the range kept at an offset. Without a range it is 0 or random.
func (f *file) head(offset int64) uint64 {
	head := spareHeads.Get().(*[keptHead]byte)
	defer spareHeads.Put(head)
	clear(head[:])
	f.local.ReadAt(head[:], keptAt(offset))
	return binary.LittleEndian.Uint64(head[:])
}

// WillNeed implements [storage.File].
func (f *file) WillNeed(offset, length int64) bool {
	return f.local.WillNeed(keptAt(offset), keptHead+length) && int64(f.head(offset)>>32) >= length
}

// Fetch implements [storage.File].
func (f *file) Fetch(buf []byte, offset, length int64) ([]byte, error) {
	f.wanted.Store(true)
	got, err := f.local.Fetch(buf, keptAt(offset), keptHead+length)
	if err == nil && headOf(offset, got[keptHead:]) == binary.LittleEndian.Uint64(got) {
		f.cache.HitBytes.Add(length)
		return got[keptHead:], nil
	}
	_, err = f.fill(buf[:length], offset)
	return buf[:length], err
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, offset int64) (n int, err error) {
	part := p[:max(0, min(int64(len(p)), f.info.Bytes-offset))]
	if n = len(part); !f.readKept(part, offset) {
		n, err = f.fill(part, offset)
	}
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// readKept fills p with the beginning of the range kept at an offset, if that is long enough and whole.
func (f *file) readKept(p []byte, offset int64) bool {
	head, data := f.head(offset), p
	switch more := int64(head>>32) - int64(len(p)); {
	case more < 0 || more > prefixMax:
		return false
	case more > 0:
		data = make([]byte, head>>32)
	}
	if n, _ := f.local.ReadAt(data, keptAt(offset)+keptHead); n < len(data) || headOf(offset, data) != head {
		return false
	}
	f.cache.HitBytes.Add(int64(copy(p, data)))
	return true
}

// fill reads a range from the remote file, and keeps it. The error is nil if p is full.
func (f *file) fill(p []byte, offset int64) (int, error) {
	n, err := f.File.ReadAt(p, offset)
	if len(p) == 0 || n < len(p) {
		return n, err
	}
	f.cache.MissBytes.Add(int64(n))
	if room := int64(n) + 2*diskBlock; f.cache.makeRoom(room) { // parts of its first and last block
		defer f.cache.unwritten.Add(-room)
		f.write(keptAt(offset)+keptHead, p)
		f.write(keptAt(offset), binary.LittleEndian.AppendUint64(nil, headOf(offset, p)))
	}
	return n, nil
}

// write writes to the object's file.
func (f *file) write(at int64, p []byte) {
	if _, err := f.disk.WriteAt(p, at); err != nil {
		f.cache.mu.Lock()
		defer f.cache.mu.Unlock()
		f.cache.pauseLocked(err)
	}
}

// Forget implements [storage.Forgetter].
func (f *file) Forget(offset, length int64) {
	if offset == 0 && length >= f.info.Bytes {
		f.drop()
	}
	f.write(keptAt(offset), make([]byte, keptHead))
	if inner, is := f.File.(storage.Forgetter); is {
		inner.Forget(offset, length)
	}
}
