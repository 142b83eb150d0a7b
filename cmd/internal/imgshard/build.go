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
	"github.com/imgfeed/imgfeed/shard/storage"
)

const buildHelp = `Pack a dataset into a shard set, once, for imgfeed to serve.

The format of SRC is detected from its contents:

%s
Several SRC are files of one dataset, as WebDataset's tars; the shell makes them of imagenet1k-train-{0000..1023}.tar.
SRC may be - for a tar on standard input, which is read once: curl … | imgshard build - -o OUT.
The set stands beside SRC unless -o says otherwise: /data/train becomes /data/train-shards. Of both splits each stands
beside its own; with -o, in OUT/train and OUT/val. Splits that only the names of tars in one folder tell apart become
/data/imagenet-train-shards and /data/imagenet-val-shards.

With --encoding coefficients JPEGs are stored without their Huffman codes: the same pixels come in about half the time,
and imgshard cat and repack give the very files. They take a seventh more bytes.

With --encoding pixels the images are decoded and resized once, exactly as torchvision would, and stored without loss:
Resize(256) and every crop after it then give the same bits as from the JPEGs, at the speed of memory. imgshard repack
makes such a set of one that keeps the original files. CIFAR's images are packed so unless told otherwise, in
their own size.

Every image is decoded once. A file that cannot be read as an image is left out and listed in rejects.jsonl in the set.
The same input and flags give the same bytes, whatever --jobs, the order of files on disk, and whether they lie in tars.
Nothing appears at OUT before the set is whole; it is safe to interrupt a build and to start it again.

With --part I/N each of N machines packs a part of the set. imgshard merge OUT then makes the set, with the same bytes as one
machine's build. Each part lists all of SRC, and reads all of its tars, but decodes only its own images.`

// sourcesHelp lists the kinds of sources, the most general first.
func sourcesHelp() string {
	var b strings.Builder
	for _, k := range slices.Backward(source.Kinds()) {
		fmt.Fprintf(&b, "  %s\n      %s\n      label: %s\n", k.Name, strings.Join(k.Forms, "\n      or "), k.Labels)
	}
	return b.String()
}

const indexHelp = `Make a set of a dataset whose images stay where they are, on this machine or in a bucket.

SRC is what imgshard build takes, as files in folders or as tars that are not compressed; it may be a URL, such as
s3://bucket/tars. SRC is read once, and OUT gets all of a set but the images: 2 to 5 percent of the bytes. It is used as any set:
imgfeed reads the images from SRC, in any order. Each image has a checksum, and a file that is changed is refused.

Pack instead (imgshard build) what is read from many small files, and what shall be stored as pixels.`

// buildFlags are the flags of imgshard build.
type buildFlags struct {
	packFlags
	index   bool
	strict  bool
	part    pack.Part
	sources source.Options
}

func newBuildCommand() *cobra.Command {
	var f buildFlags
	c := &cobra.Command{
		Use:   "build SRC... [-o OUT]",
		Short: "Pack a dataset into a shard set",
		Long:  fmt.Sprintf(buildHelp, sourcesHelp()),
		Example: "  imgshard build /data/train\n  imgshard build ILSVRC2012_img_train.tar -o /nvme/train-shards --partitions 8\n" +
			"  imgshard build /data/train --encoding pixels --resize 256 -o /nvme/train-pixels",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			f.sources.Stdin = c.InOrStdin()
			return runBuild(c, args, f)
		},
	}
	fl := c.Flags()
	f.register(fl, false)
	f.registerBuild(fl)
	addJSONFlag(c)
	return c
}

func newIndexCommand() *cobra.Command {
	f := buildFlags{index: true}
	c := &cobra.Command{
		Use:     "index SRC... -o OUT",
		Short:   "Make a set of a dataset without copying its images",
		Long:    indexHelp,
		Example: "  imgshard index s3://bucket/imagenet-wds -o /nvme/imagenet\n  imgshard index /data/train -o /data/train-index",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return runBuild(c, args, f) },
	}
	f.encoding = registry.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError), false)
	f.size = shard.ShardBytesDefault
	f.registerBuild(c.Flags())
	addJSONFlag(c)
	return c
}

