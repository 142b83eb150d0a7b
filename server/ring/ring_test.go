package ring

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLayoutExample(t *testing.T) {
	got, err := NewLayout(256, 224, 224, 3, true)
	if err != nil {
		t.Fatal(err)
	}
	want := Layout{BatchSize: 256, SampleBytes: 150528, WithParams: true, Labels: 38535168, Indices: 38537216, Params: 38539264, Size: 38547456}
	if os.Getpagesize() == 4096 && got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestLayoutKeepsArraysApart(t *testing.T) {
	for _, withParams := range []bool{false, true} {
		for batch := 1; batch < 70; batch++ {
			l, err := NewLayout(batch, 3, 5, 3, withParams)
			if err != nil {
				t.Fatal(err)
			}
			slot := make([]byte, l.Size)
			images, labels, indices, params := l.Arrays(slot, batch)
			for i, a := range [][]byte{images, labels, indices, params} {
				for j := range a {
					if a[j] != 0 {
						t.Fatalf("batch %d: array %d overlaps another", batch, i)
					}
					a[j] = byte(i + 1)
				}
			}
			if l.Labels%64 != 0 || l.Indices%64 != 0 || l.Params%64 != 0 || l.Size%int64(os.Getpagesize()) != 0 {
				t.Errorf("batch %d: not aligned: %+v", batch, l)
			}
			if sum := len(images) + len(labels) + len(indices) + len(params); int64(sum) != l.BatchBytes(batch) {
				t.Errorf("batch %d: BatchBytes %d, the arrays have %d", batch, l.BatchBytes(batch), sum)
			}
		}
	}
}

func TestLayoutRefusesImpossibleSizes(t *testing.T) {
	var size *SizeError
	for _, s := range [][4]int{{0, 1, 1, 1}, {-1, 1, 1, 1}, {1, 0, 1, 3}, {1, 1, -5, 3}, {math.MaxInt, 224, 224, 3}, {1, math.MaxInt, math.MaxInt, 3}, {1 << 40, 1 << 20, 1 << 20, 3}} {
		if l, err := NewLayout(s[0], s[1], s[2], s[3], true); !errors.As(err, &size) {
			t.Errorf("%v: %+v, %v; want a SizeError", s, l, err)
		}
	}
	for _, s := range []struct {
		slots int
		size  int64
	}{{0, 4096}, {-1, 4096}, {1, 0}, {1, 100}, {math.MaxInt, 1 << 30}} {
		if _, err := New(s.slots, s.size); !errors.As(err, &size) {
			t.Errorf("New(%d, %d): %v, want a SizeError", s.slots, s.size, err)
		}
	}
}

func page() int64 { return int64(os.Getpagesize()) }

func TestSlotsGoRound(t *testing.T) {
	r, err := New(2, page())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx := t.Context()
	a, _ := r.Acquire(ctx)
	b, _ := r.Acquire(ctx)
	if a != 0 || b != 1 {
		t.Fatalf("acquired %d and %d, want 0 and 1", a, b)
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := r.Acquire(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a third slot of two: %v", err)
	}
	r.Lend(a)
	r.Abandon(b)
	if free, lent := r.Count(); free != 1 || lent != 1 {
		t.Errorf("%d free, %d lent; want 1 and 1", free, lent)
	}
	if err := r.Release(a); err != nil {
		t.Error(err)
	}
	for _, want := range []int{b, a} {
		if got, err := r.Acquire(ctx); got != want || err != nil {
			t.Errorf("got slot %d, %v; want %d", got, err, want)
		}
	}
}

func TestReleaseOnlyWhatIsLent(t *testing.T) {
	r, err := New(3, page())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	filled, _ := r.Acquire(t.Context())
	lent, _ := r.Acquire(t.Context())
	r.Lend(lent)
	for slot, want := range map[int]string{-1: "no slot", 3: "no slot", math.MaxInt: "no slot", 2: "not lent", filled: "not lent"} {
		var se *SlotError
		if err := r.Release(slot); !errors.As(err, &se) || !strings.Contains(err.Error(), want) {
			t.Errorf("release of slot %d: %v, want %q", slot, err, want)
		}
	}
	if err := r.Release(lent); err != nil {
		t.Error(err)
	}
	if err := r.Release(lent); err == nil {
		t.Error("a slot was released twice")
	}
}

func TestFileIsSealedAndShared(t *testing.T) {
	r, err := New(2, page())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fd := int(r.File().Fd())
	for _, size := range []int64{0, page(), 4 * page()} {
		if err := unix.Ftruncate(fd, size); err == nil {
			t.Errorf("a client could resize the ring to %d bytes", size)
		}
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err == nil {
		t.Error("a client could add a seal")
	}
	slot, _ := r.Acquire(t.Context())
	copy(r.Bytes(slot), "pixels")
	client, err := unix.Mmap(fd, 0, int(r.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(client)
	if got := string(client[:6]); got != "pixels" {
		t.Errorf("the client sees %q", got)
	}
	// A client that punches a hole into its memory loses its own pixels; the server writes on.
	if err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, r.Size()); err != nil {
		t.Fatal(err)
	}
	copy(r.Bytes(slot), "again!")
	if got := string(client[:6]); got != "again!" {
		t.Errorf("after the hole the client sees %q", got)
	}
}

func TestCloseWaitsForFillers(t *testing.T) {
	for _, private := range []bool{false, true} {
		make := New
		if private {
			make = NewPrivate
		}
		r, err := make(3, page())
		if err != nil {
			t.Fatal(err)
		}
		first, _ := r.Acquire(t.Context())
		second, _ := r.Acquire(t.Context())
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		copy(r.Bytes(first), "late") // would be a fault if the memory were gone
		r.Lend(first)
		copy(r.Bytes(second), "later")
		r.Abandon(second)
		if r.mem != nil {
			t.Error("the memory is still mapped after the last filler")
		}
		if _, err := r.Acquire(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Acquire of a closed ring: %v", err)
		}
		if err := r.Release(first); !errors.Is(err, ErrClosed) {
			t.Errorf("Release of a closed ring: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	}
}

func TestCloseWakesAcquire(t *testing.T) {
	r, err := NewPrivate(1, page())
	if err != nil {
		t.Fatal(err)
	}
	slot, _ := r.Acquire(t.Context())
	done := make(chan error)
	go func() { _, err := r.Acquire(context.Background()); done <- err }()
	time.Sleep(time.Millisecond)
	r.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("Acquire: %v, want ErrClosed", err)
	}
	r.Abandon(slot)
}
