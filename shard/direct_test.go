package shard

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
)

// newTestDirect skips the test where files can't be read past the page cache.
func newTestDirect(t *testing.T, s *Set, bytes int64, count int) *Direct {
	t.Helper()
	d, err := s.NewDirect(bytes, count)
	if err == nil {
		_, err = d.Start(0, 0)
		if err != nil {
			d.Close()
		}
	}
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(d.Close)
	if _, held, err := d.Take(0); !held || err != nil {
		t.Fatal(held, err)
	}
	d.Release(0)
	return d
}

// TestDirect has records read past the page cache, more than there is room for at a time, and compares them with those that Read gives.
func TestDirect(t *testing.T) {
	samples := makeSamples(100)
	for i := range samples { // of several pages, where their ends lie anywhere in a page
		samples[i].Image = bytes.Repeat(samples[i].Image, 1+i*97%60)
	}
	s := openSet(t, writeSet(t, samples, testOptions(2)))
	d := newTestDirect(t, s, 128<<10, 16)
	rng := rand.New(rand.NewPCG(1, 2))
	first, next := int64(1), int64(1)
	wants := map[int64]int{}
	var buf []byte
	take := func() {
		t.Helper()
		n := first
		first++
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
		size, err := d.Start(next, wants[next])
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
		if next++; rng.IntN(20) == 0 {
			d.Abandon(first)
			if _, held, _ := d.Take(first); held {
				t.Fatal("an abandoned number was taken")
			}
			first++
		}
	}
	for first < next {
		take()
	}
	if full < 100 {
		t.Errorf("there was no room %d times only", full)
	}
	if n := testing.AllocsPerRun(50, func() {
		if _, err := d.Start(next, 7); err != nil {
			t.Fatal(err)
		}
		d.Take(next)
		d.Release(next)
		next++
	}); n > 0 {
		t.Errorf("a read takes %v allocations", n)
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
		if _, err := d.Start(n, i); err != nil {
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
	if _, err := d.Start(3, len(samples)); !errors.Is(err, ErrNotFound) {
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
	if _, err := d.Start(4, 5); !errors.Is(err, errNotDirect) && !errors.Is(err, errReplaced) {
		t.Errorf("a file that was replaced: %v", err)
	}
}

// TestDirectIsForRecordsThatFit refuses one that is larger than half of its memory.
func TestDirectIsForRecordsThatFit(t *testing.T) {
	samples := makeSamples(2)
	samples[1].Image = make([]byte, 100_000)
	s := openSet(t, writeSet(t, samples, testOptions(1)))
	d := newTestDirect(t, s, 64<<10, 4)
	if _, err := d.Start(1, 1); !errors.Is(err, errNotDirect) {
		t.Error(err)
	}
}
