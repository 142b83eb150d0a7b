package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// An Owner is the process that started the server for itself, and that the server must not outlive, whatever ends it.
type Owner struct {
	// PID is the owner, which must be the server's parent; 0 means the parent, whoever it is.
	PID int
	// Stdin is watched for its end when it is a pipe or a socket: the owner keeps the other end open as long as it lives.
	Stdin *os.File
}

// Watch returns a context that ends, with the reason as its cause, when the owner does. Three watchers cover for each
// other, because each has a gap:
//
//   - a pidfd of the owner (pidfd_open(2)) sees the end of the process, but needs Linux 5.3;
//   - the parent-death signal (PR_SET_PDEATHSIG, prctl(2)) comes from the kernel, but already when the *thread* that
//     started us ends, so it only makes us look whether our parent has changed;
//   - the end of stdin reaches us through any number of wrappers, but not while a forked child of the owner holds the
//     pipe's other end.
func (o Owner) Watch(ctx context.Context) (context.Context, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	parent := os.Getppid()
	if o.PID != 0 && o.PID != parent {
		cancel(nil)
		return nil, fmt.Errorf("the owner, process %d, is gone: our parent is process %d", o.PID, parent)
	}
	died := fmt.Errorf("the owner, process %d, has ended", parent)

	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, unix.SIGUSR1)
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGUSR1), 0, 0, 0); err != nil {
		cancel(nil)
		return nil, fmt.Errorf("prctl(PR_SET_PDEATHSIG): %w", err)
	}
	go func() {
		defer signal.Stop(deaths)
		for {
			if os.Getppid() != parent { // also when it ended before the signal was asked for
				cancel(died)
			}
			select {
			case <-deaths:
			case <-ctx.Done():
				return
			}
		}
	}()
	if fd, err := unix.PidfdOpen(parent, 0); err == nil {
		go watchPidfd(ctx, fd, func() { cancel(died) })
	}
	if o.Stdin != nil && isPipe(o.Stdin) {
		go func() {
			io.Copy(io.Discard, o.Stdin)
			cancel(fmt.Errorf("stdin was closed: the owner, process %d, has ended or let go", parent))
		}()
	}
	return ctx, nil
}

// watchPidfd waits in short steps, so that it also ends with ctx.
func watchPidfd(ctx context.Context, fd int, died func()) {
	defer unix.Close(fd)
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 1000)
		if err != nil && err != unix.EINTR {
			return // the other watchers remain
		}
		if n > 0 {
			died()
			return
		}
	}
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}
