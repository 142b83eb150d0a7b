package server

import (
	"io/fs"
	"time"

	"github.com/imgfeed/imgfeed/server/internal/socket"
	"github.com/imgfeed/imgfeed/server/status"
)

// SocketMode are the usual permissions of a socket: its user's alone.
const SocketMode = socket.Mode

// A Listener is a Unix socket that removes its file when it is closed, if the file is still its own, and the folder that was made for
// it, if nothing else is in it.
type Listener = socket.Listener

// DefaultSocket returns the path of the socket that server and clients use when nobody names one:
// $XDG_RUNTIME_DIR/imgfeed.sock where that is set, else imgfeed-UID/imgfeed.sock in the folder for temporary files.
func DefaultSocket() string { return socket.Default() }

// Listen creates the socket at path with these permissions, [SocketMode] for instance; who may write may connect. A missing
// folder is made, and lets those through who may connect. A socket that a dead server left behind is replaced; one that a live
// server listens on is an error; a file that is not a socket is never removed.
func Listen(path string, mode fs.FileMode) (*Listener, error) { return socket.Listen(path, mode) }

// ListenFound listens where [Running] finds this process's server.
func ListenFound() (*Listener, error) { return socket.ListenFound() }

// Running asks all servers of the user, and returns the answers of those that answer within a time, by the paths of their
// sockets. Sockets of processes that have ended are removed.
func Running(timeout time.Duration, since float64) (map[string]status.Status, error) {
	return socket.Running(timeout, since)
}
