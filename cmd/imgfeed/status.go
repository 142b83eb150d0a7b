package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/shard"
)

const statusLong = `Ask the server on a socket what it serves. The exit status is 1 when none answers in time, so that this does as a health
check of a container without a shell.`

func newStatusCommand() *cobra.Command {
	var socket string
	timeout := 5 * time.Second
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Ask a running server what it serves",
		Long:  statusLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socket == "" {
				socket = server.DefaultSocket()
			}
			return printStatus(cmd.OutOrStdout(), socket, timeout)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "path of the server's socket (default as imgfeed serve's)")
	cmd.Flags().Var(durationFlag{&timeout, time.Millisecond}, "timeout", "how long to wait for the answer")
	return cmd
}

// printStatus prints what the server on a socket answers.
func printStatus(out io.Writer, socket string, timeout time.Duration) error {
	hello, err := server.Ask(socket, timeout)
	if err != nil {
		return askError(socket, err)
	}
	out = termsafe.Writer{Writer: out}
	fmt.Fprintf(out, "%s, process %d, serves on unix:%s\n", hello.Server, hello.PID, socket)
	for _, set := range hello.Sets {
		printSet(out, set, "")
	}
	return nil
}

// askError is the error of asking the server on a socket, or because there is none.
func askError(socket string, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
		return fmt.Errorf("the server on %s: %w", socket, err)
	}
	return fmt.Errorf("no server answers on %s: %w: `imgfeed serve` starts one, and --socket names another's socket", socket, err)
}

// printServing says what is served, from where, to which socket, and how to connect.
func printServing(out io.Writer, name string, at server.Place, paths map[string]string, sets []server.ServedSet, socket, metrics string) {
	fmt.Fprintf(out, "%s serves %s (%s)\n", name, at.Path, at.Why)
	for _, set := range sets {
		printSet(out, set, "; "+paths[set.Split])
	}
	fmt.Fprintf(out, "on unix:%s\n", socket)
	fmt.Fprintf(out, "connect with DataLoader(\"unix:%s\", split=%q, batch_size=256, transform=\"train\")\n", socket, sets[0].Split)
	if metrics != "" {
		fmt.Fprintf(out, "status on http://%s/, metrics on http://%[1]s/metrics\n", metrics)
	}
}

// printSet prints a set's line, which ends with rest.
func printSet(out io.Writer, set server.ServedSet, rest string) {
	fmt.Fprintf(out, "  %-6s %s, %s, %s, %s%s\n", set.Split, bytesize.Counted(set.Samples, "sample", "samples"),
		bytesize.Counted(set.Classes, "class", "classes"), encoding(set), partitions(set), rest)
}

func encoding(set server.ServedSet) string {
	var e shard.Encoding
	if json.Unmarshal(set.Encoding, &e) != nil {
		return string(set.Encoding)
	}
	return loader.DescribeEncoding(e)
}

func partitions(set server.ServedSet) string {
	if len(set.Here) == set.Partitions {
		if set.Partitions == 1 {
			return "1 partition"
		}
		return fmt.Sprintf("all %d partitions", set.Partitions)
	}
	return fmt.Sprintf("partitions %v of %d", set.Here, set.Partitions)
}
