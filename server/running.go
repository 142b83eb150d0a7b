package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/imgfeed/imgfeed/server/status"
)

// runningFolder is the folder with a socket of every server of the user, by which imgfeed status finds it. A loader's own server
// has only this socket once the loader has connected.
func runningFolder() string {
	dir, file := filepath.Split(DefaultSocket())
	return filepath.Join(dir, file+".d")
}

// ListenFound listens where [Running] finds this process's server.
func ListenFound() (*Listener, error) {
	return Listen(filepath.Join(runningFolder(), strconv.Itoa(os.Getpid())), SocketMode)
}

// Running asks all servers of the user, and returns the answers of those that answer within a time, by the paths of their
// sockets. Sockets of processes that have ended are removed.
func Running(timeout time.Duration, since float64) (map[string]status.Status, error) {
	entries, err := os.ReadDir(runningFolder())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	found := map[string]status.Status{}
	for _, e := range entries {
		path := filepath.Join(runningFolder(), e.Name())
		if e.Type() != fs.ModeSocket {
			continue
		}
		answer, askErr := status.Ask(path, timeout, since)
		switch {
		case askErr == nil:
			if _, err := os.Lstat(answer.Path); err == nil { // a loader has removed its own server's
				path = answer.Path
			}
			found[path] = answer
		case errors.Is(askErr, syscall.ECONNREFUSED):
			os.Remove(path)
		case !errors.Is(askErr, fs.ErrNotExist):
			err = errors.Join(err, askErr)
		}
	}
	return found, err
}

// SetPage says at which URL the status page is. Call it before anything is served.
func (s *Server) SetPage(url string) { s.page = url }

// SetPath says on which socket clients connect, by which [Running] names this server. Call it before anything is served.
func (s *Server) SetPath(path string) { s.path = path }
