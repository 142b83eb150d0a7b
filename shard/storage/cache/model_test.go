package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// A modelFolder is the folder of some processes' caches, and a plain list of what they keep there of the objects of a store.
type modelFolder struct {
	t         *testing.T
	rng       *rand.Rand
	dir       string
	objects   []*modelObject
	processes []*modelProcess
	limit     int64 // the lowest of the processes since nobody used the folder
	over      int64 // how much more the tally says than the disk
	promised  int64 // by processes that were killed since nobody used the folder
	inexact   bool  // a disk's file system adds blocks for itself later; one in memory does not
	harms     bool  // files are harmed in this run
	harmed    bool  // since nobody used the folder: the tally need not be right
	grows     bool  // the tally may say more after this step
	mu        sync.Mutex
}

// A modelObject is a file of the store.
type modelObject struct {
	*store
	identity, path string
	ranges         [][2]int64     // offsets and lengths, without overlaps
	kept           map[int64]bool // offsets of ranges that are kept; of the blocks of short ranges their complements
	mayGo          bool           // it may be dropped in this step
	harmed         bool           // since it was open
	torn           bool           // its file was removed while processes had it open
}

// A modelProcess is a process with a cache, and what it has open.
type modelProcess struct {
	*Cache
	files  map[*modelObject]*file
	wanted map[*modelObject]bool // records of it were read
}

func newModelFolder(t *testing.T, seed uint64) *modelFolder {
	m := &modelFolder{t: t, rng: rand.New(rand.NewPCG(seed, 3)), limit: math.MaxInt64}
	var err error
	if m.dir, err = os.MkdirTemp("/dev/shm", "imgfeed-test-"); err != nil {
		m.dir, m.inexact = t.TempDir(), true
	}
	t.Cleanup(func() { os.RemoveAll(m.dir) })
	const size = 50_000
	for i := range 5 {
		o := &modelObject{store: &store{data: numbered(size + i)[i:]}, identity: fmt.Sprint(i), kept: map[int64]bool{}}
		name := sha256.Sum256([]byte(o.identity))
		o.path = filepath.Join(m.dir, hex.EncodeToString(name[:idBytes])+".kept")
		for offset := int64(0); offset < size-15_000; offset += int64(m.rng.IntN(2) * m.rng.IntN(300)) {
			length := []int64{16, 255, 256, 257, 4096, 5000, 15_000}[m.rng.IntN(7)]
			o.ranges = append(o.ranges, [2]int64{offset, length})
			offset += length
		}
		m.objects = append(m.objects, o)
	}
	return m
}

// stored returns what is kept for a range, and its key in the list: the range, or the block of a short one.
func (f *file) stored(r [2]int64) (offset, length, at, key int64) {
	if r[1] >= keptStep {
		return r[0], r[1], keptAt(r[0]), r[0]
	}
	offset, length, at = f.block(r[0])
	return offset, length, at, ^offset
}

// has reports whether a range is kept.
func (f *file) has(r [2]int64) bool {
	offset, length, at, _ := f.stored(r)
	return f.readKept(make([]byte, length), offset, at)
}

// disk measures a file; 0 if it is not there.
func disk(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return 512 * info.Sys().(*syscall.Stat_t).Blocks
}

func (m *modelFolder) used() (used int64) {
	for _, o := range m.objects {
		used += disk(o.path)
	}
	return used
}

// open reports whether a process has an object open.
func (m *modelFolder) open(o *modelObject) bool {
	return slices.ContainsFunc(m.processes, func(p *modelProcess) bool { return p.files[o] != nil })
}

// evictable reports whether a process in want of room may drop an object. Either nobody has it open. Or nobody has read a record of it, and a
// process that has run for a while has it open, or may open it meanwhile.
func (m *modelFolder) evictable(o *modelObject, meanwhile bool) bool {
	idle := !m.open(o)
	for _, p := range m.processes {
		if p.wanted[o] {
			return false
		}
		idle = idle || (p.files[o] != nil || meanwhile) && time.Since(p.opened) > pauseFor
	}
	return idle
}

// start starts a process. If its limit is lower than the others', it may drop anything.
func (m *modelFolder) start() {
	limit := []int64{100 << 10, 200 << 10, 400 << 10, 1 << 30}[m.rng.IntN(4)]
	if len(m.processes) == 0 {
		m.limit, m.over, m.promised, m.harmed = math.MaxInt64, 0, 0, m.inexact
	}
	m.limit = min(m.limit, limit)
	for _, o := range m.objects {
		o.mayGo = m.harmed || m.used()+m.over > m.limit
	}
	c := testenv.Must(Open(m.dir, limit))(m.t)
	m.processes = append(m.processes, &modelProcess{c, map[*modelObject]*file{}, map[*modelObject]bool{}})
}

