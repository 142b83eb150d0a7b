package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
)

func init() { runtime.LockOSThread() } // so that main, and in the owner's role owner, runs on the first thread

// roleEnv makes this test program play another part than that of a test.
const roleEnv = "IMGFEED_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "imgfeed":
		main()
	case "owner":
		owner()
	default:
		os.Exit(runAlone(m))
	}
}

// runAlone runs the tests with a folder of sockets of their own: other servers of the user are not to be found.
func runAlone(m *testing.M) int {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_RUNTIME_DIR", dir)
	return m.Run()
}

// owner starts a server as a training process does, says its process ID and lives until it is killed. The thread that
// starts it ends as soon as the server listens, as Python's may: that is not a reason for the server to end.
func owner() {
	args := os.Args[1:]
	for i, arg := range args {
		if arg == "PID" {
			args[i] = strconv.Itoa(os.Getpid())
		}
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"=imgfeed")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	started := make(chan error)
	if syscall.Gettid() != os.Getpid() {
		panic("want the first thread, which never ends, held by this goroutine")
	}
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		started <- begin(cmd)
	}()
	if err := <-started; err != nil {
		panic(err)
	}
	fmt.Println(cmd.Process.Pid)
	time.Sleep(time.Minute)
}

// imgfeed prepares a run of the program.
func imgfeed(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"=imgfeed")
	return cmd
}

// outputOf runs a program that must succeed, and returns what it prints.
func outputOf(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	testenv.Require(t, err == nil, "%q: %v: %s", cmd.Args[1:], err, out)
	return string(out)
}

// fails checks that a run of the program fails, and what it says.
func fails(t *testing.T, want string, args ...string) {
	t.Helper()
	out, err := imgfeed(args...).CombinedOutput()
	testenv.Check(t, err != nil && strings.Contains(string(out), want), "imgfeed %s: %v, %s; want %q", strings.Join(args, " "), err, out, want)
}

// begin starts a server, and waits until clients can connect.
func begin(serve *exec.Cmd) error {
	ready, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	serve.Args, serve.ExtraFiles = append(serve.Args, "--ready-fd", "3"), []*os.File{write}
	err = serve.Start()
	write.Close()
	if err != nil {
		return err
	}
	line, err := io.ReadAll(ready)
	if want := "unix:" + serve.Args[slices.Index(serve.Args, "--socket")+1] + "\n"; string(line) != want {
		err = fmt.Errorf("%q: --ready-fd got %q, %v, want %q", serve.Args, line, err, want)
	}
	return err
}

// start starts a server that ends with the test at the latest, and waits until clients can connect.
func start(t *testing.T, serve *exec.Cmd) {
	t.Helper()
	if serve.Stderr == nil {
		serve.Stderr = new(bytes.Buffer)
	}
	testenv.OK(t, begin(serve), "stderr: %s", serve.Stderr)
	t.Cleanup(func() { serve.Process.Kill(); serve.Wait() })
}

// oneSet writes a set of one sample and returns the folder above it.
func oneSet(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	w := testenv.Must(shard.NewSetWriter(filepath.Join(dir, "train-shards"), shard.SetOptions{
		Split: "train", Encoding: shard.Encoding{Name: "jpeg"}, Classes: []string{"a"}, Partitions: 2,
	}))(t)
	defer w.Abort()
	testenv.OK(t, w.Append(shard.Sample{Key: "a/1", Width: 1, Height: 1, Format: imagefile.PNG, Image: []byte("\x89PNG\r\n\x1a\n")}))
	testenv.Must(w.Commit())(t)
	return dir
}

