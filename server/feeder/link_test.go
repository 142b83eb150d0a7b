package feeder

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

func viewsOf(t testing.TB, size int) transform.Views {
	t.Helper()
	spec := testenv.Must(transform.NewSpec(transform.CenterCrop{Size: transform.Size{size, size}}))(t)
	return transform.Views{spec}
}

// TestLinkAllocatesNothing makes pieces over a connection to a feeder that allocates nothing either.
func TestLinkAllocatesNothing(t *testing.T) {
	views := viewsOf(t, 32)
	slot := loader.NewSlot(0, 32, views)
	slot.Params = nil
	offer := &Offer{frame: []byte("\x02\x00\x00\x00{}"), sampleBytes: int64(views.OutputBytes())}
	p := &loader.Piece{Offer: offer, Slot: slot, Indices: make([]int, 16)}
	l := testenv.Opened(net.Listen("tcp", "127.0.0.1:0"))(t)
	near := testenv.Opened(net.Dial("tcp", l.Addr().String()))(t)
	far := testenv.Opened(l.Accept())(t)
	go func() {
		request := make([]byte, 6+8*3+16*16)
		reply := append(bytes.Clone(MadeFrame), bytes.Repeat([]byte{1}, 16+16*(8+int(offer.sampleBytes)))...)
		for {
			if _, err := io.ReadFull(far, request); err != nil {
				return
			}
			far.Write(reply)
		}
	}()
	c := newLink(new(feeder), near)
	made := make([]bool, 16)
	testenv.NoAllocations(t, 100, func() { testenv.OK(t, c.Make(p, made)) }, "a piece")
	testenv.Check(t, made[15], "the last sample is not made")
}

// FuzzReplies has a feeder answer with anything. The server writes nothing of it beside its piece.
func FuzzReplies(f *testing.F) {
	slot := loader.NewSlot(0, 4, viewsOf(f, 3))
	slot.Params = nil
	offer := &Offer{sampleBytes: 8 + 27, frame: []byte("feed")}
	made := []bool{true, true}
	f.Add(bytes.Join(slot.AppendSamples([][]byte{MadeFrame, {1, 0}}, 1, 2), nil))
	f.Fuzz(func(t *testing.T, reply []byte) {
		clear(slot.Images[0])
		clear(slot.Labels)
		c := newLink(new(feeder), nowhere{})
		c.in.Reset(bytes.NewReader(reply))
		c.Make(&loader.Piece{Offer: offer, Slot: slot, First: 1, Indices: []int{1, 2}}, made)
		images := slot.Images[0]
		stride := len(images) / 4
		for _, part := range [][]byte{images[:stride], images[3*stride:]} {
			testenv.Require(t, len(bytes.Trim(part, "\x00")) == 0 && slot.Labels[0] == 0 && slot.Labels[3] == 0, "bytes beside the piece")
		}
	})
}

// nowhere is a connection that takes everything.
type nowhere struct{ net.Conn }

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) SetDeadline(time.Time) error { return nil }
func (nowhere) Close() error                { return nil }

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