// stop ends a process, or kills it while it writes: its promise stays.
func (m *modelFolder) stop(i int) {
	p := m.processes[i]
	if m.rng.IntN(3) == 0 {
		p.countLocked(func(t *tally) { t.Used, t.Promised = t.Used+1000, t.Promised+1000 })
		m.over, m.promised = m.over+1000, m.promised+1000
	}
	testenv.OK(m.t, p.Close())
	m.processes = slices.Delete(m.processes, i, i+1)
}

// get opens an object.
func (m *modelFolder) get(p *modelProcess, o *modelObject) {
	f, is := p.Cached(o.store, o.identity, o.identity).(*file)
	if !is {
		m.t.Errorf("object %s is not kept: %v", o.identity, p.unusable)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p.files[o], o.mayGo, o.harmed = f, o.mayGo || o.harmed, false
}

// read reads a range in one of three ways. The bytes are the store's, or the error is.
func (m *modelFolder) read(f *file, o *modelObject, r [2]int64, way int) (kept bool) {
	got, err := make([]byte, r[1]), error(nil)
	switch way {
	case 0:
		_, err = f.ReadAt(got, r[0])
	case 1:
		got, err = f.Fetch(make([]byte, r[1]+storage.FetchRoom), r[0], r[1])
	case 2:
		if !f.ReadKept(got, r[0]) {
			return false
		}
	}
	if err != nil && err != o.err || err == nil && !bytes.Equal(got, o.data[r[0]:r[0]+r[1]]) {
		m.t.Errorf("object %s, range %v: other bytes, or %v where the store says %v", o.identity, r, err, o.err)
	}
	return err == nil
}

// readOne reads a range, and compares with the list where it comes from, and whether it is kept then.
func (m *modelFolder) readOne(p *modelProcess, o *modelObject) {
	f, r, way := p.files[o], o.ranges[m.rng.IntN(len(o.ranges))], m.rng.IntN(3)
	_, length, _, key := f.stored(r)
	t, whole := p.readTally()
	hit, asked, short, free := o.kept[key], o.requests, t.Used+length+4*diskBlock-m.limit, int64(0)
	for _, other := range m.objects {
		other.mayGo = m.evictable(other, false) && (!whole || short > 0)
		if !m.open(other) {
			free += disk(other.path)
		}
	}
	room := whole && (short <= 0 || free >= short && t.Promised == 0 && !m.harmed && !time.Now().Before(p.measureAt))
	ready := f.WillNeed(r[0], r[1])
	had := m.read(f, o, r, way)
	p.wanted[o] = p.wanted[o] || way > 0
	if asked = o.requests - asked; o.torn {
		return
	}
	o.kept[key] = f.has(r)
	comes := hit || way < 2 && o.err == nil
	if ready && !hit && !m.harms || had != comes || (asked > 0) != (!hit && way < 2) || asked > 1 || had && room && !o.kept[key] {
		m.t.Errorf("object %s, range %v read in way %d: kept: %v, ready: %v, read: %v, with %d requests, kept then: %v; "+
			"%d bytes are missing, %d unused", o.identity, r, way, hit, ready, had, asked, o.kept[key], short, free)
	}
}

// readMany opens objects and reads ranges through all processes at the same time, and may remove objects meanwhile.
func (m *modelFolder) readMany() {
	var acts, then []func()
	for _, o := range m.objects {
		o.mayGo = m.evictable(o, true)
	}
	for range 2 + m.rng.IntN(8) {
		p, o := m.processes[m.rng.IntN(len(m.processes))], m.objects[m.rng.IntN(len(m.objects))]
		f, r, way := p.files[o], o.ranges[m.rng.IntN(len(o.ranges))], m.rng.IntN(3)
		if o.mayGo {
			way = max(way, 1) // a record: bytes that are dropped while others are kept of the same object may be counted less
		}
		if f == nil {
			acts = append(acts, func() { m.get(p, o) })
			continue
		}
		acts = append(acts, func() { m.read(f, o, r, way) })
		then = append(then, func() {
			_, _, _, key := f.stored(r)
			p.wanted[o], o.kept[key] = p.wanted[o] || way > 0, o.kept[key] || f.has(r)
		})
	}
	if m.rng.IntN(3) == 0 {
		acts = append(acts, func() { m.remove(true) })
	}
	var all sync.WaitGroup
	for _, act := range acts {
		all.Go(act)
	}
	all.Wait()
	for _, do := range then {
		do()
	}
	m.grows = true // two processes count what both write
}

// forget forgets a range, or a whole object.
func (m *modelFolder) forget(p *modelProcess, o *modelObject) {
	f, r := p.files[o], o.ranges[m.rng.IntN(len(o.ranges))]
	if from, _, _ := f.block(r[0]); m.rng.IntN(3) > 0 {
		f.Forget(r[0], r[1])
		delete(o.kept, r[0])
		delete(o.kept, ^from)
	} else {
		f.Forget(0, f.Size())
		clear(o.kept)
	}
	if f.has(r) {
		m.t.Errorf("object %s, range %v is still kept", o.identity, r)
	}
}

// harm harms an object's file, or the tally.
func (m *modelFolder) harm(o *modelObject) {
	size := m.rng.Int64N(60_000)
	m.grows = true
	switch o.mayGo, o.harmed = true, !m.open(o); m.rng.IntN(4) {
	case 0:
		if o.torn = m.open(o); os.Remove(o.path) == nil && o.torn {
			m.harmed = true
		}
	case 1:
		if disk(o.path) > 0 {
			os.Truncate(o.path, size)
		}
	case 2:
		if file, err := os.OpenFile(o.path, os.O_RDWR, 0); err == nil {
			file.WriteAt(bytes.Repeat([]byte{byte(size)}, 5000), size)
			file.Close()
			m.harmed = true
		}
	case 3:
		testenv.OK(m.t, os.WriteFile(filepath.Join(m.dir, "lock"), make([]byte, m.rng.IntN(30)), 0o600))
		m.limit, m.promised = math.MaxInt64, 0
		for _, p := range m.processes { // Each counts something sooner or later.
			p.countLocked(func(*tally) {})
			m.limit = min(m.limit, p.Max)
		}
	}
}

// remove removes objects as imgfeed cache does, except those that are open; some of them may be opened meanwhile.
func (m *modelFolder) remove(meanwhile bool) {
	look := testenv.Must(Look(m.dir))(m.t)
	defer look.Close()
	for _, info := range look.Objects() {
		err := look.Remove(info)
		if meanwhile {
			continue
		}
		o := m.objects[slices.IndexFunc(m.objects, func(o *modelObject) bool { return filepath.Base(o.path) == info.Name })]
		if o.mayGo = !m.open(o); o.mayGo == errors.Is(err, ErrInUse) || o.mayGo && err != nil {
			m.t.Errorf("object %s is open: %v, and removing it says %v", o.identity, !o.mayGo, err)
		}
	}
}

// step does something at random.
func (m *modelFolder) step() {
	op, o := m.rng.IntN(100), m.objects[m.rng.IntN(len(m.objects))]
	if len(m.processes) == 0 {
		m.start()
		return
	}
	i := m.rng.IntN(len(m.processes))
	p := m.processes[i]
	switch {
	case op < 4 && len(m.processes) < 3:
		m.start()
	case op < 8:
		m.stop(i)
	case op < 18:
		m.readMany()
	case op < 20:
		time.Sleep([]time.Duration{time.Second, pauseFor + time.Second}[m.rng.IntN(2)])
	case op < 24:
		o.err = []error{nil, nil, context.Canceled, syscall.EIO}[m.rng.IntN(4)]
	case op < 26:
		m.remove(false)
	case op < 31 && m.harms:
		m.harm(o)
	case p.files[o] == nil:
		m.get(p, o)
	case op < 36:
		m.forget(p, o)
	default:
		m.readOne(p, o)
	}
}

// compare compares what is kept and counted with the list, once a step is done.
func (m *modelFolder) compare() {
	files := int64(0)
	for _, o := range m.objects {
		_, err := os.Stat(o.path)
		if files += keptName; err != nil && !m.open(o) {
			if len(o.kept) > 0 && !o.mayGo && !o.torn {
				m.t.Errorf("object %s, which is not open, is gone", o.identity)
			}
			clear(o.kept)
			o.torn = false
		}
		for _, p := range m.processes {
			for _, r := range o.ranges {
				f := p.files[o]
				if f == nil || o.torn {
					break
				}
				if _, _, _, key := f.stored(r); o.kept[key] && !f.has(r) {
					if delete(o.kept, key); !o.mayGo {
						m.t.Errorf("object %s, range %v is no longer kept", o.identity, r)
					}
				}
			}
		}
		o.mayGo = false
	}
	if len(m.processes) > 0 {
		t, whole := m.processes[0].readTally()
		used := m.used()
		over := t.Used - used
		grown := over > max(m.over, m.promised) && !m.grows
		if whole && !m.harmed && (over < 0 || grown || t.Promised != m.promised || used > m.limit+files) {
			m.t.Errorf("%d bytes of at most %d are on the disk; the tally says %+v, and said %d more before; %d are promised",
				used, m.limit, t, m.over, m.promised)
		}
		m.over = over
	}
	m.grows = false
}

// end ends all processes, and removes all objects. Nothing else is left.
func (m *modelFolder) end() {
	for len(m.processes) > 0 {
		m.stop(0)
	}
	m.remove(false)
	if left := testenv.Must(os.ReadDir(m.dir))(m.t); len(left) != 1 || left[0].Name() != "lock" {
		m.t.Errorf("files are left over: %v", left)
	}
	for _, e := range testenv.Must(os.ReadDir("/proc/self/fd"))(m.t) {
		if path, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(path, m.dir) {
			m.t.Errorf("%s is still open", path)
		}
	}
}

// TestCacheInterleavings does at random what processes with one folder can do, one after the other, and many reads at the same time. The
// store fails and processes are killed; in every other run files are harmed. It compares each step with a plain list.
func TestCacheInterleavings(t *testing.T) {
	logged(t)
	runs := uint64(400)
	if testing.Short() {
		runs = 12
	}
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) {
			m := newModelFolder(t, seed)
			m.harms = seed%2 == 1
			for step := range 300 {
				m.step()
				m.compare()
				testenv.Require(t, !t.Failed(), "seed %d, step %d", seed, step)
			}
			m.end()
			t.Logf("seed %d", seed)
		})
	}
}

