package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/cmd/imgfeed/internal/capacity"
	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/memory"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard/encoding/pixels"
	"github.com/imgfeed/imgfeed/transform"
)

const planLong = `Measure for some seconds how fast this machine serves a sample of a dataset, in each encoding that could be packed, and how fast its
disk reads; and say what feeds the GPUs: which encoding, how many cores, which disk and link, how much memory, and what will be waited for.

PATH is a shard set, a folder that holds sets, or a dataset as imgshard build takes it. A set may lie in a bucket or on a web server, as s3://bucket/set:
then plan measures the link in place of the disk, and says how long the first epoch takes, what its requests cost, and how large --cache of imgfeed serve
should be. What is packed for the measurement lies in the folder for
temporary files ($TMPDIR), takes up to some hundred MB there, and is removed.

What the GPUs take is said by --images-per-second, as your training logs it, or by --gpu and --model, of which --rates lists published figures with
their sources. --cores, --memory, --disk and --link describe another machine of the same processor; without them it is this one.`

// planFlags are the flags of imgfeed plan.
type planFlags struct {
	split, transform, gpu, model, resize     string
	perGPU                                   float64
	gpus, cores, feeders, samples, batchSize int
	memory, disk                             bytesize.Size
	link                                     linkRate
	store                                    storeFlags
	seconds                                  time.Duration
	json, rates, bitExact                    bool
}

func newPlanCommand() *cobra.Command {
	f := planFlags{batchSize: 256, seconds: 10 * time.Second}
	cmd := &cobra.Command{
		Use:   "plan PATH",
		Short: "Say what it takes to feed GPUs with a dataset: encoding, cores, disk, memory",
		Long:  planLong,
		Example: "  imgfeed plan /data/train --gpu h100 --gpus 8 --cores 96 --memory 1TiB --disk 3GB\n" +
			"  imgfeed plan /data/train-shards --images-per-second 1800 --transform train-resize\n" +
			"  imgfeed plan s3://bucket/train-shards --gpu a100 --gpus 8 --link 10Gbit",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.rates {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.rates {
				return f.printRates(cmd.OutOrStdout())
			}
			return f.run(cmd, args[0])
		},
	}
	f.register(cmd.Flags())
	offer := func(flag string, of func(capacity.Rate) string) {
		var names []string
		for _, rate := range capacity.Rates() {
			names = append(names, of(rate))
		}
		slices.Sort(names)
		cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(slices.Compact(names), cobra.ShellCompDirectiveNoFileComp))
	}
	offer("gpu", func(r capacity.Rate) string { return r.GPU })
	offer("model", func(r capacity.Rate) string { return r.Model })
	return cmd
}

// register lists the flags.
func (f *planFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.transform, "transform", "train", "preset, JSON list of operations, or {\"views\": […]}")
	flags.StringVar(&f.gpu, "gpu", "", "GPU to feed, by a name that --rates lists")
	flags.StringVar(&f.model, "model", "resnet50", "model to train on it, by a name that --rates lists")
	flags.Float64Var(&f.perGPU, "images-per-second", 0, "what one GPU takes, in place of a published rate")
	flags.Var(cliutil.Int(&f.gpus, 1, planMax), "gpus", "number of GPUs on the machine, each with a training process (default 1)")
	flags.Var(cliutil.Int(&f.cores, 1, planMax), "cores", "logical cores of the machine, as nproc counts them (default this one's)")
	flags.Var(&f.memory, "memory", "its memory, as 1TiB (default this one's)")
	flags.Var(&f.disk, "disk", "bytes that its disk reads in a second, as 3GB (default measured)")
	flags.Var(&f.link, "link", "what its link to the bucket or web server carries in a second, as 10Gbit or 1.25GB (default measured)")
	flags.Var(cliutil.Int(&f.feeders, 1, planMax), "feeders", "number of machines that help by imgfeed feed, each with as many cores (default none)")
	flags.StringVar(&f.split, "split", "", "split to plan for, if PATH holds several")
	flags.Var(cliutil.Int(&f.samples, 1, plan.SamplesMax), "samples", "number of samples, where counting them takes too long")
	flags.Var(cliutil.Int(&f.batchSize, 1, plan.BatchSizeMax), "batch-size", "samples in a batch")
	flags.StringVar(&f.resize, "resize", "", "size that pixels are stored in, as imgshard build's --resize")
	flags.BoolVar(&f.bitExact, "bit-exact", false, "take no encoding that gives other bits than the originals")
	flags.Var(durationFlag(&f.seconds, 100*time.Millisecond), "seconds", "time to measure for; packing the sample comes on top")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	flags.BoolVar(&f.rates, "rates", false, "list the published training rates and where they stand, and measure nothing")
	f.store.registerRequests(flags)
}

