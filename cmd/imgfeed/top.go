package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/server/status"
)

const topLong = `Show what a server is doing, in the terminal, as its status page does: rates, sessions, what each waits for and what to do about it.

SERVER is the path of its socket, or the address that --metrics gave it, as 9090, host:9090 or http://host:9090. Without it, the only
server of this user, also one that a loader runs for itself; if there are several, they are listed. Arrows choose a session, q ends.

--once prints one look as text, --once --json as data, for scripts.`

// topFlags are the flags of imgfeed top.
type topFlags struct {
	once, json        bool
	interval, timeout time.Duration
}

func newTopCommand() *cobra.Command {
	f := topFlags{interval: time.Second, timeout: 5 * time.Second}
	cmd := &cobra.Command{
		Use:   "top [SERVER]",
		Short: "Show what a server is doing, in the terminal",
		Long:  topLong,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), append(args, "")[0])
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.once, "once", false, "print one look and end")
	flags.BoolVar(&f.json, "json", false, "with --once, print it as JSON")
	flags.Var(durationFlag(&f.interval, 100*time.Millisecond), "interval", "how often to ask")
	flags.Var(durationFlag(&f.timeout, time.Millisecond), "timeout", "how long to wait for an answer")
	return cmd
}

func (f *topFlags) run(ctx context.Context, out io.Writer, place string) error {
	if f.json && !f.once {
		return cliutil.Usagef("--json goes with --once")
	}
	ask, where, err := f.asker(place)
	if err != nil {
		return err
	}
	if !f.once {
		if !term.IsTerminal(int(os.Stdout.Fd())) {
			return cliutil.Usagef("the output is no terminal: --once prints one look, --once --json as data")
		}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, unix.SIGTERM)
		defer stop()
		return newTopScreen(where, ask, f.interval).run(ctx)
	}
	st, err := ask()
	if err != nil {
		return fmt.Errorf("no server answers on %s: %w: `imgfeed serve` starts one, and SERVER names another", where, err)
	}
	if f.json {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(st)
	}
	printTop(termsafe.Writer{Writer: out}, st)
	return nil
}

// asker returns a function that asks the server at a place, and the place's name for people.
func (f *topFlags) asker(place string) (ask func() (status.Status, error), where string, err error) {
	if place == "" {
		if place, err = onlyRunning(f.timeout); err != nil {
			return nil, "", err
		}
	}
	address, isAddress := topAddress(place)
	if !isAddress {
		place = strings.TrimPrefix(place, "unix:")
		return func() (status.Status, error) { return status.Ask(place, f.timeout, 0) }, "unix:" + place, nil
	}
	return func() (status.Status, error) { return status.AskPage(address, f.timeout) }, address, nil
}

// onlyRunning returns the socket of the user's only server, and the default one where there is none.
func onlyRunning(timeout time.Duration) (string, error) {
	found, _ := server.Running(timeout, float64(time.Now().Unix()))
	paths := slices.Sorted(maps.Keys(found))
	switch len(paths) {
	case 0:
		return server.DefaultSocket(), nil
	case 1:
		return paths[0], nil
	}
	var b strings.Builder
	for _, path := range paths {
		st := found[path]
		fmt.Fprintf(&b, "\n  imgfeed top %s", path)
		if len(st.Sets) > 0 {
			fmt.Fprintf(&b, "   serves %s", st.Sets[0].Path)
		}
	}
	return "", cliutil.Usagef("%d servers run, choose one:%s", len(paths), b.String())
}

// topAddress returns the URL that a place names, if it is not the path of a socket.
func topAddress(place string) (url string, is bool) {
	if strings.HasPrefix(place, "http://") || strings.HasPrefix(place, "https://") {
		return strings.TrimSuffix(place, "/"), true
	}
	if strings.HasPrefix(place, "unix:") || strings.Contains(place, "/") {
		return "", false
	}
	if _, err := os.Stat(place); err == nil {
		return "", false
	}
	address, err := completeAddress(place)
	return "http://" + address, err == nil
}

// topColumns are the columns of the table of sessions.
var topColumns = []string{"SPLIT", "RANK", "EPOCH", "DONE", "IMAGES/S", "LEFT", "WAITS FOR", "SLOTS", "PID"}

// topRow is a session's row.
func topRow(s status.Session) []string {
	epoch, done, left := "–", "–", "–"
	if s.Epoch != nil {
		epoch = fmt.Sprint(*s.Epoch)
		done = fmt.Sprintf("%d %%", 100*s.EpochSent/max(s.EpochBatches, 1))
		if s.SecondsLeft != nil {
			left = time.Duration(*s.SecondsLeft * float64(time.Second)).Round(time.Second).String()
		}
	}
	slots := fmt.Sprintf("%d/%d", s.SlotsLent, s.Slots)
	return []string{s.Split, fmt.Sprintf("%d/%d", s.Rank, s.World), epoch, done, rate(s.ImagesPerSecond), left, string(s.WaitingFor), slots, fmt.Sprint(s.ClientPID)}
}

// rate writes images per second.
func rate(perSecond float64) string { return bytesize.Grouped(int(math.Round(perSecond))) }

// topHead returns the lines above the table: the server, and the work of its threads.
func topHead(st status.Status) []string {
	up := time.Duration((st.Now - st.Started) * float64(time.Second)).Round(time.Second)
	lines := []string{
		fmt.Sprintf("%s, process %d, up %v, %s", st.Server, st.PID, up, bytesize.Counted(st.Threads, "decoding thread", "decoding threads")),
		fmt.Sprintf("%s images/s, %s delivered, %s blank, %s substituted; rings %s of %s", rate(st.ImagesPerSecond), bytesize.Grouped(int(st.Images)),
			bytesize.Grouped(int(st.Blanks)), bytesize.Grouped(int(st.Substitutes)), bytesize.Format(st.RingBytes), bytesize.Format(st.RingLimitBytes)),
	}
	if n := len(st.History); n > 0 {
		m := st.History[n-1]
		lines = append(lines, fmt.Sprintf("threads: %2.0f %% read, %2.0f %% decode, %2.0f %% resize, %2.0f %% wait; shards %s/s",
			100*m.Read, 100*m.Decode, 100*m.Resample, 100*m.Wait, bytesize.Format(int64(m.Bytes))))
	}
	if st.Store != nil {
		lines = append(lines, st.Store.Lines()...)
	}
	lines = append(lines, strings.TrimSpace(st.Verdict+". "+st.Advice))
	for _, text := range st.Damaged {
		lines = append(lines, "damaged, and not served: "+text)
	}
	if len(st.Bad) > 0 {
		lines = append(lines, fmt.Sprintf("bad sample %d of %s (%s): %s", st.Bad[0].Index, st.Bad[0].Split, st.Bad[0].Key, st.Bad[0].Error))
	}
	if st.Feeders != nil {
		lines = append(lines, st.Feeders.Lines()...)
	}
	return lines
}

// printTop prints one look.
func printTop(out io.Writer, st status.Status) {
	for _, line := range topHead(st) {
		fmt.Fprintln(out, line)
	}
	if len(st.Sessions) == 0 {
		fmt.Fprintln(out, "no sessions")
		return
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(topColumns, "\t"))
	for _, s := range st.Sessions {
		fmt.Fprintln(table, strings.Join(topRow(s), "\t"))
	}
	table.Flush()
}
