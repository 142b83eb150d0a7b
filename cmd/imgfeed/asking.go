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

const statusLong = `Ask a server what it serves, to whom, how fast, what each session waits for, and what to do about it. SERVER is the path of its
socket. Without it, all servers of this user are asked, those that loaders run for themselves too.

The exit status is 1 when none answers in time, so that this does as a health check of a container without a shell.`

const reloadLong = `Have a server look again at what it serves, as SIGHUP does: a set or a partition that was damaged or missing and is
whole now is served from then on, and files that imgshard copy has put in the place of damaged ones are read; sessions go on with both
in their next epoch. A set that holds other data than before, or less, is refused, and the exit status is 1: what the server has
opened is served on. SERVER is the path of its socket.`

func newStatusCommand() *cobra.Command {
	var watch, asJSON bool
	ask := func(out io.Writer, socket string, timeout time.Duration) error {
		show := func(out io.Writer) error { return printStatus(termsafe.Writer{Writer: out}, socket, timeout, asJSON) }
		if watch {
			return watchStatus(out, show)
		}
		return show(out)
	}
	cmd := newAskCommand("status", "Ask running servers what they do, and what limits them", statusLong, 5*time.Second, ask)
	cmd.Flags().BoolVar(&watch, "watch", false, "ask again every second, until Ctrl-C")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each server, a line each, as of /status.json, with its socket")
	return cmd
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
			return ask(cmd.OutOrStdout(), strings.TrimPrefix(socket, "unix:"), timeout)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "the same as SERVER (default as imgfeed serve's)")
	cmd.Flags().Var(durationFlag(&timeout, time.Millisecond), "timeout", "how long to wait for the answer")
	return cmd
}

// historySeconds is how much of a server's history is asked for: its last moment is printed.
const historySeconds = 3

// printStatus prints what the server on a socket does, or all servers of the user.
func printStatus(out io.Writer, socket string, timeout time.Duration, asJSON bool) error {
	since := float64(time.Now().Unix()) - historySeconds
	found := map[string]status.Status{}
	var err error
	if socket == "" {
		if found, err = server.Running(timeout, since); len(found) == 0 && err == nil {
			socket = server.DefaultSocket() // of another user, or another release
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

// watchStatus shows the status every second, on a screen that it clears if the output is a terminal. Errors are shown too: a server may
// come back.
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

// reload makes the server on a socket read its data again, and prints what it newly serves. The error lists what it
// refused.
func reload(out io.Writer, socket string, timeout time.Duration) error {
	out = termsafe.Writer{Writer: out}
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
	return fmt.Errorf("no server answers on %s: %w: `imgfeed serve` starts one, and `imgfeed status` without --socket lists yours", socket, err)
}
