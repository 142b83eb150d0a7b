//go:build !linux

package loader

import "time"

// threadTime returns 0: this system's clocks of threads are not read.
func threadTime() time.Duration { return 0 }
