package loader

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the running thread and the processor time that it has had. The time in which the system gives the processor to
// other programs is not in it. Thread 0 means that the system does not tell.
func threadTime() (thread int, busy time.Duration) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, 0
	}
	return unix.Gettid(), time.Duration(t.Nano())
}