// linkRate is the bytes that a link carries in a second, as a flag's value.
type linkRate bytesize.Size

// Set parses bits, as 10Gbit, or bytes, as 1.25GB.
func (r *linkRate) Set(text string) error {
	text, bits := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(text, "/s")), "bit")
	if bits {
		text += "B"
	}
	var size bytesize.Size
	err := size.Set(text)
	if bits {
		size /= 8
	}
	if err != nil || size < linkMin {
		return errors.New("want a rate from 1Mbit on, such as 10Gbit or 1.25GB")
	}
	*r = linkRate(size)
	return nil
}

func (r *linkRate) String() string { return (*bytesize.Size)(r).String() }
func (r *linkRate) Type() string   { return "rate" }

// planMax is far beyond any machine's cores and GPUs.
const planMax = 1 << 16

// diskMin is less than any disk or store reads in a second: a smaller value is a slip, such as 3 for 3GB.
const diskMin = 1 << 20

// linkMin is less than any link that feeds a GPU.
const linkMin = 1e6 / 8

// checkMachine refuses a machine that cannot be meant.
func (f *planFlags) checkMachine(given func(string) bool) error {
	switch {
	case given("memory") && f.memory < memoryMin:
		return fmt.Errorf("--memory %v: want a size from 1MiB on, as 1TiB", &f.memory)
	case given("disk") && f.disk < diskMin:
		return fmt.Errorf("--disk %v: want the bytes of a second from 1MiB on, as 3GB", &f.disk)
	}
	return nil
}

// need returns the GPUs' rate, if the flags give one.
func (f *planFlags) need(given func(string) bool) (capacity.Need, error) {
	n := capacity.Need{GPUs: f.gpus}
	switch {
	case f.gpu != "" && given("images-per-second"):
		return n, errors.New("--gpu and --images-per-second both say what a GPU takes: give one")
	case given("images-per-second") && !(f.perGPU > 0 && f.perGPU < 1e9):
		return n, fmt.Errorf("--images-per-second %v: want a number above 0 and below a billion", f.perGPU)
	case f.gpu == "" && given("model"):
		return n, errors.New("--model needs --gpu")
	case f.gpu == "" && f.perGPU == 0 && f.gpus > 0:
		return n, errors.New("--gpus needs --gpu or --images-per-second, which say what one takes")
	case f.gpu == "" && f.perGPU == 0:
		return n, nil
	}
	n.GPUs = max(1, n.GPUs)
	perGPU := f.perGPU
	if f.gpu != "" {
		rate, err := capacity.FindRate(f.gpu, f.model)
		if err != nil {
			return n, err
		}
		n.Rate, perGPU = rate, rate.PerGPU()
	}
	n.ImagesPerSecond = perGPU * float64(n.GPUs)
	return n, nil
}

func (f *planFlags) run(cmd *cobra.Command, path string) error {
	need, err := f.need(cmd.Flags().Changed)
	if err = cmp.Or(err, f.checkMachine(cmd.Flags().Changed)); err != nil {
		return cliutil.Usage(err)
	}
	views, err := transform.ParseViews(f.transform, resample.Pillow13)
	if err != nil {
		return cliutil.Usagef("--transform: %w", err)
	}
	if _, err := pixels.ParseResize(f.resize, ""); err != nil {
		return cliutil.Usagef("--%w", err)
	}
	if err := cmp.Or(checkBatches(f.batchSize, views), kernel.CheckEnv()); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
	defer stop()
	closeStore, err := f.store.open(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	p, err := f.plan(ctx, cmd.ErrOrStderr(), path, views, need)
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted; what was packed for the measurement is removed")
	} else if err != nil {
		return err
	}
	if f.json {
		return cliutil.PrintJSON(cmd.OutOrStdout(), p)
	}
	printPlan(cmd.OutOrStdout(), p)
	return nil
}

