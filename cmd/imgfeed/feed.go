package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/server"
)

// feedFlags are the flags of imgfeed feed.
type feedFlags struct {
	metricsFlags
	config       server.Config
	listen       string
	owner        int
	classesApart bool
	store        storeFlags
	log          logFlags
}

const feedLong = `Make samples for servers on other machines: for imgfeed serve --feeders.

SET is the shard set that they serve, or a copy of it; the default is $IMGFEED_DATA. A server uses only feeders with the
same data and the same version of imgfeed; otherwise it makes the samples itself.

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
				return cliutil.Usagef("imgfeed feed makes samples for imgfeed serve on other machines: give it an address to listen at, e.g. --listen :7400")
			}
			places, err := placesOf(args)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), places)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *feedFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "listen", "", "address to listen on, e.g. :7400; without --tls only 127.0.0.1:7400")
	flags.StringVar(&f.config.FeedTLS, "tls", "", tlsHelp)
	flags.Var(cliutil.Int(&f.config.Threads, 0, threadsMax), "threads", "number of decoding threads (default one for each CPU)")
	flags.Var(cliutil.Int(&f.owner, 0, math.MaxInt), "owner", "stop when the process with this ID ends")
	f.store.register(flags)
	flags.BoolVar(&f.classesApart, "classes-apart", false, apartHelp)
	f.metricsFlags.register(flags)
	f.log.register(flags)
}

const tlsHelp = "folder with ca.crt, tls.crt and tls.key, for TLS between servers and feeders"

// run feeds until a signal.
func (f *feedFlags) run(ctx context.Context, out io.Writer, places []string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, unix.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if f.owner != 0 {
		var err error
		if ctx, err = untilOwnerEnds(ctx, f.owner); err != nil {
			return err
		}
	}
	closeStore, err := f.store.open(ctx)
	if err != nil {
		return err
	}
	f.config.Log = f.log.logger()
	srv, err := openServer(ctx, f.store.client, places, f.classesApart, f.config, os.Stderr)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeStore() // not earlier: an interrupted openServer may still use the store
	defer srv.Close()
	l, err := srv.ListenFeed(f.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	metrics, err := f.metricsFlags.serve(ctx, srv, f.config.Log)
	if err != nil {
		l.Close()
		return err
	}
	if notice := kernel.Notice(); notice != "" {
		f.config.Log.Warn(notice)
	}
	address := l.Addr().String()
	printServing(out, srv.Status(math.MaxFloat64), "makes samples of "+strings.Join(places, " + "), address, "imgfeed serve --feeders "+address, metrics)
	return srv.Feed(ctx, l)
}
