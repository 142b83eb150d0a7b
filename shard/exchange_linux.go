package shard

import "golang.org/x/sys/unix"

// exchange swaps two folders in one step, so that at every moment there is a whole set under the name.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