// plan measures, and computes what follows.
func (f *planFlags) plan(ctx context.Context, progress io.Writer, path string, views transform.Views, need capacity.Need) (*capacity.Plan, error) {
	tell := func(what string) { fmt.Fprintln(progress, what) }
	tell("looking at " + path)
	sample, err := capacity.TakeSample(ctx, path, f.split)
	if err != nil {
		return nil, err
	}
	defer sample.Close()
	switch {
	case sample.Store != "" && f.disk > 0:
		return nil, cliutil.Usagef("--disk: %s is behind a network: --link gives its rate", sample.Store)
	case sample.Store == "" && f.link > 0:
		return nil, cliutil.Usagef("--link: %s is on this machine: --disk gives its rate", sample.Path)
	}
	if f.samples > 0 {
		sample.Samples, sample.Counted = f.samples, true
	}
	machine := capacity.Machine{
		Cores: cmp.Or(f.cores, runtime.GOMAXPROCS(0)), MemoryBytes: cmp.Or(int64(f.memory), memory.OfMachine()), DiskBytesPerSecond: float64(f.disk),
	}
	p := &capacity.Plan{Sample: sample, Need: need}
	if f.feeders > 0 {
		p.Feeders = &capacity.Feeders{Machines: f.feeders}
	}
	p.Encodings, err = capacity.Measure(ctx, sample, capacity.MeasureConfig{
		Views: views, BatchSize: f.batchSize, Threads: min(capacity.FeedCores(machine, need), runtime.GOMAXPROCS(0)), Duration: f.seconds, Resize: f.resize, Progress: tell,
	})
	if err != nil {
		return nil, err
	}
	switch {
	case sample.Store != "":
		p.Link = &capacity.Link{BytesPerSecond: float64(f.link), Measured: f.link == 0}
		if p.Link.Measured {
			tell("measuring the link")
			if p.Link.BytesPerSecond, err = capacity.LinkRate(ctx, sample, min(f.seconds/2, 5*time.Second)); err != nil {
				return nil, err
			}
		}
	case f.disk == 0:
		tell("measuring the disk")
		machine.DiskBytesPerSecond, err = capacity.DiskRate(ctx, sample, p.Encodings[0].ImageBytes, min(f.seconds/5, 2*time.Second))
		if errors.Is(err, errors.ErrUnsupported) {
			sample.Notes = append(sample.Notes, fmt.Sprintf("the disk was not measured (%v): --disk says what it reads in a second", err))
		} else if err != nil {
			return nil, err
		}
	}
	p.Machine = machine
	return p, p.Compute(views, f.batchSize, f.bitExact)
}

