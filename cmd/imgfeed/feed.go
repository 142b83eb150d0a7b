package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/server"
)

// feedFlags are the flags of imgfeed feed.
type feedFlags struct {
	serverFlags
	listen string
}

const feedLong = `Make samples for servers on other machines: for imgfeed serve --feeders.

SET is the shard set that they serve, or a copy of it. A server uses only feeders with the same data and the same version
of imgfeed; otherwise it makes the samples itself.

` + defaultHelp + `

A feeder is stateless: start, stop or kill it at any time. Batches do not depend on the number of feeders.`

func newFeedCommand() *cobra.Command {
	var f feedFlags
	cmd := &cobra.Command{
		Use:   "feed [SET...] --listen ADDRESS",
		Short: "Make samples for servers on other machines",
		Long:  feedLong,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.listen == "" {
				return cliutil.Usagef("imgfeed feed makes samples for imgfeed serve on other machines: give it an address to " +
					"listen at, e.g. --listen :7400")
			}
			sets, err := setPathsOf(args)
			if err != nil {
				return err
			}
			f.config.Reading = giveProcessors(0)
			return f.run(cmd, sets, f.feed)
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().StringVar(&f.listen, "listen", "", "address to listen on, e.g. :7400; without --tls only 127.0.0.1:7400")
	return cmd
}

// feed makes samples for servers.
func (f *feedFlags) feed(ctx context.Context, srv *server.Server, out io.Writer, sets setPaths) error {
	l, err := srv.ListenFeed(f.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	metrics, err := f.metricsFlags.serve(ctx, srv, f.config.Log)
	if err != nil {
		l.Close()
		return err
	}
	address := l.Addr().String()
	printServing(out, srv.Status(math.MaxFloat64), "makes samples of "+sets.String(), address, "imgfeed serve --feeders "+address,
		metrics)
	return srv.Feed(ctx, l)
}

// untilEnd returns a context that ends by a signal or with the owner, and a function that frees it.
func (f *serverFlags) untilEnd(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ends := []os.Signal{os.Interrupt, unix.SIGTERM}
	if f.owner != 0 {
		// Slurm sends SIGTERM to all processes of a job at once, and a closed terminal sends SIGHUP, but the owner needs batches
		// until it has saved.
		ends = ends[:1]
		signal.Ignore(unix.SIGTERM, unix.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, ends...)
	signal.Ignore(unix.SIGPIPE)  // the reader of our log may end before us
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	var err error
	if f.owner != 0 {
		ctx, err = untilOwnerEnds(ctx, f.owner)
	}
	return ctx, stop, err
}

// untilOwnerEnds returns a context that ends with its owner, the process that started the server for itself; its cause is the reason. An
// owner that has already ended is an error.
//
// A pidfd of the owner (pidfd_open(2)) reports its end. It needs Linux 5.3 and a sandbox that allows it; without it, we poll. If stdin is
// a pipe or a socket, its end is another sign: the owner keeps the other end open while it lives, through any number of wrappers.
func untilOwnerEnds(ctx context.Context, owner int) (context.Context, error) {
	died := fmt.Errorf("the owner, process %d, has ended", owner)
	fd, err := unix.PidfdOpen(owner, 0)
	if errors.Is(err, unix.ESRCH) || !alive(owner) {
		return nil, died
	}
	pidfd := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} // poll passes over a negative descriptor, and waits
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for ctx.Err() == nil {
			if n, _ := unix.Poll(pidfd, 500); n > 0 || fd < 0 && !alive(owner) {
				cancel(died)
			}
		}
		unix.Close(fd)
	}()
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 {
		go func() {
			io.Copy(io.Discard, os.Stdin)
			cancel(fmt.Errorf("stdin was closed: the owner, process %d, has ended or closed it", owner))
		}()
	}
	return ctx, nil
}

func alive(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }
