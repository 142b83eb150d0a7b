package loader

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time that the caller's thread has used.
func threadTime() time.Duration {
	var used unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used) != nil {
		return 0
	}
	return time.Duration(used.Nano())
}
