// Package cliutil is shared by the command lines of both programs: root command and exit status, remedies for errors,
// checks of arguments and flags, and the manual.
package cliutil

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/suggest"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/transform"
)

// A usageError is a mistake on the command line. Its exit status is 2; that of any other error is 1.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks err as a mistake on the command line; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// Usagef is [Usage] with a formatted error.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// A checkedWriter is a program's stdout, and keeps the first failure.
type checkedWriter struct {
	io.Writer
	used bool
	err  error
}

// Write implements io.Writer. The end of the reader is not a failure: it has all that it wants.
func (w *checkedWriter) Write(text []byte) (n int, err error) {
	w.used = true
	if n, err = w.Writer.Write(text); w.err == nil && !errors.Is(err, syscall.EPIPE) {
		w.err = err
	}
	return n, err
}

// Execute runs a program's command line, and returns the command with its error. Lost output is an error too: a full disk may
// report it only when stdout is closed.
func Execute(ctx context.Context, root *cobra.Command, stdout, stderr io.Writer) (*cobra.Command, error) {
	out := &checkedWriter{Writer: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if file, ok := stdout.(io.Closer); ok && out.used {
		out.err = cmp.Or(out.err, file.Close())
	}
	if err == nil && out.err != nil {
		err = fmt.Errorf("the output is incomplete: %w", out.err)
	}
	return cmd, err
}

// Report prints a command's error, if any, with its remedy. It returns the exit status of the program: 0 without an error, 2 for
// mistakes on the command line, and 1 for everything else.
func Report(stderr io.Writer, cmd *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	name := cmd.Root().Name()
	fmt.Fprintln(termsafe.Writer{Writer: stderr}, name+":", termsafe.Message(Add(err)))
	if _, mistake := errors.AsType[usageError](err); !mistake {
		return 1
	}
	fmt.Fprintf(stderr, "%s: see %s --help\n", name, cmd.CommandPath())
	return 2
}

// Interruptible returns the result of work, or ctx's error as soon as ctx ends. Unfinished work then ends with the process.
func Interruptible[T any](ctx context.Context, work func() (T, error)) (result T, err error) {
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	done := make(chan func() (T, error), 1)
	go func() {
		result, err := work()
		done <- func() (T, error) { return result, err }
	}()
	select {
	case get := <-done:
		return get()
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// A Manual has the sections of a program's manual page that its help lacks.
type Manual struct{ Environment, Files string }

// Completions are the values of flags that shells offer, by the flags' names.
var Completions = map[string][]string{
	"transform": append(transform.Presets(), transform.ViewPresets()...), "encoding": registry.Names(), "codec": pixelcodec.Names(),
	"layout": {"NHWC", "NCHW"}, "log-level": {"debug", "info", "warn", "error"},
	"resampler": {resample.Pillow13.String(), resample.Pillow12.String()},
}

// Root completes a program's root command. It adds the version, the subcommands, the hidden command that writes the
// manual, and our checks of arguments, flags and the environment. Without a subcommand the program prints the help.
func Root(root *cobra.Command, manual Manual, commands ...*cobra.Command) *cobra.Command {
	root.Version = version.Get().String()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetHelpFunc(help)
	root.AddCommand(append(commands, newManualCommand(manual))...)
	var names []string
	for _, cmd := range root.Commands() {
		for _, c := range append(cmd.Commands(), cmd) {
			if c.Args != nil {
				c.Args = checkArgs(c.Args)
			}
		}
		for flag, offered := range Completions {
			if cmd.Flags().Lookup(flag) != nil {
				cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(offered, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		if !cmd.Hidden {
			names = append(names, cmd.Name())
		}
	}
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return kernel.CheckEnv() }
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if err := storage.CheckSecret(args[0]); err != nil {
			return Usage(err)
		}
		return Usagef("unknown command %q%s", args[0], suggest.Hint(args[0], names))
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Usage(adviseFlag(cmd, err)) })
	return root
}

// NewVersionCommand returns the command that prints a program's version. describe returns its text and the object for
// --json.
func NewVersionCommand(short string, describe func() (text string, info any)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, info := describe()
			if asJSON {
				return PrintJSON(cmd.OutOrStdout(), info)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// PrintJSON writes a value as one line of JSON, without escaping <, > and &.
func PrintJSON(out io.Writer, value any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

// newManualCommand returns a command that writes the manual pages and shell completions of its program for a release.
// It is hidden, because it is for packagers.
func newManualCommand(manual Manual) *cobra.Command {
	return &cobra.Command{
		Use:    "manual DIR",
		Short:  "Write manual pages and shell completions",
		Long:   "Write the manual pages to DIR/man/man1, and the completions of bash, zsh and fish to DIR/completions.",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE:   func(cmd *cobra.Command, args []string) error { return writeManual(cmd.Root(), manual, args[0]) },
	}
}

// writeManual writes the pages of a command and its subcommands to dir/man/man1, named as git's are (imgshard-build.1), and its
// completions to dir/completions. The pages bear the date of SOURCE_DATE_EPOCH, or today's.
func writeManual(root *cobra.Command, manual Manual, dir string) error {
	pages, completions := filepath.Join(dir, "man", "man1"), filepath.Join(dir, "completions")
	for _, folder := range []string{pages, completions} {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return err
		}
	}
	root.DisableAutoGenTag = true // cobra's mark, with today's date
	for _, cmd := range root.Commands() {
		cmd.Hidden = cmd.Hidden || cmd.Name() == "completion" // packages install completions, so its pages are not needed
	}
	header := &doc.GenManHeader{Section: "1", Manual: "imgfeed", Source: "imgfeed " + version.Get().Version}
	if err := doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{Header: header, Path: pages, CommandSeparator: "-"}); err != nil {
		return fmt.Errorf("manual pages: %w", err)
	}
	name := root.Name()
	list, err := filepath.Glob(filepath.Join(pages, "*.1"))
	for _, page := range list {
		more := ".SH EXIT STATUS\n0 for success, 1 for a failure, 2 for a wrong command line, 130 after Ctrl-C.\n"
		if filepath.Base(page) == name+".1" {
			more += ".SH ENVIRONMENT\n" + manual.Environment + "\n.SH FILES\n" + manual.Files + "\n"
		}
		text, readErr := os.ReadFile(page)
		err = errors.Join(err, readErr, os.WriteFile(page, append(text, more...), 0o666))
	}
	if err != nil {
		return fmt.Errorf("manual pages: %w", err)
	}
	for file, write := range map[string]func(string) error{
		name + ".bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"_" + name:     root.GenZshCompletionFile,
		name + ".fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
	} {
		if err := write(filepath.Join(completions, file)); err != nil {
			return fmt.Errorf("completions: %w", err)
		}
	}
	return nil
}
