package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/memory"
	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// serveFlags are the flags of imgfeed serve: the server's own settings, and how the program runs it.
type serveFlags struct {
	metricsFlags
	config         server.Config
	socket         string
	socketMode     fs.FileMode
	owner          int
	exitIdle       time.Duration
	exitWithParent bool
	apart          bool
	readyFD        int
	store          storeFlags
	log            logFlags
}

const serveLong = `Serve SET to training processes on this machine.

SET is a shard set or a folder that holds sets of several splits. Without it, the server looks in $IMGFEED_DATA, in the
current folder and in /data, in this order. Several SETs are joined, split by split: the samples of the second follow those of the
first, and classes of the same name are one class. Their images must be stored in the same way.

Clients connect to a Unix socket, which only this user can open unless --socket-mode says otherwise. Its default path is
$XDG_RUNTIME_DIR/imgfeed.sock, or /tmp/imgfeed-UID/imgfeed.sock where that variable is not set. A socket that a dead server
left behind is replaced.

Damaged and incomplete partitions are named in the log, and in the errors of clients that ask for them. Everything else
is served.

SIGHUP, or imgfeed reload, makes it read its data again. Repaired data is served from a session's next epoch on; other data is
refused.

Once the server listens it prints what it serves and how to connect; its log goes to stderr. SIGTERM and SIGINT stop it;
with --owner only SIGINT and the owner's end do, since the owner may need batches after a SIGTERM to both.`

func newServeCommand() *cobra.Command {
	f := serveFlags{socketMode: server.SocketMode}
	cmd := &cobra.Command{
		Use:   "serve [SET...]",
		Short: "Serve shard sets to training processes on this machine",
		Long:  serveLong,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), args)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// register lists the flags. To add one, add a line here, for a field of [server.Config] if the server needs it. A flag's type checks
// its value; check checks which flags go together.
func (f *serveFlags) register(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&f.socket, "socket", "", "path of the socket")
	flags.Var(modeFlag(&f.socketMode), "socket-mode", "permissions of the socket; 0660 lets clients of the same group connect, from another container for instance")
	flags.IntVar(&c.Rank, "rank", 0, "rank of sessions that name none; its partition must be here")
	flags.IntVar(&c.World, "world", 0, "number of ranks, for sessions that name none")
	flags.Var(cliutil.Int(&c.Threads, 0, threadsMax), "threads", "number of decoding threads (default one for each CPU)")
	flags.Var((*bytesize.Size)(&c.MemoryBytes), "memory", "memory limit for batch buffers and prefetching together, e.g. 8GiB (default half of the memory)")
	flags.Var((*bytesize.Size)(&c.PrefetchBytes), "prefetch", "part of --memory into which records are read before they are due (default a sixteenth, up to 256MiB)")
	f.store.register(flags)
	flags.BoolVar(&f.apart, "classes-apart", false, apartHelp)
	flags.StringSliceVar(&c.Feeders, "feeders", nil, "addresses of imgfeed feed, e.g. host:7400,host:7400: they make samples when the threads do not keep up; --threads 0 leaves all to them")
	flags.StringVar(&c.FeedTLS, "tls", "", tlsHelp)
	flags.Var(cliutil.Int(&c.Sessions, 0, sessionsMax), "sessions", "divide --memory among this many sessions, e.g. one for each rank (default $LOCAL_WORLD_SIZE; else each takes up to half of the rest)")
	f.metricsFlags.register(flags)
	flags.BoolVar(&f.pprof, "pprof", false, "serve Go's profiles too, at /debug/pprof/ of --metrics, to this machine only")
	flags.Var(cliutil.Int(&f.owner, 0, math.MaxInt), "owner", "stop when the process with this ID ends, and not for SIGTERM before")
	flags.BoolVar(&c.BitExact, "bit-exact", false, "refuse transforms that give other bits from the stored images than from the originals")
	flags.TextVar(&c.Resampler, "resampler", resample.Pillow13, resamplerUsage+", for sessions that name none")
	flags.BoolVar(&f.exitWithParent, "exit-with-parent", false, "stop when the parent process ends or closes the pipe that is our stdin")
	flags.Var(durationFlag(&f.exitIdle, 0), "exit-idle", "stop after this long without clients, e.g. 30s (default never)")
	flags.Var(cliutil.Int(&f.readyFD, 0, math.MaxInt), "ready-fd", "write the socket's address and a newline to this descriptor, and close it, once clients can connect")
	f.log.register(flags)
}

// check finds mistakes that lie in several flags, or in the environment.
func (f *serveFlags) check(cmd *cobra.Command) error {
	given, rank, world := cmd.Flags().Changed, f.config.Rank, f.config.World
	for _, err := range []error{cliutil.Output("--socket", f.socket), checkDataEnv(cmd.Flags().NArg())} {
		if err != nil {
			return cliutil.Usage(err)
		}
	}
	switch {
	case given("rank") != given("world"):
		return cliutil.Usagef("--rank and --world go together: give both or neither")
	case f.pprof && f.metrics == "":
		return cliutil.Usagef("--pprof needs --metrics, at whose address profiles are served")
	case given("world") && (world < 1 || rank < 0 || rank >= world):
		return cliutil.Usagef("--rank %d --world %d: the rank must be 0 to world-1", rank, world)
	}
	bytes, most := f.config.MemoryBytes, memory.OfMachine()
	if given("memory") && (bytes < memoryMin || bytes > most) {
		return cliutil.Usagef("--memory is %s: want 1 MiB to %s, which is all that there is here", bytesize.Format(bytes), bytesize.Format(most))
	}
	if text := os.Getenv("LOCAL_WORLD_SIZE"); text != "" && !given("sessions") {
		if err := cmd.Flags().Set("sessions", text); err != nil {
			return fmt.Errorf("the environment variable LOCAL_WORLD_SIZE is %q: %w", text, err)
		}
	}
	if given("threads") && f.config.Threads == 0 && len(f.config.Feeders) > 0 {
		f.config.Threads = -1
	}
	return nil
}

