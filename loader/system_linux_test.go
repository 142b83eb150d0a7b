package loader

import (
	"context"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/loader/readahead"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
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
			return testenv.Must(serve(t, newTestPool(t, 2), StreamConfig{
				Dataset: served, Plan: mustPlan(t, order), Views: transform.Views{spec}, Slots: NewSlotPool(newSlots(3, 7, spec)...),
			}))(t)
		}
		warm := run()
		paths := putOutOfMemory(t, dir)
		t.Logf("%s: %d of %d in memory", stored, atHand(t, served, set.Len()), set.Len())
		compareEpochs(t, stored+" from the disk", run(), warm)
		n := atHand(t, served, set.Len())
		testenv.Check(t, n >= set.Len()-2*64*len(paths),
			"%s: %d of %d are in memory after an epoch, which has room for all", stored, n, set.Len())
	}
}

func atHand(t *testing.T, set sampleSet, samples int) (n int) {
	t.Helper()
	for i := range samples {
		need := testenv.Must(set.WillNeed(i))(t)
		if need.Ready {
			n++
		}
	}
	return n
}

// putOutOfMemory returns the paths of a set's shards, which the page cache holds no longer.
func putOutOfMemory(t *testing.T, dir string) []string {
	t.Helper()
	paths := testenv.Must(filepath.Glob(filepath.Join(dir, "*", "*.imgshard")))(t)
	for _, path := range paths {
		f := testenv.Must(os.Open(path))(t)
		f.Sync() // dirty pages stay
		unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		f.Close()
	}
	return paths
}

// A directSet is read past a page cache that has no room.
type directSet struct {
	*Dataset
	files map[string]storage.File // by the path of the shard
}

func newDirectSet(t *testing.T, set *shard.Set, served *Dataset) *directSet {
	t.Helper()
	folder := storage.NewFolder(set.Dir())
	folder.Memory = func() int64 { return 0 }
	d := &directSet{served, map[string]storage.File{}}
	for _, path := range putOutOfMemory(t, set.Dir()) {
		name := testenv.Must(filepath.Rel(set.Dir(), path))(t)
		f := testenv.Opened(folder.Open(name, -1, ""))(t)
		d.files[name] = f
	}
	return d
}

func (d *directSet) find(i int) (f storage.File, e shard.Entry, length int64, err error) {
	at, err := d.Set.Locate(i)
	if err == nil {
		e, err = d.Set.Entry(i)
	}
	return d.files[at.Path], e, int64(e.ImageLength) + int64(e.AuxLength) + int64(e.FieldsLength), err
}

func (d *directSet) WillNeed(i int) (shard.Need, error) {
	f, e, length, err := d.find(i)
	if err != nil || f.WillNeed(e.Offset, length) {
		return shard.Need{Ready: true}, err
	}
	return shard.Need{Bytes: int(length) + storage.FetchRoom + shard.SlackBytes, ReadsMax: f.ReadsMax()}, nil
}

func (d *directSet) Fetch(i int, buf []byte) ([]byte, error) {
	f, e, length, err := d.find(i)
	if err != nil {
		return nil, err
	}
	return f.Fetch(buf, e.Offset, length)
}

func (d *directSet) Check(i int, bytes []byte, err error) (shard.Record, error) {
	_, e, length, findErr := d.find(i)
	if findErr != nil {
		return shard.Record{}, findErr
	}
	if err != nil || crc32.Checksum(bytes, crc32.MakeTable(crc32.Castagnoli)) != e.Checksum {
		record, _, err := d.Dataset.Record(i, nil, false)
		return record, err
	}
	clear(bytes[length : length+shard.SlackBytes])
	aux := e.ImageLength + e.AuxLength
	return shard.Record{Entry: e, Image: bytes[:e.ImageLength], Aux: bytes[e.ImageLength:aux], Fields: bytes[aux:length]}, nil
}

// TestDirectlyFromTheDisk serves a set that the page cache has no room for: all of it, parts that are left while reads are under way,
// and a shard that is cut short.
func TestDirectlyFromTheDisk(t *testing.T) {
	const samples = 400
	dir := writeSet(t, "jpeg", samples, 2, 40, 30)
	set, served := openTestSet(t, dir)
	spec := mustSpec(t, `[{"op":"RandomResizedCrop","size":24}]`)
	order := plan.Config{Samples: set.Len(), Partitions: set.Partitions(), BatchSize: 7, Shuffle: true, Seed: 5}
	var reading atomic.Int64
	pool := NewPool(PoolConfig{Threads: 3, Reading: func(processors int) { reading.Store(int64(processors)) }})
	defer pool.Close()
	config := func(set sampleSet) StreamConfig {
		return StreamConfig{Dataset: set, Plan: mustPlan(t, order), Views: transform.Views{spec}, Slots: NewSlotPool(newSlots(3, 7, spec)...)}
	}
	warm := testenv.Must(serve(t, pool, config(served)))(t)
	direct := newDirectSet(t, set, served)
	if n := atHand(t, direct, samples); n > samples/2 {
		t.Skipf("%d of %d samples stay in memory here", n, samples)
	}
	for range 3 {
		putOutOfMemory(t, dir)
		compareEpochs(t, "from the disk", testenv.Must(serve(t, pool, config(direct)))(t), warm)
	}
	for batches := range 20 {
		putOutOfMemory(t, dir)
		cfg := config(direct)
		stream := testenv.Must(pool.NewStream(cfg))(t)
		for range batches {
			b := testenv.Must(stream.Next(context.Background()))(t)
			cfg.Slots.Put(b.Slot)
		}
		stream.Close()
	}
	testenv.Until(t, func() bool { return reading.Load() == 0 })

	paths := putOutOfMemory(t, dir)
	testenv.OK(t, os.Truncate(paths[0], testenv.Must(os.Stat(paths[0]))(t).Size()/2))
	_, err := serve(t, pool, config(direct))
	var bad *SampleError
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), paths[0]) {
		t.Errorf("of a shard that was cut short: %v", err)
	} else {
		t.Log(err)
	}
}

// TestTurnCostsProcessorTimeAndReads makes a batch of two samples, in a turn that is interrupted for an hour of the test's clock after
// each of them. The turn costs the two reads of a minute, and the processor time, which the test's clock does not rule.
func TestTurnCostsProcessorTimeAndReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{scheduler: newScheduler(), counters: make([]*counters, 1), ahead: readahead.NewPool(readAheadBytes, nil)} // without workers
		set := newMemorySet(t, 2)
		set.bad[0], set.bad[1] = errors.New("bad"), errors.New("bad")
		set.delay = time.Minute
		cfg := testStream(t, set, plan.Config{Samples: 2, BatchSize: 2}, 1)
		cfg.OnError, cfg.Bad = Blank, func(BadSample) { time.Sleep(time.Hour) }
		stream := openStream(t, p, cfg)
		runtime.LockOSThread() // its clock is read
		defer runtime.UnlockOSThread()
		turn := p.scheduler.next(localWorker{}, turn{}, new(counters))
		turn.work.work(p.newWorker(new(counters)), &turn)
		testenv.Check(t, turn.cost > 2*set.delay && turn.cost <= 3*set.delay && time.Since(turn.began) == 2*(set.delay+time.Hour),
			"a turn of %v costs %v", time.Since(turn.began), turn.cost)
		p.scheduler.mu.Lock()
		p.scheduler.leaveLocked(turn)
		p.scheduler.mu.Unlock()
		testenv.Check(t, stream.queue.account == turn.cost, "the turn costs %v, and its stream has paid %v", turn.cost, stream.queue.account)
	})
}
