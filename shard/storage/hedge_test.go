package storage

import (
	"bytes"
	"net/http"
	"testing"
	"time"
)

// forget begins to learn anew.
func (l *latency) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learned, l.allowed = 0, 0
}

// TestSecondRequest reads on while a storage never answers some requests, and sends few more than those.
func TestSecondRequest(t *testing.T) {
	s := newStore(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	s.files["x"] = data
	at, err := At(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	file, err := at.Open("x", int64(len(data)), "")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	defer close(over)
	hang := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done(): // the request has lost
		}
	}
	hedged := RemoteCounts.Hedged.Load()
	const reads, slow = 400, 6
	for i := range reads {
		if i >= hedgeLearned && i%50 == 0 {
			s.fail(hang)
		}
		p := make([]byte, 1000)
		offset := int64(37 * i % (len(data) - len(p)))
		if _, err := file.ReadAt(p, offset); err != nil || !bytes.Equal(p, data[offset:][:len(p)]) {
			t.Fatalf("read %d: %v", i, err)
		}
	}
	if n := RemoteCounts.Hedged.Load() - hedged; n < slow || n > reads/20 {
		t.Errorf("%d second requests of %d, %d of them slow", n, reads, slow)
	}
}

// TestSlowRequests learns what is slow of requests of two kinds, and allows few second ones.
func TestSlowRequests(t *testing.T) {
	var l latency
	for i := range 5000 {
		took := 100 * time.Millisecond
		if i%10 == 0 {
			took = time.Second
		}
		l.note(took)
	}
	if got := l.slow(); got < 700*time.Millisecond || got > 1300*time.Millisecond {
		t.Errorf("%v is slow, where a tenth takes a second", got)
	}
	for range 5000 {
		l.note(100 * time.Millisecond)
	}
	if got := l.slow(); got < 280*time.Millisecond || got > 330*time.Millisecond {
		t.Errorf("%v is slow, where all take 100 ms", got)
	}
	n := 0
	for l.take() {
		n++
	}
	if n != hedgesAtOnce {
		t.Errorf("%d second requests at once", n)
	}
}
