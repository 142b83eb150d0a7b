//go:build !linux

package capacity

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DiskRate measures disks on Linux only.
func DiskRate(context.Context, *Sample, float64, time.Duration) (float64, error) {
	return 0, fmt.Errorf("reading past the page cache: %w", errors.ErrUnsupported)
}