// TestCacheDropsWhileItKeeps drops all ranges of a file again and again while others are kept. Each read gives the right bytes. In the end
// the tally has the bytes that are on the disk, but for the blocks of a file system's own.
func TestCacheDropsWhileItKeeps(t *testing.T) {
	data := numbered(100_001)
	_, c, f := cachedStore(t, data, t.TempDir(), 1<<22)
	readRecords(t, f, data)
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for range 20 {
				readRecords(t, f, data)
			}
		})
	}
	for range 200 {
		f.(*file).Forget(0, f.Size())
		f.(*file).Forget(cachedRecords[5][0], cachedRecords[5][1])
	}
	readers.Wait()
	readRecords(t, f, data)
	used, _, _ := c.Status()
	testenv.Between(t, c.Used(), used-2*diskBlock, used+2*diskBlock, "bytes on the disk, of which %d are said to be there", used)
}

// TestCacheFailureEnds has a disk refuse a write, and take the next ones after the pause: the status no longer says that nothing is kept.
func TestCacheFailureEnds(t *testing.T) {
	_, c, f := cachedStore(t, numbered(64<<10), t.TempDir(), 1<<20)
	full := errors.New("no space left on device")
	c.noteWrite(full)
	_, _, failure := c.Status()
	testenv.Equal(t, failure, full, "the failure")
	c.measureAt = time.Now()
	keepAll(t, f)
	_, _, failure = c.Status()
	testenv.Check(t, failure == nil && c.Used() >= 64<<10, "%d bytes are kept, and the status says: %v", c.Used(), failure)
}

// TestCacheKeepsTheOthers has one of two files that cannot be kept: the status says that nothing is kept only while that is so.
func TestCacheKeepsTheOthers(t *testing.T) {
	dir := t.TempDir()
	c := testenv.Must(Open(dir, 1<<20))(t)
	another(c)
	path := c.path(onlyID(c))
	testenv.OK(t, errors.Join(c.Close(), os.Remove(path), os.Mkdir(path, 0o700)))
	c = testenv.Must(Open(dir, 1<<20))(t)
	defer c.Close()
	s := &store{data: numbered(64 << 10)}
	testenv.Require(t, c.Cached(s, "https://host/b", "b") == s, "a folder stands for an object")
	_, _, failure := c.Status()
	testenv.Check(t, failure != nil, "nothing is kept, and the status does not say why")
	keepAll(t, c.Cached(s, "https://host/a", "a"))
	_, _, failure = c.Status()
	testenv.OK(t, failure, "a file is kept, and the status says")
}
