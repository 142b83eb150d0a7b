package imgshard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/pack"
)

// statsExtremes is the number of classes to name at each end.
const statsExtremes = 10

// setStats are the statistics of a set, of the samples on this machine.
type setStats struct {
	setFacts
	Here int `json:"here"` // number of samples on this machine

	Unlabelled int          `json:"unlabelled"`
	PerClass   distribution `json:"per_class"` // samples of a class
	Empty      int          `json:"empty"`     // classes without samples here
	Rarest     []classCount `json:"rarest"`
	Commonest  []classCount `json:"commonest"`

	Formats []formatCount `json:"formats"`
	Width   distribution  `json:"width"` // pixels, as stored
	Height  distribution  `json:"height"`
	Aspect  distribution  `json:"aspect"` // width / height
	Bytes   distribution  `json:"bytes"`  // size of a stored image

	ImageBytes int64 `json:"image_bytes"` // sum of all
	ExtraBytes int64 `json:"extra_bytes"` // row indexes and fields

	Objects *objectStats `json:"objects,omitempty"` // only if the set has boxes
	Pixels  []classShare `json:"pixels,omitempty"`  // only if the set has masks; by label

	Rejects rejectStats `json:"rejects"`
}

type classCount struct {
	Class   string `json:"class"`
	Label   int32  `json:"label"`
	Samples int    `json:"samples"`
}

type formatCount struct {
	Format  string `json:"format"`
	Samples int    `json:"samples"`
	Bytes   int64  `json:"bytes"`
}

// rejectStats are the statistics of files that the build left out.
type rejectStats struct {
	Samples int           `json:"samples"`
	Reasons []pack.Reason `json:"reasons"`
}

