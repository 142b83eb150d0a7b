package shard

import (
	"errors"

	"golang.org/x/sys/unix"
)

// exchange swaps two folders in one step, so that at every moment there is a whole set under the name b. Where the file
// system cannot do that (NFS, some FUSE), it takes the steps of exchangeByRenames.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return exchangeByRenames(a, b)
	}
	return err
}
