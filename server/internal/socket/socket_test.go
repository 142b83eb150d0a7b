package socket

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestListenModes checks who may connect, whatever the umask.
func TestListenModes(t *testing.T) {
	for _, c := range []struct {
		umask          int
		socket, folder os.FileMode
	}{{0, Mode, 0o700}, {0o077, 0o660, 0o710}} {
		defer syscall.Umask(syscall.Umask(c.umask))
		path := filepath.Join(t.TempDir(), "new", "s.sock")
		testenv.Opened(Listen(path, c.socket))(t)
		testenv.Equal(t, testenv.Must(os.Stat(path))(t).Mode(), os.ModeSocket|c.socket, "the socket's mode")
		testenv.Equal(t, testenv.Must(os.Stat(filepath.Dir(path)))(t).Mode().Perm(), c.folder, "the folder's mode")
	}
}

// deadSocket returns the path of a socket that nobody listens on.
func deadSocket(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "s.sock")
	dead := testenv.Must(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	dead.SetUnlinkOnClose(false)
	dead.Close()
	return path
}

// refuses checks that a path of a kind is refused with words.
func refuses(t *testing.T, kind, path, words string) {
	t.Helper()
	testenv.Fails(Listen(path, Mode))(t, words, "%v", kind)
}

func TestListenReplacesOnlyDeadSockets(t *testing.T) {
	path := deadSocket(t)
	l, err := Listen(path, Mode)
	testenv.OK(t, err, "a dead server's socket was not replaced")
	defer l.Close()
	refuses(t, "a live server's socket", path, fmt.Sprintf("process %d already listens on", os.Getpid()))
	file := filepath.Join(t.TempDir(), "precious")
	os.WriteFile(file, []byte("data"), 0o600)
	refuses(t, "a file that is not a socket", file, "not a socket")
	testenv.Equal(t, string(testenv.Must(os.ReadFile(file))(t)), "data", "a file that is not a socket")
	refuses(t, "a path that is too long", "/tmp/"+strings.Repeat("x", 120), "limit")
}

func TestListenCloseLeavesASuccessorAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	first := testenv.Must(Listen(path, Mode))(t)
	os.Remove(path)
	testenv.Opened(Listen(path, Mode))(t)
	first.Close()
	_, err := os.Lstat(path)
	testenv.Check(t, err == nil, "closing the first server removed the second one's socket: %v", err)
}

func TestListenRace(t *testing.T) {
	path := deadSocket(t)
	var wg sync.WaitGroup
	listeners := make([]*Listener, 8)
	for i := range listeners {
		wg.Go(func() { listeners[i], _ = Listen(path, Mode) })
	}
	wg.Wait()
	won := 0
	for _, l := range listeners {
		if l != nil {
			won++
			defer l.Close()
		}
	}
	testenv.Check(t, won == 1, "%d of 8 servers that started at once got the socket, want 1", won)
}

func TestDefaultRefusesAForeignFolder(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", t.TempDir())
	path := Default()
	testenv.OK(t, os.Mkdir(filepath.Dir(path), 0o777))
	os.Chmod(filepath.Dir(path), 0o777)
	refuses(t, "a folder that everybody can write to", path, "not safe")
	os.Remove(filepath.Dir(path))
	os.Symlink(t.TempDir(), filepath.Dir(path))
	refuses(t, "a symbolic link", path, "not safe")
	os.Remove(filepath.Dir(path))
	l := testenv.Must(Listen(path, Mode))(t)
	l.Close()
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	testenv.Equal(t, Default(), "/run/user/7/imgfeed.sock", "Default()")
}

// TestListenLeavesNoFolder listens in a folder that is not there: it goes with the socket.
func TestListenLeavesNoFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	l := testenv.Must(Listen(filepath.Join(dir, "s"), Mode))(t)
	l.Close()
	testenv.Fails(os.Stat(dir))(t, os.IsNotExist, "left over")
}
