package storage

import (
	"bytes"
	"testing"
)

// TestShortRecords reads short records at a time, by a request for each piece of the file while the cache has room, and then by one for each record.
func TestShortRecords(t *testing.T) {
	data := numbered(4*joinedBytes - 1000)
	for _, c := range []struct {
		name        string
		room        int64
		least, most int
	}{
		{"room for all", 2 << 20, 20, 22},
		{"room for one piece", joinedBytes + joinedBytes/2, 10, 300},
		{"a disk that fails", 2 << 20, 300, 320}, // each record alone; pieces only until the first write has failed
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s, cache, f := cachedStore(t, data, dir, c.room)
			if c.name == "a disk that fails" {
				f.(*cachedFile).object.data = dir // no file
			}
			fetches := make([]*Fetch, 300)
			for i := range fetches {
				offset, length := int64(i*3491%(len(data)-shortRecord)), int64(1+i*29%(shortRecord-1))
				fetches[i] = new(Fetch)
				fetches[i].Prepare(f, testMemory(t, shortRecord+FetchRoom+sector), offset, length)
			}
			for _, r := range fetches {
				r.Begin()
			}
			for i, r := range fetches {
				if got, ok, err := r.Wait(t.Context()); !ok || err != nil || !bytes.Equal(got, data[r.Offset:][:r.Length]) {
					t.Fatalf("record %d: %v", i, err)
				}
			}
			if n := len(s.asked()); n < c.least || n > c.most {
				t.Errorf("%d requests, want %d to %d", n, c.least, c.most)
			}
			if cache.Used() > c.room {
				t.Errorf("%d bytes are kept of %d", cache.Used(), c.room)
			}
		})
	}
}

// TestJoin reads around a place by one request.
func TestJoin(t *testing.T) {
	data := numbered(3 * joinedBytes)
	s, _, f := cachedStore(t, data, t.TempDir(), 2<<20)
	for offset := int64(joinedBytes); offset < 2*joinedBytes-100; offset += 4999 {
		f.(Joiner).Join(offset, 100)
		got := make([]byte, 100)
		if _, err := f.ReadAt(got, offset); err != nil || !bytes.Equal(got, data[offset:][:100]) {
			t.Fatal(err)
		}
	}
	if got := s.asked(); len(got) != 1 {
		t.Errorf("requests %q, want one", got)
	}
}
