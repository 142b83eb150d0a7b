package server

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestLaterSessionsGetSlots opens one session after the other until the memory is used up: the earlier ones shrink.
func TestLaterSessionsGetSlots(t *testing.T) {
	dir := t.TempDir()
	writeSet(t, filepath.Join(dir, "train"), "train", 40, 1)
	const slotBytes = 4096
	ts := startServer(t, dir, func(c *Config) { c.MemoryBytes = 20 * slotBytes })
	var clients []*client
	for n, want := range []int{10, 5, 3, 3, 3, 3, 2} {
		c := ts.dial().hello().open(openRequest{Split: "train", Transform: onePixel, BatchSize: 2})
		if c.opened.Slots != want || c.opened.SlotBytes != slotBytes {
			t.Fatalf("session %d got %d slots of %d bytes, want %d", n, c.opened.Slots, c.opened.SlotBytes, want)
		}
		if n == 0 { // an epoch under which the ring shrinks
			c.epoch(0, 0)
		}
		clients = append(clients, c)
	}
	if m, ok := ts.ask(openRequest{Split: "train"}).(errorMessage); !ok || m.ErrKind != kindBadRequest || !strings.Contains(m.Message, "--memory") {
		t.Errorf("a session more: %+v", m)
	}
	for _, sess := range ts.openSessions() { // what a reply to open would say that was made after slots were given up
		if o := sess.opened(); o.RingBytes != int64(o.Slots)*slotBytes {
			t.Errorf("a ring of %d bytes, of %d slots", o.RingBytes, o.Slots)
		}
	}
	if got := ts.memory.inUse(); got > 20*slotBytes {
		t.Errorf("%d bytes are in use", got)
	}
	for epoch := range int64(2) {
		for i, c := range clients {
			if got := c.epoch(epoch, 0); len(got) != 20 {
				t.Errorf("session %d: %d batches", i, len(got))
			}
		}
	}
	for _, c := range clients {
		c.close()
	}
	ts.checkIdle()
}

// TestLentSlotsAreGivenUpWhenTheyComeBack has a client hold nearly all of its slots while another one comes.
func TestLentSlotsAreGivenUpWhenTheyComeBack(t *testing.T) {
	dir := t.TempDir()
	writeSet(t, filepath.Join(dir, "train"), "train", 40, 1)
	ts := startServer(t, dir, func(c *Config) { c.MemoryBytes = 32 * 4096 })
	holder := ts.dial().hello().open(openRequest{Split: "train", Transform: onePixel, BatchSize: 2})
	filler := ts.fill(16)
	holder.hold(16)
	opened := make(chan bool)
	go func() {
		_, ok := ts.ask(openRequest{Split: "train"}).(openedReply)
		opened <- ok
	}()
	for slot := range 12 {
		time.Sleep(5 * time.Millisecond)
		holder.send(releaseRequest{Slot: slot})
	}
	if !<-opened {
		t.Error("no slot was given up")
	}
	told := 0
	holder.send(startRequest{Epoch: 1})
	for told == 0 {
		switch m := holder.receive().(type) {
		case batchMessage: // those of epoch 0 that are left, and then of epoch 1
			told = m.Slots
		case startedReply, endMessage:
		default:
			t.Fatalf("%#v", m)
		}
	}
	if told < 3 || told > 13 {
		t.Errorf("the client is told of %d slots", told)
	}
	holder.close()
	filler.close()
	ts.checkIdle()
}

// fill takes what other rings are not to have: memory for so many slots of two samples.
func (ts *testServer) fill(slots int) *client {
	return ts.dial().hello().open(openRequest{Split: "train", Transform: onePixel, BatchSize: 2, Slots: slots})
}

// hold begins an epoch, and receives so many batches.
func (c *client) hold(batches int) {
	c.send(startRequest{})
	expect[startedReply](c)
	for range batches {
		expect[batchMessage](c)
	}
}