// checkDataEnv refuses an address in the variable that names the data if no argument does.
func checkDataEnv(args int) error {
	if args > 0 {
		return nil
	}
	return cliutil.Readable("$"+dataEnv, os.Getenv(dataEnv))
}

// An openedServer has its sets open.
type openedServer struct {
	*server.Server
	at place // of the sets
}

// openServer finds the sets at places, joined if there are several, and opens a server for them. It fails at once when ctx ends.
func openServer(ctx context.Context, client *storage.Client, places []string, apart bool, c server.Config) (openedServer, error) {
	return cliutil.Interruptible(ctx, func() (openedServer, error) {
		find, found, at, skipped, err := discoverAll(client, places, apart)
		if err != nil {
			return openedServer{}, err
		}
		for _, p := range skipped {
			c.Log.Warn("no shard set where it was looked for first", "place", p.why, "path", p.path, "found", p.found)
		}
		c.Find, c.Found, c.Name = find, found, "imgfeed "+version.Get().String()
		srv, err := server.New(c)
		return openedServer{srv, at}, err
	})
}

// open opens the server for the sets at places.
func (f *serveFlags) open(ctx context.Context, places []string, log *slog.Logger) (openedServer, error) {
	c := f.config
	c.Log = log
	if os.Getenv("GOMAXPROCS") == "" && len(c.Feeders) == 0 {
		setProcessors(c.Threads, 0)
		c.Reading = func(more int) { setProcessors(c.Threads, more) }
	}
	return openServer(ctx, f.store.client, places, f.apart, c)
}

// run serves until a signal or the owner's end.
func (f *serveFlags) run(ctx context.Context, out io.Writer, places []string) error {
	log, hangups := f.log.logger(), takeHangups()
	ctx, stop, err := f.untilEnd(ctx)
	defer stop()
	if err != nil {
		return err
	}
	closeStore, err := f.store.open(ctx)
	if err != nil {
		return err
	}
	srv, err := f.open(ctx, places, log)
	if ctx.Err() != nil {
		log.Info("stopped", "because", context.Cause(ctx))
		return nil
	}
	if err != nil {
		return err
	}
	defer closeStore() // after all opening, which would use the store
	defer srv.Close()
	if f.socket == "" {
		f.socket = server.DefaultSocket()
	}
	listener, err := server.Listen(f.socket, f.socketMode)
	if err != nil {
		return err
	}
	defer listener.Close()
	ctx, end := context.WithCancelCause(srv.WatchIdle(ctx, f.exitIdle))
	defer end(nil)
	go hangups.reload(ctx, srv.Server, log, end)
	metrics, err := f.metricsFlags.serve(ctx, srv.Server, log)
	if err != nil {
		return err
	}
	listeners := []*server.Listener{listener}
	if found, err := server.ListenFound(); err != nil {
		log.Info("imgfeed status finds this server by its socket only", "err", err)
	} else {
		listeners = append(listeners, found)
	}
	if notice := kernel.Notice(); notice != "" {
		log.Warn(notice)
	}
	f.printServing(out, srv.Status(math.MaxFloat64), srv.at, listener.Path(), metrics)
	if err := f.tellReady(listener.Path()); err != nil {
		return err
	}
	err = srv.Serve(ctx, listeners...)
	log.Info("stopped", "because", context.Cause(ctx))
	return err
}

// printServing prints which sets are served, from where, to which socket, how to connect, and where the metrics are.
func (f *serveFlags) printServing(out io.Writer, st status.Status, at place, socket, metrics string) {
	fmt.Fprintf(out, "%s serves %s (%s)\n", st.Server, at.path, at.why)
	for _, set := range st.Sets {
		fmt.Fprintf(out, "  %v; %s\n", &set.ServedSet, set.Path)
	}
	fmt.Fprintf(out, "on unix:%s\n", socket)
	fmt.Fprintf(out, "connect with DataLoader(\"unix:%s\", split=%q, batch_size=256, transform=\"train\")\n", socket, st.Sets[0].Split)
	if metrics != "" {
		fmt.Fprintf(out, "status on http://%s/, metrics on http://%[1]s/metrics\n", metrics)
	}
}

// tellReady writes the address for whoever started us.
func (f *serveFlags) tellReady(socket string) error {
	if f.readyFD == 0 {
		return nil
	}
	ready := os.NewFile(uintptr(f.readyFD), "ready")
	_, err := fmt.Fprintf(ready, "unix:%s\n", socket)
	if closeErr := ready.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("--ready-fd %d: %w", f.readyFD, err)
	}
	return nil
}

// setProcessors gives Go as many processors as threads decode, 0 being one for each CPU, and as many more as reading takes. More would be looked for work each
// time that a batch ends and find none, at the expense of whatever else runs there, the client for one: of a set in memory on two threads, two more cost a fifth (Zen 5).
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
