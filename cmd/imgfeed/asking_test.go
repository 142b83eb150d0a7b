package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/cmd/internal/imgshard"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard/synth"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
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
		for line := range strings.SplitSeq(out, "\n") {
			one := !strings.Contains(strings.TrimSpace(line), " ")
			testenv.Check(t, utf8.RuneCountInString(line) <= 80 || one, "a line of more than 80 columns: %s", line)
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

// A speaker says the same to whoever connects to its socket, whatever he says.
type speaker struct {
	socket string
	says   atomic.Pointer[[]byte]
}

func newSpeaker(f *testing.F) *speaker {
	f.Helper()
	dir := testenv.Must(os.MkdirTemp("", "imgfeed-"))(f) // a socket's path is short
	s := &speaker{socket: filepath.Join(dir, "s")}
	l := testenv.Must(net.Listen("unix", s.socket))(f)
	f.Cleanup(func() {
		l.Close()
		os.RemoveAll(dir)
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				conn.Write(*s.says.Load())
				conn.(*net.UnixConn).CloseWrite()
				io.Copy(io.Discard, conn)
			}()
		}
	}()
	return s
}

// Whatever another program answers on a server's socket or address, status and reload end, in text that does nothing to a terminal.
func FuzzAnswers(f *testing.F) {
	message := func(kind, text string) []byte {
		testenv.Require(f, json.Valid([]byte(text)), "%s is not JSON", text)
		return frame(kind, text)
	}
	st := status.Status{Damaged: []string{"a"}, Sessions: []status.Session{{Split: "train"}}, History: make([]status.Moment, 1)}
	members := `{"server":"imgfeed","pid":1,"sets":[{"split":"train","samples":3,"classes":1,"partitions":2,"here":[1],"encoding":{"name":"pixels"}}]}`
	hello := message("hello", members)
	f.Add(hello)
	f.Add(slices.Concat(hello, message("status", members)))
	f.Add(slices.Concat(hello, message("status", strings.ReplaceAll(members, "imgfeed", `img\u001b[2Jfeed`))))
	f.Add(slices.Concat(hello, message("reloaded", `{"changes":["a\u001b[2Jb","\u009bc"]}`)))
	f.Add(slices.Concat(hello, message("status", string(testenv.Must(json.Marshal(st))(f)))))
	f.Add(slices.Concat(hello, message("error", `{"kind":"bad_request","message":"\u001b"}`)))
	f.Add([]byte("\xff\xff\xff\xff{"))
	s := newSpeaker(f)
	f.Fuzz(func(t *testing.T, says []byte) {
		s.says.Store(&says)
		var out bytes.Buffer
		run := func(args ...string) {
			root := newRootCommand()
			root.SetOut(&out)
			root.SetArgs(args)
			cliutil.Report(&out, root, root.Execute())
		}
		run("status", "--timeout", "1m", "--socket", s.socket)
		run("status", "--json", "--timeout", "1m", s.socket)
		run("reload", "--socket", s.socket)
		i := strings.IndexFunc(out.String(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
		testenv.Check(t, i < 0, "%q", out.String()[max(0, i-20):min(i+20, out.Len())])
		testenv.Check(t, out.Len() <= 4096+16*len(says), "%d bytes are printed of %d", out.Len(), len(says))
	})
}

// TestLostOutput runs commands whose output finds no room on the disk: none may end well.
func TestLostOutput(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full: ", err)
	}
	defer full.Close()
	dir, path := t.TempDir(), socketPath(t)
	src, set, out := filepath.Join(dir, "src"), filepath.Join(dir, "set"), filepath.Join(dir, "out")
	testenv.Must(synth.Write(t.Context(), src, synth.Options{Classes: 2, Train: 2, Size: 20}))(t)
	outputOf(t, imgfeed("imgshard", "build", filepath.Join(src, "train"), "-o", set))
	serve := imgfeed("serve", set, "--socket", path)
	serve.Stdout = full
	start(t, serve)
	for _, line := range []string{
		"version", "version --json", "--help", "serve --help", "completion bash", "__complete serve --",
		"status --socket PATH", "status --socket PATH --json", "reload --socket PATH", "bench SET --seconds 0.05 --json", "bench SET --seconds 0.05",
		"imgshard build SRC -o OUT", "imgshard build SRC -o OUT --json", "imgshard build SRC -o OUT --force", "imgshard repack SET -o OUT2",
		"imgshard copy SET OUT3", "imgshard index SRC -o OUT4", "imgshard synth OUT5 --classes 1 --train 1 --val 0", "imgshard inspect SET",
		"imgshard inspect SRC --json", "imgshard stats SET", "imgshard stats SET --json", "imgshard stats SET -o -", "imgshard ls SET",
		"imgshard ls SET --json", "imgshard cat SET 0", "imgshard view SET -o -", "imgshard view SET -o OUT6.html", "imgshard verify SET",
		"imgshard verify SET --json",
	} {
		cmd := imgfeed(strings.Fields(strings.NewReplacer("PATH", path, "SET", set, "SRC", filepath.Join(src, "train"), "OUT", out).Replace(line))...)
		var log bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &log
		err := cmd.Run()
		testenv.Check(t, cmd.ProcessState.ExitCode() == 1 && strings.Contains(log.String(), "write /dev/stdout: no space left on device"),
			"%s: %v, %s", line, err, &log)
	}
	serve.Process.Signal(syscall.SIGTERM)
	err = serve.Wait()
	testenv.Check(t, serve.ProcessState.ExitCode() == 1, "serve, whose first lines are lost: %v", err)
}

// TestServeOutlivesItsReader serves on, and ends well, when the reader of its first lines has gone.
func TestServeOutlivesItsReader(t *testing.T) {
	t.Parallel()
	reader, writer := testenv.Must2(os.Pipe())(t)
	reader.Close()
	serve := imgfeed("serve", oneSet(t), "--socket", socketPath(t))
	serve.Stdout = writer
	start(t, serve)
	writer.Close()
	serve.Process.Signal(syscall.SIGTERM)
	testenv.OK(t, serve.Wait(), "%s", serve.Stderr)
}

// TestSecretsAreRefused gives each command of both programs URLs with secrets, as each of its arguments and flags. All must be
// refused, and no secret printed.
func TestSecretsAreRefused(t *testing.T) {
	refuseSecrets(t, newRootCommand)
	refuseSecrets(t, imgshard.NewRoot)
}

func refuseSecrets(t *testing.T, newRoot func() *cobra.Command) {
	const secret = "hunter2"
	urls := []string{
		"https://user:" + secret + "@host/x", "s3://bucket/x?signature=" + secret, "https://host/x#" + secret, "https://host/%zz" + secret,
	}
	refused := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		root := newRoot()
		root.SetArgs(args)
		root.SetOut(&out)
		root.SetErr(&out)
		cmd, err := root.ExecuteC()
		status := cliutil.Report(&out, cmd, err)
		testenv.Check(t, status == 2 && !strings.Contains(out.String(), secret), "%q: status %d, and it says %s", args, status, &out)
	}
	for _, cmd := range newRoot().Commands() {
		var args []string
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		path := []string{cmd.Name()}
		if cmd.HasSubCommands() {
			cmd = cmd.Commands()[0]
			path = append(path, cmd.Name())
		}
		for _, word := range strings.Fields(cmd.Use)[1:] {
			if strings.HasPrefix(word, "-") {
				break
			}
			if !strings.HasPrefix(word, "[") {
				args = append(args, "x")
			}
		}
		for _, url := range urls {
			for i, word := range strings.Fields(cmd.Use)[1:] {
				if strings.HasPrefix(word, "-") {
					break
				}
				if given := append(append(path[:len(path):len(path)], args[:min(i, len(args))]...), url); !strings.Contains(word, "KEY") {
					refused(append(given, args[min(i+1, len(args)):]...)...)
				}
			}
			each := func(f *pflag.Flag) {
				if f.Name != "help" && f.Value.Type() != "bool" {
					refused(append(append(path[:len(path):len(path)], "--"+f.Name+"="+url), args...)...)
				}
			}
			cmd.LocalFlags().VisitAll(each)
			cmd.InheritedFlags().VisitAll(each)
		}
	}
	refused(urls[0])
}
