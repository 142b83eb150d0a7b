// Package imgshard is the program of that name, which packs datasets into shard sets and inspects them. It is a
// package, because imgfeed contains it: two separate binaries would have most of their code twice.
package imgshard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
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

// interruptedStatus is the exit status of a command ended by a signal, as in shells. Status 1 has another meaning:
// verify has found damage.
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
	note := func(text string) { notes = append(notes, termsafe.Text(text)) }
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

// NewRoot makes the command with all its subcommands; each is in the file of its name.
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
