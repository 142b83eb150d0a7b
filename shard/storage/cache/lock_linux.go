package cache

import "golang.org/x/sys/unix"

// lockCommand locks for an open file, and not for a process.
const lockCommand = unix.F_OFD_SETLK
