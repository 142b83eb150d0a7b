package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
)

const statusLong = `Ask a server what it serves. SERVER is the path of its socket. Without it, all servers of this user are asked, those that loaders
run for themselves too.

The exit status is 1 when none answers in time, so that this does as a health check of a container without a shell.`

const reloadLong = `Have a server look again at what it serves, as SIGHUP does: a set or a partition that was damaged or missing and is
whole now is served from then on, and files that imgshard copy has put in the place of damaged ones are read; sessions go on with both
in their next epoch. A set that holds other data than before, or less, is refused, and the exit status is 1: what the server has
opened is served on. SERVER is the path of its socket.`

func newStatusCommand() *cobra.Command {
	return newAskCommand("status", "Ask running servers what they serve", statusLong, 5*time.Second, printStatus)
}

func newReloadCommand() *cobra.Command {
	return newAskCommand("reload", "Have a running server look again at what it serves", reloadLong, time.Minute, reload)
}

// newAskCommand returns a command that asks the server on a socket, "" for none, and prints its answer.
func newAskCommand(use, short, long string, timeout time.Duration, ask func(out io.Writer, socket string, timeout time.Duration) error) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use: use + " [SERVER]", Short: short, Long: long, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if socket != "" {
					return cliutil.Usagef("SERVER and --socket name a socket both: give one")
				}
				socket = args[0]
			}
			return ask(termsafe.Writer{Writer: cmd.OutOrStdout()}, strings.TrimPrefix(socket, "unix:"), timeout)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "the same as SERVER (default as imgfeed serve's)")
	cmd.Flags().Var(durationFlag(&timeout, time.Millisecond), "timeout", "how long to wait for the answer")
	return cmd
}

// printStatus prints the sets that the server on a socket serves, or those of all servers of the user.
func printStatus(out io.Writer, socket string, timeout time.Duration) error {
	now := float64(time.Now().Unix()) // without the history
	found := map[string]status.Status{}
	var err error
	if socket == "" {
		if found, err = server.Running(timeout, now); len(found) == 0 && err == nil {
			socket = server.DefaultSocket() // of another user, or another release
		}
	}
	if socket != "" {
		st, err := status.Ask(socket, timeout, now)
		if err != nil {
			return askError(socket, err)
		}
		found[socket] = st
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		st := found[path]
		fmt.Fprintf(out, "%s, process %d, serves on unix:%s\n", st.Server, st.PID, path)
		if st.Page != "" {
			fmt.Fprintf(out, "  status page at %s\n", st.Page)
		}
		for _, set := range st.Sets {
			printSet(out, set.ServedSet, "")
		}
	}
	return err
}

// reload makes the server on a socket read its data again, and prints what it newly serves. The error lists what it
// refused.
func reload(out io.Writer, socket string, timeout time.Duration) error {
	if socket == "" {
		socket = server.DefaultSocket()
	}
	done, err := status.AskReload(socket, timeout)
	if err != nil {
		return askError(socket, err)
	}
	for _, text := range done.Changes {
		fmt.Fprintln(out, text)
	}
	if len(done.Changes)+len(done.Refused) == 0 {
		fmt.Fprintln(out, status.Unchanged)
	}
	if len(done.Refused) > 0 {
		return errors.New(strings.Join(done.Refused, "\n"))
	}
	return nil
}

// askError explains why asking the server on a socket failed, or that no server is there.
func askError(socket string, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
		return fmt.Errorf("the server on %s: %w", socket, err)
	}
	return fmt.Errorf("no server answers on %s: %w: `imgfeed serve` starts one, and --socket names another's socket", socket, err)
}

// printSet prints a set's line, which ends with rest.
func printSet(out io.Writer, set status.ServedSet, rest string) {
	fmt.Fprintf(out, "  %-6s %s, %s, %s, %s, data %s%s\n", set.Split, bytesize.Counted(set.Samples, "sample", "samples"),
		bytesize.Counted(set.Classes, "class", "classes"), encoding(set), partitions(set), shard.Identity(set.Fingerprint, set.Content), rest)
}

func encoding(set status.ServedSet) string {
	var e shard.Encoding
	if json.Unmarshal(set.Encoding, &e) != nil {
		return string(set.Encoding)
	}
	return loader.DescribeEncoding(e)
}

func partitions(set status.ServedSet) string {
	switch {
	case len(set.Here) != set.Partitions:
		return fmt.Sprintf("partitions %v of %d", set.Here, set.Partitions)
	case set.Partitions == 1:
		return "1 partition"
	}
	return fmt.Sprintf("all %d partitions", set.Partitions)
}
