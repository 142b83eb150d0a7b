package imgshard

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/storage"
)

const buildHelp = `Pack a dataset into a shard set, once, for imgfeed to serve.

SRC is a folder, tar or zip of class folders, ImageNet's tars, Kaggle's zip, parquet, a WebDataset, a list of images, CIFAR, or
a dataset with boxes (COCO, PASCAL VOC, YOLO) or masks (ADE20K, Cityscapes, pairs of folders). Its format is detected from
its contents; --help-sources lists all forms, and the labels of each.

Several SRC are files of one dataset, such as the tars of a WebDataset: imagenet1k-train-{0000..1023}.tar.
SRC may be - for a tar on standard input: curl … | imgshard build - -o OUT.
By default the set is written next to SRC: /data/train becomes /data/train-shards. With two splits and -o, the sets are
OUT/train and OUT/val. Splits in the names of tars of one folder become /data/imagenet-train-shards and -val-shards.

--encoding coefficients stores JPEGs without their Huffman codes. They decode to the same pixels in about half the time,
take a seventh more bytes, and imgshard cat and repack restore the original files.

--encoding pixels decodes and resizes the images once, exactly like torchvision, and stores them without loss.
Resize(256) and all crops after it then give the same bits as from the JPEGs, at the speed of memory. imgshard repack
converts an existing set. This encoding is the default for small images such as CIFAR's, which keep their size.

Unreadable files are left out and listed in the set's rejects.jsonl. OUT appears when the set is complete, and a build may
be interrupted. The same input and flags give the same bytes, for any --jobs and any order of the files, from folders or tars.

With --part I/N each of N machines packs a part of the set. imgshard merge OUT then makes the set that a single
machine would make. Each machine lists all of SRC and reads all of its tars, but decodes only its own images.`

// sourcesHelp lists the kinds of sources, the most general first.
func sourcesHelp() string {
	var b strings.Builder
	for _, k := range slices.Backward(source.Kinds()) {
		fmt.Fprintf(&b, "  %s\n      %s\n      label: %s\n", k.Name, strings.Join(k.Forms, "\n      or "), k.Labels)
	}
	return b.String()
}

const indexHelp = `Make a set without copying the images: they stay where they are, on this machine or in a bucket.

SRC is a dataset as for imgshard build, in folders or uncompressed tars. It may be a URL such as s3://bucket/tars. All of
SRC is read (tars twice), and OUT gets everything except the images: 2 to 5 percent of the bytes. Use it like any other set: imgfeed
reads the images from SRC, in any order. Each image has a checksum, so changed files are refused.

Use imgshard build instead for many small files, and to store pixels.`

// buildFlags are the flags of imgshard build.
type buildFlags struct {
	packFlags
	sources dataset.Options
	help    bool // list the kinds of sources
}

func newBuildCommand() *cobra.Command {
	var f buildFlags
	c := &cobra.Command{
		Use:   "build SRC... [-o OUT]",
		Short: "Pack a dataset into a shard set",
		Long:  buildHelp,
		Example: "  imgshard build /data/train\n  imgshard build ILSVRC2012_img_train.tar -o /nvme/train-shards --partitions 8\n" +
			"  imgshard build /data/train --encoding pixels --resize 256 -o /nvme/pixels",
		Args: func(c *cobra.Command, args []string) error {
			if f.help {
				return nil
			}
			return cobra.MinimumNArgs(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if f.help {
				fmt.Fprint(c.OutOrStdout(), cliutil.Wrap(sourcesHelp()))
				return nil
			}
			f.sources.Stdin = c.InOrStdin()
			return runBuild(c, args, f)
		},
	}
	fl := c.Flags()
	f.registerBuild(c)
	f.registerEncoding(fl, false)
	part := cliutil.Flag[pack.Part]{To: &f.Part, Kind: "I/N", Parse: pack.ParsePart, Show: pack.Part.String}
	fl.Var(part, "part", "pack only part I of N (0/N is N/N); imgshard merge OUT then joins the parts")
	fl.BoolVar(&f.help, "help-sources", false, "list the forms of SRC, and the labels of each")
	cliutil.SetGroups(c, buildGroups...)
	return c
}

// buildGroups are the groups of flags in the help of build and index.
var buildGroups = []cliutil.Group{
	{Title: "Output", Flags: []string{"output", "partitions", "part", "seed", "shard-size", "force", "json"}},
	{Title: "Encoding", Flags: []string{"encoding", "codec", "resize", "interpolation", "resampler"}},
	{Title: "Labels and fields", Flags: []string{"label", "classes", "class-order", "classes-from", "no-labels",
		"test", "force-classes", "field"}},
	{Title: "Boxes and masks", Flags: targetFlags},
	{Title: "Samples", Flags: []string{"split", "only", "exclude", "path", "images", "image-key", "allow-truncated", "strict"}},
}

func newIndexCommand() *cobra.Command {
	f := buildFlags{packFlags: packFlags{Options: pack.Options{Index: true}}}
	c := &cobra.Command{
		Use:     "index SRC... -o OUT",
		Short:   "Make a set of a dataset without copying its images",
		Long:    indexHelp,
		Example: "  imgshard index s3://bucket/imagenet-wds -o /nvme/imagenet\n  imgshard index /data/train -o /data/train-index",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return runBuild(c, args, f) },
	}
	f.registerBuild(c)
	cliutil.SetGroups(c, append(buildGroups[:1:1], buildGroups[2:]...)...)
	return c
}

