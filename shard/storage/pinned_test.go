package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// replaced is a storage whose object is another one at each request, and has no version to ask for before the first answer. It answers
// only once so many requests have come.
type replaced struct {
	came sync.WaitGroup
	mu   sync.Mutex
	next byte // version and content of the next answer
}

func (r *replaced) origin(string) string { return "" }

func (r *replaced) get(_ context.Context, _ string, _, length int64, version string) (*object, error) {
	r.came.Done()
	r.came.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	if version != "" {
		return nil, errors.New("a request came after the first answer")
	}
	body := io.NopCloser(bytes.NewReader(bytes.Repeat([]byte{r.next}, int(length))))
	return &object{body: body, size: length, version: string('a' + r.next)}, nil
}

// TestFirstAnswersOfTwoObjects reads a file by several requests at once, while it is replaced: one object is read, and the others are errors.
func TestFirstAnswersOfTwoObjects(t *testing.T) {
	const readers = 4
	objects := &replaced{}
	objects.came.Add(readers)
	c := NewClient()
	f := &remoteFile{remote: &remote{client: c, address: "s3://b", objects: objects, gate: newGate(c), outage: outage{client: c}}, name: "x", size: -1}
	var read [readers][]byte
	var running sync.WaitGroup
	for i := range readers {
		running.Go(func() {
			p := make([]byte, 8)
			if _, err := f.ReadAt(p, 0); err == nil {
				read[i] = p
			} else if !errors.Is(err, ErrReplaced) {
				t.Error(err)
			}
		})
	}
	running.Wait()
	var whole []byte
	for _, p := range read {
		whole = append(whole, p...)
	}
	testenv.Check(t, len(whole) == 8 && f.version == string('a'+whole[0]), "read %v, and the file is of version %s", read, f.version)
}
