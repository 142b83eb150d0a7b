package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/server/status"
)

const statusLong = `Show a server's sets, sessions, speed, and the bottleneck of each session with the remedy. SERVER is the path of its
socket. Without it, all servers of this user answer, including those that loaders have started for themselves.

The exit status is 1 if no server answers in time. So this serves as a health check for containers without a shell.`

const reloadLong = `Make a server reload its data. Sets and partitions that were damaged or missing and are intact now
are served from each session's next epoch on. So are files that imgshard copy has repaired.
If a served set is damaged now, or has different or less data, nothing changes: the server keeps serving all that it has opened,
and the exit status is 1.
SERVER is the path of the server's socket.`

func newStatusCommand() *cobra.Command {
	var watch, asJSON bool
	ask := func(out io.Writer, socket string, timeout time.Duration) error {
		show := func(out io.Writer) error { return printStatus(termsafe.Writer{Writer: out}, socket, timeout, asJSON) }
		if watch {
			return watchStatus(out, show)
		}
		return show(out)
	}
	cmd := newAskCommand("status", "Show what running servers do, and what limits them", statusLong, 5*time.Second, ask)
	cmd.Flags().BoolVar(&watch, "watch", false, "refresh every second, until Ctrl-C")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON per server: its /status.json and its socket")
	return cmd
}

func newReloadCommand() *cobra.Command {
	return newAskCommand("reload", "Make a running server reload its data", reloadLong, time.Minute, reload)
}

// newAskCommand returns a command that sends a request to the server on a socket and prints its answer. ask gets an
// empty socket if the command line names no socket.
func newAskCommand(
	use, short, long string, timeout time.Duration, ask func(out io.Writer, socket string, timeout time.Duration) error,
) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use: use + " [SERVER]", Short: short, Long: long, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if socket != "" {
					return cliutil.Usagef("SERVER and --socket both name a socket: give one of them")
				}
				socket = args[0]
			}
			return ask(cmd.OutOrStdout(), strings.TrimPrefix(socket, "unix:"), timeout)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "the same as SERVER (default: that of imgfeed serve)")
	cmd.Flags().Var(durationFlag(&timeout, time.Millisecond), "timeout", "how long to wait for the answer")
	return cmd
}

// historySeconds is the length of the requested history. Only its last moment is printed.
const historySeconds = 3

// printStatus prints the status of the server on a socket, or of all servers of the user.
func printStatus(out io.Writer, socket string, timeout time.Duration, asJSON bool) error {
	since := float64(time.Now().Unix()) - historySeconds
	found := map[string]status.Status{}
	var err error
	if socket == "" {
		if found, err = server.Running(timeout, since); len(found) == 0 && err == nil {
			socket = server.DefaultSocket() // a server of another user or another release may listen there
		}
	}
	if socket != "" {
		st, err := status.Ask(socket, timeout, since)
		if err != nil {
			return askError(socket, err)
		}
		found[socket] = st
	}
	for i, path := range slices.Sorted(maps.Keys(found)) {
		if asJSON {
			json.NewEncoder(out).Encode(struct {
				Socket string `json:"socket"`
				status.Status
			}{path, found[path]})
			continue
		}
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "unix:%s\n%v", path, found[path])
	}
	return err
}

// watchStatus shows the status every second. On a terminal it clears the screen first. It shows errors too, because a server may come back.
func watchStatus(out io.Writer, show func(io.Writer) error) error {
	start := ""
	if term.IsTerminal(int(os.Stdout.Fd())) {
		start = "\x1b[H\x1b[2J"
	}
	for {
		text := bytes.NewBufferString(start)
		if err := show(text); err != nil {
			fmt.Fprintln(termsafe.Writer{Writer: text}, err)
		}
		if _, err := text.WriteTo(out); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
}

// reload makes the server on a socket reload its data, and prints the changes.
func reload(out io.Writer, socket string, timeout time.Duration) error {
	out = termsafe.Writer{Writer: out}
	if socket == "" {
		socket = server.DefaultSocket()
	}
	changes, err := status.AskReload(socket, timeout)
	if err != nil {
		return askError(socket, err)
	}
	for _, text := range changes {
		fmt.Fprintln(out, text)
	}
	return nil
}

// askError explains why asking the server on a socket failed, or that no server is there.
func askError(socket string, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
		return fmt.Errorf("the server on %s: %w", socket, err)
	}
	return fmt.Errorf("no server answers on %s: %w (`imgfeed serve` starts one; `imgfeed status` lists yours)", socket, err)
}
