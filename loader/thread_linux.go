package loader

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the running thread and the processor time that it has had. The time in which the system gives the processor to
// other programs is not in it.
func threadTime() (thread int, busy time.Duration, ok bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, 0, false
	}
	return unix.Gettid(), time.Duration(t.Nano()), true
}
