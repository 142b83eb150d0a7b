package socket

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

// foundFolder is the folder with a socket of every server of the user, by which imgfeed status finds it. A loader's own server
// has only this socket once the loader has connected.
func foundFolder() string {
	dir, file := filepath.Split(Default())
	return filepath.Join(dir, file+".d")
}

// ListenFound listens where Running finds this process's server.
func ListenFound() (*Listener, error) {
	return Listen(filepath.Join(foundFolder(), strconv.Itoa(os.Getpid())), Mode)
}

// Running asks all servers of the user, one after the other, and removes the sockets of processes that have ended. A server may begin or
// end meanwhile: a socket that has gone is left out. One that is there and does not answer in time is an error beside the answers of the
// others.
func Running(timeout time.Duration, since float64) (map[string]status.Status, error) {
	entries, err := os.ReadDir(foundFolder())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	found := map[string]status.Status{}
	for _, e := range entries {
		path := filepath.Join(foundFolder(), e.Name())
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
