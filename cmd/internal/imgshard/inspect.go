package imgshard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

const (
	// inspectSamples is the number of samples to show of a split.
	inspectSamples = 10
	// inspectLimit bounds the time for counting the images of a split.
	inspectLimit = time.Second
)

// inspection is the result of inspect: the sets at a path, and the splits of a dataset that build would pack.
type inspection struct {
	Sets    []inspectedSet    `json:"sets"`
	Sources []inspectedSource `json:"sources"`
	Build   string            `json:"build,omitempty"` // the command that packs the sources
}

type inspectedSet struct {
	setFacts
	ClassNames []string `json:"class_names"`
}

type inspectedSource struct {
	Split      string                  `json:"split"`
	Path       string                  `json:"path"`
	Layout     string                  `json:"layout"`
	Output     string                  `json:"output"` // build's default output folder
	Images     int                     `json:"images"` // number found so far; all if Counted
	Counted    bool                    `json:"counted"`
	Bytes      int64                   `json:"bytes"`       // size of the tars; 0 for folders
	ClassNames []string                `json:"class_names"` // null when not Counted
	First      []dataset.PreviewSample `json:"first"`
	Warnings   []string                `json:"warnings"`
	Refused    string                  `json:"refused,omitempty"` // why build would not pack it
}

func newInspectCommand() *cobra.Command {
	var asJSON bool
	var options dataset.Options
	cmd := &cobra.Command{
		Use:     "inspect PATH...",
		Aliases: []string{"info"},
		Short:   "Show the shard sets and the dataset at PATH",
		Long: `Show the shard sets at PATH, as imgfeed serve would find them, and the dataset that imgshard build would pack: its splits
and their layout, images and classes (counted for one second), the first ten keys with labels and classes, warnings and
errors of build, and the command that packs it. Nothing is changed.
Images in tars are not counted. Their labels may be unknown ("?") until all tars are read.

Several PATHs are files of one dataset, as for build.

--json prints one object: {"sets": [{"split", "path", "data", "fingerprint", "content", "encoding", "samples", "classes",
"partitions", "shards", "fields", "class_names"}], "sources": [{"split", "path", "layout", "output", "images", "counted",
"bytes", "class_names", "first": [{"key", "label", "class", "words"}], "warnings", "refused"}], "build"}.
The exit status is 1 if there is neither, if a set is damaged, or if build would refuse the dataset.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSourceFlags(options); err != nil {
				return cliutil.Usage(err)
			}
			report, err := inspect(cmd.Context(), args, options)
			if err != nil {
				return err
			}
			if asJSON {
				err = cliutil.PrintJSON(cmd.OutOrStdout(), report)
			} else {
				report.print(cmd.OutOrStdout())
			}
			if i := slices.IndexFunc(report.Sources, func(s inspectedSource) bool { return s.Refused != "" }); i >= 0 && err == nil {
				err = fmt.Errorf("%s: imgshard build would refuse this dataset", report.Sources[i].Path)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	addSourceFlags(cmd.Flags(), &options)
	return cmd
}

// inspect searches for sets, and for a dataset. Several paths are files of one dataset.
func inspect(ctx context.Context, paths []string, options dataset.Options) (inspection, error) {
	report := inspection{Sets: []inspectedSet{}, Sources: []inspectedSource{}}
	if slices.Contains(paths, source.StandardInput) {
		return report, cliutil.Usagef("standard input can be read only once: build it, or save it as a file")
	}
	found, noSets := map[string]string(nil), error(shard.ErrNotSet)
	if len(paths) == 1 {
		found, noSets = shard.FindSets(paths[0])
	}
	// A dataset may be a tar instead of a folder, or a pattern instead of an existing file.
	if noSets != nil && !errors.Is(noSets, shard.ErrNotSet) && !errors.Is(noSets, syscall.ENOTDIR) && !errors.Is(noSets, fs.ErrNotExist) {
		return report, noSets
	}
	for _, split := range slices.Sorted(maps.Keys(found)) {
		m, err := shard.ReadManifest(found[split])
		if err != nil {
			return report, err
		}
		report.Sets = append(report.Sets, inspectedSet{factsOf(m, found[split]), m.Classes})
	}
	splits, err := source.OpenAll(paths, options)
	sets := report
	switch {
	case err != nil && found != nil, slices.Contains(slices.Collect(maps.Values(found)), paths[0]):
		return sets, nil
	case err != nil && len(paths) == 1:
		return report, fmt.Errorf("%v; and no dataset to pack: %w", noSets, err)
	case err == nil:
		err = report.addSources(ctx, paths, splits)
	}
	if found != nil && (err != nil || report.Build == "") { // it is not a dataset to pack
		return sets, nil
	}
	return report, err
}

// addSources inspects the splits of a dataset. Like build, it expects the classes of the first split in the others.
func (r *inspection) addSources(ctx context.Context, paths []string, splits []*dataset.Split) error {
	anyRefused := false
	var classes []string
	for _, s := range splits {
		if classes != nil {
			s.ExpectClasses(classes)
		}
		p, err := s.Preview(ctx, inspectSamples, inspectLimit)
		if err != nil {
			return err
		}
		if classes == nil {
			classes = p.Classes
		}
		one := inspectedSource{
			Split: s.Name, Path: s.Path, Layout: s.Format, Output: s.Output,
			Images: p.Images, Counted: p.Whole, Bytes: s.Bytes(), ClassNames: p.Classes,
			First: p.Samples, Warnings: append([]string{}, p.Notes...),
		}
		if p.Refused != nil {
			one.Refused, anyRefused = p.Refused.Error(), true
		}
		r.Sources = append(r.Sources, one)
	}
	if !anyRefused {
		r.Build = "imgshard build"
		for _, path := range paths {
			r.Build += " " + termsafe.Shell(path)
		}
	}
	return nil
}

// printFields names the fields of a set.
func printFields(w io.Writer, fields shard.Fields) {
	title := "fields" // the first line's title
	for _, f := range fields {
		fmt.Fprintf(w, "  %-9s %s", title, f)
		if len(f.Classes) > 0 {
			fmt.Fprintf(w, " of %s", bytesize.Counted(len(f.Classes), "class", "classes"))
		}
		for i, c := range f.Columns {
			fmt.Fprintf(w, "%s%s", map[bool]string{true: ", with ", false: " and "}[i == 0], c.Name)
		}
		fmt.Fprintln(w)
		title = ""
	}
}

// print writes the report as text.
func (r inspection) print(w io.Writer) {
	for _, s := range r.Sets {
		partitions := bytesize.Counted(s.Partitions, "partition", "partitions")
		fmt.Fprintf(w, "%s: set of %s in %s, %s, at %s\n", s.Split, bytesize.Counted(s.Samples, "image", "images"),
			bytesize.Counted(s.Classes, "class", "classes"), partitions, termsafe.Text(s.Path))
		fmt.Fprintf(w, "  data      %s\n", s.Data)
		printFields(w, s.Fields)
	}
	packed := 0
	for _, s := range r.Sources {
		state, action := "unpacked", "would write"
		if slices.ContainsFunc(r.Sets, func(set inspectedSet) bool { return pack.SameFile(set.Path, s.Output) }) {
			state, action, packed = "packed", "has written", packed+1
		}
		fmt.Fprintf(w, "%s: %s: %s at %s; imgshard build %s %s\n", s.Split, state, s.Layout, termsafe.Text(s.Path), action,
			termsafe.Text(transport.ShownPath(s.Output)))
		s.print(w)
	}
	if r.Build != "" && packed < len(r.Sources) {
		fmt.Fprintf(w, "pack it: %s\n", r.Build)
	}
}

func (s inspectedSource) print(w io.Writer) {
	switch {
	case s.Counted:
		fmt.Fprintf(w, "  holds     %s of %s\n",
			bytesize.Counted(s.Images, "image", "images"), bytesize.Counted(len(s.ClassNames), "class", "classes"))
	case s.Bytes > 0:
		fmt.Fprintf(w, "  holds     %s, not counted\n", bytesize.Format(s.Bytes))
	case s.Refused == "":
		fmt.Fprintf(w, "  holds     at least %s images (counting stopped)\n", bytesize.Grouped(s.Images))
	}
	for _, sample := range s.First {
		label := "?"
		if sample.Label != nil {
			label = fmt.Sprint(*sample.Label)
		}
		class := termsafe.Text(sample.Class)
		if sample.Words != "" {
			class += " (" + sample.Words + ")"
		}
		fmt.Fprintf(w, "  label %-4s %s  %s\n", label, class, termsafe.Text(sample.Key))
	}
	for _, n := range s.Warnings {
		fmt.Fprintf(w, "  note      %s\n", n)
	}
	if s.Refused != "" {
		fmt.Fprintf(w, "  refused   %s\n", s.Refused)
	}
}

func newVerifyCommand() *cobra.Command {
	var jobs int
	var images, complete bool
	cmd := &cobra.Command{
		Use:   "verify SET",
		Short: "Check every checksum of a shard set",
		Long: `Read every byte of the shard set SET, or of all sets in the folder SET, and check all checksums, the order of the samples,
and the fingerprint.

Each missing file and each damaged record or section is reported on stderr, with file, record and offset; the exit status
is then 1. Partitions missing on this machine are not verified.

Checksums detect damage. --images also decodes each image, and compares the row index of each JPEG with a new one: for
sets from sources that you do not trust.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return verifyAll(cmd, args[0], func(dir string) error { return verify(cmd, dir, jobs, images, complete) })
		},
	}
	addJobsFlag(cmd.Flags(), &jobs, "number of shards to read in parallel (default one for each CPU)")
	cmd.Flags().BoolVar(&images, "images", false, "also decode every image, and compare its size and row index with the stored ones")
	cmd.Flags().BoolVar(&complete, "complete", false, "fail if a partition is missing on this machine")
	addJSONFlag(cmd)
	return cmd
}

