package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Cache keeps blocks of remote files in a folder of this machine. All processes of the machine that name the folder share it, and it outlives them.
//
//	DIR/lock               locked (flock) by those who use the cache; a byte of it (fcntl) for each object that they use
//	DIR/used               bytes of all blocks: int64, mapped by all
//	DIR/<id>.blocks        of an object: its name as JSON in the first 4 KiB, then a bit for each block that is here; mapped by all
//	DIR/<id>.data          a sparse file of the object's size
//
// A block counts from the moment when its bit is set, after its bytes. Who reads bytes checks them by their checksum, and calls [Forgetter] if they are wrong:
// so a machine that fails between the two, a disk that does, or another process that drops a block at the same time, cost a request and nothing else.
type Cache struct {
	dir    string
	max    int64
	lock   *os.File
	folder *Folder
	mapped []byte // DIR/used
	stats  CacheStats

	mu       sync.Mutex
	objects  map[string]*cachedObject
	promised int64     // bytes that are being written
	paused   time.Time // until when nothing is kept, since the disk is full or fails
	failure  error     // why
	cleared  time.Time // when it was last made room in
	opened   time.Time
}

// CacheStats counts, since the start of this process.
type CacheStats struct {
	HitBytes, MissBytes atomic.Int64 // that were asked for and lay here, or did not
	DroppedBytes        atomic.Int64
}

// blockBytes is small, since neighbours are often fetched at the same time, and then each brings the block that both have a part of. [FetchRoom] has room for whole blocks.
const blockBytes = 512

// nameBytes holds an object's name, before its bits.
const nameBytes = 4 << 10

// pauseFor is how long a cache keeps nothing after its disk has refused a write.
const pauseFor = time.Minute

// An ObjectInfo says of which file of which place an object of the cache is.
type ObjectInfo struct {
	Place string `json:"place"` // of the file
	Bytes int64  `json:"bytes"` // of the whole file
	Kept  int64  `json:"-"`     // bytes that are here
	id    string
}

// OpenCache opens the cache in a folder, which it makes if need be. At most max bytes are kept there.
func OpenCache(dir string, max int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	c := &Cache{dir: dir, max: max, folder: NewFolder("", nil), objects: map[string]*cachedObject{}, opened: time.Now()}
	var err error
	if c.lock, err = os.OpenFile(c.path("lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	alone := unix.Flock(int(c.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
	if c.mapped, err = mapWhole(c.path("used"), make([]byte, 8)); err == nil && alone {
		err = c.count()
	}
	if err == nil {
		err = unix.Flock(int(c.lock.Fd()), unix.LOCK_SH)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("cache: %s: %w", dir, err)
	}
	return c, nil
}

// Close lets go of the cache. Files that were opened through it must be closed.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.objects {
		Unmap(o.mapped)
	}
	c.objects = nil
	return errors.Join(Unmap(c.mapped), c.lock.Close())
}

func (c *Cache) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Cache) used() *int64 { return (*int64)(unsafe.Pointer(unsafe.SliceData(c.mapped))) }

// Used returns the bytes of all blocks that are kept.
func (c *Cache) Used() int64 { return atomic.LoadInt64(c.used()) }

// Limit sets how many bytes are kept at most, before the cache is used.
func (c *Cache) Limit(max int64) { c.max = max }

// Max returns how many bytes are kept at most.
func (c *Cache) Max() int64 { return c.max }

// Stats returns what was counted.
func (c *Cache) Stats() *CacheStats { return &c.stats }

// Failure returns why nothing is kept at the moment, or nil.
func (c *Cache) Failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().After(c.paused) {
		return nil
	}
	return c.failure
}

// count counts the blocks of all objects. Nobody else uses the cache meanwhile.
func (c *Cache) count() error {
	list, err := c.Objects()
	total := int64(0)
	for _, o := range list {
		total += o.Kept
	}
	atomic.StoreInt64(c.used(), total)
	return err
}

// Objects lists what is kept, the object that was opened last at the end.
func (c *Cache) Objects() ([]ObjectInfo, error) {
	names, err := filepath.Glob(c.path("*.blocks"))
	if err != nil {
		return nil, err
	}
	var list []ObjectInfo
	ages := map[string]time.Time{}
	for _, name := range names {
		info, statErr := os.Stat(name)
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) { // dropped meanwhile
			continue
		}
		o := ObjectInfo{id: strings.TrimSuffix(filepath.Base(name), ".blocks")}
		if err != nil || statErr != nil || len(text) < nameBytes || json.Unmarshal(text[:slices.Index(append(text[:nameBytes:nameBytes], 0), 0)], &o) != nil {
			os.Remove(name) // torn by a machine that failed
			os.Remove(c.path(o.id + ".data"))
			continue
		}
		for _, b := range text[nameBytes:] {
			o.Kept += blockBytes * int64(bits.OnesCount8(b))
		}
		ages[o.id] = info.ModTime()
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b ObjectInfo) int { return ages[a.id].Compare(ages[b.id]) })
	return list, nil
}

// Open opens what is kept of an object, for a look at it. Reads of other parts fail with [ErrNotKept].
func (c *Cache) Open(info ObjectInfo) (Forgetter, error) {
	mapped, err := mapWhole(c.path(info.id+".blocks"), make([]byte, mapBytes(info.Bytes)))
	if err != nil {
		return nil, err
	}
	o := &cachedObject{cache: c, data: c.path(info.id + ".data"), size: info.Bytes, mapped: mapped}
	o.bits = bitsOf(mapped)
	local, err := c.folder.open(o.data)
	if err != nil {
		return nil, errors.Join(err, Unmap(mapped))
	}
	return &keptFile{cachedFile{object: o, local: local.(*localFile)}}, nil
}

// A keptFile is the kept part of a file.
type keptFile struct{ cachedFile }

func (f *keptFile) Size() int64 { return f.object.size }

func (f *keptFile) ReadsMax() int { return 1 }

func (f *keptFile) Close() error { return errors.Join(f.local.Close(), Unmap(f.object.mapped)) }

func (f *keptFile) ReadAt(p []byte, offset int64) (int, error) {
	if first, last := f.object.missing(offset, int64(len(p))); first <= last {
		return 0, ErrNotKept
	}
	return f.local.ReadAt(p, offset)
}

// ErrInUse says that another process uses an object.
var ErrInUse = errors.New("another process uses it")

// lockObject locks an object until the cache is closed: for use, or to remove it, which fails while others use it.
func (c *Cache) lockObject(id string, how int16) error {
	number, err := strconv.ParseUint(id[:15], 16, 63)
	if err != nil {
		return err
	}
	return unix.FcntlFlock(c.lock.Fd(), lockCommand, &unix.Flock_t{Type: how, Start: int64(number), Len: 1})
}

// Remove drops an object, or returns [ErrInUse].
func (c *Cache) Remove(o ObjectInfo) error {
	if c.lockObject(o.id, unix.F_WRLCK) != nil {
		return ErrInUse
	}
	defer c.lockObject(o.id, unix.F_UNLCK)
	err := errors.Join(os.Remove(c.path(o.id+".blocks")), os.Remove(c.path(o.id+".data")))
	atomic.AddInt64(c.used(), -o.Kept)
	return err
}

// mapWhole maps a file for reading and writing, which it makes with a content if need be, all at once.
func mapWhole(path string, content []byte) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		var fresh *os.File
		if fresh, err = os.CreateTemp(filepath.Dir(path), ".new-*"); err != nil {
			return nil, err
		}
		defer os.Remove(fresh.Name())
		_, err = fresh.Write(content)
		if err = errors.Join(err, fresh.Close()); err != nil {
			return nil, err
		}
		if err := os.Link(fresh.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) { // another process was first
			return nil, err
		}
		file, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && info.Size() != int64(len(content)) {
		err = fmt.Errorf("%s has %d bytes, want %d: remove the folder", path, info.Size(), len(content))
	}
	if err != nil {
		return nil, err
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, len(content), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%s can't be mapped, as on some file systems of networks: name a folder of a local disk: %w", path, err)
	}
	return mapped, nil
}

// A cachedObject is the blocks of one file.
type cachedObject struct {
	cache  *Cache
	wanted atomic.Bool // a record of it was read in this run
	data   string      // path
	size   int64
	mapped []byte
	bits   []uint64 // of blocks, in mapped
}