// registerBuild lists the flags that build and index share.
func (f *buildFlags) registerBuild(fl *pflag.FlagSet) {
	fl.StringVarP(&f.out, "output", "o", "", "where the set shall stand (default SRC-shards)")
	f.partitions = 1
	fl.Var(cliutil.Int(&f.partitions, 1, shard.PartitionsMax), "partitions", "deal the samples to this many partitions, of which a rank needs one if there are as many ranks")
	fl.Var(cliutil.Seed(&f.seed), "seed", "seed of the order of the samples")
	addJobsFlag(fl, &f.jobs, "workers (default one for each CPU; more help when SRC is slow to open files)")
	fl.BoolVar(&f.strict, "strict", false, "fail if a file cannot be read as an image")
	addForceFlag(fl, &f.force)
	fl.Var(cliutil.Flag[pack.Part]{To: &f.part, Kind: "I/N", Parse: pack.ParsePart, Show: pack.Part.String}, "part", "make only the I-th of N parts of the set, as one of N machines (0/N is N/N); imgshard merge OUT joins them")
	addSourceFlags(fl, &f.sources)
}

func runBuild(c *cobra.Command, src []string, f buildFlags) error {
	if err := cmp.Or(f.check(), f.encoding.Check()); err != nil {
		return cliutil.Usage(err)
	}
	switch {
	case f.part.Of > 0 && f.out == "":
		return cliutil.Usagef("--part needs -o OUT, which all machines reach")
	case f.out != "":
	case src[0] == source.StandardInput:
		return cliutil.Usagef("standard input has no place that a set could stand beside: name a folder by --output")
	case storage.IsRemote(src[0]):
		return cliutil.Usagef("a set is written to a folder of this machine: name one by --output")
	}
	if err := checkSourceFlags(f.sources); err != nil {
		return cliutil.Usage(err)
	}
	stderr := c.ErrOrStderr()
	return withProgress(c.Context(), stderr, "the unfinished set is removed", func(ctx context.Context, show *progress) error {
		splits, err := source.OpenAll(src, f.sources)
		if err != nil {
			return err
		}
		for _, s := range splits {
			fmt.Fprintf(show.w, "%s: %s is %s\n", s.Name, s.Path, s.Layout())
		}
		small := !f.index && !slices.ContainsFunc(splits, func(s *source.Split) bool { return !s.Decoded() })
		stored, err := f.encoding.Encoding(small)
		if err != nil {
			return cliutil.Usage(err)
		}
		if small && !f.encoding.Chosen() {
			fmt.Fprintf(stderr, "small images: packed as %v (--encoding %v keeps files as they are)\n", stored, registry.Default())
		}
		options := f.options(stored, show)
		options.Strict, options.Index, options.Part, options.Select = f.strict, f.index, f.part, f.sources.Select
		options.Warn = func(text string) { fmt.Fprintf(stderr, "warning: %s\n", termsafe.Text(text)) }
		out, err := f.place(len(splits))
		if err != nil {
			return err
		}
		err = pack.BuildAll(ctx, pack.Tasks(splits, out), options, func(s pack.Summary) {
			show.finish()
			printSummary(c, s, show.took())
		})
		if err == nil {
			printSelection(stderr, f.sources.Select)
		}
		return err
	})
}

// place is where the sets of so many splits, or the parts of them, are made. It refuses parts of sets that are finished.
func (f *buildFlags) place(splits int) (string, error) {
	if f.part.Of > 0 && !f.force {
		if sets, err := shard.FindSets(f.out); err == nil && len(sets) == splits {
			if storage.IsRemote(f.out) {
				return "", fmt.Errorf("%s is finished: remove it first, or choose another place", f.out)
			}
			return "", fmt.Errorf("%s is finished: --force makes its parts again, and imgshard merge takes --force too", f.out)
		}
	}
	return f.part.Place(f.out)
}

