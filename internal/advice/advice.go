// Package advice says what to do about errors that a user can do something about: the operating system's, and flags that there are not.
package advice

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/internal/nearest"
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

// Flag returns an error of reading a command's flags, and names the flag that is meant where there is one much like the one given.
func Flag(cmd *cobra.Command, err error) error {
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || missing.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if name := nearest.Name(missing.GetSpecifiedName(), names); name != "" {
		return fmt.Errorf("%w (is --%s meant?)", err, name)
	}
	return err
}