// object returns the object with an identity, of a file at a place.
func (c *Cache) object(identity, place string, size int64) (*cachedObject, error) {
	sum := sha256.Sum256([]byte(identity))
	id := hex.EncodeToString(sum[:16])
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.objects[id]; o != nil {
		return o, nil
	}
	content := make([]byte, mapBytes(size))
	name, err := json.Marshal(ObjectInfo{Place: place, Bytes: size})
	if err != nil || len(name) >= nameBytes {
		return nil, fmt.Errorf("cache: %s: the name is too long", place)
	}
	copy(content, name)
	o := &cachedObject{cache: c, data: c.path(id + ".data"), size: size}
	if err := c.lockObject(id, unix.F_RDLCK); err != nil {
		return nil, fmt.Errorf("cache: %s: %w", place, ErrInUse)
	}
	data, err := os.OpenFile(o.data, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		err = errors.Join(data.Truncate(size), data.Close())
	}
	if err == nil {
		o.mapped, err = mapWhole(c.path(id+".blocks"), content)
	}
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	now := time.Now()
	os.Chtimes(c.path(id+".blocks"), now, now)
	o.bits = bitsOf(o.mapped)
	c.objects[id] = o
	return o, nil
}

// mapBytes returns the size of the map of a file's blocks, with the name before it.
func mapBytes(size int64) int64 { return nameBytes + 8*((size/blockBytes+64)/64) }

func bitsOf(mapped []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(&mapped[nameBytes])), (len(mapped)-nameBytes)/8)
}

func (o *cachedObject) has(block int64) bool {
	return block/64 < int64(len(o.bits)) && atomic.LoadUint64(&o.bits[block/64])>>(block%64)&1 != 0
}

// missing returns the blocks from the first to the last that is not here, of those in which a range lies. first is after last if all are here.
func (o *cachedObject) missing(offset, length int64) (first, last int64) {
	first, last = offset/blockBytes, (offset+length-1)/blockBytes
	for first <= last && o.has(first) {
		first++
	}
	for first < last && o.has(last) {
		last--
	}
	return first, last
}

// keep notes that a block is here, or no longer.
func (o *cachedObject) keep(block int64, here bool) {
	word, bit := &o.bits[block/64], uint64(1)<<(block%64)
	switch {
	case here && atomic.OrUint64(word, bit)&bit == 0:
		atomic.AddInt64(o.cache.used(), blockBytes)
	case !here && atomic.AndUint64(word, ^bit)&bit != 0:
		atomic.AddInt64(o.cache.used(), -blockBytes)
		o.cache.stats.DroppedBytes.Add(blockBytes)
	}
}

