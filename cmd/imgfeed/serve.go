package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/memory"
	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
)

// serverFlags are the flags that serve and feed share.
type serverFlags struct {
	metricsFlags
	config       server.Config
	owner        int
	progressFD   int // 0: stderr
	classesApart bool
	store        storeFlags
	log          logFlags
}

// serveFlags are the flags of imgfeed serve: the server's own settings, and how the program runs it.
type serveFlags struct {
	serverFlags
	socket     string
	socketMode fs.FileMode
	exitIdle   time.Duration
	readyFD    int
}

const serveLong = `Serve SET to training processes on this machine.

SET is a shard set, or a folder with sets of several splits. A dataset that is not packed (a folder of images, tars, a
bucket's prefix) is indexed once, into the user's cache, and read where it is. Several SETs are joined split by split: the
samples of the second follow those of the first, and classes of the same name become one. All must have the same encoding.
If the dataset needs flags for its labels, such as --classes-from or --force-classes, make the index with them: imgshard
index DATASET -o SET.

` + defaultHelp + `

--rank and --world are for clients that know neither. The arguments rank= and world=, torch.distributed, and RANK and
WORLD_SIZE come first. The partitions of this rank must be on this machine.

Clients connect to a Unix socket. Only this user can open it, unless --socket-mode says otherwise. The default path is
$XDG_RUNTIME_DIR/imgfeed.sock, or /tmp/imgfeed-UID/imgfeed.sock if that variable is not set. The socket of a dead server
is replaced.

Intact data is served. Damaged and incomplete partitions are reported in the log, and to clients that need them.

imgfeed reload makes the server reload its data. Repaired data is served from a session's next epoch on; if a set has
different data, nothing changes.

Once the server listens, it prints its sets and how to connect. The log goes to stderr. SIGTERM and SIGINT stop the
server. With --owner, it ignores SIGTERM and SIGHUP and stops when the owner ends: after a signal to both, the owner may still
need batches.`

func newServeCommand() *cobra.Command {
	f := serveFlags{socketMode: server.SocketMode}
	cmd := &cobra.Command{
		Use:   "serve [SET...]",
		Short: "Serve shard sets to training processes on this machine",
		Long:  serveLong,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			sets, err := setPathsOf(args)
			if err = cmp.Or(err, f.check(cmd)); err != nil {
				return err
			}
			threads := f.config.Threads
			if len(f.config.Feeders) > 0 {
				threads = 0 // the links to feeders work too
			}
			f.config.Reading = giveProcessors(threads)
			return f.run(cmd, sets, f.serve)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// register lists the flags.
func (f *serverFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.config.FeedTLS, "tls", "", "folder with ca.crt, tls.crt and tls.key, for TLS between servers and feeders")
	flags.Var(cliutil.Int(&f.config.Threads, 0, threadsMax), "threads", "number of decoding threads (default one for each CPU)")
	flags.Var(cliutil.Int(&f.owner, 0, math.MaxInt), "owner",
		"stop when the process with this ID ends or closes the pipe at stdin, and ignore SIGTERM and SIGHUP")
	flags.BoolVar(&f.classesApart, "classes-apart", false, "with several SETs: keep classes of the same name apart")
	f.store.register(flags)
	f.metricsFlags.register(flags)
	f.log.register(flags)
}

// register lists the flags. To add one, add a line here, for a field of [server.Config] if the server needs it. A flag's type checks
// its value; check checks which flags go together.
func (f *serveFlags) register(flags *pflag.FlagSet) {
	f.serverFlags.register(flags)
	c := &f.config
	flags.StringVar(&f.socket, "socket", "", "path of the socket")
	flags.Var(modeFlag(&f.socketMode), "socket-mode", "permissions of the socket; 0660 lets clients of the same group connect")
	flags.Var(cliutil.Int(&c.Rank, 0, plan.WorldMax-1), "rank",
		"rank of clients that do not know theirs; its partitions must be on this machine")
	flags.Var(cliutil.Int(&c.World, 1, plan.WorldMax), "world", "number of ranks, for the same clients (default 1)")
	flags.Var((*bytesize.Size)(&c.MemoryBytes), "memory", "limit for batches and prefetching, e.g. 8GiB (default half of the memory)")
	flags.Var((*bytesize.Size)(&c.PrefetchBytes), "prefetch", "part of --memory for prefetching (default a sixteenth, up to 256MiB)")
	flags.StringSliceVar(&c.Feeders, "feeders", nil, "addresses of imgfeed feed, e.g. a:7400,b:7400; with --threads 0 they do all work")
	flags.Var(cliutil.Int(&c.Sessions, 0, sessionsMax), "sessions",
		"divide --memory among this many sessions (default $LOCAL_WORLD_SIZE, or half of the rest for each)")
	flags.BoolVar(&c.BitExact, "bit-exact", false, bitExactHelp)
	flags.TextVar(&c.Resampler, "resampler", resample.Pillow13, resamplerUsage+"; default for sessions")
	flags.Var(durationFlag(&f.exitIdle, 0), "exit-idle", "stop after this long without clients, e.g. 30s (default never)")
	flags.Var(cliutil.Int(&f.readyFD, 0, math.MaxInt), "ready-fd", "write the socket's address to this descriptor once clients can connect")
	flags.Var(cliutil.Int(&f.progressFD, 0, math.MaxInt), "progress-fd",
		"show the progress of indexing on this descriptor (default stderr)")
}

// bitExactHelp is the help of --bit-exact.
const bitExactHelp = "refuse transforms that give other bits for the stored images than for the originals"

// check finds mistakes in combinations of flags, and in the environment.
func (f *serveFlags) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	if err := cliutil.Output("--socket", f.socket); err != nil {
		return cliutil.Usage(err)
	}
	rank, world := f.config.Rank, f.config.World
	switch {
	case changed("rank") != changed("world"):
		return cliutil.Usagef("--rank and --world belong together: give both, as in --rank 1 --world 2")
	case changed("rank") && rank >= world:
		return cliutil.Usagef("--rank %d --world %d: ranks count from 0, so the last of this world is %d", rank, world, world-1)
	}
	bytes, limit := f.config.MemoryBytes, memory.OfMachine()
	if changed("memory") && (bytes < memoryMin || bytes > limit) {
		return cliutil.Usagef("--memory is %s: want 1 MiB to %s, the size of this machine's memory",
			bytesize.Format(bytes), bytesize.Format(limit))
	}
	if text := os.Getenv("LOCAL_WORLD_SIZE"); text != "" && !changed("sessions") {
		if err := cmd.Flags().Set("sessions", text); err != nil {
			return fmt.Errorf("the environment variable LOCAL_WORLD_SIZE is %q: %w", text, err)
		}
	}
	if changed("threads") && f.config.Threads == 0 && len(f.config.Feeders) > 0 {
		f.config.Threads = loader.NoThreads
	}
	return nil
}

