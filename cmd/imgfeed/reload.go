package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/server"
)

const reloadLong = `Have the server on a socket look again at what it serves, as SIGHUP does: a set or a partition that was damaged or missing and is
whole now is served from then on, and files that imgshard repair has put in the place of others are read; sessions go on with both
in their next epoch. A set that holds other data than before, or less, is refused, and the exit status is 1: what the server has
opened is served on.`

func newReloadCommand() *cobra.Command {
	var socket string
	timeout := time.Minute
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have a running server look again at what it serves",
		Long:  reloadLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socket == "" {
				socket = server.DefaultSocket()
			}
			return reload(cmd.OutOrStdout(), socket, timeout)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "path of the server's socket (default as imgfeed serve's)")
	cmd.Flags().Var(durationFlag{&timeout, time.Millisecond}, "timeout", "how long to wait for the answer")
	return cmd
}

// reload has the server on a socket look again, and prints what is served now and was not, or that its files were opened anew. What was refused is the error.
func reload(out io.Writer, socket string, timeout time.Duration) error {
	done, err := server.AskReload(socket, timeout)
	if err != nil {
		return askError(socket, err)
	}
	out = termsafe.Writer{Writer: out}
	for _, text := range done.Changes {
		fmt.Fprintln(out, text)
	}
	if len(done.Changes)+len(done.Refused) == 0 {
		fmt.Fprintln(out, server.Unchanged)
	}
	var errs []error
	for _, text := range done.Refused {
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

// hangups are the SIGHUPs that a server gets from its start on: one that comes while it opens its sets is dealt with as soon as it serves.
type hangups struct {
	signals     chan os.Signal
	hadTerminal bool
}

// takeHangups takes them. Where SIGHUP was ignored before we came, as by nohup, it still is, and none come.
func takeHangups() hangups {
	h := hangups{make(chan os.Signal, 1), hasTerminal()}
	if !signal.Ignored(unix.SIGHUP) {
		signal.Notify(h.signals, unix.SIGHUP)
	}
	return h
}

// reload has the server reload for each, until ctx ends. One that says that the terminal is gone ends the server instead, as it would without us.
func (h hangups) reload(ctx context.Context, srv *server.Server, log *slog.Logger, end func(error)) {
	go func() {
		defer signal.Stop(h.signals)
		for {
			select {
			case <-h.signals:
				if h.hadTerminal && !hasTerminal() {
					end(errors.New("the terminal was closed"))
					return
				}
				if _, err := srv.Reload(); err != nil { // it logs what comes of it otherwise
					log.Error("SIGHUP", "err", err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

// hasTerminal says whether the process has a controlling terminal.
func hasTerminal() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}
