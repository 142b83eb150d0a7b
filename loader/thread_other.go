//go:build !linux

package loader

import "time"

// threadTime is for Linux alone.
func threadTime() (thread int, busy time.Duration) { return 0, 0 }
