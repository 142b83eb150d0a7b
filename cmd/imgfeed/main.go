// Command imgfeed serves shard sets, made by imgshard, to training processes.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/cmd/internal/manual"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/internal/version"
)

// A usageError is a mistake on the command line: exit status 2.
type usageError struct{ error }

func main() {
	root := newRootCommand()
	cmd, err := root.ExecuteC()
	if err == nil {
		return
	}
	told(os.Stderr, err)
	status := exitStatus(err)
	if status == 2 {
		fmt.Fprintf(os.Stderr, "imgfeed: see %s --help\n", cmd.CommandPath())
	}
	os.Exit(status)
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "imgfeed",
		Short:         "Serve image batches to training processes",
		Long:          "imgfeed decodes, transforms and shuffles the images of a shard set, and serves them in batches through shared memory.",
		Version:       version.Get().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newServeCommand(), newStatusCommand(), newTopCommand(), newReloadCommand(), newBenchCommand(), newPlanCommand(), newVersionCommand(), manual.NewCommand())
	for _, cmd := range root.Commands() {
		if check := cmd.Args; check != nil {
			cmd.Args = usage(cliutil.Args(check))
		}
	}
	cliutil.Root(root)
	root.Args = usage(root.Args)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return asUsage(cliutil.Flag(cmd, err)) })
	return root
}

// told prints how a command failed, if it did.
func told(out io.Writer, err error) {
	if err != nil {
		fmt.Fprintln(termsafe.Writer{Writer: out}, "imgfeed:", cliutil.Add(err))
	}
}

// usage makes the errors of a check of the arguments usage errors.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return asUsage(check(cmd, args)) }
}

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// exitStatus is 2 for mistakes on the command line and 1 for everything else.
func exitStatus(err error) int {
	if _, ok := errors.AsType[usageError](err); ok {
		return 2
	}
	return 1
}
