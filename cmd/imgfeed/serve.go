package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/resample"
	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/shard"
)

// serveFlags are the flags of imgfeed serve.
type serveFlags struct {
	socket         string
	socketMode     fileMode
	rank, world    int
	threads        int
	memory         bytesize.Size
	metrics        string
	owner          int
	exitIdle       time.Duration
	exitWithParent bool
	readyFD        int
	logLevel       slog.Level
	logJSON        bool
	bitExact       bool
	resampler      resample.Algorithm
}

// threadsMax is far beyond what any machine has processors for: more is a slip that would take all its memory.
const threadsMax = 4096

// resamplerUsage describes --resampler.
const resamplerUsage = "whose bits resizing gives: pillow-13 (Pillow 13) or pillow-12 (Pillow 9.4 to 12.3)"

const serveLong = `Serve the shard sets in DATA to training processes on this machine.

DATA is a shard set or a folder that holds sets of several splits. Without it, the server looks in $IMGFEED_DATA, in the
current folder and in /data, in this order.

Clients connect to a Unix socket, which only this user can open unless --socket-mode says otherwise. Its default path is
$XDG_RUNTIME_DIR/imgfeed.sock, or /tmp/imgfeed-UID/imgfeed.sock where that variable is not set. A socket that a dead server
left behind is replaced.

What is damaged, as a partition of which only some shards were copied, is named in the log and in the errors of those who
ask for it; everything else is served.

Once the server listens it prints what it serves and how to connect; its log goes to stderr. SIGTERM and SIGINT stop it;
with --owner only SIGINT and the owner's end do, since the owner may need batches after a SIGTERM to both.`

func newServeCommand() *cobra.Command {
	f := serveFlags{socketMode: server.SocketMode}
	cmd := &cobra.Command{
		Use:   "serve [DATA]",
		Short: "Serve shard sets to training processes on this machine",
		Long:  serveLong,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), append(args, "")[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.socket, "socket", "", "path of the socket")
	flags.Var(&f.socketMode, "socket-mode", "permissions of the socket; 0660 lets clients of the same group connect, from another container for instance")
	flags.IntVar(&f.rank, "rank", 0, "rank of sessions that name none; its partition must be here")
	flags.IntVar(&f.world, "world", 0, "number of ranks, for sessions that name none")
	flags.IntVar(&f.threads, "threads", 0, "number of decoding threads (default one for each CPU)")
	flags.Var(&f.memory, "memory", "most memory for all clients' batches together, as 8GiB (default half of the memory)")
	flags.StringVar(&f.metrics, "metrics", "", "serve Prometheus metrics, /healthz and the status at this address; a port alone means this machine only")
	flags.IntVar(&f.owner, "owner", 0, "stop when the process with this ID ends, and not for SIGTERM before")
	flags.IntVar(&f.owner, "parent-pid", 0, "the same as --owner")
	flags.BoolVar(&f.bitExact, "bit-exact", false, "refuse sessions whose transform of the stored images does not give the bits that it gives of the originals")
	flags.TextVar(&f.resampler, "resampler", resample.Pillow13, resamplerUsage+", for sessions that name none")
	flags.BoolVar(&f.exitWithParent, "exit-with-parent", false, "stop when the parent process ends or closes the pipe that is our stdin")
	flags.DurationVar(&f.exitIdle, "exit-idle", 0, "stop when no client has been connected for so long, as 30s, counted from the start and from the last one's end (default never)")
	flags.IntVar(&f.readyFD, "ready-fd", 0, "write the socket's address and a newline to this descriptor, and close it, once clients can connect")
	flags.TextVar(&f.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flags.BoolVar(&f.logJSON, "log-json", false, "log JSON instead of text")
	flags.MarkHidden("parent-pid")
	return cmd
}

// check tells mistakes on the command line from what goes wrong later.
func (f *serveFlags) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case given("rank") != given("world"):
		return usageError{errors.New("--rank and --world go together: give both or neither")}
	case given("world") && (f.world < 1 || f.rank < 0 || f.rank >= f.world):
		return usageError{fmt.Errorf("--rank %d --world %d: the rank must be 0 to world-1", f.rank, f.world)}
	case f.threads < 0 || f.threads > threadsMax:
		return usageError{fmt.Errorf("--threads %d: want 1 to %d, or 0 for one for each CPU", f.threads, threadsMax)}
	case f.owner < 0:
		return usageError{fmt.Errorf("--owner %d is no process ID", f.owner)}
	case f.exitIdle < 0:
		return usageError{fmt.Errorf("--exit-idle %v: want a time such as 30s, or 0 for never", f.exitIdle)}
	case f.readyFD < 0:
		return usageError{fmt.Errorf("--ready-fd %d is no descriptor", f.readyFD)}
	}
	if f.metrics != "" {
		if _, err := server.MetricsAddr(f.metrics); err != nil {
			return usageError{err}
		}
	}
	return kernel.CheckEnv()
}

func (f *serveFlags) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: f.logLevel}
	if f.logJSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