// reasonsShown is how many reasons are printed.
const reasonsShown = 8

// printReasons prints why images were left out or repaired, the commonest reasons first.
func printReasons(w io.Writer, reasons []pack.Reason) {
	for _, r := range reasons[:min(reasonsShown, len(reasons))] {
		if r.Samples == 1 {
			fmt.Fprintf(w, "            %s: %s\n", termsafe.Text(r.Example), termsafe.Text(r.Reason))
		} else {
			fmt.Fprintf(w, "            %s: %s; the first is %s\n", bytesize.Grouped(r.Samples), termsafe.Text(r.Reason), termsafe.Text(r.Example))
		}
	}
	if more := len(reasons) - reasonsShown; more > 0 {
		fmt.Fprintf(w, "            and for %s\n", bytesize.Counted(more, "other reason", "other reasons"))
	}
}

// A builtSet is a line of JSON about a set that was packed.
type builtSet struct {
	Split    string  `json:"split"`
	Output   string  `json:"output"`
	Kept     bool    `json:"kept"` // it was there already
	Samples  int     `json:"samples"`
	Classes  int     `json:"classes"`
	Shards   int     `json:"shards"`
	Bytes    int64   `json:"bytes"`
	Rejected int     `json:"rejected"` // files that are listed in rejects.jsonl
	Data     string  `json:"data"`     // shard.Identity
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

// printSummary prints the result of a build, in words or as JSON.
func printSummary(c *cobra.Command, s pack.Summary, took time.Duration) {
	w, m := outcome(c), s.Manifest
	if wantsJSON(c) {
		cliutil.PrintJSON(c.OutOrStdout(), builtSet{
			Split: s.Split, Output: s.Output, Kept: s.Kept, Samples: m.Samples, Classes: len(m.Classes), Shards: len(m.Shards),
			Bytes: s.OutputBytes, Rejected: s.Rejected, Data: shard.Identity(m.Fingerprint, m.Content), Seconds: took.Seconds(),
		})
		return
	}
	if s.Kept {
		again := " (--force builds it again)"
		if storage.IsRemote(s.Output) {
			again = ""
		}
		fmt.Fprintf(w, "%s: %s is finished already, with the same options, and is kept%s\n", s.Split, s.Output, again)
		return
	}
	fmt.Fprintf(w, "%s: %s of %s in %s, %s, at %s\n", s.Split, bytesize.Counted(m.Samples, "image", "images"), bytesize.Counted(len(m.Classes), "class", "classes"),
		bytesize.Counted(len(m.Shards), "shard", "shards"), bytesize.Format(s.OutputBytes), s.Output)
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
		fmt.Fprintf(w, "  dealt to  %s of %s to %s images\n", bytesize.Counted(m.Partitions, "partition", "partitions"), bytesize.Grouped(m.Samples/m.Partitions), bytesize.Grouped((m.Samples+m.Partitions-1)/m.Partitions))
	}
	seconds := took.Seconds()
	fmt.Fprintf(w, "  took      %s, %s images/s, %s/s\n", took.Round(10*time.Millisecond), bytesize.Grouped(int(float64(m.Samples)/seconds)),
		bytesize.Format(int64(float64(s.ImageBytes)/seconds)))
	if s.Rejected > 0 {
		fmt.Fprintf(w, "  left out  %s not readable as an image, listed in %s:\n", bytesize.Counted(s.Rejected, "file", "files"), storage.Join(s.Output, shard.RejectsName))
		printReasons(w, s.Reasons.List())
	}
	if repaired := s.Repaired.List(); len(repaired) > 0 {
		fmt.Fprintf(w, "  repaired  images that are damaged and were packed with the pixels that libjpeg, and so Pillow, gives them:\n")
		printReasons(w, repaired)
	}
	for _, n := range s.Notes {
		fmt.Fprintf(w, "  note      %s\n", termsafe.Text(n))
	}
}

