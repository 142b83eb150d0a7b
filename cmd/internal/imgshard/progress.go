package imgshard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/pack"
)

// progress shows the progress of a build: one line that changes on a terminal, otherwise a line every ten seconds.
type progress struct {
	w        io.Writer
	terminal bool
	stage    pack.Stage
	split    string
	start    time.Time // start of the stage
	shown    time.Time
	now      func() time.Time
	summed   time.Time // last call of took; initially the command's start
}

// quiet is the flag of all commands that disables progress and reports.
var quiet bool

// outcome returns where a command says what it has done: nowhere with --quiet.
func outcome(c *cobra.Command) io.Writer {
	if quiet {
		return io.Discard
	}
	return c.OutOrStdout()
}

func newProgress(w io.Writer) *progress {
	if quiet {
		w = io.Discard
	}
	return &progress{w: w, terminal: isTerminal(w) && os.Getenv("TERM") != "dumb", now: time.Now, summed: time.Now()}
}

// took returns the time since its last call, or since the command's start: the time of one split.
func (p *progress) took() time.Duration {
	last := p.summed
	p.summed = p.now()
	return p.summed.Sub(last)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// withProgress calls work, and shows its progress on stderr. consequence tells the user the state after an interruption.
func withProgress(ctx context.Context, stderr io.Writer, consequence string, work func(ctx context.Context, show *progress) error) error {
	show := newProgress(stderr)
	err := work(ctx, show)
	show.finish()
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted; " + consequence)
	}
	return err
}

// update receives a report of the builder. It is called for every image, and usually does nothing.
func (p *progress) update(r pack.Progress) {
	now := p.now()
	if r.Stage != p.stage || r.Split != p.split {
		p.finish()
		p.stage, p.split, p.start, p.shown = r.Stage, r.Split, now, now
	}
	every, format := 10*time.Second, "%s\n"
	if p.terminal {
		every, format = 100*time.Millisecond, "\r\x1b[?7l%s\x1b[K\x1b[?7h" // long text does not wrap
	}
	if now.Sub(p.shown) >= every {
		p.shown = now
		fmt.Fprintf(p.w, format, progressText(r, now.Sub(p.start)))
	}
}

// progressText returns a line such as "train: packing 12,345 of 50,000 images, 210.3 MB/s, 1m40s left".
func progressText(r pack.Progress, took time.Duration) string {
	text := fmt.Sprintf("%s: %s", r.Split, r.Stage)
	if r.Images > 0 {
		text += " " + bytesize.Grouped(r.Images)
		if r.Total > 0 && r.Stage != pack.StageRead {
			text += " of " + bytesize.Grouped(int(r.Total))
		}
		text += " images"
	}
	if r.Bytes > 0 && took > 0 {
		text += fmt.Sprintf(", %s/s", bytesize.Format(int64(float64(r.Bytes)/took.Seconds())))
	}
	done := int64(r.Images) // in the units of Total
	if r.Stage == pack.StageRead || r.Images == 0 {
		done = r.Bytes
	}
	if r.Total > done && done > 0 {
		remaining := time.Duration(float64(took) * float64(r.Total-done) / float64(done))
		text += fmt.Sprintf(", %s left", remaining.Round(time.Second))
	}
	if r.Rejected > 0 {
		text += fmt.Sprintf(", %s left out", bytesize.Grouped(r.Rejected))
	}
	return text
}

// finish clears the terminal's line, so that other lines can follow.
func (p *progress) finish() {
	if p.terminal && p.stage != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.stage = ""
}