// registerBuild lists the flags that build and index share.
func (f *buildFlags) registerBuild(c *cobra.Command) {
	f.Partitions = 1
	f.register(c, " (default SRC-shards)", "")
	c.Flags().BoolVar(&f.Strict, "strict", false, "fail if a file cannot be read as an image")
	addSourceFlags(c.Flags(), &f.sources)
}

func runBuild(c *cobra.Command, src []string, f buildFlags) error {
	if err := cmp.Or(f.check(), checkSourceFlags(f.sources)); err != nil {
		return cliutil.Usage(err)
	}
	switch {
	case f.Part.Of > 0 && f.out == "":
		return cliutil.Usagef("--part needs -o OUT, a path that all machines can reach")
	case f.out != "":
	case src[0] == source.StandardInput:
		return cliutil.Usagef("standard input needs an output folder: --output OUT")
	case storage.IsRemote(src[0]):
		return cliutil.Usagef("a remote SRC needs an output folder: --output OUT")
	}
	stderr := c.ErrOrStderr()
	return withProgress(c.Context(), stderr, "the unfinished set is removed", func(ctx context.Context, show *progress) error {
		splits, err := source.OpenAll(src, f.sources)
		if err != nil {
			return err
		}
		for _, s := range splits {
			fmt.Fprintf(show.w, "%s: %s is %s\n", s.Name, s.Path, s.Format)
		}
		small := !f.Index && !slices.ContainsFunc(splits, func(s *dataset.Split) bool { return !s.Kind.Decoded })
		stored, err := f.chooseEncoding(small)
		if err != nil {
			return cliutil.Usage(err)
		}
		if small && f.encoding == "" {
			fmt.Fprintf(stderr, "small images: packed as %v (--encoding %v keeps the files)\n", stored, registry.Default())
		}
		f.Encoding, f.Progress, f.Select = stored, show.update, f.sources.Select
		f.Warn = func(text string) { fmt.Fprintf(stderr, "warning: %s\n", termsafe.Text(text)) }
		out, err := f.output(len(splits))
		if err != nil {
			return err
		}
		err = pack.BuildAll(ctx, pack.Tasks(splits, out), f.Options, func(s pack.Summary) { printSummary(c, s, show) })
		if err == nil {
			printSelection(stderr, f.sources.Select)
		}
		return err
	})
}

// output returns the output folder of the sets of so many splits, or of their parts. It refuses parts of finished sets.
func (f *buildFlags) output(splits int) (string, error) {
	if f.Part.Of > 0 && !f.Replace {
		if sets, err := shard.FindSets(f.out); err == nil && len(sets) == splits {
			if storage.IsRemote(f.out) {
				return "", fmt.Errorf("%s is complete: remove it first, or choose another path", f.out)
			}
			return "", fmt.Errorf("%s is complete: use --force here and for imgshard merge to replace it", f.out)
		}
	}
	return f.Part.Output(f.out)
}

// reasonsShown is the number of reasons to print.
const reasonsShown = 8