// addSourceFlags adds the flags that say what looking at a source cannot tell.
func addSourceFlags(fl *pflag.FlagSet, o *source.Options) {
	fl.StringVar(&o.Split, "split", "", "the split to take of several, or the name of the only one (default by SRC's name, train if that says nothing)")
	fl.StringVar(&o.ValLabels, "val-labels", "", "file with the labels of ILSVRC2012's validation images: a wnid in each line, Kaggle's csv, Caffe's val.txt or valprep.sh (default the known ones)")
	fl.StringVar(&o.Classes, "classes", "", "file with a class name in each line, a shard SET whose classes are taken, or ilsvrc2012 for its wnids: names numbers, as WebDataset's (default classes.txt beside the tars), and selects and orders class folders and tars")
	fl.StringVar(&o.Label, "label", "", "column with the labels of a parquet file (default the likeliest) or of a list (default label), json.KEY for a key in the JSON of WebDataset's samples, or coarse for CIFAR-100")
	fl.StringVar(&o.ImageKey, "image-key", "", "extension of the image among the files of each WebDataset sample, as jpg or image.jpg (default that of any image)")
	fl.StringVar(&o.Images, "images", "", "folder where the paths of a list of images begin (default the list's own)")
	fl.IntVar(&o.ClassesFrom, "classes-from", 1, "the class is the folder that lies this many levels below SRC")
	fl.StringVar(&o.ClassOrder, "class-order", source.ClassOrderNumeric, "order of classes that all are numbers: numeric, or string as torchvision's ImageFolder has them")
	fl.Func("field", "a value to keep of each sample beside its label, as `NAME=SOURCE[:TYPE]`: a column of parquet or of a list, or json, json.KEY or txt of WebDataset's samples; for each field once", func(text string) error {
		field, err := source.ParseField(text)
		if err == nil {
			o.Fields = append(o.Fields, field)
		}
		return err
	})
	addSelectFlags(fl, &o.Select, "keys, one a line")
	fl.BoolVar(&o.NoLabels, "no-labels", false, "take images without labels, whether there are any or not: all have -1, and there are no classes")
	fl.BoolVar(&o.Test, "test", false, "take images too whose labels are not known, as those of a folder test/: they are -1")
	fl.BoolVar(&o.ForceClasses, "force-classes", false, "take folders for classes, as torchvision's ImageFolder would, although that is nearly certainly a mistake")
	fl.BoolVar(&o.AllowTruncated, "allow-truncated", false, "take what is there of tars that were cut off")
}

// addSelectFlags adds those that say which samples are taken.
func addSelectFlags(fl *pflag.FlagSet, s *source.Selection, what string) {
	fl.Func("only", "take only the samples that a `FILE` names by their "+what, s.Only)
	fl.Func("exclude", "leave out the samples that a `FILE` names by their "+what, s.Exclude)
}

// printSelection names keys that were asked for and were not met.
func printSelection(w io.Writer, s source.Selection) {
	for _, n := range s.Notes() {
		fmt.Fprintf(w, "note: %s\n", termsafe.Text(n))
	}
}

// checkSourceFlags refuses values of these flags that mean nothing.
func checkSourceFlags(o source.Options) error {
	switch {
	case o.ClassesFrom < 1 || o.ClassesFrom > source.ClassesFromMax:
		return fmt.Errorf("--classes-from %d: a class is a folder from 1 to %d levels deep", o.ClassesFrom, source.ClassesFromMax)
	case o.ClassOrder != source.ClassOrderNumeric && o.ClassOrder != source.ClassOrderString:
		return fmt.Errorf("--class-order %q: %s or %s", o.ClassOrder, source.ClassOrderNumeric, source.ClassOrderString)
	}
	return cmp.Or(cliutil.Local("--classes", o.Classes), cliutil.Local("--val-labels", o.ValLabels), cliutil.Readable("--images", o.Images))
}