// TestStalledClientsKeepNobodyOut has clients stand still with all slots they have: later sessions get theirs at once, of what the first
// ones have left, and then of those that give some up.
func TestStalledClientsKeepNobodyOut(t *testing.T) {
	dir := t.TempDir()
	writeSet(t, filepath.Join(dir, "train"), "train", 40, 1)
	ts := startServer(t, dir, func(c *Config) { c.MemoryBytes = 20 * 4096 })
	var clients []*client
	for n, want := range []int{10, 5, 3, 3} {
		if n == 3 { // the largest ring is that of a client that has been still for long: what it owes may never come
			time.Sleep(stalledAfter)
		}
		started := time.Now()
		c := ts.dial().hello().open(openRequest{Split: "train", Transform: onePixel, BatchSize: 2})
		if took := time.Since(started); c.opened.Slots != want || took > shrinkPatience/2 {
			t.Errorf("session %d got %d slots after %v, want %d", n, c.opened.Slots, took, want)
		}
		if n == 0 {
			c.hold(10)
		}
		clients = append(clients, c)
	}
	if clients[0].send(releaseRequest{Slot: 0}); ts.stalledBytes() > 10*4096 {
		t.Errorf("%d bytes are said to be kept", ts.stalledBytes())
	}
	for _, c := range clients[1:] {
		if got := len(c.epoch(0, 0)); got != 20 {
			t.Errorf("%d batches of 20", got)
		}
		c.close()
	}
	clients[0].close()
	ts.checkIdle()
}

// TestStalledClientsAreTold has a client stand still with all that there is: another one reads so in its error.
func TestStalledClientsAreTold(t *testing.T) {
	ts := startServer(t, oneSet(t, 20, 1), func(c *Config) { c.MemoryBytes = 8 * 4096 })
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 8})
	c.hold(8)
	want := "(clients that stand still keep 32.0 KiB of it: go on with them, or end them)"
	if m, ok := ts.ask(openRequest{}).(errorMessage); !ok || !strings.Contains(m.Message, want) {
		t.Errorf("%+v, want %q", m, want)
	}
	c.close()
	ts.checkIdle()
}

// TestSessionsThatComeTogether opens as many sessions at once as there is memory for, while those before are being set up.
func TestSessionsThatComeTogether(t *testing.T) {
	large := json.RawMessage(`[{"op":"Resize","size":[256,256]}]`)
	const sessions, slotBytes = 8, 397312
	ts := startServer(t, oneSet(t, 4, 1), func(c *Config) { c.MemoryBytes = sessions*3*slotBytes*17/16 + 1<<20 })
	for range 5 {
		var all sync.WaitGroup
		clients := make([]*client, sessions)
		for i := range clients {
			clients[i] = ts.dial().hello()
			all.Go(func() {
				c := clients[i].open(openRequest{BatchSize: 2, Transform: large})
				if c.opened.Slots < 3 || c.opened.SlotBytes != slotBytes {
					t.Errorf("%d slots of %d bytes", c.opened.Slots, c.opened.SlotBytes)
				}
			})
		}
		all.Wait()
		for _, c := range clients {
			c.close()
		}
		ts.checkIdle()
	}
}

// slowEpoch runs an epoch whose batches the client takes longer for than the server: it keeps the first kept of them, and gives each other
// one back after a while.
func (c *client) slowEpoch(kept int, each time.Duration, begun chan<- struct{}) (batches int) {
	c.send(startRequest{})
	expect[startedReply](c)
	for {
		switch m := c.receive().(type) {
		case batchMessage:
			if batches++; batches == kept+3 {
				close(begun)
			}
			c.checkBatch(m)
			if batches > kept {
				time.Sleep(each)
				c.send(releaseRequest{Slot: *m.Slot})
			}
		case endMessage:
			return batches
		default:
			c.t.Fatalf("%#v", m)
		}
	}
}

// TestSlowClientsGiveSlotsUp has a client to which all slots are lent, always, as one that trains: those that come later get theirs.
func TestSlowClientsGiveSlotsUp(t *testing.T) {
	dir := t.TempDir()
	writeSet(t, filepath.Join(dir, "train"), "train", 200, 1)
	for _, kept := range []int{0, 14} { // of which the second leaves the server two
		ts := startServer(t, dir, func(c *Config) { c.MemoryBytes = 34 * 4096 })
		c := ts.dial().hello().open(openRequest{Split: "train", Transform: onePixel, BatchSize: 2})
		filler := ts.fill(16)
		begun, batches := make(chan struct{}), make(chan int)
		go func() { batches <- c.slowEpoch(kept, 5*time.Millisecond, begun) }()
		<-begun
		started := time.Now()
		later := ts.dial().hello().open(openRequest{Split: "train", Transform: onePixel, BatchSize: 2})
		if took := time.Since(started); later.opened.Slots < 3 || took > shrinkPatience/2 {
			t.Errorf("a client that keeps %d: a later session got %d slots, after %v", kept, later.opened.Slots, took)
		}
		if got := <-batches; got != 100 {
			t.Errorf("a client that keeps %d got %d batches of 100", kept, got)
		}
		later.epoch(0, 0)
		c.close()
		later.close()
		filler.close()
		ts.checkIdle()
	}
}

