// Package advice says what to do about errors that a user can do something about: the operating system's, and those of command lines.
package advice

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/internal/bytesize"
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
	if strings.Contains(err.Error(), "~/") && !strings.Contains(err.Error(), "$HOME") {
		return err.Error() + " (a shell replaces ~ at the beginning of a word only, not after =: write $HOME)"
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return err.Error() + " (" + k.text + ")"
		}
	}
	return err.Error()
}

// Flag returns an error of reading a command's flags in our words: the flag with its value and what is wanted, or the flag that is
// meant where there is one much like the one given.
func Flag(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s %q: %w", invalid.GetFlag().Name, invalid.GetValue(), wanted(invalid))
	}
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

// wanted says what a flag takes, where its type does not say so itself.
func wanted(invalid *pflag.InvalidValueError) error {
	switch invalid.GetFlag().Value.Type() {
	case "int":
		if _, err := strconv.ParseInt(invalid.GetValue(), 0, 64); err != nil {
			return errors.New("want a whole number")
		}
	case "uint64":
		return errors.New("want a whole number, 0 or more")
	case "float64":
		return errors.New("want a number")
	case "bool":
		return errors.New("want true or false")
	}
	return invalid.Unwrap()
}

// Args returns a command's check of its arguments, whose errors say how many there are and what is wanted.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		return fmt.Errorf("%s with %s: want %s", cmd.CommandPath(), bytesize.Counted(len(args), "argument", "arguments"), cmd.UseLine())
	}
}

// Root has a program of commands show its help when there is none, and tell of one that there is not.
func Root(root *cobra.Command) {
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, c := range cmd.Commands() {
			if !c.Hidden {
				names = append(names, c.Name())
			}
		}
		return fmt.Errorf("unknown command %q%s", args[0], nearest.Hint(args[0], names))
	}
}

// Output refuses a place to write to that begins with the home folder's sign, which would become a folder of that name. name is the
// flag or argument.
func Output(name, path string) error {
	if path == "~" || strings.HasPrefix(path, "~/") {
		return fmt.Errorf("%s %s would go to a folder with the name ~ (a shell replaces ~ at the beginning of a word only, not after =: write $HOME, or ./%s)", name, path, path)
	}
	return nil
}
