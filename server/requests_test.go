package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/server/status"
)

// frameText returns the JSON text of a message's frame.
func frameText(t testing.TB, m any) []byte {
	t.Helper()
	frame := testenv.Must(appendFrame(nil, m))(t)
	return testenv.Must(wire.NewReader(bytes.NewReader(frame), wire.ReplyBytesMax).Next())(t)
}

func FuzzDecodeRequest(f *testing.F) {
	for _, r := range requests {
		f.Add(frameText(f, r.empty))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		kind, m, err := requestMessages.DecodeRequest(text)
		if err != nil {
			return
		}
		again, _, err := requestMessages.DecodeRequest(frameText(t, m))
		testenv.Check(t, err == nil && again == kind, "%q decodes to %#v, which does not survive encoding: %v", text, m, err)
	})
}

// TestReplyThatFailsEndsTheConnection fails a reply after its header: the client would take another message for numbers.
func TestReplyThatFailsEndsTheConnection(t *testing.T) {
	conns := socketPair(t)
	c := &connection{server: &Server{totals: status.NewTotals()}, greeted: true, conn: conns[0], log: slog.New(slog.DiscardHandler)}
	const sent = 65 << 10
	err := c.sendArray(labelsReply{Count: sent}, func(w *bufio.Writer) error {
		w.Write(make([]byte, sent))
		return errors.New("unreadable")
	})
	testenv.Check(t, errors.Is(c.answerError("labels", err), errHangUp), "the connection goes on")
	conns[0].Close()
	got, err := io.ReadAll(conns[1])
	testenv.Check(t, err == nil && len(got) <= 64+sent && !bytes.Contains(got, []byte("error")), "%d bytes came: %v", len(got), err)
}
