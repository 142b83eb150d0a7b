package server

import (
	"errors"
	"testing"
)

func TestAutomaticSlots(t *testing.T) {
	const batch = 38_547_456 // 256 × 224 × 224
	for _, c := range []struct {
		name      string
		max, used int64
		slotBytes int64
		want      int
	}{
		{"as many as fit 512 MiB", 64 << 30, 0, batch, 13},
		{"no more than a loop can use", 64 << 30, 0, 4096, 16},
		{"three of the largest", 64 << 30, 0, 1 << 30, 3},
		{"half of what is left when memory is short", 20 * batch, 10 * batch, batch, 5},
		{"three at least, where there is room", 10 * batch, 5 * batch, batch, 3},
		{"two at least", 2 * batch, 0, batch, 2},
	} {
		b := budget{max: c.max, used: c.used}
		if got, err := b.take(0, autoSlotsShort, c.slotBytes); err != nil || got != c.want {
			t.Errorf("%s: %d, %v; want %d", c.name, got, err, c.want)
		}
		if got, want := b.inUse(), c.used+int64(c.want)*c.slotBytes; got != want {
			t.Errorf("%s: %d bytes are in use, want %d", c.name, got, want)
		}
	}
	b := budget{max: 2*batch - 1}
	var limit *limitError
	if got, err := b.take(0, autoSlotsShort, batch); !errors.As(err, &limit) || b.inUse() != 0 {
		t.Errorf("got %d slots and %v where one fits, with %d bytes in use; want a limitError", got, err, b.inUse())
	}
}

// TestPrefetchBytes is a sixteenth of the memory, within bounds, or what was asked for.
func TestPrefetchBytes(t *testing.T) {
	for _, c := range []struct{ wish, memory, want int64 }{
		{0, 8 << 20, 0}, {0, 64 << 20, 4 << 20}, {0, 2 << 30, 128 << 20}, {0, 1 << 40, 256 << 20},
		{1 << 30, 8 << 30, 1 << 30}, {1 << 30, 1 << 30, 512 << 20}, {1 << 20, 8 << 30, 1 << 20},
	} {
		if got := prefetchBytes(c.wish, c.memory); got != c.want {
			t.Errorf("of %d bytes, with the wish of %d, it is %d, want %d", c.memory, c.wish, got, c.want)
		}
	}
}
