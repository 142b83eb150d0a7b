package storage

import (
	"testing"
	"time"
)

// TestClientsShareNothing reads one file by two clients, of which only one has a cache and a limit.
func TestClientsShareNothing(t *testing.T) {
	s := newStore(t)
	s.files["set/a"] = numbered(100)
	a, b := NewClient(), NewClient()
	cache, err := OpenCache(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	a.Cache, a.Timeout = cache, time.Second
	a.PinRequests(3)
	for range 2 {
		for _, c := range []*Client{a, b} {
			at, err := c.At(s.URL + "/set")
			if err != nil {
				t.Fatal(err)
			}
			f, err := at.Open("a", 100, "identity")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.ReadAt(make([]byte, 100), 0); err != nil {
				t.Error(err)
			}
			f.Close()
		}
	}
	if a, b := a.Counts.Requests.Load(), b.Counts.Requests.Load(); a != 1 || b != 2 {
		t.Errorf("%d and %d requests, want 1 and 2", a, b)
	}
	if a.RequestsMax() != 3 || b.RequestsMax() == 3 || a.files == b.files || a.web == b.web {
		t.Error("they share a limit, descriptors or connections")
	}
}