// verifyAll verifies every set at path, even if one has errors.
func verifyAll(cmd *cobra.Command, path string, verify func(dir string) error) error {
	found, err := shard.FindAll(path)
	if err != nil {
		return err
	}
	errs := []error{found.Err()}
	for _, dir := range slices.Sorted(maps.Values(found.Sets)) {
		if err := verify(dir); err != nil {
			errs = append(errs, err)
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// A verifiedSet is the JSON about a set that was verified.
type verifiedSet struct {
	setFacts
	Read     int      `json:"read"` // samples that were read
	Bytes    int64    `json:"bytes"`
	Missing  []int    `json:"missing"`  // partitions
	Problems []string `json:"problems"` // each names file, record and offset
	Seconds  float64  `json:"seconds"`
}

// verify verifies the set in dir. It prints each problem to stderr and a summary to stdout.
func verify(cmd *cobra.Command, dir string, jobs int, images, complete bool) error {
	out, diag, problems := outcome(cmd), cmd.ErrOrStderr(), []string{}
	options := shard.VerifyOptions{Jobs: jobs}
	m, err := shard.ReadManifest(dir)
	if err != nil {
		return err
	}
	if images {
		stored, err := registry.Open(m.Encoding)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		options.NewCheck = func() func(*shard.Record) error { return encoding.NewWorker(stored).Check }
	}
	show := newProgress(diag)
	options.Progress = func(done, total int64) {
		show.update(pack.Progress{Split: dir, Stage: "verifying", Bytes: done, Total: total})
	}
	options.Problem = func(err error) {
		show.finish()
		problems = append(problems, err.Error())
		fmt.Fprintln(diag, "imgshard:", err)
	}
	began := time.Now()
	result, err := shard.Verify(cmd.Context(), dir, options)
	show.finish()
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		out = io.Discard
		cliutil.PrintJSON(cmd.OutOrStdout(), verifiedSet{
			setFacts: factsOf(m, dir), Read: result.Samples, Bytes: result.Bytes,
			Missing: append([]int{}, result.Missing...), Problems: problems, Seconds: time.Since(began).Seconds(),
		})
	}
	if n := len(result.Missing); n > 0 {
		fmt.Fprintf(out, "%s: %s not on this machine, and not verified: %s\n", dir,
			bytesize.Counted(n, "partition is", "partitions are"), shard.PartitionNames(result.Missing))
	}
	fmt.Fprintf(out, "%s: read %s in %s, %s, in %.1f s\n", dir, bytesize.Counted(result.Samples, "sample", "samples"),
		bytesize.Counted(result.Shards, "shard", "shards"), bytesize.Format(result.Bytes), time.Since(began).Seconds())
	if result.Problems > 0 {
		return fmt.Errorf("%s: problems found: %d", dir, result.Problems)
	}
	fmt.Fprintf(out, "%s: every checksum is right\n", dir)
	if n := len(result.Missing); complete && n > 0 {
		return fmt.Errorf("%s: incomplete: %s missing: copy %s",
			dir, bytesize.Counted(n, "partition is", "partitions are"), shard.PartitionNames(result.Missing))
	}
	if images {
		fmt.Fprintf(out, "%s: every image decodes, and matches its entry\n", dir)
	}
	return nil
}