// TestSessionsThatEndMakeRoom opens a session while those that hold the memory end.
func TestSessionsThatEndMakeRoom(t *testing.T) {
	ts := startServer(t, oneSet(t, 20, 1), func(c *Config) { c.MemoryBytes = 10 * 4096 })
	for _, slots := range []int{0, 8} {
		held := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 8})
		time.AfterFunc(100*time.Millisecond, func() { held.conn.Close() })
		c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: slots})
		if want := max(slots, 3); c.opened.Slots < want {
			t.Errorf("%d slots, want %d", c.opened.Slots, want)
		}
		c.close()
		ts.checkIdle()
	}
}

// TestSessionsAreDealtTheMemory tells a server how many sessions will come.
func TestSessionsAreDealtTheMemory(t *testing.T) {
	dir := t.TempDir()
	writeSet(t, filepath.Join(dir, "train"), "train", 4, 1)
	ts := startServer(t, dir, func(c *Config) { c.MemoryBytes, c.Sessions = 40*4096, 8 })
	for range 8 {
		c := ts.dial().hello().open(openRequest{Split: "train", Transform: onePixel, BatchSize: 2})
		if c.opened.Slots != 5 {
			t.Errorf("%d slots, want 5", c.opened.Slots)
		}
	}
	c := ts.dial().hello().open(openRequest{Split: "train", Transform: onePixel, BatchSize: 2, Slots: 8})
	if c.opened.Slots != 8 {
		t.Errorf("%d slots, want the 8 that were asked for", c.opened.Slots)
	}
}

// TestSixtyFourSessions serves 60 sessions of different splits, transforms and batches beside four that stall, hold all slots,
// flood and lie.
func TestSixtyFourSessions(t *testing.T) {
	dir := t.TempDir()
	writeSet(t, filepath.Join(dir, "train"), "train", 60, 2)
	writeSet(t, filepath.Join(dir, "val"), "val", 30, 1)
	ts := startServer(t, dir, func(c *Config) { c.MemoryBytes = 64 << 20 })
	transforms := []string{ // of which each leaves a pixel of the image's colour
		string(onePixel), `[{"op":"Resize","size":4},{"op":"CenterCrop","size":1}]`, `[{"op":"RandomResizedCrop","size":1}]`,
		`[{"op":"RandomCrop","size":2},{"op":"RandomHorizontalFlip"},{"op":"CenterCrop","size":1}]`,
	}
	open := func(n int, m openRequest) *client {
		m.Split = []string{"train", "val"}[n%2]
		m.Transform = json.RawMessage(transforms[n%len(transforms)])
		m.BatchSize = n%17 + 1
		return ts.dial().hello().open(m)
	}
	stalls := open(0, openRequest{Transport: transportSocket})
	holds, floods, lies := open(1, openRequest{}), open(2, openRequest{}), open(3, openRequest{})
	for _, c := range []*client{stalls, holds} {
		c.send(startRequest{})
	}
	stop := make(chan struct{})
	var hostile, sessions sync.WaitGroup
	for _, loop := range []func(){
		func() { floods.send(statsRequest{}); floods.receive() },
		func() { lies.send(releaseRequest{Slot: 1}); lies.receive() },
	} {
		hostile.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					loop()
				}
			}
		})
	}
	for n := range 60 {
		sessions.Go(func() {
			c := open(n, openRequest{})
			defer c.close()
			for epoch := range int64(3) {
				total := 0
				for _, batch := range c.epoch(epoch, 0) {
					total += len(batch)
				}
				if total != c.opened.Samples {
					t.Errorf("session %d: %d samples of %d", n, total, c.opened.Samples)
				}
			}
		})
	}
	sessions.Wait()
	close(stop)
	hostile.Wait()
	for _, c := range []*client{stalls, holds, floods, lies} {
		c.close()
	}
	ts.checkIdle()
}
