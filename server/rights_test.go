package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/server/internal/wire"
)

// A rightsReader reads from a connection, for at most testTimeout each time, and keeps the descriptors that come with the bytes, all
// close-on-exec. It never reads more than its caller wants, so that a descriptor comes with the first byte of its message.
type rightsReader struct {
	conn  *net.UnixConn
	files []*os.File
}

// Read implements io.Reader.
func (r *rightsReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	oob := make([]byte, unix.CmsgSpace(4*4))
	r.conn.SetReadDeadline(time.Now().Add(testTimeout))
	n, oobn, flags, _, err := r.conn.ReadMsgUnix(p, oob)
	if keepErr := r.keep(oob[:oobn]); keepErr != nil {
		return n, keepErr
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return n, errors.New("more descriptors than a message can carry")
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// keep takes the descriptors out of oob.
func (r *rightsReader) keep(oob []byte) error {
	if len(oob) == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("control message: %w", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fmt.Errorf("control message: %w", err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			r.files = append(r.files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return nil
}

// take returns the descriptors received since the last call; they are the caller's to close.
func (r *rightsReader) take() []*os.File {
	files := r.files
	r.files = nil
	return files
}

func TestRights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()

	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString("shared")

	// A message before and one after; only the middle one carries the descriptor. It is larger than a socket buffer.
	long := classesReply{Classes: []string{strings.Repeat("x", 1<<20)}}
	frame := func(m any) []byte {
		b, err := replies.AppendFrame(nil, m)
		if err != nil {
			t.Error(err)
		}
		return b
	}
	go func() {
		server.Write(frame(endMessage{}))
		wire.WriteRights(server, frame(long), f)
		server.Write(frame(endMessage{}))
	}()
	rr := &rightsReader{conn: client}
	r := wire.NewReader(rr, wire.ReplyBytesMax)
	for i, wantFiles := range []int{0, 1, 0} {
		text, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		files := rr.take()
		if len(files) != wantFiles {
			t.Fatalf("message %d (%.30s) came with %d descriptors, want %d", i, text, len(files), wantFiles)
		}
		for _, got := range files {
			content := make([]byte, 6)
			if _, err := got.ReadAt(content, 0); err != nil || string(content) != "shared" {
				t.Errorf("the received file holds %q, %v", content, err)
			}
			got.Close()
		}
	}
}
