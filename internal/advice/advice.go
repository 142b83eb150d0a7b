// Package advice says what to do about the errors of the operating system that a user can do something about.
package advice

import (
	"errors"
	"strings"
	"syscall"
)

// known are the errors, and what helps.
var known = []struct {
	err  error
	text string
}{
	{syscall.ENOSPC, "the disk is full: make room, or give another place"},
	{syscall.EDQUOT, "the disk quota is used up: make room, or give another place"},
	{syscall.EFBIG, "the file system or ulimit -f allows no file of this size"},
	{syscall.EROFS, "nothing can be written there: give another place"},
	{syscall.EACCES, "this user may not do that there: change the permissions, or give another place"},
	{syscall.EPERM, "this user may not do that there: change the permissions, or give another place"},
	{syscall.EMFILE, "raise the limit of open files (ulimit -n)"},
	{syscall.EIO, "the disk fails: see the kernel's log"},
	{syscall.ESTALE, "the network file system has lost the file: mount it again"},
}

// Add returns the text of err, and after it what to do if err wraps one of the system's errors that this package knows.
func Add(err error) string {
	if strings.Contains(err.Error(), "~/") {
		return err.Error() + " (a shell replaces ~ at the beginning of a word only, not after =: write $HOME)"
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return err.Error() + " (" + k.text + ")"
		}
	}
	return err.Error()
}
