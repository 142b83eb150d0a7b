package feeder

import (
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/shard"
)

// TestAPanicReleasesTheSet meets a bug while an offer is read: nothing holds its set open afterwards.
func TestAPanicReleasesTheSet(t *testing.T) {
	holds := 0
	hold := func(split string) (Set, *loader.Dataset, func(), error) {
		holds++
		return Set{Split: split}, nil, func() { holds-- }, nil // no set, which is the bug
	}
	c := &connection{host: &Host{Hold: hold}}
	frame := testenv.Must(Requests.AppendFrame(nil, Request{Set: Set{Split: "train"}, Transform: []byte(`"eval"`), Layout: "NHWC"}))(t)
	testenv.Require(t, shard.Guard(func() error { return c.open(frame[4:]) }) != nil, "no bug was met")
	testenv.Equal(t, holds, 0, "holders of the set")
}
