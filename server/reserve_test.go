package server

import (
	"encoding/json"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
)

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
