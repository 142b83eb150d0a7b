//go:build !linux

package cache

import "golang.org/x/sys/unix"

const lockCommand = unix.F_SETLK
