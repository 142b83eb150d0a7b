package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/status"
)

// frame is a message of a kind with these members, as a client in another language writes it.
func frame(kind, members string) []byte {
	text := fmt.Sprintf(`{"type":%q,%s`, kind, members[1:])
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// servedSession starts a server, on which a client has a session whose epoch waits for it.
func servedSession(t *testing.T) (socket string, serve *exec.Cmd) {
	t.Helper()
	socket = socketPath(t)
	serve = imgfeed("serve", oneSet(t), "--socket", socket, "--threads", "2")
	serve.Env = append(serve.Env, "XDG_RUNTIME_DIR="+filepath.Dir(socket))
	start(t, serve)
	conn := testenv.Must(net.Dial("unix", socket))(t)
	t.Cleanup(func() { conn.Close() })
	for _, m := range [][]byte{
		frame("hello", `{"version":1}`),
		frame("open", `{"transform":"eval","batch_size":1,"slots":2,"on_error":"blank"}`),
		frame("start", `{"epoch":4}`),
	} {
		testenv.Must(conn.Write(m))(t)
	}
	testenv.Until(t, func() bool {
		st := hello(t, socket)
		return len(st.Sessions) == 1 && st.Sessions[0].Images > 0 && len(st.History) > 0
	})
	return socket, serve
}

// TestStatus asks about a session, as text of 80 columns and as data.
func TestStatus(t *testing.T) {
	t.Parallel()
	socket, serve := servedSession(t)
	all := imgfeed("status") // names each server by the socket that it printed
	all.Env = append(all.Env, "XDG_RUNTIME_DIR="+filepath.Dir(socket))
	if out, err := all.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "unix:"+socket+"\n") {
		t.Errorf("all: %v, %s", err, out)
	}
	for _, address := range []string{socket, "unix:" + socket} {
		out, err := imgfeed("status", address).CombinedOutput()
		for _, want := range []string{
			"unix:" + socket + "\n", fmt.Sprintf("process %d", serve.Process.Pid), "2 decoding threads", "1 sample, 1 class", "all 2 partitions",
			"\ntrain  0/1   ", "threads: ", "training is the limit",
		} {
			testenv.Check(t, err == nil && strings.Contains(string(out), want), "status %s: no %q, %v\n%s", address, want, err, out)
		}
		for _, line := range strings.Split(string(out), "\n") {
			if utf8.RuneCountInString(line) > 80 && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("a line of more than 80 columns: %s", line)
			}
		}
	}
	out, err := imgfeed("status", "--json", socket).Output()
	var st struct {
		Socket string
		status.Status
	}
	if err != nil || json.Unmarshal(out, &st) != nil || st.Socket != socket || len(st.Sessions) != 1 || st.Sessions[0].BatchSize != 1 {
		t.Errorf("status --json: %v\n%s", err, out)
	}
}

// TestStatusWatch sees the status again and again, and then that the server has gone.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	socket, serve := servedSession(t)
	watch := imgfeed("status", "--watch", socket)
	read, write := io.Pipe()
	watch.Stdout = write
	testenv.OK(t, watch.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); watch.Wait(); write.Close() }()
	t.Cleanup(func() { watch.Process.Kill(); io.Copy(io.Discard, read); <-ended })
	lines, looks := bufio.NewScanner(read), 0
	for _, want := range []string{"decoding threads", "decoding threads", "no server answers on " + socket} {
		for found := false; !found; found = strings.Contains(lines.Text(), want) {
			testenv.Require(t, lines.Scan(), "no %q: %v", want, lines.Err())
		}
		if looks++; looks == 2 {
			serve.Process.Kill()
		}
	}
}

// TestReload has a server see changed, missing and damaged sets.
func TestReload(t *testing.T) {
	t.Parallel()
	path, dir := socketPath(t), oneSet(t)
	fails(t, "no server answers on "+path, "reload", "--socket", path)
	serve := imgfeed("serve", dir, "--socket", path)
	start(t, serve)
	if out, err := imgfeed("reload", "--socket", path).CombinedOutput(); err != nil || string(out) != status.Unchanged+"\n" {
		t.Errorf("%v, %s", err, out)
	}
	set := filepath.Join(dir, "train-shards")
	testenv.OK(t, os.Rename(set, filepath.Join(dir, ".away")))
	second := oneSet(t)
	testenv.OK(t, os.Rename(filepath.Join(second, "train-shards"), filepath.Join(dir, "val-shards")))
	// The set in val-shards is one of split train, the same as before.
	if out, err := imgfeed("reload", "--socket", path).CombinedOutput(); err != nil {
		t.Errorf("%v, %s", err, out)
	}
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "val-shards")))
	fails(t, "nothing has changed: ", "reload", "--socket", path)
	testenv.OK(t, os.Rename(filepath.Join(dir, ".away"), set))
	testenv.OK(t, os.Remove(filepath.Join(set, "rank-0000", "00000.imgshard")))
	out, err := imgfeed("reload", "--socket", path).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "00000.imgshard is missing") || !strings.Contains(string(out), "still served") {
		t.Errorf("with a damaged set: %v, %s", err, out)
	}
	serve.Process.Signal(unix.SIGTERM)
	testenv.OK(t, serve.Wait())
}
