package server

import (
	"bytes"
	"encoding/json"
	"net"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/feeder"
	"github.com/imgfeed/imgfeed/server/internal/wire"
)

// FuzzFeedConnection sends anything to a feeder, which must end the connection.
func FuzzFeedConnection(f *testing.F) {
	dir := oneSet(f, 8, 2)
	ts := startServer(f, dir, nil)
	address, _ := startFeeder(f, dir, func(c *Config) { c.MemoryBytes = 4 << 20 })
	hello, _ := feeder.Requests.AppendFrame(nil, wire.Hello{Version: 1})
	f.Add(hello)
	for _, m := range []feeder.Request{
		{Set: setsOf(ts)[0], Transform: onePixel, Layout: layoutNHWC},
		{Set: setsOf(ts)[0], Transform: json.RawMessage(`[{"op":"RandomResizedCrop","size":4}]`), Layout: layoutNCHW, WithParams: true},
	} {
		request, _ := feeder.Requests.AppendFrame(bytes.Clone(hello), m)
		f.Add(feeder.AppendNumbers(request, &loader.Piece{Seed: 3, Epoch: 1, Indices: []int{7, 0}}, 2))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkEnds(t, testenv.Must(net.Dial("tcp", address))(t), b) })
}
