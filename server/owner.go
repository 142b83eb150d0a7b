package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// An Owner is the process that started the server for itself, and that the server must not outlive, whatever ends it.
type Owner struct {
	// PID is the owner; 0 means the server's parent.
	PID int
	// Stdin is watched for its end when it is a pipe or a socket: the owner keeps the other end open as long as it lives.
	// It may be nil.
	Stdin *os.File
}

// Watch returns a context that ends, with the reason as its cause, when the owner does. Three watchers cover for each
// other, because each has a gap:
//
//   - a pidfd of the owner (pidfd_open(2)) sees the end of the process, but needs Linux 5.3 and a sandbox that allows it;
//     where it can't be had, we check every half second;
//   - the parent-death signal (PR_SET_PDEATHSIG, prctl(2)) comes from the kernel, but already when the *thread* that
//     started us ends, so it only makes us check whether our parent has changed;
//   - the end of stdin reaches us through any number of wrappers, but not while a forked child of the owner holds the
//     pipe's other end.
//
// An owner that is gone already is an error.
func (o Owner) Watch(ctx context.Context) (context.Context, error) {
	parent := os.Getppid()
	pid := o.PID
	if pid == 0 {
		pid = parent
	}
	died := fmt.Errorf("the owner, process %d, has ended", pid)
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || !alive(pid) {
		return nil, died
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if err == nil {
		go watchPidfd(ctx, fd, func() { cancel(died) })
	} else {
		go watchByLooking(ctx, pid, func() { cancel(died) })
	}
	if pid == parent {
		if err := watchParent(ctx, parent, func() { cancel(died) }); err != nil {
			cancel(nil)
			return nil, err
		}
	}
	if o.Stdin != nil && isPipe(o.Stdin) {
		go func() {
			io.Copy(io.Discard, o.Stdin)
			cancel(fmt.Errorf("stdin was closed: the owner, process %d, has ended or let go", pid))
		}()
	}
	return ctx, nil
}

// watchParent asks the kernel for a signal, and takes it as a reason to check.
func watchParent(ctx context.Context, parent int, died func()) error {
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, unix.SIGUSR1)
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGUSR1), 0, 0, 0); err != nil {
		signal.Stop(deaths)
		return fmt.Errorf("prctl(PR_SET_PDEATHSIG): %w", err)
	}
	go func() {
		defer signal.Stop(deaths)
		for {
			if os.Getppid() != parent { // also when it ended before the signal was asked for
				died()
				return
			}
			select {
			case <-deaths:
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// watchPidfd waits in steps of a second, so that it also ends with ctx.
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

func watchByLooking(ctx context.Context, pid int, died func()) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !alive(pid) {
				died()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func alive(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}
