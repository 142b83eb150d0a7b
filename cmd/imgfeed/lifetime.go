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

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/server"
)

// untilEnd returns a context that ends by a signal or with the owner, and a function that frees it.
func (f *serveFlags) untilEnd(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ends := []os.Signal{os.Interrupt, unix.SIGTERM}
	if f.owner != 0 {
		// Slurm, for one, sends SIGTERM to all processes of a job at once. The owner wants batches until it has saved.
		ends = ends[:1]
		signal.Ignore(unix.SIGTERM)
	}
	ctx, stop := signal.NotifyContext(ctx, ends...)
	signal.Ignore(unix.SIGPIPE)  // whoever reads our log may end before us
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	var err error
	if f.owner != 0 || f.exitWithParent {
		ctx, err = untilOwnerEnds(ctx, f.owner, f.exitWithParent)
	}
	return ctx, stop, err
}

// untilOwnerEnds returns a context that ends, with the reason as its cause, when the process does that started the server for
// itself: the one with the ID owner, or our parent where that is 0. An owner that is gone already is an error.
//
// A pidfd of the owner (pidfd_open(2)) sees its end. It needs Linux 5.3 and a sandbox that allows it; without it, we look
// every half second. Where stdin is watched too and is a pipe or a socket, its end is another sign: the owner keeps the
// other end open as long as it lives, and that reaches us through any number of wrappers.
func untilOwnerEnds(ctx context.Context, owner int, watchStdin bool) (context.Context, error) {
	if owner == 0 {
		owner = os.Getppid()
	}
	died := fmt.Errorf("the owner, process %d, has ended", owner)
	fd, err := unix.PidfdOpen(owner, 0)
	if errors.Is(err, unix.ESRCH) || !alive(owner) {
		return nil, died
	}
	isParent, pidfd := owner == os.Getppid(), []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for ended := false; ctx.Err() == nil; {
			if fd >= 0 {
				n, _ := unix.Poll(pidfd, 1000)
				ended = n > 0
			} else {
				time.Sleep(500 * time.Millisecond)
				ended = !alive(owner) || isParent && os.Getppid() != owner
			}
			if ended {
				cancel(died)
			}
		}
		unix.Close(fd)
	}()
	if info, err := os.Stdin.Stat(); watchStdin && err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 {
		go func() {
			io.Copy(io.Discard, os.Stdin)
			cancel(fmt.Errorf("stdin was closed: the owner, process %d, has ended or let go", owner))
		}()
	}
	return ctx, nil
}

func alive(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// hangups are the SIGHUPs that a server gets from its start on: it deals with one that comes while it opens its sets as soon
// as it serves.
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

// reload has the server reload for each, until ctx ends. One that comes because the terminal is gone ends the server instead,
// as it would without us.
func (h hangups) reload(ctx context.Context, srv *server.Server, log *slog.Logger, end func(error)) {
	defer signal.Stop(h.signals)
	for {
		select {
		case <-h.signals:
			if h.hadTerminal && !hasTerminal() {
				end(errors.New("the terminal was closed"))
				return
			}
			if _, err := srv.Reload(); err != nil { // it logs everything else itself
				log.Error("SIGHUP", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// hasTerminal says whether the process has a controlling terminal.
func hasTerminal() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}