// printReasons prints why images were left out or repaired, the most frequent reasons first.
func printReasons(w io.Writer, reasons []pack.Reason) {
	for _, r := range reasons[:min(reasonsShown, len(reasons))] {
		if r.Samples == 1 {
			fmt.Fprintf(w, "            %s: %s\n", termsafe.Text(r.Example), termsafe.Text(r.Reason))
		} else {
			fmt.Fprintf(w, "            %s: %s; the first is %s\n",
				bytesize.Grouped(r.Samples), termsafe.Text(r.Reason), termsafe.Text(r.Example))
		}
	}
	if more := len(reasons) - reasonsShown; more > 0 {
		fmt.Fprintf(w, "            and for %s\n", bytesize.Counted(more, "other reason", "other reasons"))
	}
}

// A builtSet is a line of JSON about a set that was packed.
type builtSet struct {
	setFacts
	Kept     bool    `json:"kept"` // it was there already
	Bytes    int64   `json:"bytes"`
	Rejected int     `json:"rejected"` // files that are listed in rejects.jsonl
	Seconds  float64 `json:"seconds"`
}

// addJSONFlag adds --json to a command that has a report for each set.
func addJSONFlag(c *cobra.Command) {
	c.Flags().Bool("json", false, "print one JSON object for each set")
}

// wantsJSON reports whether --json is given.
func wantsJSON(c *cobra.Command) bool {
	given, _ := c.Flags().GetBool("json")
	return given
}

// printSummary ends the progress of a set that was built, and prints the result, in words or as JSON.
func printSummary(c *cobra.Command, s pack.Summary, show *progress) {
	show.finish()
	w, m, took := outcome(c), s.Manifest, show.took()
	if wantsJSON(c) {
		cliutil.PrintJSON(c.OutOrStdout(), builtSet{factsOf(m, s.Output), s.Kept, s.OutputBytes, s.Rejected, took.Seconds()})
		return
	}
	if s.Kept {
		remedy := " (--force replaces it)"
		if storage.IsRemote(s.Output) || c.Name() == "merge" {
			remedy = ""
		}
		fmt.Fprintf(w, "%s: %s is complete, with the same options: nothing to do%s\n", s.Split, s.Output, remedy)
		return
	}
	fmt.Fprintf(w, "%s: %s of %s in %s, %s, at %s\n", s.Split, bytesize.Counted(m.Samples, "image", "images"),
		bytesize.Counted(len(m.Classes), "class", "classes"), bytesize.Counted(len(m.Shards), "shard", "shards"),
		bytesize.Format(s.OutputBytes), s.Output)
	var formats []string
	for _, f := range slices.Sorted(maps.Keys(s.Formats)) {
		formats = append(formats, bytesize.Grouped(s.Formats[f])+" "+formatName(f, m.Encoding))
	}
	fmt.Fprintf(w, "  images    %s, %s", strings.Join(formats, ", "), bytesize.Format(s.ImageBytes))
	if s.AuxBytes > 0 {
		fmt.Fprintf(w, "; row indexes %s", bytesize.Format(s.AuxBytes))
	}
	fmt.Fprintln(w)
	printFields(w, m.Fields)
	if m.Partitions > 1 {
		fmt.Fprintf(w, "  dealt to  %s of %s to %s images\n", bytesize.Counted(m.Partitions, "partition", "partitions"),
			bytesize.Grouped(m.Samples/m.Partitions), bytesize.Grouped((m.Samples+m.Partitions-1)/m.Partitions))
	}
	seconds := took.Seconds()
	fmt.Fprintf(w, "  took      %s, %s images/s, %s/s\n", took.Round(10*time.Millisecond),
		bytesize.Grouped(int(float64(m.Samples)/seconds)), bytesize.Format(int64(float64(s.ImageBytes)/seconds)))
	if s.Rejected > 0 {
		fmt.Fprintf(w, "  left out  %s, listed in %s:\n",
			bytesize.Counted(s.Rejected, "unreadable file", "unreadable files"), storage.Join(s.Output, shard.RejectsName))
		printReasons(w, s.Reasons.List())
	}
	if repaired := s.Repaired.List(); len(repaired) > 0 {
		fmt.Fprintf(w, "  repaired  damaged images, packed with the pixels that libjpeg (and Pillow) would give:\n")
		printReasons(w, repaired)
	}
	for _, n := range s.Notes {
		fmt.Fprintf(w, "  note      %s\n", termsafe.Text(n))
	}
}

