// Command imgshard packs datasets into shard sets and looks into them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/cmd/internal/manual"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/imgfeed/imgfeed/shard"
)

// newCommands makes the subcommands; each stands in the file of its name.
var newCommands = []func() *cobra.Command{
	newBuildCommand,
	newRepackCommand,
	newSynthCommand,
	newInspectCommand,
	newLsCommand,
	newCatCommand,
	newViewCommand,
	newStatsCommand,
	newDiffCommand,
	newVerifyCommand,
	newRepairCommand,
	newVersionCommand,
	manual.NewCommand,
}

// usageError is a mistake in the command line: the program exits with 2 instead of 1.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		endAtOnce(os.Interrupt, syscall.SIGTERM)
		stop()
	})
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// interruptedStatus is the exit status of a command that a signal has ended, as shells have it for Ctrl-C: 1 means other things, of diff
// that two sets differ.
const interruptedStatus = 130

// unfinished has the names of files that go when the program ends at once.
var unfinished sync.Map

// endAtOnce has the next signal end the program as the system does it, but for the files of locks and those that are unfinished, which go.
func endAtOnce(signals ...os.Signal) {
	next := make(chan os.Signal, 1)
	signal.Notify(next, signals...)
	go func() {
		number := (<-next).(syscall.Signal)
		shard.RemoveLocks()
		unfinished.Range(func(name, _ any) bool {
			os.Remove(name.(string))
			return true
		})
		signal.Reset(number)
		syscall.Kill(os.Getpid(), number)
	}()
}

// run executes a command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	fmt.Fprintln(termsafe.Writer{Writer: stderr}, "imgshard:", cliutil.Add(err))
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(stderr, "imgshard: see %s --help\n", cmd.CommandPath())
		return 2
	}
	if ctx.Err() != nil {
		return interruptedStatus
	}
	return 1
}

// newRoot makes the command with all its subcommands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "imgshard",
		Short:         "Pack image datasets into shard sets, and look into them",
		Version:       version.Get().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cliutil.Root(root)
	root.Args = usage(root.Args)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{cliutil.Flag(cmd, err)} })
	for _, newCommand := range newCommands {
		root.AddCommand(newCommand())
	}
	return root
}

// usageArgs makes the errors of a check of the arguments usage errors, in our words.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs { return usage(cliutil.Args(check)) }

func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}
