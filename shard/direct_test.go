package shard

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"
)

// newTestDirect skips the test where records can't be read ahead into memory.
func newTestDirect(t *testing.T, s *Set, bytes int64, count int) *Direct {
	t.Helper()
	d, err := s.NewDirect(bytes, count)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(d.Close)
	return d
}

// TestDirect has records read ahead, past the page cache and through it, by the system and by threads, more than there is room for at a time,
// and compares them with those that Read gives.
func TestDirect(t *testing.T) {
	t.Run("system", func(t *testing.T) { testDirect(t, false) })
	t.Run("threads", func(t *testing.T) { testDirect(t, true) })
}

func testDirect(t *testing.T, threads bool) {
	samples := makeSamples(100)
	for i := range samples { // of several pages, where their ends lie anywhere in a page
		samples[i].Image = bytes.Repeat(samples[i].Image, 1+i*97%60)
	}
	s := openSet(t, writeSet(t, samples, testOptions(2)))
	d := newTestDirect(t, s, 128<<10, 16)
	if threads && d.ring != nil {
		d.ring.close()
		d.ring = nil
	}
	rng := rand.New(rand.NewPCG(1, 2))
	first, next := int64(0), int64(0)
	wants, passed := map[int64]int{}, map[int64]bool{}
	var buf []byte
	take := func() {
		t.Helper()
		n := first
		if first++; passed[n] {
			if _, held, _ := d.Take(n); held {
				t.Fatalf("number %d was read although it was passed over", n)
			}
			return
		}
		i := wants[n]
		want, b, err := s.Read(i, buf)
		if err != nil {
			t.Fatal(err)
		}
		buf = b
		got, held, err := d.Take(n)
		if err != nil || !held {
			t.Fatalf("number %d: held %v, %v", n, held, err)
		}
		if got.Entry != want.Entry || !bytes.Equal(got.Image, want.Image) || !bytes.Equal(got.Aux, want.Aux) || !bytes.Equal(got.Fields, want.Fields) {
			t.Fatalf("number %d: sample %d is another one", n, i)
		}
		for _, b := range got.Fields[len(got.Fields) : len(got.Fields)+SlackBytes] {
			if b != 0 {
				t.Fatalf("number %d: %d behind the record", n, b)
			}
		}
		if _, held, _ := d.Take(n); held {
			t.Fatalf("number %d was taken twice", n)
		}
		d.Release(n)
	}
	full := 0
	for next < 2000 {
		wants[next] = rng.IntN(len(samples))
		if rng.IntN(20) == 0 { // somebody wants it before it is started
			if _, held, _ := d.Take(next); held {
				t.Fatal("a number was taken that was not started")
			}
			if size, err := d.Start(next, wants[next], false); size == 0 || err != nil {
				t.Fatal(size, err)
			}
			passed[next] = true
			next++
			continue
		}
		size, err := d.Start(next, wants[next], rng.IntN(2) == 0)
		if err != nil {
			t.Fatal(err)
		}
		if size == 0 {
			full++
			if first == next {
				t.Fatal("there is no room, and nothing is held")
			}
			take()
			continue
		}
		next++
	}
	for first < next {
		take()
	}
	if full < 100 {
		t.Errorf("there was no room %d times only", full)
	}
	for _, cached := range []bool{false, true} {
		if n := testing.AllocsPerRun(50, func() {
			if _, err := d.Start(next, 7, cached); err != nil {
				t.Fatal(err)
			}
			d.Take(next)
			d.Release(next)
			next++
		}); n > 0 {
			t.Errorf("cached %v: a read takes %v allocations", cached, n)
		}
	}
	d.Close() // once more does nothing
}

