package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/server"
)

const statusLong = `Ask the server on a socket what it serves. The exit status is 1 when none answers in time, so that this does as a health
check of a container without a shell.`

func newStatusCommand() *cobra.Command {
	var socket string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Ask a running server what it serves",
		Long:  statusLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usageError{fmt.Errorf("--timeout %v: want more than 0", timeout)}
			}
			if socket == "" {
				socket = server.DefaultSocket()
			}
			return printStatus(cmd.OutOrStdout(), socket, timeout)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "path of the server's socket (default as imgfeed serve's)")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for the answer")
	return cmd
}

// printStatus prints what the server on a socket answers.
func printStatus(out io.Writer, socket string, timeout time.Duration) error {
	hello, err := server.Ask(socket, timeout)
	if err != nil {
		return fmt.Errorf("no server answers on %s: %w", socket, err)
	}
	fmt.Fprintf(out, "%s, process %d, serves on unix:%s\n", hello.Server, hello.PID, socket)
	for _, set := range hello.Sets {
		printSet(out, set, "")
	}
	return nil
}
