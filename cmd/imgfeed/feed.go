package main

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

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
				return cliutil.Usagef("imgfeed feed makes samples for imgfeed serve on other machines: give it an address to listen at, e.g. --listen :7400")
			}
			places, err := placesOf(args)
			if err != nil {
				return err
			}
			f.config.Reading = giveProcessors(0)
			return f.run(cmd, places, f.feed)
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().StringVar(&f.listen, "listen", "", "address to listen on, e.g. :7400; without --tls only 127.0.0.1:7400")
	return cmd
}

// feed makes samples for servers.
func (f *feedFlags) feed(ctx context.Context, srv *server.Server, out io.Writer, places places) error {
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
	printServing(out, srv.Status(math.MaxFloat64), "makes samples of "+places.String(), address, "imgfeed serve --feeders "+address, metrics)
	return srv.Feed(ctx, l)
}
