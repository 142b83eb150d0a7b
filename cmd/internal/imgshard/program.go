// Package imgshard is the program of that name, which packs datasets into shard sets and inspects them. It is a
// package, because imgfeed contains it: two separate binaries would have most of their code twice.
package imgshard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// Main is the main function: it takes the command line without the program's name, and ends the process.
func Main(args []string) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	storage.Default.Context = ctx
	log.SetFlags(0) // slog writes its lines through package log
	log.SetPrefix("imgshard: ")
	os.Exit(run(ctx, args, os.Stdout, os.Stderr))
}

// interruptedStatus is the exit status of a command ended by a signal, as in shells. Status 1 has another meaning: verify has found damage.
const interruptedStatus = 130

// run executes a command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := NewRoot()
	root.SetArgs(args)
	cmd, err := cliutil.Execute(ctx, root, stdout, stderr)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	status := cliutil.Report(stderr, cmd, err)
	if status == 1 && ctx.Err() != nil {
		return interruptedStatus
	}
	return status
}

// OpenInPlace opens the dataset at path to be read where it lies, with the labels of torchvision's ImageFolder.
func OpenInPlace(path string) ([]*dataset.Split, error) {
	return source.Open(path, dataset.Options{ClassOrder: dataset.ClassOrderString})
}

// Index indexes the dataset at path into the folder out, as imgshard index does, and returns the notes about it. Its progress goes to w,
// as a bar if w is a terminal.
func Index(ctx context.Context, path, out string, w io.Writer) (notes []string, err error) {
	note := func(text string) { notes = append(notes, termsafe.Text(remedy.InPlace(text, path))) }
	err = withProgress(ctx, w, "the unfinished index is removed", func(ctx context.Context, show *progress) error {
		splits, err := OpenInPlace(path)
		if err != nil {
			return source.InPlace(err, path)
		}
		for _, s := range splits {
			fmt.Fprintf(show.w, "%s: %s is %s\n", s.Name, s.Path, s.Format)
		}
		options := pack.Options{Index: true, Progress: show.update, Warn: note}
		err = pack.BuildAll(ctx, pack.Tasks(splits, out), options, func(s pack.Summary) {
			for _, text := range s.Notes {
				note(text)
			}
		})
		return source.InPlace(err, path)
	})
	return notes, err
}

// NewRoot makes the command with all its subcommands.
func NewRoot() *cobra.Command {
	root := &cobra.Command{Use: "imgshard", Short: "Pack image datasets into shard sets, and inspect them"}
	root.PersistentFlags().BoolVarP(&quiet, "quiet", "q", false, "print only warnings, errors and requested output")
	root.PersistentFlags().StringArrayVar(&storage.Default.Sources, "allow-source", nil, cliutil.AllowSource)
	return cliutil.Root(root, cliutil.Manual{
		Environment: cliutil.StoreEnvironment,
		Files:       "SET/manifest.json and SET/rank-NNNN/: a shard set. SET/rejects.jsonl: the rejected files, with reasons.",
	},
		newBuildCommand(), newIndexCommand(), newMergeCommand(), newRepackCommand(), newCopyCommand(), newSynthCommand(),
		newInspectCommand(), newLsCommand(), newCatCommand(), newViewCommand(), newStatsCommand(), newVerifyCommand(), newVersionCommand())
}

func newVersionCommand() *cobra.Command {
	return cliutil.NewVersionCommand("Print the version", func() (string, any) {
		v := version.Get()
		return fmt.Sprintf("imgshard %s\n%s, %s", v, v.Go, v.Platform), v
	})
}

const (
	drawEvery = 100 * time.Millisecond
	lineEvery = 10 * time.Second
)

// progress shows the progress of a build: a line that changes on a terminal, otherwise a line from time to time.
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
	f, isFile := w.(*os.File)
	terminal := isFile && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
	return &progress{w: w, terminal: terminal, now: time.Now, summed: time.Now()}
}

// took returns the time since its last call, or since the command's start: the time of one split.
func (p *progress) took() time.Duration {
	last := p.summed
	p.summed = p.now()
	return p.summed.Sub(last)
}

// withProgress calls work, and shows its progress on stderr. consequence tells the user the state after an interruption.
func withProgress(ctx context.Context, stderr io.Writer, consequence string, work func(ctx context.Context, show *progress) error) error {
	show := newProgress(stderr)
	err := work(ctx, show)
	show.finish()
	if err != nil && ctx.Err() != nil { // The error may be that of an upload, which the interrupt has ended.
		err = errors.New("interrupted; " + consequence)
	}
	return err
}

// update shows a report of the builder. One comes for every image, so most show nothing.
func (p *progress) update(r pack.Progress) {
	now := p.now()
	if r.Stage != p.stage || r.Split != p.split {
		p.finish()
		p.stage, p.split, p.start, p.shown = r.Stage, r.Split, now, now
	}
	every := lineEvery
	if p.terminal {
		every = drawEvery
	}
	if now.Sub(p.shown) < every {
		return
	}
	p.shown = now
	text := p.describe(r, now.Sub(p.start))
	if !p.terminal {
		fmt.Fprintln(p.w, text)
		return
	}
	width, _, _ := term.GetSize(int(p.w.(*os.File).Fd())) // 0 of a terminal that does not say it
	fmt.Fprintf(p.w, "\r%.*s%s", max(cmp.Or(width, 80)-1, 1), text, clearLine)
}

// clearLine clears a terminal's line from the cursor on.
const clearLine = "\x1b[K"

// done is the progress in the units of Total.
func done(r pack.Progress) int64 {
	if r.Stage == pack.StageRead || r.Images == 0 {
		return r.Bytes
	}
	return int64(r.Images)
}

// describe returns a line such as "train: packing 12,345 of 50,000 images, 210.3 MB/s, 1m40s left".
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
		remaining := time.Duration(float64(took) * float64(r.Total-d) / float64(d))
		text += fmt.Sprintf(", %s left", remaining.Round(time.Second))
	}
	if r.Rejected > 0 {
		text += fmt.Sprintf(", %s left out", bytesize.Grouped(r.Rejected))
	}
	return text
}

// finish clears the line, so that others can follow.
func (p *progress) finish() {
	if p.terminal && p.stage != "" {
		fmt.Fprint(p.w, "\r"+clearLine)
	}
	p.stage = ""
}
