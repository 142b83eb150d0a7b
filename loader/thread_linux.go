package loader

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the running thread and its processor time, without the time that the system gave to other programs. Thread 0
// means that the system does not tell.
func threadTime() (thread int, busy time.Duration) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, 0
	}
	return unix.Gettid(), time.Duration(t.Nano())
}