// printRates prints the table of published rates.
func (f *planFlags) printRates(out io.Writer) error {
	if f.json {
		return cliutil.PrintJSON(out, capacity.Rates())
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GPU\tMODEL\tIMAGES/S OF ONE\tAS PUBLISHED")
	for _, r := range capacity.Rates() {
		published := fmt.Sprintf("%.6g", r.ImagesPerSecond)
		if r.GPUs > 1 {
			published += fmt.Sprintf(" of %d", r.GPUs)
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%s: %s\n", r.GPU, r.Model, r.PerGPU(), published, r.Measured)
		fmt.Fprintf(w, "\t\t\t%s\n", r.URL)
	}
	return w.Flush()
}

// printPlan prints what people read.
func printPlan(out io.Writer, p *capacity.Plan) {
	about := ""
	if !p.Counted {
		about = "about "
	}
	fmt.Fprintf(out, "%s: %s is %s, %s%s, %s of them measured\n", p.Split, p.Path, p.Layout, about, bytesize.Counted(p.Samples, "sample", "samples"), bytesize.Grouped(p.Measured))
	for _, note := range p.Notes {
		fmt.Fprintf(out, "note        %s\n", note)
	}
	disk := "disk not measured"
	if p.Link != nil {
		disk = "link " + linkText(p.Link.BytesPerSecond)
		if p.Link.Measured {
			disk += ", as measured"
		}
	} else if p.Machine.DiskBytesPerSecond > 0 {
		disk = fmt.Sprintf("disk %s/s", bytesize.Format(int64(p.Machine.DiskBytesPerSecond)))
	}
	fmt.Fprintf(out, "machine     %s, %s kernels, memory %s, %s\n", capacity.Cores(p.Machine.Cores), transform.ActiveLevel(), bytesize.Format(p.Machine.MemoryBytes), disk)
	printNeed(out, p)
	fmt.Fprintln(out)
	printOptions(out, p)
	fmt.Fprintln(out)
	printAdvice(out, p)
}

func printNeed(out io.Writer, p *capacity.Plan) {
	switch n := p.Need; {
	case n.ImagesPerSecond == 0:
		fmt.Fprintf(out, "GPUs        not said (--gpu, --images-per-second); the feed has %s\n", capacity.Cores(p.FeedCores))
	case n.Rate != nil:
		fmt.Fprintf(out, "GPUs        %d × %s, %s: %s images/s; the feed has %s, the training processes the rest\n", n.GPUs, n.Rate.GPU, n.Rate.Model,
			bytesize.Grouped(int(n.ImagesPerSecond)), capacity.Cores(p.FeedCores))
		fmt.Fprintf(out, "            %s\n            %s\n", n.Rate.Measured, n.Rate.URL)
	default:
		fmt.Fprintf(out, "GPUs        %d, %s images/s in all; the feed has %s, the training processes the rest\n", n.GPUs, bytesize.Grouped(int(n.ImagesPerSecond)), capacity.Cores(p.FeedCores))
	}
}

// printOptions prints the table of encodings.
func printOptions(out io.Writer, p *capacity.Plan) {
	from := "DISK"
	if p.Link != nil {
		from = "LINK"
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "ENCODING\tAN IMAGE\tTHE SET\tIMAGES/S, 1 CORE\t%s\t%s, IMAGES/S\tCORES NEEDED\t\n", strings.ToUpper(capacity.Cores(p.FeedCores)), from)
	for i := range p.Encodings {
		o := &p.Encodings[i]
		needed, disk := "–", "–"
		if o.CoresNeeded > 0 {
			needed = bytesize.Grouped(o.CoresNeeded)
		}
		if o.DiskLimit > 0 {
			disk = bytesize.Grouped(int(o.DiskLimit))
		}
		mark := ""
		if i == p.Chosen {
			mark = " *"
		}
		if o.NotBitExact != "" {
			mark += " ≠"
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", o.Name, mark, bytesize.Format(int64(o.ImageBytes)), bytesize.Format(o.SetBytes),
			bytesize.Grouped(int(o.PerCore)), bytesize.Grouped(int(o.PerSecond)), disk, needed)
	}
	w.Flush()
	fmt.Fprintln(out, "* the advised encoding   ≠ gives other pixels than the original images   – not known, or out of reach")
}

// printAdvice prints the consequences of the chosen encoding.
func printAdvice(out io.Writer, p *capacity.Plan) {
	o := &p.Encodings[p.Chosen]
	switch {
	case o.Flags == nil:
		fmt.Fprintf(out, "pack        nothing: %s is packed as %s, and %s\n", p.Path, o.Encoding, p.Reason)
	case strings.HasPrefix(p.Layout, capacity.SetLayout):
		fmt.Fprintf(out, "pack        imgshard repack %s -o OUT %s: %s\n", p.Path, strings.Join(o.Flags, " "), p.Reason)
	default:
		fmt.Fprintf(out, "pack        imgshard build %s %s: %s\n", p.Path, strings.Join(o.Flags, " "), p.Reason)
	}
	if o.NotBitExact != "" {
		fmt.Fprintf(out, "            ≠ %s\n", o.NotBitExact)
	}
	if o.Rejected > 0 {
		fmt.Fprintf(out, "left out    %d of the sample: %s\n", o.Rejected, o.Reasons[0].Reason)
	}
	printPlace(out, p, o)
	if p.UploadRate > 0 {
		fmt.Fprintf(out, "; %s/s to each GPU", bytesize.Format(p.UploadRate/int64(p.Need.GPUs)))
	}
	fmt.Fprintf(out, "\nmemory      %s for the server: %d × %d batches of %s, threads, index\n", bytesize.Format(p.FeedBytes), p.Rings, p.Slots, bytesize.Format(p.SlotBytes))
	if fs := p.Feeders; fs != nil {
		fmt.Fprintf(out, "feeders     %s from them to this machine; each reads up to %s/s of the set\n", linkText(fs.LinkBytesPerSecond), bytesize.Format(int64(fs.ReadRate)))
	}
	fmt.Fprintf(out, "waits for   %s\n", p.Verdict)
}

// printPlace prints what is asked of the disk, or of the link and the store behind it.
func printPlace(out io.Writer, p *capacity.Plan, o *capacity.Option) {
	if l := p.Link; l != nil {
		first := time.Duration(l.FirstEpochSeconds * float64(time.Second)).Round(time.Second / 10)
		fmt.Fprintf(out, "an epoch    %s, %s; the first takes %v or longer\n", bytesize.Counted(l.Requests, "request", "requests"), bytesize.Format(o.SetBytes), first)
		if l.CacheBytes > 0 {
			fmt.Fprintf(out, "cache       %s (--cache of imgfeed serve), so that later epochs do not wait for the link\n", bytesize.Format(l.CacheBytes))
		}
		fmt.Fprintf(out, "link        %s would do without a cache", linkText(o.ReadRate))
		return
	}
	place := "the set stays in memory after the first epoch, which reads"
	if !o.Cached {
		place = "the set does not fit into the memory, so that every epoch reads"
	}
	fmt.Fprintf(out, "disk        %s of room; %s %s/s\n", bytesize.Format(o.SetBytes), place, bytesize.Format(int64(o.ReadRate)))
	fmt.Fprintf(out, "link        %s to the data, if it lies across a network", linkText(o.ReadRate))
}

// linkText writes a link's bytes a second for people, as links are sold.
func linkText(bytesPerSecond float64) string {
	bits := bytesPerSecond * 8
	if bits < 1e9 {
		return fmt.Sprintf("%.1f Mbit/s", bits/1e6)
	}
	return fmt.Sprintf("%.1f Gbit/s", bits/1e9)
}
