package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// WriteRights writes frame, with the descriptor of f on its first byte (SCM_RIGHTS, unix(7)). f stays open.
func WriteRights(conn *net.UnixConn, frame []byte, f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var writeErr error
	err = raw.Control(func(fd uintptr) {
		n, _, writeErr = conn.WriteMsgUnix(frame, unix.UnixRights(int(fd)), nil)
	})
	if err = errors.Join(err, writeErr); err != nil {
		return err
	}
	if n < len(frame) { // a stream socket may take a part; the descriptor went with the first byte
		_, err = conn.Write(frame[n:])
	}
	return err
}

// A RightsReader reads from a connection and keeps the descriptors that come with the bytes, all close-on-exec. It reads
// no more than it is asked for, so that a descriptor is there as soon as the first byte of its message is.
type RightsReader struct {
	conn  *net.UnixConn
	files []*os.File
}

// NewRightsReader returns a reader of conn.
func NewRightsReader(conn *net.UnixConn) *RightsReader { return &RightsReader{conn: conn} }

// Read implements io.Reader.
func (r *RightsReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, flags, _, err := r.conn.ReadMsgUnix(p, oob)
	if keepErr := r.keep(oob[:oobn]); keepErr != nil {
		return n, keepErr
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return n, errors.New("wire: more descriptors than a message can carry")
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// keep takes the descriptors out of oob.
func (r *RightsReader) keep(oob []byte) error {
	if len(oob) == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("wire: control message: %w", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fmt.Errorf("wire: control message: %w", err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			r.files = append(r.files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return nil
}

// Take returns the descriptors received since the last call; they are the caller's to close.
func (r *RightsReader) Take() []*os.File {
	files := r.files
	r.files = nil
	return files
}
