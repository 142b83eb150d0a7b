package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/status"
)

// frame is a message of a kind with these members, as a client in another language writes it.
func frame(kind, members string) []byte {
	text := fmt.Sprintf(`{"type":%q,%s`, kind, members[1:])
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// nextFrame reads a message's text.
func nextFrame(r io.Reader) ([]byte, error) {
	var length uint32
	if err := binary.Read(r, binary.LittleEndian, &length); err != nil {
		return nil, err
	}
	text := make([]byte, length)
	_, err := io.ReadFull(r, text)
	return text, err
}

// servedSession starts a server with an address, on which a client has a session whose epoch waits for it, and returns socket and address.
func servedSession(t *testing.T) (socket, address string, serve *exec.Cmd) {
	t.Helper()
	socket = socketPath(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	l.Close()
	serve = imgfeed("serve", oneSet(t), "--socket", socket, "--metrics", address)
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { serve.Process.Kill(); serve.Wait() })
	hello(t, socket)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	for _, m := range [][]byte{
		frame("hello", `{"version":1}`),
		frame("open", `{"transform":"eval","batch_size":1,"slots":2,"on_error":"blank"}`),
		frame("start", `{"epoch":4}`),
	} {
		if _, err := conn.Write(m); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		st, err := status.Ask(socket, 5*time.Second, 0)
		if err == nil && len(st.Sessions) == 1 && st.Sessions[0].Images > 0 && len(st.History) > 0 {
			return socket, address, serve
		}
		if time.Now().After(deadline) {
			t.Fatalf("no session: %+v, %v", st, err)
		}
	}
}

func TestTopOnce(t *testing.T) {
	socket, address, _ := servedSession(t)
	for _, place := range []string{socket, "unix:" + socket, address, "http://" + address + "/", strings.TrimPrefix(address, "127.0.0.1:")} {
		out, err := imgfeed("top", place, "--once").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "decoding threads") || !strings.Contains(string(out), "train  0/1   ") {
			t.Errorf("top %s: %v\n%s", place, err, out)
		}
		out, err = imgfeed("top", place, "--once", "--json").Output()
		var st status.Status
		if err != nil || json.Unmarshal(out, &st) != nil || len(st.Sessions) != 1 || st.Sessions[0].BatchSize != 1 {
			t.Errorf("top %s --json: %v\n%s", place, err, out)
		}
	}
}

func TestTopMistakes(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--once", socketPath(t)}, "no server answers on unix:"},
		{[]string{"--once", "127.0.0.1:1"}, "no server answers on http://127.0.0.1:1"},
		{[]string{"--json"}, "--json goes with --once"},
		{nil, "the output is no terminal: --once"},
		{[]string{"--once", "a", "b"}, "imgfeed top with 2 arguments: want imgfeed top [SERVER]"},
	} {
		out, err := imgfeed(append([]string{"top"}, tt.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("top %v: %v, %s", tt.args, err, out)
		}
	}
}

// TestTopInTerminal looks at a real terminal of 80 × 24, while the server runs and once it has gone.
func TestTopInTerminal(t *testing.T) {
	tmux := testenv.Command("tmux").Path(t)
	socket, _, serve := servedSession(t)
	name := fmt.Sprintf("imgfeed-test-%d", serve.Process.Pid)
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(tmux, append([]string{"-L", name}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v, %s", args, err, out)
		}
		return string(out)
	}
	top := imgfeed("top", socket, "--interval", "100ms")
	run("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-s", "top", "exec env "+strings.Join(top.Env[len(top.Env)-1:], " ")+" "+strings.Join(top.Args, " "))
	t.Cleanup(func() { exec.Command(tmux, "-L", name, "kill-server").Run() })
	waitFor := func(want ...string) string {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			screen := run("capture-pane", "-p", "-t", "top")
			missing := false
			for _, text := range want {
				missing = missing || !strings.Contains(strings.Join(strings.Fields(screen), " "), text) // lines may be in several rows
			}
			if !missing {
				return screen
			}
			if time.Now().After(deadline) {
				t.Fatalf("%q does not come to the screen\n%s", want, screen)
			}
		}
	}
	screen := waitFor("2 decoding threads", "SPLIT", "WAITS FOR", "q ends")
	for _, line := range strings.Split(screen, "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("a line of more than 80 columns: %s", line)
		}
	}
	t.Logf("the screen:\n%s", screen)
	serve.Process.Kill()
	serve.Wait()
	waitFor("no answer on unix:", "asking again")
	run("send-keys", "-t", "top", "q")
	for deadline := time.Now().Add(20 * time.Second); exec.Command(tmux, "-L", name, "has-session", "-t", "top").Run() == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("q does not end it")
		}
	}
}