// write keeps the bytes of whole blocks, from the first on, if there is room. The last block of a file may be short.
func (o *cachedObject) write(first int64, bytes []byte) {
	c, blocks := o.cache, int64(len(bytes)+blockBytes-1)/blockBytes
	if !c.makeRoom(blocks * blockBytes) {
		return
	}
	file, err := os.OpenFile(o.data, os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteAt(bytes, first*blockBytes)
		err = errors.Join(err, file.Close())
	}
	for block := first; err == nil && block < first+blocks; block++ {
		o.keep(block, true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.promised -= blocks * blockBytes; err != nil {
		c.paused, c.failure = time.Now().Add(pauseFor), err
	}
}

// makeRoom reports whether some more bytes may be kept. If need be it drops what this run does not read.
//
// It never drops what this run reads. An epoch has each record once, so whatever is kept for its next use is kept over the end of an epoch, where the cache holds
// its share of the set and no more: no rule finds more of it in an epoch than that share. A part that stays finds all of that, evenly over the epoch. Dropping the least
// recently used would find 0.005, 0.15 and 0.67 of the records with caches of 0.1, 0.5 and 0.9 of the set.
func (c *Cache) makeRoom(bytes int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.paused) {
		return false
	}
	fits := func() bool { return c.Used()+c.promised+bytes <= c.max }
	if !fits() && time.Since(c.cleared) > pauseFor {
		c.clearLocked(fits)
	}
	if !fits() {
		return false
	}
	c.promised += bytes
	return true
}

// clearLocked drops objects until what is wanted fits, those that were opened first before others: of files that nobody has open, and then of those that it
// has read no record of, as of another rank's partition. That is known only after a while.
func (c *Cache) clearLocked(fits func() bool) {
	list, _ := c.Objects()
	for _, info := range list {
		if c.objects[info.id] == nil && !fits() {
			if c.Remove(info) == nil {
				c.stats.DroppedBytes.Add(info.Kept)
			}
		}
	}
	for _, info := range list {
		if o := c.objects[info.id]; o != nil && !o.wanted.Load() && time.Since(c.opened) > pauseFor && !fits() {
			o.drop()
		}
	}
	c.cleared = time.Now()
}

// drop lets go of all blocks, and gives their part of the disk back.
func (o *cachedObject) drop() {
	for block := range o.size/blockBytes + 1 {
		o.keep(block, false)
	}
	if file, err := os.OpenFile(o.data, os.O_WRONLY, 0); err == nil {
		punch(file, 0, o.size)
		file.Close()
	}
}

// A Forgetter is a [File] that may hold wrong bytes, and then can read them again from where they came.
type Forgetter interface {
	File
	// Forget has a range be read again. It reports whether anything of it was kept.
	Forget(offset, length int64) bool
}

// A cachedFile is a file of a network with a cache before it.
type cachedFile struct {
	File
	object *cachedObject
	local  *localFile // the object's data
}

// Cached puts the cache of Remote, if there is one, before a file of a network. identity tells its content from any other's.
func Cached(f File, place, identity string) (File, error) {
	c := Remote.Cache
	if c == nil {
		return f, nil
	}
	o, err := c.object(identity, place, f.Size())
	if err != nil {
		return nil, err
	}
	local, err := c.folder.open(o.data)
	if err != nil {
		return nil, err
	}
	here := local.(*localFile)
	here.plain.changes, here.past.changes = true, true
	return &cachedFile{File: f, object: o, local: here}, nil
}

// Close implements io.Closer.
func (f *cachedFile) Close() error { return errors.Join(f.local.Close(), f.File.Close()) }

// WillNeed implements [File].
func (f *cachedFile) WillNeed(offset, length int64) bool {
	first, last := f.object.missing(offset, length)
	return first > last && f.local.WillNeed(offset, length)
}

// Waited implements [Waiter].
func (f *cachedFile) Waited() { f.local.Waited() }

// Fetch implements [File].
func (f *cachedFile) Fetch(buf []byte, offset, length int64) ([]byte, error) {
	f.object.wanted.Store(true)
	if first, last := f.object.missing(offset, length); first > last {
		f.object.cache.stats.HitBytes.Add(length)
		return f.local.Fetch(buf, offset, length)
	}
	return f.fill(buf, offset, length)
}

// ReadAt implements io.ReaderAt.
func (f *cachedFile) ReadAt(p []byte, offset int64) (int, error) {
	length := max(0, min(int64(len(p)), f.object.size-offset))
	if length == 0 {
		return f.File.ReadAt(p, offset)
	}
	if first, last := f.object.missing(offset, length); first > last {
		if n, err := f.local.ReadAt(p, offset); int64(n) == length {
			f.object.cache.stats.HitBytes.Add(length)
			return n, err
		}
		f.Forget(offset, length) // somebody has removed the file
	}
	data, err := f.fill(make([]byte, length+FetchRoom), offset, length)
	n := copy(p, data)
	if err == nil && n < len(p) {
		return n, io.EOF
	}
	return n, err
}

// fill reads a range as whole blocks into buf, which has room for them: what is missing from the remote file, and the rest of the first and the last block, if
// they are here, from the cache. It keeps what it has read.
func (f *cachedFile) fill(buf []byte, offset, length int64) ([]byte, error) {
	stats := &f.object.cache.stats
	begin := offset &^ (blockBytes - 1)
	end := min((offset+length+blockBytes-1)&^(blockBytes-1), f.object.size)
	buf = buf[:end-begin]
	from, to := begin, end
	if first, last := f.object.missing(offset, length); first <= last {
		from, to = first*blockBytes, min((last+1)*blockBytes, end)
	}
	for _, part := range [][2]int64{{begin, from}, {to, end}} {
		if part[0] == part[1] {
			continue
		}
		if n, _ := f.local.ReadAt(buf[part[0]-begin:part[1]-begin], part[0]); int64(n) < part[1]-part[0] {
			from, to = begin, end // somebody has removed the file
			break
		}
		stats.HitBytes.Add(part[1] - part[0])
	}
	missing := buf[from-begin : to-begin]
	if n, err := f.File.ReadAt(missing, from); n < len(missing) {
		return nil, err
	}
	stats.MissBytes.Add(int64(len(missing)))
	f.object.write(from/blockBytes, missing)
	return buf[offset-begin : offset-begin+length], nil
}

// Forget implements [Forgetter].
func (f *cachedFile) Forget(offset, length int64) (kept bool) {
	for block := offset / blockBytes; block*blockBytes < min(offset+length, f.object.size); block++ {
		kept = kept || f.object.has(block)
		f.object.keep(block, false)
	}
	if inner, is := f.File.(Forgetter); is && inner.Forget(offset, length) {
		kept = true
	}
	return kept
}