// run serves until a signal or the owner's end.
func (f *serveFlags) run(ctx context.Context, out io.Writer, data string) error {
	log := f.logger()
	ends := []os.Signal{os.Interrupt, unix.SIGTERM}
	if f.owner != 0 {
		// Slurm, for one, sends SIGTERM to all processes of a job at once. The owner wants batches until it has saved.
		ends = ends[:1]
		signal.Ignore(unix.SIGTERM)
	}
	ctx, stop := signal.NotifyContext(ctx, ends...)
	defer stop()
	signal.Ignore(unix.SIGPIPE)  // whoever reads our log may end before us
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if f.owner != 0 || f.exitWithParent {
		owner := server.Owner{PID: f.owner}
		if f.exitWithParent {
			owner.Stdin = os.Stdin
		}
		var err error
		if ctx, err = owner.Watch(ctx); err != nil {
			return err
		}
	}
	found, place, skipped, err := server.Discover(data)
	if err != nil {
		return err
	}
	for _, p := range skipped {
		log.Warn("no shard set where it was looked for first", "place", p.Why, "path", p.Path, "saw", p.Saw)
	}
	name := "imgfeed " + version.Get().String()
	srv, err := server.New(server.Config{
		Sets: found.Sets, Damaged: found.Damaged, Threads: f.threads, Rank: f.rank, World: f.world, MemoryBytes: int64(f.memory), BitExact: f.bitExact,
		Resampler: f.resampler, Name: name, Log: log,
	})
	if err != nil {
		return err
	}
	defer srv.Close()
	if f.threads > 0 && os.Getenv("GOMAXPROCS") == "" {
		// More of Go's processors would be looked for work each time that a batch ends and find none, at the expense of
		// whatever else runs there, the client for one.
		runtime.GOMAXPROCS(f.threads)
	}
	if f.socket == "" {
		f.socket = server.DefaultSocket()
	}
	listener, err := server.ListenMode(f.socket, fs.FileMode(f.socketMode))
	if err != nil {
		return err
	}
	defer listener.Close()
	ctx = srv.WatchIdle(ctx, f.exitIdle)
	metrics, err := f.serveMetrics(ctx, srv, log)
	if err != nil {
		return err
	}
	if notice := kernel.Notice(); notice != "" {
		log.Warn(notice)
	}
	printServing(out, name, place, found.Sets, srv.Sets(), listener.Path(), metrics)
	if err := f.tellReady(listener.Path()); err != nil {
		return err
	}
	err = srv.Serve(ctx, listener)
	log.Info("stopped", "because", context.Cause(ctx))
	return err
}

// serveMetrics serves HTTP beside the sessions, if it was asked for, and returns its address.
func (f *serveFlags) serveMetrics(ctx context.Context, srv *server.Server, log *slog.Logger) (string, error) {
	if f.metrics == "" {
		return "", nil
	}
	addr, err := server.MetricsAddr(f.metrics)
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("metrics: %w: choose another address with --metrics", err)
	}
	hs := &http.Server{Handler: srv.Handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	context.AfterFunc(ctx, func() { hs.Close() })
	go func() {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "err", err)
		}
	}()
	return l.Addr().String(), nil
}

// printServing says what is served, from where, to which socket, and how to connect.
func printServing(out io.Writer, name string, at server.Place, paths map[string]string, sets []server.ServedSet, socket, metrics string) {
	fmt.Fprintf(out, "%s serves %s (%s)\n", name, at.Path, at.Why)
	for _, set := range sets {
		printSet(out, set, "; "+paths[set.Split])
	}
	fmt.Fprintf(out, "on unix:%s\n", socket)
	fmt.Fprintf(out, "connect with DataLoader(\"unix:%s\", split=%q, batch_size=256, transform=\"train\")\n", socket, sets[0].Split)
	if metrics != "" {
		fmt.Fprintf(out, "metrics on http://%s/metrics\n", metrics)
	}
}

// printSet prints a set's line, which ends with rest.
func printSet(out io.Writer, set server.ServedSet, rest string) {
	fmt.Fprintf(out, "  %-6s %d samples, %d classes, %s, %s%s\n", set.Split, set.Samples, set.Classes, encoding(set), partitions(set), rest)
}

func encoding(set server.ServedSet) string {
	var e shard.Encoding
	if json.Unmarshal(set.Encoding, &e) != nil {
		return string(set.Encoding)
	}
	return loader.DescribeEncoding(e)
}

func partitions(set server.ServedSet) string {
	if len(set.Partitions) == set.BuiltWorld {
		return fmt.Sprintf("all %d partitions", set.BuiltWorld)
	}
	return fmt.Sprintf("partitions %v of %d", set.Partitions, set.BuiltWorld)
}

// tellReady writes the address for whoever started us.
func (f *serveFlags) tellReady(socket string) error {
	if f.readyFD == 0 {
		return nil
	}
	ready := os.NewFile(uintptr(f.readyFD), "ready")
	_, err := fmt.Fprintf(ready, "unix:%s\n", socket)
	if err := errors.Join(err, ready.Close()); err != nil {
		return fmt.Errorf("--ready-fd %d: %w", f.readyFD, err)
	}
	return nil
}

// A fileMode is a flag's value in octal: "0660".
type fileMode fs.FileMode

// Set parses permissions that leave the socket to its user.
func (m *fileMode) Set(text string) error {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n&^0o777 != 0 || n&0o600 != 0o600 {
		return fmt.Errorf("%q is no mode of a socket, such as 0600, 0660 or 0666", text)
	}
	*m = fileMode(n)
	return nil
}

// String returns the permissions as they may be given.
func (m *fileMode) String() string { return fmt.Sprintf("%04o", uint32(*m)) }

// Type names the value in the help.
func (m *fileMode) Type() string { return "mode" }
