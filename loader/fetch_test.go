package loader

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// A heldFile answers each Fetch after a token of its channel.
type heldFile struct {
	storage.File
	tokens chan error
}

func (f heldFile) Fetch(buf []byte, _, length int64) ([]byte, error) { return buf[:length], <-f.tokens }

// TestFetchWaits leaves a read that hangs, waits for it again, and uses the fetch once more.
func TestFetchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, ended := heldFile{tokens: make(chan error)}, 0
		var mu sync.Mutex
		f := fetch{ended: func() { mu.Lock(); defer mu.Unlock(); ended++ }}
		for round, want := range []error{nil, errors.ErrUnsupported, nil} {
			f.prepare(storage.Range{File: file, Length: 5}, make([]byte, 10))
			f.begin()
			ctx, cancel := context.WithCancel(t.Context())
			go func() { synctest.Wait(); cancel() }()
			if _, landed, _ := f.wait(ctx); landed {
				t.Errorf("round %d: the read has ended", round)
			}
			file.tokens <- want
			if data, landed, err := f.wait(t.Context()); !landed || len(data) != 5 || err != want {
				t.Errorf("round %d: %d bytes, landed %v: %v", round, len(data), landed, err)
			}
			synctest.Wait()
			if mu.Lock(); ended != round+1 {
				t.Errorf("round %d: %d reads have ended", round, ended)
			}
			mu.Unlock()
		}
	})
}
