package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/shard"
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
		testenv.Equal(t, b.reserveSlots(0, autoSlotsShort, c.slotBytes), c.want, "%s", c.name)
		testenv.Equal(t, b.inUse(), c.used+int64(c.want)*c.slotBytes, "%s: bytes in use", c.name)
	}
	b := budget{max: 2*batch - 1}
	testenv.Equal(t, b.reserveSlots(0, autoSlotsShort, batch), 0, "slots where one fits")
	testenv.Equal(t, b.inUse(), 0, "bytes in use without a slot")
}

// TestPrefetchBytes is a sixteenth of the memory, within bounds, or what was asked for.
func TestPrefetchBytes(t *testing.T) {
	for _, c := range []struct{ wish, memory, want int64 }{
		{0, 8 << 20, 0}, {0, 64 << 20, 4 << 20}, {0, 2 << 30, 128 << 20}, {0, 1 << 40, 256 << 20},
		{1 << 30, 8 << 30, 1 << 30}, {1 << 30, 1 << 30, 512 << 20}, {1 << 20, 8 << 30, 1 << 20},
	} {
		testenv.Equal(t, prefetchBytes(c.wish, c.memory), c.want, "of %d bytes, with the wish of %d", c.memory, c.wish)
	}
}

// TestEachSessionLeavesHalf opens one session after the other until the memory is used up. The error of the next one says how to divide it.
func TestEachSessionLeavesHalf(t *testing.T) {
	t.Parallel() // the last session waits for the others to end
	const slotBytes = 4096
	ts := startServer(t, oneSet(t, 40, 1), func(c *Config) { c.MemoryBytes = 20 * slotBytes })
	var clients []*client
	for n, want := range []int{10, 5, 3, 2} {
		c := ts.dial().hello().open(openRequest{Transform: onePixel, BatchSize: 2})
		testenv.Equal(t, c.opened.Slots, want, "slots of session %d", n)
		testenv.Equal(t, c.opened.SlotBytes, slotBytes, "bytes of a slot of session %d", n)
		clients = append(clients, c)
	}
	want := "other sessions hold 80.0 KiB of the 80.0 KiB that the server may use for batches: start imgfeed with --sessions 5, which divides it evenly, or a larger --memory"
	m, ok := ts.ask(openRequest{}).(errorMessage)
	testenv.Check(t, ok && m.ErrKind == kindBadRequest && strings.Contains(m.Message, want), "a session more: %+v", m)
	for i, c := range clients {
		testenv.Equal(t, len(c.epoch(0, 0)), 20, "batches of session %d", i)
		c.close()
	}
	ts.checkIdle()
}

// TestSessionsThatComeTogether opens as many sessions at once as the server expects: each gets its share of the memory.
func TestSessionsThatComeTogether(t *testing.T) {
	large := json.RawMessage(`[{"op":"Resize","size":[256,256]}]`)
	const sessions, slotBytes = 8, 397312
	ts := startServer(t, oneSet(t, 4, 1), func(c *Config) { c.MemoryBytes, c.Sessions = sessions*5*slotBytes, sessions })
	for range 5 {
		var all sync.WaitGroup
		clients := make([]*client, sessions)
		for i := range clients {
			clients[i] = ts.dial().hello()
			all.Go(func() {
				c := clients[i].open(openRequest{BatchSize: 2, Transform: large})
				testenv.Equal(t, c.opened.Slots, 5, "slots")
				testenv.Equal(t, c.opened.SlotBytes, slotBytes, "bytes of a slot")
			})
		}
		all.Wait()
		for _, c := range clients {
			c.close()
		}
		ts.checkIdle()
	}
}

// TestSessionsThatEndMakeRoom takes memory while the session that holds most of it ends, in time or too late.
func TestSessionsThatEndMakeRoom(t *testing.T) {
	const slotBytes = 4096
	for _, c := range []struct {
		slots, want int
		after       time.Duration
	}{{0, 5, 100 * time.Millisecond}, {8, 8, 100 * time.Millisecond}, {0, 2, time.Hour}, {8, 0, time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{memory: budget{max: 10 * slotBytes, used: 8 * slotBytes}}
			time.AfterFunc(c.after, func() { s.memory.release(8 * slotBytes) })
			began := time.Now()
			got, err := s.reserveRing(c.slots, slotBytes)
			waits, took := min(c.after, reserveTimeout), time.Since(began)
			testenv.Check(t, got == c.want && (err == nil) == (got > 0) && took >= waits && took <= waits+reserveRetry,
				"%d slots, of which 8 come after %v: got %d after %v, %v", c.slots, c.after, got, took, err)
		})
	}
}

// TestWatchIdle has a client that stays, and ones that ask something and leave, which count for nothing.
func TestWatchIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		connect := func(id uint64, stays time.Duration) {
			s.mu.Lock()
			s.connections = []*connection{{id: id}}
			s.mu.Unlock()
			time.Sleep(stays)
			s.mu.Lock()
			s.connections = nil
			s.mu.Unlock()
		}
		const after = 10 * time.Second
		ctx := s.WatchIdle(t.Context(), after)
		connect(1, 5*after+time.Second/2)
		testenv.Check(t, ctx.Err() == nil, "the client was connected until now")
		left := time.Now()
		for id := uint64(2); ctx.Err() == nil; id++ {
			connect(id, time.Second/4)
		}
		took, why := time.Since(left), context.Cause(ctx).Error()
		testenv.Check(t, took >= after-time.Second && took <= after && why == "no client has been connected for 10s", "after %v: %s", took, why)
	})
}

