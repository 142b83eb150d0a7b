package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"testing"
	"time"

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
	f.Fuzz(func(t *testing.T, b []byte) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute)) // go test sets no limit when it fuzzes
		go func() {
			conn.Write(b)
			conn.(*net.TCPConn).CloseWrite()
		}()
		if _, err := io.Copy(io.Discard, conn); os.IsTimeout(err) {
			t.Error("the feeder does not end the connection")
		}
	})
}
