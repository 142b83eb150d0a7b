package cliutil

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/suggest"
	"github.com/imgfeed/imgfeed/shard/storage"
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

// adviseFlag rewrites an error of reading a command's flags. It names the flag with its value and the expected values, or suggests the flag
// most like the one given.
func adviseFlag(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if secret := storage.CheckSecret(invalid.GetValue()); secret != nil {
			return fmt.Errorf("--%s %w", invalid.GetFlag().Name, secret)
		}
		return fmt.Errorf("--%s %q: %w", invalid.GetFlag().Name, invalid.GetValue(), wanted(invalid))
	}
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	if short := missing.GetSpecifiedShortnames(); short != "" {
		if strings.Contains(cmd.Use, " ") { // it takes arguments
			err = fmt.Errorf("%w (an argument that begins with - stands after --: %s … -- -%s)", err, cmd.CommandPath(), short)
		}
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return fmt.Errorf("%w%s", err, suggest.Hint("--"+missing.GetSpecifiedName(), names))
}

// wanted describes a flag's values, if its type does not.
func wanted(invalid *pflag.InvalidValueError) error {
	number, _ := errors.AsType[*strconv.NumError](invalid.Unwrap()) // only pflag's own types have one; ours name the expected values themselves
	switch {
	case number == nil:
		return invalid.Unwrap()
	case errors.Is(number.Err, strconv.ErrRange):
		return errors.New("the number is too large")
	}
	switch invalid.GetFlag().Value.Type() {
	case "int":
		return errors.New("want a whole number")
	case "float64":
		return errors.New("want a number")
	case "bool":
		return errors.New("want true or false")
	}
	return invalid.Unwrap()
}

// checkArgs returns a command's check of its arguments, whose errors give their number and the expected ones. It refuses empty flags, empty
// arguments, addresses instead of paths, and URLs with secrets; errors name arguments as the command's usage does.
func checkArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) != nil {
			return Usagef("%s with %s: want %s", cmd.CommandPath(), bytesize.Counted(len(args), "argument", "arguments"), cmd.UseLine())
		}
		for i, text := range args {
			name := argumentName(cmd, i)
			if text == "" {
				return Usage(empty(name))
			}
			check := Local
			if slices.Contains([]string{"SET", "A", "B", "SET|SRC", "SRC", "PATH"}, name) {
				check = Readable
			} else if cmd.Name() == "merge" {
				check = Writable
			}
			if strings.Contains(name, "KEY") {
				continue
			}
			if err := storage.CheckSecret(text); err != nil {
				return Usagef("%s %w", name, err)
			}
			if err := check(name, text); err != nil && name != "SERVER" {
				return Usage(err)
			}
		}
		return Usage(badFlag(cmd))
	}
}

// argumentName returns what a command's usage calls its i-th argument: SRC is any of SRC..., and the last of [INDEX|KEY]... any from there on.
func argumentName(cmd *cobra.Command, i int) string {
	var names []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if word = strings.Trim(word, "[]."); strings.HasPrefix(word, "-") {
			break
		}
		names = append(names, word)
	}
	if len(names) == 0 {
		return "argument"
	}
	return names[min(i, len(names)-1)]
}

// badFlag refuses a flag that is given and says nothing, since it would count as not given, and one with a secret.
func badFlag(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		texts := []string{f.Value.String()}
		values, isList := f.Value.(pflag.SliceValue)
		if isList {
			texts = values.GetSlice()
		}
		if slices.Contains(texts, "") && (isList || f.Value.Type() == "string") {
			err = fmt.Errorf("%w, or leave the flag away", empty("--"+f.Name))
		}
		for _, text := range texts {
			if secret := storage.CheckSecret(text); secret != nil {
				err = fmt.Errorf("--%s %w", f.Name, secret)
			}
		}
	})
	return err
}

func empty(name string) error {
	return fmt.Errorf("%s is empty, as an unset variable is: name one", name)
}

// Local refuses a network address instead of a path, unless such a path exists. name is the flag or argument.
func Local(name, path string) error {
	scheme, rest, is := strings.Cut(path, "://")
	if _, err := os.Lstat(path); !is || err == nil || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.") != "" {
		return nil
	}
	if scheme == "file" {
		return fmt.Errorf("%s %s is an address: write the path alone, %s", name, path, rest)
	}
	return fmt.Errorf("%s %s is an address, and only paths of this machine are read and written: copy or mount what is there, and name that", name, path)
}

// Readable refuses a place that no set can be read from: a URL of an unknown scheme or with a secret in it.
func Readable(name, place string) error {
	if scheme, _, _ := strings.Cut(place, "://"); scheme == "file" || !storage.IsRemote(place) {
		return Local(name, place)
	}
	if _, err := storage.At(place); err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	return nil
}

// AllowSource is the help of --allow-source.
const AllowSource = "URL below which an index that is read over a network may have its images (default its own host and bucket); IMGFEED_URL_QUERY goes there too"

// Output refuses a place to write to that begins with the home folder's sign, or is a URL: either would become a folder of that name. name is the flag or argument.
func Output(name, path string) error {
	if path == "~" || strings.HasPrefix(path, "~/") {
		return fmt.Errorf("%s %s would go to a folder with the name ~ (a shell replaces ~ at the beginning of a word only, not after =: write $HOME, or ./%s)", name, path, path)
	}
	return Local(name, path)
}

// Writable is Output for a set, which may be written to a bucket.
func Writable(name, place string) error {
	if scheme, _, _ := strings.Cut(place, "://"); scheme == "file" || !storage.IsRemote(place) {
		return Output(name, place)
	}
	if _, err := storage.WriterAt(place); err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	return nil
}