// TestSixtyFourSessions serves 60 sessions of different splits, transforms and batches beside four that are hostile.
func TestSixtyFourSessions(t *testing.T) {
	dir := t.TempDir()
	writeSet(t, filepath.Join(dir, "train"), "train", 60, 2)
	writeSet(t, filepath.Join(dir, "val"), "val", 30, 1)
	ts := startServer(t, dir, func(c *Config) { c.MemoryBytes = 64 << 20 })
	transforms := []string{ // each leaves a pixel of the image's colour
		string(onePixel), `[{"op":"Resize","size":4},{"op":"CenterCrop","size":1}]`, `[{"op":"RandomResizedCrop","size":1}]`,
		`[{"op":"RandomCrop","size":2},{"op":"RandomHorizontalFlip"},{"op":"CenterCrop","size":1}]`,
	}
	hostile := hostile(ts)
	var sessions sync.WaitGroup
	for n := range 60 {
		sessions.Go(func() {
			m := openRequest{Split: []string{"train", "val"}[n%2], Transform: json.RawMessage(transforms[n%len(transforms)]), BatchSize: n%17 + 1}
			c := ts.dial().hello().open(m)
			defer c.close()
			for epoch := range int64(3) {
				total := 0
				for _, batch := range c.epoch(epoch, 0) {
					total += len(batch)
				}
				testenv.Check(t, total == c.opened.Samples, "session %d: %d samples of %d", n, total, c.opened.Samples)
			}
		})
	}
	sessions.Wait()
	for _, c := range hostile {
		c.close()
	}
	ts.checkIdle()
}

// TestLimitsOfHello asks for one more than each limit that hello names.
func TestLimitsOfHello(t *testing.T) {
	ts := startServer(t, oneSet(t, 10, 1), nil)
	c := ts.dial()
	limits := ask[helloReply](c, wire.Hello{Version: wire.Version}).Limits
	c.open(openRequest{BatchSize: 2})
	over := func(name string) int { return limits[name] + 1 }
	requests := map[string]any{
		"batch_size": openRequest{Transform: onePixel, BatchSize: over("batch_size")},
		"world":      openRequest{Transform: onePixel, BatchSize: 1, Rank: of(0), World: of(over("world"))},
		"slots":      openRequest{Transform: onePixel, BatchSize: 1, Slots: over("slots")},
		"size":       openRequest{Transform: onePixel, BatchSize: 1, Size: over("size")},
		"repeats":    selectRequest{Repeats: over("repeats")},
		"positions":  selectRequest{Positions: int64(over("positions"))},
	}
	for name, request := range requests {
		on := c
		if _, opens := request.(openRequest); opens {
			on = ts.dial().hello()
		}
		on.refuses(request, kindBadRequest, strconv.Itoa(limits[name]))
	}
	c.sendRaw(binary.LittleEndian.AppendUint32(nil, uint32(over("request_bytes"))))
	e := expect[errorMessage](c)
	testenv.Check(t, e.Fatal && strings.Contains(e.Message, strconv.Itoa(limits["request_bytes"])), "request_bytes: %+v", e)
	testenv.Check(t, len(requests)+1 == len(limits), "not all are tested of %v", limits)
}

// broken is a connection whose reads meet a bug.
type broken struct{}

func (broken) Read([]byte) (int, error) { panic("a bug") }

// TestAPanicReleasesMemory meets a bug while a selection is made: its memory is there for others again.
func TestAPanicReleasesMemory(t *testing.T) {
	ts := startServer(t, oneSet(t, 10, 1), nil)
	ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 1})
	s, before := ts.openSessions()[0], ts.memory.inUse()
	s.connection.body = broken{}
	testenv.Require(t, shard.Guard(func() error { return s.selectSamples(selectRequest{List: 5}) }) != nil, "no bug was met")
	testenv.Equal(t, ts.memory.inUse(), before, "bytes that are reserved")
}

// TestAPanicReleasesTheSet meets a bug while a session is opened: nothing holds its set open afterwards.
func TestAPanicReleasesTheSet(t *testing.T) {
	set := &openSet{users: 1} // without files, which is the bug
	s := &Server{}
	s.catalog.Store(&catalog{sets: map[string]*openSet{"train": set}})
	m := openRequest{Split: "train", BatchSize: 1, Transform: json.RawMessage(`"eval"`)}
	testenv.Require(t, shard.Guard(func() error { _, err := s.newSession(&connection{server: s}, m); return err }) != nil, "no bug was met")
	testenv.Equal(t, set.users, 1, "users of the set")
}

// TestBucketsAreReservedFirst asks for buckets where no memory is left, and for a batch that is impossible: nothing is made before there is
// memory for it.
func TestBucketsAreReservedFirst(t *testing.T) {
	ts := startServer(t, oneSet(t, 10, 1), nil)
	testenv.OK(t, ts.memory.reserve(ts.memory.max))
	e := ts.dial().hello().refuses(openRequest{BatchSize: -1, Buckets: [][2]int{{4, 4}}, Transform: json.RawMessage(`[{"op":"RandomResizedCrop","size":4}]`)}, kindBadRequest)
	testenv.Contains(t, e.Message, "the selection takes")
}