func socketPath(t *testing.T) string {
	t.Helper()
	dir := testenv.Must(os.MkdirTemp("", "imgfeed-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// hello asks the server at path what it is.
func hello(t *testing.T, path string) status.Status {
	t.Helper()
	return testenv.Must(status.Ask(path, time.Minute, 0))(t)
}

func TestServePrintsAndStops(t *testing.T) {
	t.Parallel()
	data := oneSet(t)
	path := socketPath(t)
	cmd := imgfeed("serve", data, "--socket", path, "--socket-mode", "0666", "--metrics", "0", "--threads", "1", "--rank", "1", "--world", "2")
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	start(t, cmd)
	testenv.Equal(t, testenv.Must(os.Stat(path))(t).Mode().Perm(), 0o666, "the socket's mode")
	h := hello(t, path)
	testenv.Check(t, h.PID == cmd.Process.Pid && h.Sets[0].Split == "train", "status: %+v", h)
	fails(t, fmt.Sprintf("process %d already listens", cmd.Process.Pid), "serve", data, "--socket", path)
	cmd.Process.Signal(syscall.SIGTERM)
	testenv.OK(t, cmd.Wait(), "%s", &log)
	testenv.Contains(t, out.String(),
		"serves "+data+", by default to rank 1 of 2\n", "train", "1 sample", "all 2 partitions", "on unix:"+path,
		`DataLoader("unix:`+path, "metrics on http://127.0.0.1:")
	testenv.Fails(os.Lstat(path))(t, os.ErrNotExist, "the socket remains")
}

// TestServeEndsWithoutClients waits for the end of a server that nobody came to, although it is asked for its health all the time.
func TestServeEndsWithoutClients(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	fails(t, "no server answers on "+path, "status", "--socket", path)
	serve := imgfeed("serve", oneSet(t), "--socket", path, "--exit-idle", "1s")
	var log bytes.Buffer
	serve.Stderr = &log
	start(t, serve)
	ended := make(chan error)
	go func() { ended <- serve.Wait() }()
	for {
		select {
		case err := <-ended:
			testenv.Check(t, err == nil && strings.Contains(log.String(), "no client has been connected for 1s"),
				"without clients: %v, log: %s", err, &log)
			return
		case <-time.After(50 * time.Millisecond):
			imgfeed("status", "--socket", path).Run()
		}
	}
}

// A job's signals reach its processes all at once: the server serves on until its owner, here the test, has done.
func TestServeLeavesSignalsToTheOwner(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	cmd := imgfeed("serve", oneSet(t), "--socket", path, "--owner", strconv.Itoa(os.Getpid()))
	var log bytes.Buffer
	cmd.Stderr = &log
	start(t, cmd)
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Process.Signal(syscall.SIGHUP)
	time.Sleep(200 * time.Millisecond)
	testenv.Equal(t, hello(t, path).PID, cmd.Process.Pid, "after SIGTERM and SIGHUP")
	cmd.Process.Signal(os.Interrupt)
	testenv.OK(t, cmd.Wait(), "after SIGINT: %s", &log)
}

// TestServeEndsWhileItOpens ends servers and feeders whose set takes long to open: by a signal, and by the end of the owner.
// Meanwhile the log says each second how far the set is.
func TestServeEndsWhileItOpens(t *testing.T) {
	t.Parallel()
	data := oneSet(t)
	testenv.Hold(t, filepath.Join(data, "train-shards/rank-0000/00000.imgshard"))
	owner := exec.Command("sleep", "60")
	testenv.OK(t, owner.Start())
	t.Cleanup(func() { owner.Process.Kill() })
	byOwner := func(*exec.Cmd) {
		owner.Process.Kill()
		owner.Wait()
	}
	bySignal := func(cmd *exec.Cmd) { cmd.Process.Signal(syscall.SIGTERM) }
	for _, tt := range []struct {
		name string
		args []string
		end  func(*exec.Cmd)
	}{
		{"serve", []string{"serve", data, "--socket", socketPath(t)}, bySignal},
		{"feed", []string{"feed", data, "--listen", "127.0.0.1:0"}, bySignal},
		{"owner", []string{"serve", data, "--socket", socketPath(t), "--owner", strconv.Itoa(owner.Process.Pid)}, byOwner},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := imgfeed(tt.args...)
			log := testenv.Must(cmd.StderrPipe())(t)
			testenv.OK(t, cmd.Start())
			said := 0
			for lines := bufio.NewScanner(log); lines.Scan(); {
				if strings.Contains(lines.Text(), "opening takes a while") && strings.Contains(lines.Text(), "split=train shards=0 of=1") {
					if said++; said == 2 {
						tt.end(cmd)
					}
				}
			}
			err := cmd.Wait()
			testenv.Check(t, err == nil && said >= 2, "%v: %v, %d lines say how far opening is", tt.args, err, said)
		})
	}
}

func TestServeMetrics(t *testing.T) {
	t.Parallel()
	cmd := imgfeed("serve", oneSet(t), "--socket", socketPath(t), "--metrics", "127.0.0.1:0", "--threads", "3")
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=")
	out := testenv.Must(cmd.StdoutPipe())(t)
	testenv.OK(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Signal(syscall.SIGTERM)
	var url string
	for scanner := bufio.NewScanner(out); url == "" && scanner.Scan(); {
		url = regexp.MustCompile(`http://\S+/`).FindString(scanner.Text())
	}
	for page, wants := range map[string][]string{
		"metrics": {"imgfeed_delivered_images_total", "go_sched_gomaxprocs_threads 3\n"}, "healthz": {"ok"}, "": {"no sessions"},
	} {
		resp := testenv.Must(http.Get(url + page))(t)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		testenv.Equal(t, resp.StatusCode, 200, "the status of %s%s", url, page)
		testenv.Contains(t, string(body), wants...)
	}
}

// TestServerDiesWithItsOwner kills owners that have no chance to say goodbye.
func TestServerDiesWithItsOwner(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	cmd := exec.Command(os.Args[0], "serve", oneSet(t), "--socket", path, "--owner", "PID")
	cmd.Env = append(os.Environ(), roleEnv+"=owner")
	out := testenv.Must(cmd.StdoutPipe())(t)
	testenv.OK(t, cmd.Start())
	line := testenv.Must(bufio.NewReader(out).ReadString('\n'))(t)
	pid := testenv.Must(strconv.Atoi(strings.TrimSpace(line)))(t)
	testenv.Equal(t, hello(t, path).PID, pid, "the process of the server, which its owner started")
	time.Sleep(100 * time.Millisecond) // the thread that started it is gone by now
	testenv.Equal(t, hello(t, path).PID, pid, "the server ended with its owner's thread")
	cmd.Process.Kill()
	cmd.Wait()
	testenv.Until(t, func() bool { return !running(pid) })
	testenv.Fails(os.Lstat(path))(t, os.ErrNotExist, "the socket remains")
}

// TestServerStopsWhenStdinCloses covers an owner that lives on but lets go.
func TestServerStopsWhenStdinCloses(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	cmd := imgfeed("serve", oneSet(t), "--socket", path, "--owner", strconv.Itoa(os.Getpid()))
	stdin := testenv.Must(cmd.StdinPipe())(t)
	start(t, cmd)
	stdin.Close()
	testenv.OK(t, cmd.Wait())
}

// running reports whether a process exists and is not a zombie: its new parent may take its time.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func TestMistakes(t *testing.T) {
	dead := imgfeed("version")
	testenv.OK(t, dead.Run())
	taken := testenv.Opened(net.Listen("tcp", "127.0.0.1:0"))(t)
	data, empty := oneSet(t), t.TempDir()
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"serve", "--no-such-flag"}, 2, "no-such-flag"},
		{[]string{"bench", "a", "b"}, 2, "imgfeed bench with 2 arguments: want imgfeed bench "},
		{[]string{"serve", data, data + "-none"}, 1, "-none: no such file"},
		{[]string{"sevre"}, 2, `unknown command "sevre" (did you mean "serve"?)`},
		{[]string{"serve", data, "--rank", "1"}, 2, "--rank and --world belong together"},
		{[]string{"serve", data, "--world", "2"}, 2, "--rank and --world belong together"},
		{[]string{"serve", data, "--rank", "2", "--world", "2"}, 2, "--rank 2 --world 2: ranks count from 0, so the last of this world is 1"},
		{[]string{"serve", data, "--rank", "-1", "--world", "2"}, 2, `--rank "-1": want a whole number from 0`},
		{[]string{"serve", data, "--rank", "0", "--world", "0"}, 2, `--world "0": want a whole number from 1`},
		{[]string{"feed", data}, 2, "give it an address to listen at, e.g. --listen :7400"},
		{[]string{"serve", data, "--threads", "1000000"}, 2, `--threads "1000000": want a whole number from 0 to 4096`},
		{[]string{"bench", data, "--threads", "1000000"}, 2, "from 0 to 4096"},
		{[]string{"bench", data, "--threads", "99999999999999999999"}, 2, "from 0 to 4096"},
		{[]string{"bench", data, "--batch-size", "16777217"}, 2, "from 1 to 16777216"},
		{[]string{"bench", data, "--batch-size", "16777216"}, 2, "--batch-size 16777216: 3 such batches take 6.9 TiB, and half of the memory is "},
		{[]string{"bench", data, "--seed", "x"}, 2, `--seed "x": want a whole number`},
		{[]string{"bench", data, "--seed", "9223372036854775808"}, 2, `--seed "9223372036854775808": want a whole number from -9223372036854775808 to 9223372036854775807`},
		{[]string{"serve", data, "--metrics", "99999"}, 2, `--metrics "99999": want a port or HOST:PORT`},
		{[]string{"serve", data, "--metrics", "foo"}, 2, `--metrics "foo": want a port or HOST:PORT`},
		{[]string{"serve", data, "--log-level", "loud"}, 2, `--log-level "loud": want debug, info, warn or error`},
		{[]string{"serve", data, "--memory", "much"}, 2, `--memory "much": want a size, such as`},
		{[]string{"serve", data, "--memory", "1"}, 2, "want 1 MiB to "},
		{[]string{"serve", data, "--memory", "1000TiB"}, 2, "the size of this machine's memory"},
		{[]string{"serve", data, "--metrics", "a:b:c"}, 2, "metrics"},
		{[]string{"serve", data, "--resampler", "rez"}, 2, "want one of pillow-13, pillow-12"},
		{[]string{"serve", data, "--socket-mode", "0160"}, 2, "0660"},
		{[]string{"serve", data, "--exit-idle", "-1s"}, 2, "--exit-idle"},
		{[]string{"status", "--timeout", "0s"}, 2, "--timeout"},
		{[]string{"serve", ""}, 2, "SET is empty"},
		{[]string{"serve", "ftp://bucket/x"}, 2, "SET ftp://: an unknown kind of URL"},
		{[]string{"serve", data, "--socket", ""}, 2, "--"},
		{[]string{"reload", "--socket", "/" + strings.Repeat("x", 107)}, 1, "socket path of 108 bytes, the system's limit is 107"},
		{[]string{"serve", empty}, 1, "the folder is empty"},
		{[]string{"serve", data, "--owner", strconv.Itoa(dead.Process.Pid)}, 1, "has ended"},
		{[]string{"serve", data, "--socket", "/proc/none/s"}, 1, "socket"},
		{[]string{"serve", data, "--socket=~/s"}, 2, "write $HOME, or ./~/s"},
		{[]string{"serve", data, "--socket", socketPath(t), "--metrics", taken.Addr().String()}, 1, "choose another address, or port 0 for any free one"},
	} {
		out, err := imgfeed(tt.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != tt.status || !strings.HasPrefix(string(out), "imgfeed: ") || !strings.Contains(string(out), tt.want) {
			t.Errorf("imgfeed %s: %v, %s; want status %d and %q", strings.Join(tt.args, " "), err, out, tt.status, tt.want)
		}
	}
	t.Setenv(dataEnv, "ftp://bucket/x")
	for want, args := range map[string][]string{"$IMGFEED_DATA ftp://: an unknown kind of URL": {"serve"}, "the folder is empty": {"serve", empty}} {
		fails(t, want, args...)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	out := outputOf(t, imgfeed("version"))
	testenv.Check(t, strings.HasPrefix(out, "imgfeed ") && strings.Contains(out, "kernels: "), "%s", out)
	testenv.Contains(t, outputOf(t, imgfeed("version", "--json")), `"wire":1`)
}

func TestGiveProcessors(t *testing.T) {
	t.Parallel()
	defer runtime.SetDefaultGOMAXPROCS()
	cpus := runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		threads, reading, want int
	}{{3, 0, 3}, {3, 1, 4}, {0, 3, cpus + 3}, {0, 0, cpus}} {
		reading := giveProcessors(c.threads)
		if reading == nil {
			t.Skip("the number of processors is set by GOMAXPROCS")
		}
		reading(c.reading)
		testenv.Equal(t, runtime.GOMAXPROCS(0), c.want, "Go's processors for %d threads and %d of reading", c.threads, c.reading)
	}
}

