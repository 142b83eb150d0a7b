package testenv

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Hold takes a lease on a file: processes that open it wait until the test ends, or until the system breaks the lease,
// usually after 45 seconds. The test is skipped if the file system does not support leases.
func Hold(t testing.TB, path string) {
	t.Helper()
	f := Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	t.Cleanup(func() { f.Close() })
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("needs a file system with leases: set TMPDIR to one (%v)", err)
	}
}
