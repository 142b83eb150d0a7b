// Package socket has the Unix sockets that servers listen on, and finds the servers of a user by them.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/server/internal/wire"
)

// Default returns the path that server and clients use when nobody names one.
func Default() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "imgfeed.sock")
	}
	return filepath.Join(os.TempDir(), "imgfeed-"+strconv.Itoa(os.Getuid()), "imgfeed.sock")
}

// Mode are the usual permissions of a socket: its user's alone.
const Mode = 0o600

// A Listener is the socket of a server. Close removes its file, but never the one of a server that has taken the path since: own tells the
// two apart. Several goroutines may call it; the first closes.
type Listener struct {
	net.Listener
	path   string
	own    os.FileInfo // identity of the socket's file
	made   bool        // the folder was made for it
	closed sync.Once
}

// Listen creates the socket at path. Its folder is locked meanwhile, so of several servers that start at once one gets the path.
func Listen(path string, mode fs.FileMode) (_ *Listener, err error) {
	if err := wire.CheckPath(path); err != nil {
		return nil, err
	}
	mode = mode.Perm()
	dir := filepath.Dir(path)
	l := &Listener{path: path}
	if l.made, err = makeFolder(dir, mode, path == Default()); err != nil {
		return nil, err
	}
	if folder, err := os.Open(dir); err == nil { // locked, so that two servers that start at once do not both replace a stale socket
		defer folder.Close()
		for range 100 { // gives up after a second without the lock
			if unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// The file is made with the socket's own mode, less the umask: it never has wider permissions than asked for.
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), Mode) }), err)
	}}
	listener, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	l.Listener = listener
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if l.own, err = os.Lstat(path); err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		listener.Close()
		return nil, err
	}
	return l, nil
}

// Path returns the socket's path.
func (l *Listener) Path() string { return l.path }

// Close stops listening and removes the socket's file, unless another server has replaced it.
func (l *Listener) Close() (err error) {
	l.closed.Do(func() {
		if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.own) {
			os.Remove(l.path)
		}
		if l.made {
			os.Remove(filepath.Dir(l.path))
		}
		err = l.Listener.Close()
	})
	return err
}

// makeFolder makes the socket's folder if it is missing, open to this user and to whom mode lets write. The default one in
// the shared folder for temporary files must also be ours alone: another user may have made it first, to stand between
// server and clients. It stays when the server ends.
func makeFolder(dir string, mode fs.FileMode, isDefault bool) (made bool, err error) {
	_, missing := os.Lstat(dir)
	made = errors.Is(missing, fs.ErrNotExist)
	err = os.MkdirAll(dir, 0o700)
	if through := mode & 0o022 >> 1; err == nil && through != 0 && made {
		err = os.Chmod(dir, 0o700|through)
	}
	if err != nil {
		return made, fmt.Errorf("socket folder: %w", err)
	}
	if !isDefault {
		return made, nil
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return false, fmt.Errorf("socket folder: %w", err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; !info.IsDir() || owner != uint32(os.Getuid()) || info.Mode().Perm()&0o022 != 0 {
		return false, fmt.Errorf("socket folder %s is not safe (%v, owner %d): it must be a folder of user %d that no other can "+
			"write to; choose another path with --socket", dir, info.Mode(), owner, os.Getuid())
	}
	return false, nil
}

// removeStale removes a socket that nobody listens on. It asks by connecting, which the system refuses only if nobody listens.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket %s: %w", path, err)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s exists and is not a socket (%v): remove it, or choose another path with --socket", path, info.Mode())
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		defer conn.Close()
		pid := PeerPID(conn.(*net.UnixConn))
		return fmt.Errorf("process %d already listens on %s; stop it, or choose another path with --socket", pid, path)
	case !errors.Is(err, unix.ECONNREFUSED): // no permission, for instance
		return fmt.Errorf("socket %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the socket of a dead server: %w", err)
	}
	return nil
}

// PeerPID returns the process at the other end, or 0 if the system does not say.
func PeerPID(conn *net.UnixConn) int {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}
