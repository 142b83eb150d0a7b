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
	"github.com/imgfeed/imgfeed/server/internal/ring"
)

// FuzzFeedConnection sends anything to a feeder, which must end the connection.
func FuzzFeedConnection(f *testing.F) {
	dir := oneSet(f, 8, 2)
	ts := startServer(f, dir, nil)
	address, _ := startFeeder(f, dir, func(c *Config) { c.MemoryBytes = 4 << 20 })
	hello, _ := feedRequests.AppendFrame(nil, feedHello{Version: 1})
	f.Add(hello)
	for _, m := range []feedRequest{
		{Set: ts.feedSets()[0], Transform: onePixel, Layout: layoutNHWC},
		{Set: ts.feedSets()[0], Transform: json.RawMessage(`[{"op":"RandomResizedCrop","size":4}]`), Layout: layoutNCHW, WithParams: true},
	} {
		request, _ := feedRequests.AppendFrame(bytes.Clone(hello), m)
		f.Add(appendNumbers(request, &loader.Piece{Seed: 3, Epoch: 1, Indices: []int{7, 0}}, 2))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(testTimeout))
		go func() {
			conn.Write(b)
			conn.(*net.TCPConn).CloseWrite()
		}()
		if _, err := io.Copy(io.Discard, conn); os.IsTimeout(err) {
			t.Error("the feeder does not end the connection")
		}
	})
}

// FuzzFeedReplies has a feeder answer with anything. What the server takes of it lies in its piece.
func FuzzFeedReplies(f *testing.F) {
	layout, err := ring.NewLayout(4, ring.Array{Kind: ring.Images, Dtype: "uint8", Shape: []int{3, 5, 3}}, ring.Array{Kind: ring.Labels, Dtype: "int64"})
	if err != nil {
		f.Fatal(err)
	}
	feed := &sessionFeed{bytes: layout.BatchBytes(1), frame: []byte("feed")}
	memory, made := make([]byte, 2*layout.Size), []bool{true, true}
	slot := viewSlot(0, memory[:layout.Size], layout)
	f.Add(bytes.Join(slot.AppendPlaces([][]byte{madeFrame, {1, 0}}, 1, 2), nil))
	f.Fuzz(func(t *testing.T, reply []byte) {
		clear(memory)
		c := newFeederConn(new(feeder), nowhere{})
		c.in.Reset(bytes.NewReader(reply))
		c.Make(&loader.Piece{Feed: feed, Slot: slot, First: 1, Indices: []int{1, 2}}, made)
		images := slot.Images[0]
		stride := len(images) / 4
		for _, part := range [][]byte{images[:stride], images[3*stride:], memory[layout.Size:]} {
			if len(bytes.Trim(part, "\x00")) > 0 {
				t.Fatal("bytes beside the piece")
			}
		}
	})
}

// nowhere is a connection that takes everything.
type nowhere struct{ net.Conn }

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) SetDeadline(time.Time) error { return nil }
func (nowhere) Close() error                { return nil }