// open indexes datasets that are not packed, finds the sets, joins them if there are several, and opens a server
// for them, which closeServer closes. It fails as soon as ctx ends.
func (f *serverFlags) open(ctx context.Context, sets setPaths) (srv *server.Server, closeServer func(), err error) {
	progress := os.Stderr
	if f.progressFD != 0 {
		progress = os.NewFile(uintptr(f.progressFD), "progress")
		defer progress.Close()
	}
	closeStore, err := f.store.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	c, client := f.config, f.store.client
	x := indexer{client: client, log: c.Log, progress: progress}
	paths := make([]string, len(sets.paths))
	for i, path := range sets.paths {
		if paths[i], err = x.set(ctx, absolute(path)); err != nil {
			return nil, nil, err
		}
	}
	for _, note := range x.notes {
		c.Log.Info(note)
	}
	c.Notes, c.Name = x.notes, "imgfeed "+version.Get().String()
	c.Find = func() (found shard.Found, err error) {
		if len(paths) == 1 {
			found, err = shard.FindIn(client, paths[0])
		} else {
			found, err = shard.FindJoined(client, paths)
		}
		if found.Apart = f.classesApart; err == nil && len(found.Sets) == 0 {
			err = found.Err()
		}
		return found, err
	}
	srv, err = cliutil.Interruptible(ctx, func() (srv *server.Server, err error) {
		opening := client.Opening()
		defer opening.End()
		if c.Found, err = c.Find(); err != nil {
			return nil, err
		}
		return server.New(c)
	})
	return srv, func() {
		srv.Close()
		closeStore()
	}, err
}

// run opens the server for the sets, and has serve serve until a signal or the owner's end.
func (f *serverFlags) run(
	cmd *cobra.Command, sets setPaths, serve func(ctx context.Context, srv *server.Server, out io.Writer, sets setPaths) error,
) error {
	f.config.Log = f.log.logger()
	ctx, stop, err := f.untilEnd(cmd.Context())
	defer stop()
	if err != nil {
		return err
	}
	srv, closeServer, err := f.open(ctx, sets)
	if ctx.Err() != nil {
		f.config.Log.Info("stopped", "because", context.Cause(ctx))
		return nil
	}
	if err != nil {
		return err
	}
	defer closeServer()
	return serve(ctx, srv, cmd.OutOrStdout(), sets)
}

// serve serves clients.
func (f *serveFlags) serve(ctx context.Context, srv *server.Server, out io.Writer, sets setPaths) error {
	log := f.config.Log
	if f.socket == "" {
		f.socket = server.DefaultSocket()
	}
	listener, err := server.Listen(f.socket, f.socketMode)
	if err != nil {
		return err
	}
	defer listener.Close()
	srv.SetPath(absolute(listener.Path()))
	ctx = srv.WatchIdle(ctx, f.exitIdle)
	metrics, err := f.metricsFlags.serve(ctx, srv, log)
	if err != nil {
		return err
	}
	listeners := []*server.Listener{listener}
	if found, err := server.ListenFound(); err != nil {
		log.Info("imgfeed status finds this server by its socket only", "err", err)
	} else {
		listeners = append(listeners, found)
	}
	st := srv.Status(math.MaxFloat64)
	connect := fmt.Sprintf("DataLoader(\"unix:%s\", split=%q, batch_size=256, transform=\"train\")", listener.Path(), st.Sets[0].Split)
	does := "serves " + sets.String()
	if c := f.config; c.World > 0 {
		does += fmt.Sprintf(", by default to rank %d of %d", c.Rank, c.World)
	}
	printServing(out, st, does, "unix:"+listener.Path(), connect, metrics)
	if err := f.reportReady(listener.Path()); err != nil {
		return err
	}
	err = srv.Serve(ctx, listeners...)
	log.Info("stopped", "because", context.Cause(ctx))
	return err
}

