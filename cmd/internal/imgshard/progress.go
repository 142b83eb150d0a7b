package imgshard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/pack"
)

const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 10 * time.Second
)

// progress shows how far a build is: a bar on a terminal, a line now and then elsewhere.
type progress struct {
	w        io.Writer
	terminal bool
	bar      *progressbar.ProgressBar
	stage    pack.Stage
	split    string
	start    time.Time // of the stage
	shown    time.Time
	now      func() time.Time
	summed   time.Time // when took was called last; before that the command's start
}

// quiet is the flag of all commands that leaves out progress and reports.
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

// took returns how long the command has run, or one of its splits after the split before it.
func (p *progress) took() time.Duration {
	last := p.summed
	p.summed = p.now()
	return p.summed.Sub(last)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// withProgress calls work, and shows its progress on stderr. The context also ends when the terminal goes away; left names what remains then.
func withProgress(ctx context.Context, stderr io.Writer, left string, work func(ctx context.Context, show *progress) error) error {
	ctx, stop := untilHangup(ctx)
	defer stop()
	show := newProgress(stderr)
	err := work(ctx, show)
	show.finish()
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted; " + left)
	}
	return err
}

// update takes a report of the builder; it is called for every image, and mostly does nothing.
func (p *progress) update(r pack.Progress) {
	now := p.now()
	if r.Stage != p.stage || r.Split != p.split {
		p.finish()
		p.stage, p.split, p.start, p.shown = r.Stage, r.Split, now, now
		if p.terminal {
			p.bar = p.newBar(r.Total)
		}
	}
	every := lineEvery
	if p.terminal {
		every = barEvery
	}
	if now.Sub(p.shown) < every {
		return
	}
	p.shown = now
	text := p.describe(r, now.Sub(p.start))
	if p.bar == nil {
		fmt.Fprintln(p.w, text)
		return
	}
	p.bar.Describe(text)
	if r.Total > 0 {
		p.bar.Set64(min(done(r), r.Total))
	} else {
		p.bar.Add(1)
	}
}

// done is the progress in the units of Total.
func done(r pack.Progress) int64 {
	if r.Stage == pack.StageRead {
		return r.Bytes
	}
	return int64(r.Images)
}

func (p *progress) newBar(total int64) *progressbar.ProgressBar {
	if total <= 0 {
		total = -1
	}
	return progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.w), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionThrottle(0))
}

// describe says in words: "train: packing 12,345 of 50,000 images, 210.3 MB/s, 1m40s left".
func (p *progress) describe(r pack.Progress, took time.Duration) string {
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
	if d := done(r); r.Total > d && d > 0 {
		left := time.Duration(float64(took) * float64(r.Total-d) / float64(d))
		text += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	if r.Rejected > 0 {
		text += fmt.Sprintf(", %s left out", bytesize.Grouped(r.Rejected))
	}
	return text
}

// finish clears the bar, so that other lines can follow.
func (p *progress) finish() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar = nil
	}
	p.stage = ""
}
