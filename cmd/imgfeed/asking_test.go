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
	conn := testenv.Opened(net.Dial("unix", socket))(t)
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
	testenv.Check(t, strings.HasPrefix(outputOf(t, all), "unix:"+socket+"\n"), "all servers: another one is first")
	for _, address := range []string{socket, "unix:" + socket} {
		out := outputOf(t, imgfeed("status", address))
		testenv.Contains(t, out, "unix:"+socket+"\n", fmt.Sprintf("process %d", serve.Process.Pid), "2 decoding threads", "1 sample, 1 class",
			"all 2 partitions", "\ntrain  0/1   ", "threads: ", "training is the limit")
		for line := range strings.Lines(out) {
			line = strings.TrimSpace(line)
			testenv.Check(t, utf8.RuneCountInString(line) <= 80 || !strings.Contains(line, " "), "a line of more than 80 columns: %s", line)
		}
	}
	out := outputOf(t, imgfeed("status", "--json", socket))
	var st struct {
		Socket string
		status.Status
	}
	testenv.OK(t, json.Unmarshal([]byte(out), &st))
	testenv.Check(t, st.Socket == socket && len(st.Sessions) == 1 && st.Sessions[0].BatchSize == 1, "status --json: %s", out)
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
	testenv.Equal(t, outputOf(t, imgfeed("reload", "--socket", path)), status.Unchanged+"\n", "a reload of nothing new")
	set := filepath.Join(dir, "train-shards")
	testenv.OK(t, os.Rename(set, filepath.Join(dir, ".away")))
	second := oneSet(t)
	testenv.OK(t, os.Rename(filepath.Join(second, "train-shards"), filepath.Join(dir, "val-shards")))
	// The set in val-shards is one of split train, the same as before.
	outputOf(t, imgfeed("reload", "--socket", path))
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "val-shards")))
	fails(t, "nothing has changed: ", "reload", "--socket", path)
	testenv.OK(t, os.Rename(filepath.Join(dir, ".away"), set))
	testenv.OK(t, os.Remove(filepath.Join(set, "rank-0000", "00000.imgshard")))
	fails(t, "00000.imgshard is missing", "reload", "--socket", path)
	fails(t, "still served", "reload", "--socket", path)
	serve.Process.Signal(unix.SIGTERM)
	testenv.OK(t, serve.Wait())
}
