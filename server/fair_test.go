package server

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// costly takes long enough for the workers to be what all wait for: about 0.2 ms.
var costly = json.RawMessage(`[{"op":"Resize","size":[80,80]},{"op":"ColorJitter","hue":0.5},{"op":"CenterCrop","size":1}]`)

// TestSessionsShareByTime has 64 sessions of different batches, all of which want what they can get, beside four that are hostile: each
// of the 64 gets about as many images, which take as long. How long a sample takes is measured, on a machine that may have other work.
func TestSessionsShareByTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of all processors")
	}
	const samples = 1 << 10
	ts := startServer(t, oneSet(t, samples, 1), func(c *Config) { c.Threads = 1 })
	counts := make([]atomic.Int64, 64)
	sizes := []int{1, 2, 4, 8}
	list := make([]int64, 1<<14)
	for i := range list {
		list[i] = int64(i % samples)
	}
	hostile(ts)
	clients := make([]*client, len(counts))
	for i := range clients {
		c := ts.dial().hello().open(openRequest{BatchSize: sizes[i%len(sizes)], Transform: costly, Slots: 16 / sizes[i%len(sizes)], Selects: true})
		c.choose(selectRequest{}, list, nil)
		expect[selectedReply](c)
		clients[i] = c
	}
	for i, c := range clients { // so that none has the server for itself for long, and comes to its epoch's end
		c.start(startRequest{})
		go c.consume(&counts[i])
	}
	taken := func() (n []float64, mean float64) {
		for i := range counts {
			n = append(n, float64(counts[i].Load()))
			mean += n[i] / float64(len(counts))
		}
		return n, mean
	}
	for n, _ := taken(); slices.Min(n) < 30; n, _ = taken() { // until all run
		time.Sleep(10 * time.Millisecond)
	}
	// What a sample takes is an estimate, and a busy machine makes it coarser for a while: then another while is tried.
	var uneven []string
	for range 20 {
		before, begun := taken()
		now, mean := taken()
		for ; mean < begun+150; now, mean = taken() {
			time.Sleep(10 * time.Millisecond)
		}
		uneven = nil
		for i := range now {
			if got := now[i] - before[i]; math.Abs(got-(mean-begun)) > 0.35*(mean-begun) {
				uneven = append(uneven, fmt.Sprintf("session %d, batches of %d: %.0f images, the mean is %.0f", i, sizes[i%len(sizes)], got, mean-begun))
			}
		}
		if uneven == nil {
			return
		}
	}
	t.Error(strings.Join(uneven, "\n"))
}

// consume gives every batch back at once, and counts images, until the connection ends.
func (c *client) consume(images *atomic.Int64) {
	for {
		text, err := c.frames.Next()
		if err != nil {
			return
		}
		_, m, err := replies.DecodeReply(text)
		if b, ok := m.(batchMessage); ok && err == nil {
			images.Add(int64(b.Count))
			frame, _ := appendFrame(nil, releaseRequest{Slot: *b.Slot})
			if _, err := c.conn.Write(frame); err != nil {
				return
			}
		}
	}
}

// hostile opens four sessions of the split train, whose epochs run until they are closed. The first reads nothing, the second gives no slot
// back, the third floods the server with questions, and the fourth gives back slots that it does not have.
func hostile(ts *testServer) []*client {
	large := json.RawMessage(`[{"op":"Resize","size":[64,64]}]`)
	stalls := ts.dial().hello().open(openRequest{Split: "train", BatchSize: 100, Transform: large, Transport: transportSocket})
	holds := ts.dial().hello().open(openRequest{Split: "train", BatchSize: 16, Slots: 16})
	floods := ts.dial().hello().open(openRequest{Split: "train", BatchSize: 1, Slots: 1})
	lies := ts.dial().hello().open(openRequest{Split: "train", BatchSize: 1, Slots: 1})
	all := []*client{stalls, holds, floods, lies}
	for _, c := range all {
		c.send(startRequest{})
	}
	for c, m := range map[*client]any{floods: statsRequest{}, lies: releaseRequest{Slot: 7}} {
		frame, _ := appendFrame(nil, m)
		go func() {
			for _, err := c.conn.Write(frame); err == nil; _, err = c.conn.Write(frame) {
			}
		}()
		go func() {
			for _, err := c.frames.Next(); err == nil; _, err = c.frames.Next() {
			}
		}()
	}
	return all
}