// TestCompletions has both programs offer the values of flags to shells.
func TestCompletions(t *testing.T) {
	t.Parallel()
	for want, args := range map[string]string{
		"pillow-12": "__complete serve --resampler", "simclr": "__complete bench --transform", "warn": "__complete serve --log-level",
		"dino": "imgshard __complete view --transform", "pixels": "imgshard __complete repack --encoding", "zstd": "imgshard __complete build --codec",
	} {
		out, err := imgfeed(append(strings.Fields(args), "")...).Output()
		testenv.Check(t, err == nil && slices.Contains(strings.Fields(string(out)), want), "%q: %s, %v, want %s among them", args, out, err, want)
	}
}

func TestOnlyHosts(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	h := onlyHosts(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), []string{"feed.example.com", ""})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:9090": 200, "127.0.0.1:9090": 200, "[::1]:9090": 200, "::1": 200, "10.1.2.3": 200, own: 200, own + ":1": 200,
		"feed.example.com": 200, "FEED.example.com:80": 200, "evil.example.com": 403, "evil.example.com:9090": 403, "localhost.evil.com": 403, "": 403,
	} {
		for _, path := range []string{"/", "/status.json", "/sessions/1/batch.json", "/metrics", "/healthz"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			open := path == "/metrics" || path == "/healthz"
			got := w.Code
			testenv.Check(t, got == want || open && got == 200, "%s of %q: %d, want %d", path, host, got, want)
		}
	}
}