// printServing prints what the server does with its sets, its address, how to connect, and the address of the metrics.
func printServing(out io.Writer, st status.Status, does, address, connect, metrics string) {
	if notice := kernel.Notice(); notice != "" {
		slog.Warn(notice)
	}
	fmt.Fprintf(out, "%s %s\n", st.Server, does)
	for _, set := range st.Sets {
		fmt.Fprintf(out, "  %v; %s\n", &set.ServedSet, set.Path)
	}
	fmt.Fprintf(out, "on %s\nconnect with %s\n", address, connect)
	if metrics != "" {
		fmt.Fprintf(out, "status on http://%s/, metrics on http://%[1]s/metrics\n", metrics)
	}
}

// reportReady writes the socket's address to --ready-fd.
func (f *serveFlags) reportReady(socket string) error {
	if f.readyFD == 0 {
		return nil
	}
	ready := os.NewFile(uintptr(f.readyFD), "ready")
	_, err := fmt.Fprintf(ready, "unix:%s\n", socket)
	if err = cmp.Or(err, ready.Close()); err != nil {
		return fmt.Errorf("--ready-fd %d: %w", f.readyFD, err)
	}
	return nil
}

// giveProcessors lets Go have processors for the threads, unless GOMAXPROCS says how many. The function that it returns adds those for
// reading samples from the disk.
func giveProcessors(threads int) (reading func(more int)) {
	if os.Getenv("GOMAXPROCS") != "" {
		return nil
	}
	setProcessors(threads, 0)
	return func(more int) { setProcessors(threads, more) }
}

// setProcessors sets Go's number of processors to the decoding threads (0: one for each CPU) plus those needed for
// reading. Idle processors would search for work whenever a batch ends, and slow down other programs, such as the
// client: for a set in memory on two threads, two more cost 20 % (Zen 5).
func setProcessors(threads, reading int) {
	if threads == 0 {
		runtime.SetDefaultGOMAXPROCS()
		threads = runtime.GOMAXPROCS(0)
		if reading == 0 {
			return
		}
	}
	runtime.GOMAXPROCS(threads + reading)
}

// metricsFlags are the flags of the HTTP server.
type metricsFlags struct {
	metrics      string
	metricsHosts []string
}

func (f *metricsFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.metricsHosts, "metrics-host", nil, "further host name of the status page, e.g. a proxy's")
	flags.Var(addressFlag(&f.metrics), "metrics", "address of the status page, /metrics and /healthz; a port alone: only this machine")
}

// serve starts the HTTP server, if --metrics is given, and returns its address.
func (f *metricsFlags) serve(ctx context.Context, srv *server.Server, log *slog.Logger) (string, error) {
	if f.metrics == "" {
		return "", nil
	}
	l, err := net.Listen("tcp", f.metrics)
	if err != nil {
		return "", fmt.Errorf("metrics: %w: choose another address, or port 0 for any free one", err)
	}
	names := f.metricsHosts
	if host, _, err := net.SplitHostPort(f.metrics); err == nil {
		names = append(names, host)
	}
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	hs := &http.Server{Handler: onlyHosts(srv.Handler(), names), ReadHeaderTimeout: 10 * time.Second, ErrorLog: errorLog}
	srv.SetPage("http://" + l.Addr().String() + "/")
	context.AfterFunc(ctx, func() { hs.Close() })
	go func() {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "err", err)
		}
	}()
	return l.Addr().String(), nil
}

// onlyHosts refuses requests under other names than this machine's. Otherwise a foreign web page could point its own
// name to this address (DNS rebinding) and read the page through a browser here. Requests by address pass. So do
// /metrics and /healthz, which show no data and which monitors may request under any name.
func onlyHosts(h http.Handler, names []string) http.Handler {
	own, _ := os.Hostname()
	short, _, _ := strings.Cut(own, ".")
	allowed := append([]string{"localhost", own, short}, names...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.ToLower(strings.Trim(host, "[]"))
		open := r.URL.Path == "/metrics" || r.URL.Path == "/healthz"
		known := slices.ContainsFunc(allowed, func(name string) bool { return name != "" && strings.EqualFold(name, host) })
		if !open && !known && net.ParseIP(host) == nil {
			text := fmt.Sprintf("not served under the name %.80q: use an IP address, or imgfeed serve --metrics-host NAME", host)
			http.Error(w, text, http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
