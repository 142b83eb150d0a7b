package cliutil

import (
	"cmp"
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
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// known are common errors and their remedies.
var known = []struct {
	err  error
	text string
}{
	{shard.ErrNotSet, "imgshard build or imgshard index makes a set of a dataset"},
	{syscall.ENOSPC, "the disk is full: free some space, or give another path"},
	{syscall.EDQUOT, "the disk quota is used up: free some space, or give another path"},
	{syscall.EFBIG, "the file system or ulimit -f does not allow files of this size"},
	{syscall.EROFS, "the file system is read-only: name another path"},
	{syscall.EACCES, "permission denied for this user: change the permissions, or name another path"},
	{syscall.EPERM, "permission denied for this user: change the permissions, or name another path"},
	{syscall.EMFILE, "raise the limit of open files (ulimit -n)"},
	{syscall.EIO, "the disk fails: see the kernel's log"},
	{syscall.ESTALE, "the network file system has lost the file: mount it again"},
}

// Add returns the text of err, followed by the remedy if err wraps one of the known errors.
func Add(err error) string {
	if strings.Contains(err.Error(), "~/") && !strings.Contains(err.Error(), "$HOME") {
		return err.Error() + " (shells expand ~ only at the beginning of a word, not after =: write $HOME)"
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return err.Error() + " (" + k.text + ")"
		}
	}
	return err.Error()
}

// adviseFlag rewrites an error of parsing a command's flags. It names the flag with its value and the accepted values,
// or suggests the flag most like a misspelt one.
func adviseFlag(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if secret := storage.CheckSecret(invalid.GetValue()); secret != nil {
			return fmt.Errorf("--%s %w", invalid.GetFlag().Name, secret)
		}
		return fmt.Errorf("--%s %q: %w", invalid.GetFlag().Name, invalid.GetValue(), choices(invalid.GetFlag(), invalid.Unwrap()))
	}
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	if short := missing.GetSpecifiedShortnames(); short != "" {
		if strings.Contains(cmd.Use, " ") { // it takes arguments
			err = fmt.Errorf("%w (put an argument that begins with - after --: %s … -- -%s)", err, cmd.CommandPath(), short)
		}
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if name := suggest.Name(missing.GetSpecifiedName(), names); name != "" {
		return fmt.Errorf("%w (did you mean --%s?)", err, name)
	}
	return err
}

// choices returns err, the reason why a flag refused a value. If it lacks them, it gets the values that the flag takes.
func choices(f *pflag.Flag, err error) error {
	number, is := errors.AsType[*strconv.NumError](err)
	switch offered := Completions[f.Name]; {
	case is:
		want := map[string]string{"ParseBool": "true or false", "ParseFloat": "a number"}[number.Func]
		return fmt.Errorf("want %s", cmp.Or(want, "a whole number"))
	case len(offered) > 0 && !strings.Contains(err.Error(), "want "):
		last := len(offered) - 1
		return fmt.Errorf("want %s or %s", strings.Join(offered[:last], ", "), offered[last])
	}
	return err
}

// checkArgs returns a command's check of its arguments. It refuses a wrong number of them, empty flags, empty
// arguments, addresses instead of paths, and URLs with secrets. Errors name arguments as the command's usage does.
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
			if slices.Contains([]string{"SET", "A", "B", "SRC", "PATH"}, name) {
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
			if err := check(name, text); err != nil && name != "SERVER" && name != "URL" {
				return Usage(err)
			}
		}
		return Usage(badFlag(cmd))
	}
}

// argumentName returns the name of a command's i-th argument in its usage. The last name stands for all further arguments.
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

// badFlag refuses an explicitly empty flag, which would count as absent, and one with a secret.
func badFlag(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		texts := []string{f.Value.String()}
		values, isList := f.Value.(pflag.SliceValue)
		if isList {
			texts = values.GetSlice()
		}
		if slices.Contains(texts, "") && (isList || f.Value.Type() == "string") {
			err = fmt.Errorf("%w, or omit the flag", empty("--"+f.Name))
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
	return fmt.Errorf("%s is empty (an unset variable?): name one", name)
}

// Local refuses a network address instead of a path, unless such a path exists. name is the flag or argument.
func Local(name, path string) error {
	scheme, local, found := strings.Cut(path, "://")
	const schemeBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-."
	if _, err := os.Lstat(path); !found || err == nil || strings.Trim(scheme, schemeBytes) != "" {
		return nil
	}
	if scheme == "file" {
		return fmt.Errorf("%s %s is an address: give only the path, %s", name, path, local)
	}
	return fmt.Errorf("%s %s is an address, but must be a path of this machine: copy or mount it first", name, path)
}

// Readable refuses an address that sets cannot be read from: a URL with an unknown scheme or a secret.
func Readable(name, address string) error { return checkAddress(name, address, Local, storage.At) }

// Writable is Output for a set, which may be written to a bucket.
func Writable(name, address string) error {
	return checkAddress(name, address, Output, storage.WriterAt)
}

// checkAddress checks a path by local, and a URL by opening its storage.
func checkAddress[S any](name, address string, local func(name, path string) error, open func(string) (S, error)) error {
	if scheme, _, _ := strings.Cut(address, "://"); scheme == "file" || !storage.IsRemote(address) {
		return local(name, address)
	}
	if _, err := open(address); err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	return nil
}

// AllowSource is the help of --allow-source.
const AllowSource = "further URL prefix for the images of a remote index (default its own host and bucket); also gets IMGFEED_URL_QUERY"

// StoreEnvironment describes the environment variables of buckets and web servers for manual pages.
const StoreEnvironment = "AWS_*, GOOGLE_APPLICATION_CREDENTIALS, HF_TOKEN: credentials for buckets and for Hugging Face, " +
	"with their usual meaning. IMGFEED_URL_QUERY: a query that signs requests to one web server."

// Output refuses an output path that begins with ~ or is a URL: either would become a folder of that name. name is the flag or argument.
func Output(name, path string) error {
	if path == "~" || strings.HasPrefix(path, "~/") {
		const remedy = "shells expand ~ only at the beginning of a word: write $HOME"
		return fmt.Errorf("%s %s would be a folder named ~: %s, or ./%[2]s", name, path, remedy)
	}
	return Local(name, path)
}
