package server

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/internal/wire"
)

// A rightsReader reads from a connection and keeps the descriptor that came with the bytes. It never
// reads more than its caller wants, so that a descriptor comes with the first byte of its message.
type rightsReader struct {
	conn *net.UnixConn
	file *os.File // nil if none has come
}

// Read implements io.Reader.
func (r *rightsReader) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := r.conn.ReadMsgUnix(p, oob)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	if messages, _ := unix.ParseSocketControlMessage(oob[:oobn]); len(messages) > 0 {
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			return n, err
		}
		r.file = os.NewFile(uintptr(fds[0]), "received")
	}
	return n, err
}

// socketPair returns both ends of a connection.
func socketPair(t testing.TB) (ends [2]*net.UnixConn) {
	t.Helper()
	fds := testenv.Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "")
		conn := testenv.Must(net.FileConn(file))(t)
		file.Close()
		t.Cleanup(func() { conn.Close() })
		ends[i] = conn.(*net.UnixConn)
	}
	return ends
}

// TestRights sends a descriptor with a message that is larger than a socket's buffer, between two others.
func TestRights(t *testing.T) {
	ends := socketPair(t)
	null := testenv.Opened(os.Open(os.DevNull))(t)
	end, _ := appendFrame(nil, endMessage{})
	long, _ := appendFrame(nil, classesReply{Classes: []string{strings.Repeat("x", 1<<20)}})
	go func() {
		ends[0].Write(end)
		wire.WriteRights(ends[0], long, null)
		ends[0].Write(end)
	}()
	reader := &rightsReader{conn: ends[1]}
	frames := wire.NewReader(reader, wire.ReplyBytesMax)
	for i := range 3 {
		testenv.Must(frames.Next())(t)
		testenv.Check(t, (reader.file != nil) == (i > 0), "after message %d: %v", i, reader.file)
	}
	reader.file.Close()
}
