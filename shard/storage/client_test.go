package storage

import (
	"bytes"
	"io"
	"testing"
	"time"
)

// A memoryCache keeps the bytes of files, by their identity.
type memoryCache map[string][]byte

func (c memoryCache) Cached(f File, _, identity string) File {
	data, kept := c[identity]
	if !kept {
		data = make([]byte, f.Size())
		f.ReadAt(data, 0)
		c[identity] = data
	}
	return memoryFile{f, bytes.NewReader(data)}
}

// A memoryFile is read from memory.
type memoryFile struct {
	File
	data io.ReaderAt
}

func (f memoryFile) ReadAt(p []byte, offset int64) (int, error) { return f.data.ReadAt(p, offset) }

// TestClientsShareNothing reads one file by two clients, of which only one has a cache and a limit.
func TestClientsShareNothing(t *testing.T) {
	s := newStore(t)
	s.files["set/a"] = numbered(100)
	a, b := NewClient(), NewClient()
	a.Cache, a.Timeout = memoryCache{}, time.Second
	a.SetRequestsMax(3)
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
	if a.RequestsMax() != 3 || b.RequestsMax() == 3 || a.web == b.web {
		t.Error("they share a limit or connections")
	}
}
