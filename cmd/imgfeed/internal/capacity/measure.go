package capacity

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/transform"
)

// MeasureConfig says what [Measure] measures.
type MeasureConfig struct {
	Views     transform.Views
	BatchSize int
	Threads   int           // decoding threads
	Duration  time.Duration // of all encodings together; packing the sample comes on top
	Resize    string        // of pixels, as imgshard build's --resize; "" for its default
	Progress  func(what string)
}

// parse returns the encoding that imgshard build makes of these flags.
func parse(flags []string, small bool) (encoding.Encoding, error) {
	fs := pflag.NewFlagSet("build", pflag.ContinueOnError)
	f := registry.AddFlags(fs, false)
	if err := fs.Parse(flags); err != nil {
		return nil, err
	}
	return f.Encoding(small)
}

// Measure measures the encodings one after the other, beginning with an existing set. It packs into a folder for temporary files, and removes them
// before it returns.
func Measure(ctx context.Context, s *Sample, c MeasureConfig) ([]Option, error) {
	dir, err := os.MkdirTemp("", "imgfeed-plan-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var todo [][]string
	if s.files != nil {
		todo = registry.Variants(c.Resize)
	}
	switch {
	case s.set != nil && s.files == nil:
		todo = append(todo, nil)
	case s.set != nil && s.Store == "":
		todo[0] = nil // the set is that one
	}
	c.Duration /= time.Duration(len(todo))
	var all []Option
	for _, flags := range todo {
		measure := func() (Option, error) { return c.measurePacked(ctx, s, flags, filepath.Join(dir, "set")) }
		if flags == nil {
			measure = func() (Option, error) { return c.measureSet(ctx, s) }
		}
		o, err := measure()
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	if s.Store != "" && s.files != nil {
		// The first is the set itself. A copy here was measured: with the work for requests it would look slow beside the others.
		all[0].Flags, all[0].ImageBytes = nil, storedBytes(s.set.Manifest())
	}
	return all, nil
}

func (c *MeasureConfig) tell(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// storedBytes returns a set's bytes on disk for each sample.
func storedBytes(m *shard.Manifest) float64 {
	var bytes int64
	for _, s := range m.Shards {
		bytes += s.Bytes
	}
	return float64(bytes) / float64(max(1, m.Samples))
}

// measureSet measures the set that is there.
func (c *MeasureConfig) measureSet(ctx context.Context, s *Sample) (Option, error) {
	e, err := registry.Open(s.set.Manifest().Encoding)
	if err != nil {
		return Option{}, err
	}
	c.tell("measuring %v", e)
	o := c.option(e, nil, s.set)
	return o, c.run(ctx, &o, s.set, s.indices)
}

// measurePacked packs the sample in one encoding and measures that.
func (c *MeasureConfig) measurePacked(ctx context.Context, s *Sample, flags []string, dir string) (Option, error) {
	e, err := parse(flags, s.small)
	if err != nil {
		return Option{}, err
	}
	c.tell("packing and measuring %v", e)
	sum, err := pack.BuildFiles(ctx, s.files, dir, pack.Options{Jobs: c.Threads, Encoding: e})
	if err != nil {
		return Option{}, err
	}
	defer os.RemoveAll(dir)
	set, err := shard.OpenSet(dir)
	if err != nil {
		return Option{}, err
	}
	defer set.Close()
	o := c.option(e, flags, set)
	o.Rejected, o.Reasons = sum.Rejected, sum.Reasons.List()
	return o, c.run(ctx, &o, set, nil)
}

// option returns the facts about an encoding that need no measurement.
func (c *MeasureConfig) option(e encoding.Encoding, flags []string, set *shard.Set) Option {
	o := Option{Name: name(e), Encoding: e.String(), Flags: flags, ImageBytes: storedBytes(set.Manifest()), keepsFiles: e.HoldsOriginals()}
	for _, spec := range c.Views {
		o.NotBitExact = cmp.Or(o.NotBitExact, e.NotBitExact(spec))
	}
	return o
}

// run serves samples of a set over and over, as imgfeed bench does, all of them once before it counts, and at least once more. An image that the
// transform cannot handle, such as one that is too narrow, counts like any other.
func (c *MeasureConfig) run(ctx context.Context, o *Option, set *shard.Set, indices []int) error {
	r, err := loader.Bench(ctx, loader.BenchConfig{
		Set: set, Indices: indices, Views: c.Views, Threads: c.Threads, BatchSize: c.BatchSize, Duration: c.Duration, ImagesMin: int64(max(c.BatchSize, sampleImages)),
		OnError: loader.Blank,
	})
	o.PerCore = r.ImagesPerCPU
	return err
}

// name is the encoding as a table has it: "original", "pixels bitpack".
func name(e encoding.Encoding) string {
	kind, parameters, _ := strings.Cut(e.String(), " (")
	codec, _, _ := strings.Cut(parameters, ",")
	return strings.TrimSpace(kind + " " + codec)
}