func newStatsCommand() *cobra.Command {
	var asJSON bool
	var output string
	cmd := &cobra.Command{
		Use:   "stats SET",
		Short: "Show statistics of a shard set: classes, sizes, formats, rejected files",
		Long: `Show statistics of the shard set SET: samples per class, the ten rarest and the ten most frequent classes, image sizes and
aspect ratios, formats and bytes, and the files left out by the build, by reason.

It reads only the index. If the set has boxes or masks, it also reads every record, for objects per image and class, box
sizes, and each class's share of the pixels. Only samples on this machine count.
--json prints one object; -o FILE.html writes a self-contained page with plots.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkPage(cmd, output); err != nil {
				return err
			}
			set, err := openSet(cmd, args[0])
			if err != nil {
				return err
			}
			defer set.Close()
			stats, err := collectStats(cmd.Context(), set)
			switch out := cmd.OutOrStdout(); {
			case err != nil:
			case output != "":
				content := "statistics of " + bytesize.Counted(stats.Here, "sample", "samples")
				err = writeFile(cmd, output, stats.writePage, output+": "+content)
			case asJSON:
				err = cliutil.PrintJSON(out, stats)
			default:
				stats.print(out)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write a page of HTML to this file; - is standard output")
	return cmd
}

// collectStats computes the statistics from the index.
func collectStats(ctx context.Context, set *shard.Set) (*setStats, error) {
	m := set.Manifest()
	st := &setStats{setFacts: factsOf(m, set.Dir()), Rarest: []classCount{}, Commonest: []classCount{}}
	perClass := make([]int, len(m.Classes))
	formats := map[shard.Format]*formatCount{}
	sizes, bytes := map[[2]int32]int{}, tally{}
	err := eachEntry(ctx, set, func(_ int, e *shard.Entry) error {
		st.Here++
		if e.Label >= 0 && int(e.Label) < len(perClass) {
			perClass[e.Label]++
		} else {
			st.Unlabelled++
		}
		f := formats[e.Format]
		if f == nil {
			f = &formatCount{Format: formatName(e.Format, m.Encoding)}
			formats[e.Format] = f
		}
		f.Samples++
		f.Bytes += int64(e.ImageLength)
		st.ImageBytes += int64(e.ImageLength)
		st.ExtraBytes += int64(e.AuxLength) + int64(e.FieldsLength)
		sizes[[2]int32{e.Width, e.Height}]++
		bytes[float64(e.ImageLength)]++
		return nil
	})
	if err != nil {
		return nil, err
	}
	st.countSizes(sizes)
	st.Bytes = bytes.distribution()
	st.countClasses(m, perClass)
	for _, f := range formats {
		st.Formats = append(st.Formats, *f)
	}
	slices.SortFunc(st.Formats, func(a, b formatCount) int {
		return cmp.Or(b.Samples-a.Samples, strings.Compare(a.Format, b.Format))
	})
	if err := st.countTargets(ctx, set); err != nil {
		return nil, err
	}
	var reasons pack.Reasons
	err = pack.ReadRejects(set.Dir(), func(r pack.Reject) {
		st.Rejects.Samples++
		reasons.Add(r.Key, r.Reason)
	})
	st.Rejects.Reasons = reasons.List()
	return st, err
}

// countSizes computes the distributions of the images' sizes.
func (st *setStats) countSizes(sizes map[[2]int32]int) {
	width, height, aspect := tally{}, tally{}, tally{}
	for size, n := range sizes {
		w, h := float64(size[0]), float64(size[1])
		width[w] += n
		height[h] += n
		aspect[w/max(h, 1)] += n
	}
	st.Width, st.Height, st.Aspect = width.distribution(), height.distribution(), aspect.distribution()
}

// countClasses computes the statistics of samples per class.
func (st *setStats) countClasses(m *shard.Manifest, perClass []int) {
	counts := tally{}
	var classes []classCount
	for label, n := range perClass {
		classes = append(classes, classCount{m.Classes[label], int32(label), n})
		counts[float64(n)]++
		if n == 0 {
			st.Empty++
		}
	}
	st.PerClass = counts.distribution()
	slices.SortStableFunc(classes, func(a, b classCount) int { return a.Samples - b.Samples })
	n := min(statsExtremes, len(classes))
	st.Rarest = append(st.Rarest, classes[:n]...)
	st.Commonest = append(st.Commonest, classes[len(classes)-n:]...)
	slices.Reverse(st.Commonest)
}

// A distribution describes numbers: count, range, percentiles and histogram.
type distribution struct {
	Count  int     `json:"count"`
	Min    float64 `json:"min"`
	P5     float64 `json:"p5"` // 5th percentile
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
	Mean   float64 `json:"mean"`
	// Histogram counts the numbers in bins of equal width from Low to High, the 1st and the 99th percentile.
	Histogram []int   `json:"histogram"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
}

// histogramBins is the number of columns that fit beside a name in 80 columns.
const histogramBins = 40

// A tally counts how often each number occurs: the millions of samples of a set share few sizes and lengths.
type tally map[float64]int

// distribution describes the numbers.
func (t tally) distribution() distribution {
	numbers := slices.Sorted(maps.Keys(t))
	if len(numbers) == 0 {
		return distribution{Histogram: []int{}}
	}
	n, sum := 0, 0.0
	below := make([]int, len(numbers)) // counts of numbers up to each one
	for i, x := range numbers {
		n += t[x]
		below[i] = n
		sum += x * float64(t[x])
	}
	at := func(share float64) float64 {
		i, _ := slices.BinarySearch(below, int(math.Round(share*float64(n-1)))+1)
		return numbers[i]
	}
	d := distribution{
		Count: n, Min: numbers[0], P5: at(0.05), Median: at(0.5), P95: at(0.95), Max: numbers[len(numbers)-1],
		Mean: sum / float64(n), Low: at(0.01), High: at(0.99),
	}
	d.Histogram = make([]int, histogramBins)
	if d.Low == d.High {
		d.Histogram[0] = n
		return d
	}
	for _, x := range numbers {
		if x >= d.Low && x <= d.High {
			d.Histogram[min(int(float64(histogramBins)*(x-d.Low)/(d.High-d.Low)), histogramBins-1)] += t[x]
		}
	}
	return d
}

// objectStats are the statistics of boxes.
type objectStats struct {
	Count    int          `json:"count"`
	Empty    int          `json:"empty"` // images without objects
	PerImage distribution `json:"per_image"`
	Width    distribution `json:"width"` // pixels of the stored image
	Height   distribution `json:"height"`
	Classes  []classCount `json:"classes"` // objects of each, the most frequent first
}

// A classShare is a label's share of the pixels of all masks.
type classShare struct {
	Class   string  `json:"class"`
	Label   int     `json:"label"`
	Pixels  int64   `json:"pixels"`
	Share   float64 `json:"share"`
	Samples int     `json:"samples"` // masks that have it
}

// countTargets computes the statistics of boxes and masks, for which it reads every record.
func (st *setStats) countTargets(ctx context.Context, set *shard.Set) error {
	fields := set.Manifest().Fields
	objects, masks := fields.Has(shard.Objects), fields.Has(shard.Mask)
	if !objects && !masks {
		return nil
	}
	var t targets
	perImage, widths, heights := tally{}, tally{}, tally{}
	byLabel := make(map[int64]int)
	var pixels, samples [256]int
	err := eachEntry(ctx, set, func(i int, _ *shard.Entry) error {
		record, _, err := set.Read(i, nil)
		if err == nil {
			if err = t.read(fields, &record); err != nil {
				err = set.Corrupt(i, err)
			}
		}
		if err != nil {
			return err
		}
		perImage[float64(len(t.objects.Labels))]++
		for k, label := range t.objects.Labels {
			b := t.objects.Boxes[4*k:]
			byLabel[label]++
			widths[float64(b[2]-b[0])]++
			heights[float64(b[3]-b[1])]++
		}
		var here [256]int
		for _, label := range t.labels {
			here[label]++
		}
		for label, n := range here {
			pixels[label] += n
			samples[label] += min(n, 1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range fields {
		switch f.Type {
		case shard.Objects:
			st.Objects = &objectStats{Empty: perImage[0], PerImage: perImage.distribution(), Width: widths.distribution(),
				Height: heights.distribution()}
			st.Objects.Classes = []classCount{}
			for label, n := range byLabel {
				st.Objects.Count += n
				st.Objects.Classes = append(st.Objects.Classes, classCount{nameOf(f, int(label)), int32(label), n})
			}
			slices.SortFunc(st.Objects.Classes, func(a, b classCount) int { return cmp.Or(b.Samples-a.Samples, int(a.Label-b.Label)) })
		case shard.Mask:
			st.Pixels = sharesOf(f, pixels, samples)
		}
	}
	return nil
}

// sharesOf are the shares of the labels that masks have.
func sharesOf(f shard.Field, pixels, samples [256]int) (shares []classShare) {
	all := 0
	for _, n := range pixels {
		all += n
	}
	for label, n := range pixels {
		if n > 0 {
			shares = append(shares, classShare{nameOf(f, label), label, int64(n), float64(n) / float64(all), samples[label]})
		}
	}
	return shares
}

// nameOf is the name of a target's label.
func nameOf(f shard.Field, label int) string {
	if label < len(f.Classes) {
		return f.Classes[label]
	}
	return fmt.Sprint(label)
}