// addSourceFlags adds the flags for facts that the source itself does not show.
func addSourceFlags(fl *pflag.FlagSet, o *dataset.Options) {
	fl.StringVar(&o.Split, "split", "", "split to pack, or name of the only one (default from SRC's name, or train)")
	fl.StringVar(&o.Classes, "classes", "", "classes, in order: file with one per line, SET or ilsvrc2012 (default classes.txt)")
	fl.StringVar(&o.Label, "label", "", "column of a parquet file or list, json.KEY of a WebDataset, or coarse (CIFAR-100)")
	fl.StringVar(&o.ImageKey, "image-key", "", "extension of the image in WebDataset samples, e.g. jpg or image.jpg (default any image)")
	fl.StringVar(&o.Images, "images", "", "base folder of the paths in a list of images (default the list's own folder)")
	fl.StringVar(&o.Path, "path", "", "column of the images' paths in a list (default path or file_name)")
	o.ClassesFrom = 1
	fl.Var(cliutil.Int(&o.ClassesFrom, 1, labelrule.ClassesFromMax), "classes-from", "level of the class folders below SRC")
	fl.StringVar(&o.ClassOrder, "class-order", dataset.ClassOrderNumeric,
		"order of classes that are numbers: numeric or string")
	const fieldHelp = "`NAME=SOURCE[:TYPE]`, a value from a column, json, json.KEY or txt; repeatable"
	fl.Func("field", fieldHelp, func(text string) error {
		field, err := dataset.ParseField(text)
		if err == nil {
			o.Fields = append(o.Fields, field)
		}
		return err
	})
	addSelectFlags(fl, &o.Select)
	addTargetFlags(fl, &o.Targets)
	fl.BoolVar(&o.NoLabels, "no-labels", false, "ignore labels: all samples get -1, and there are no classes")
	fl.BoolVar(&o.Test, "test", false, "include images without a known label, such as those of a folder test/, with label -1")
	fl.BoolVar(&o.ForceClasses, "force-classes", false, "use folders as classes, even if they do not look like classes")
	fl.BoolVar(&o.AllowTruncated, "allow-truncated", false, "pack the intact part of truncated tars")
}

// addSelectFlags adds the flags that select samples.
func addSelectFlags(fl *pflag.FlagSet, s *dataset.Selection) {
	fl.Func("only", "pack only the samples listed in `FILE`: keys, one per line", s.Only)
	fl.Func("exclude", "leave out the samples listed in `FILE`: keys, one per line", s.Exclude)
}

// printSelection names selected keys that do not exist.
func printSelection(w io.Writer, s dataset.Selection) {
	for _, n := range s.Notes() {
		fmt.Fprintf(w, "note: %s\n", termsafe.Text(n))
	}
}

// checkSourceFlags refuses invalid values of these flags.
func checkSourceFlags(o dataset.Options) error {
	if o.ClassOrder != dataset.ClassOrderNumeric && o.ClassOrder != dataset.ClassOrderString {
		return fmt.Errorf("--class-order %q: want %s or %s", o.ClassOrder, dataset.ClassOrderNumeric, dataset.ClassOrderString)
	}
	return cmp.Or(checkTargetFlags(o.Targets), cliutil.Local("--classes", o.Classes), cliutil.Readable("--images", o.Images))
}

const mergeHelp = `Join the parts that N machines have made by imgshard build SRC -o OUT --part I/N into the set OUT.

The set has the same bytes and the same lists of rejected files as a build by one machine with the same flags. Records are
copied once, without decoding. Errors name missing parts, and parts with other flags or of another SRC.
The parts are in .OUT.parts beside OUT, and are removed at the end. If a merge is killed there, another one finds OUT complete.`

func newMergeCommand() *cobra.Command {
	var o pack.Options
	c := &cobra.Command{
		Use:   "merge OUT",
		Short: "Join the parts packed by several machines into a set",
		Long:  mergeHelp,
		Example: "  imgshard build /data/train -o /nfs/train-shards --part 1/4\n" +
			"  imgshard merge /nfs/train-shards",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			merge := func(ctx context.Context, show *progress) error {
				o.Progress = show.update
				return pack.Merge(ctx, args[0], o, func(s pack.Summary) { printSummary(c, s, show) })
			}
			return withProgress(c.Context(), c.ErrOrStderr(), "the parts stay, and the unfinished set is removed", merge)
		},
	}
	addJobsFlag(c.Flags(), &o.Jobs, "number of workers (default one for each CPU, 64 for a bucket)")
	addForceFlag(c.Flags(), &o.Replace)
	addJSONFlag(c)
	return c
}
