package capacity

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
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

// A Measurement is what one encoding has given.
type Measurement struct {
	Encoding    encoding.Encoding
	Flags       []string // of imgshard build and repack; nil for a set that is there
	StoredBytes float64  // of an image, with its index and its share of the shard
	PerCPU      float64  // images in a second of a core's time
	PerSecond   float64  // images by the clock, on all threads
	Rejected    int      // images of the sample that could not be packed
	Reasons     []pack.Reason
}

// candidates are the command lines of the encodings that could be packed, the one that keeps the files first.
func (c *MeasureConfig) candidates() (all [][]string) {
	all = append(all, []string{"--encoding", "original"})
	for i, codec := range pixelcodec.Names() {
		flags := []string{"--encoding", "pixels"}
		if i > 0 { // the first is what is taken unless another is named
			flags = append(flags, "--codec", codec)
		}
		if c.Resize != "" {
			flags = append(flags, "--resize", c.Resize)
		}
		all = append(all, flags)
	}
	return all
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

// Measure measures the encodings, one after the other. What it packs lies in a folder for temporary files, and is gone when it returns.
func Measure(ctx context.Context, s *Sample, c MeasureConfig) ([]Measurement, error) {
	dir, err := os.MkdirTemp("", "imgfeed-plan-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var todo [][]string
	var ready *Measurement // the set that is there, as it is
	if s.set != nil {
		stored, err := registry.Open(s.set.Manifest().Encoding)
		if err != nil {
			return nil, err
		}
		ready = &Measurement{Encoding: stored}
	}
	if s.files != nil {
		todo = c.candidates()
	}
	if ready != nil && s.files != nil {
		todo = todo[1:] // it is the set
	}
	each := c.Duration / time.Duration(max(1, len(todo)+1))
	var all []Measurement
	if ready != nil {
		c.tell("measuring %v", ready.Encoding)
		if err := ready.run(ctx, s.set, s.indices, each, &c); err != nil {
			return nil, err
		}
		ready.StoredBytes = storedBytes(s.set.Manifest())
		all = append(all, *ready)
	}
	for _, flags := range todo {
		m, err := measurePacked(ctx, s, flags, filepath.Join(dir, "set"), each, &c)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func (c *MeasureConfig) tell(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// storedBytes is what a set takes on disk for each of its samples.
func storedBytes(m *shard.Manifest) float64 {
	var bytes int64
	for _, s := range m.Shards {
		bytes += s.Bytes
	}
	return float64(bytes) / float64(max(1, m.Samples))
}

// measurePacked packs the sample in one encoding and measures that.
func measurePacked(ctx context.Context, s *Sample, flags []string, dir string, d time.Duration, c *MeasureConfig) (Measurement, error) {
	e, err := parse(flags, s.small)
	if err != nil {
		return Measurement{}, err
	}
	m := Measurement{Encoding: e, Flags: flags}
	c.tell("packing and measuring %v", e)
	sum, err := pack.BuildFiles(ctx, s.files, dir, pack.Options{Jobs: c.Threads, Encoding: e})
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	m.Rejected, m.Reasons, m.StoredBytes = sum.Rejected, sum.Reasons.List(), storedBytes(sum.Manifest)
	set, err := shard.OpenSet(dir)
	if err != nil {
		return m, err
	}
	defer set.Close()
	return m, m.run(ctx, set, nil, d, c)
}

// run serves samples of a set over and over, as imgfeed bench does, all of them once before it counts, and once more at least. What the transform
// cannot do, as to images that are too narrow, is counted as any other image.
func (m *Measurement) run(ctx context.Context, set *shard.Set, indices []int, d time.Duration, c *MeasureConfig) error {
	r, err := loader.Bench(ctx, loader.BenchConfig{
		Set: set, Indices: indices, Views: c.Views, Threads: c.Threads, BatchSize: c.BatchSize, Duration: d, ImagesMin: int64(max(c.BatchSize, sampleImages)),
		OnError: loader.Blank,
	})
	m.PerCPU, m.PerSecond = r.ImagesPerCPU, r.ImagesPerSecond
	return err
}

// notBitExact says why results from an encoding are not those of the originals, "" if they are.
func (m *Measurement) notBitExact(views transform.Views) string {
	for _, spec := range views {
		if why := m.Encoding.NotBitExact(spec); why != "" {
			return why
		}
	}
	return ""
}

// name is the encoding as a table has it: "original", "pixels bitpack".
func (m *Measurement) name() string {
	kind, parameters, _ := strings.Cut(m.Encoding.String(), " (")
	codec, _, _ := strings.Cut(parameters, ",")
	return strings.TrimSpace(kind + " " + codec)
}