// TestDirectOfDamage leaves it to Read to say what is wrong with a record, and with a file that was cut short.
func TestDirectOfDamage(t *testing.T) {
	samples := makeSamples(8)
	s := openSet(t, writeSet(t, samples, testOptions(1)))
	d := newTestDirect(t, s, 1<<20, 16)
	r, record, err := s.reader(6)
	if err != nil {
		t.Fatal(err)
	}
	e, err := r.Entry(record)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(r.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("damage"), e.Offset+2); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	check := func(n int64, i int) {
		t.Helper()
		if _, err := d.Start(n, i, n == 2); err != nil {
			t.Fatal(err)
		}
		if _, held, err := d.Take(n); !held || err == nil {
			t.Errorf("sample %d: held %v, %v", i, held, err)
		}
		d.Release(n)
		_, _, err := s.Read(i, nil)
		if c, ok := errors.AsType[*CorruptError](err); !ok || c.Index != i {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	check(1, 6)
	if err := f.Truncate(e.Offset + 1); err != nil {
		t.Fatal(err)
	}
	check(2, 6)
	if _, err := d.Start(3, len(samples), false); !errors.Is(err, ErrNotFound) {
		t.Errorf("a sample that there is not: %v", err)
	}
	if err := os.Rename(r.path, r.path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path, []byte("another"), 0o666); err != nil {
		t.Fatal(err)
	}
	r.direct.file.mu.Lock()
	r.direct.file.shut() // as if its descriptor had been needed
	r.direct.file.mu.Unlock()
	d.Start(4, 5, false)
	if _, _, err := d.Take(4); err != nil {
		t.Errorf("a file that was replaced, and is open: %v", err)
	}
}

// TestDirectIsForRecordsThatFit refuses one that is larger than half of its memory.
func TestDirectIsForRecordsThatFit(t *testing.T) {
	samples := makeSamples(2)
	samples[1].Image = make([]byte, 100_000)
	s := openSet(t, writeSet(t, samples, testOptions(1)))
	d := newTestDirect(t, s, 64<<10, 4)
	if _, err := d.Start(1, 1, false); !errors.Is(err, errNotDirect) {
		t.Error(err)
	}
}

// TestDirectThatBlocks leaves reads to threads on a file system where to start one takes as long as it does.
func TestDirectThatBlocks(t *testing.T) {
	samples := makeSamples(32)
	s := openSet(t, writeSet(t, samples, testOptions(1)))
	d := newTestDirect(t, s, 2<<20, 64)
	if d.ring == nil {
		t.Skip("the system has no asynchronous reads here")
	}
	d.slow = true
	submitted := 0
	d.submit = func(f *os.File) error {
		submitted++
		time.Sleep(2 * blockedAbove)
		return d.ring.submit(f)
	}
	for i := range samples {
		if size, err := d.Start(int64(i), i, false); size == 0 || err != nil {
			t.Fatal(i, size, err)
		}
		want, _, err := s.Read(i, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, held, err := d.Take(int64(i)); err != nil || !held || !bytes.Equal(got.Image, want.Image) {
			t.Fatal(i, held, err)
		}
		d.Release(int64(i))
	}
	if submitted != blockedMax {
		t.Errorf("%d of %d reads were left to the system", submitted, len(samples))
	}
}

// TestDirectDropsWhatIsNotBegun closes while reads wait for a disk that has stopped, of which no more may be begun.
func TestDirectDropsWhatIsNotBegun(t *testing.T) {
	samples := makeSamples(64)
	s := openSet(t, writeSet(t, samples, testOptions(1)))
	d := newTestDirect(t, s, 2<<20, 64)
	d.ring = nil // threads do all
	r, _, err := s.reader(0)
	if err != nil {
		t.Fatal(err)
	}
	file := r.file.(*pooledFile)
	file.scatter()
	file.mu.Lock() // nobody gets at the file
	file.used.Store(true)
	for i := range samples {
		if size, err := d.Start(int64(i), i, true); size == 0 || err != nil {
			t.Fatal(i, size, err)
		}
	}
	closed := make(chan struct{})
	go func() { d.Close(); close(closed) }()
	for !d.threads.ended.Load() {
		runtime.Gosched()
	}
	file.mu.Unlock()
	<-closed
	read := 0
	for i := range d.transfers {
		if d.transfers[i].result >= 0 {
			read++
		}
	}
	if read > d.threads.most {
		t.Errorf("%d of %d reads were done, and %d had been begun", read, len(samples), d.threads.most)
	}
}
