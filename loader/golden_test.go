package loader_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/coefficients"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	"github.com/imgfeed/imgfeed/shard/encoding/pixels"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/transform"
)

var update = flag.Bool("update", false, "write "+goldenFile+" anew")

const goldenFile = "testdata/golden.txt"

// goldenCrop is for images that are smaller than a preset takes.
const goldenCrop = `[{"op":"RandomCrop","size":12,"padding":4,"pad_if_needed":true},{"op":"RandomHorizontalFlip"}]`

// goldenTransforms are served from every encoding, which all give the same bits.
var goldenTransforms = []string{
	"eval", "train", "train-resize", "simclr", "dino", goldenCrop,
	`[{"op":"Resize","size":72,"interpolation":"bicubic","resampler":"pillow-12"},{"op":"CenterCrop","size":64}]`,
	`[{"op":"RandomResizedCrop","size":64},{"op":"RandAugment"},{"op":"TimmAugment","config":"rand-m9-mstd0.5-inc1"}]`,
	`[{"op":"TrivialAugmentWide"},{"op":"Resize","size":[48,64]},{"op":"AugMix"}]`,
	`[{"op":"AutoAugment"},{"op":"RandomAffine","degrees":20},{"op":"Resize","size":[64,48]}]`,
	`[{"op":"Resize","size":64},{"op":"CenterCrop","size":64},{"op":"ColorJitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1}]`,
}

// goldenImages are files of this project, since encoders of the standard library change with Go.
var goldenImages = []string{
	"jpeg/testdata/files/baseline-1x1.jpg", "jpeg/testdata/files/baseline-2x2.jpg", "jpeg/testdata/files/baseline-2x1.jpg",
	"jpeg/testdata/files/baseline-4x2.jpg", "jpeg/testdata/files/grey.jpg", "jpeg/testdata/files/magick-cmyk.jpg",
	"jpeg/testdata/files/optimised-restart-2x2.jpg", "jpeg/testdata/files/progressive-2x2.jpg", "jpeg/testdata/files/rgb-subsampled.jpg",
	"jpeg/testdata/files/scans.jpg", "imagefile/testdata/kinds/lossy.webp", "imagefile/testdata/kinds/palette.gif",
	"imagefile/testdata/kinds/rgb.bmp", "imagefile/testdata/kinds/type6-depth8.png",
}

// TestGolden compares the sets and batches of small images with recorded SHA-256 sums, at every kernel level: what a set or a
// batch holds is a function of the data and the options. Do not update the sums to make a change pass: a set that somebody has packed, or
// a run that somebody resumes, would no longer match.
func TestGolden(t *testing.T) {
	got := goldenSums(t)
	if *update {
		testenv.OK(t, os.WriteFile(goldenFile, []byte(strings.Join(got, "\n")), 0o666))
	}
	want := strings.Split(string(must(os.ReadFile(goldenFile))), "\n")
	for i, line := range got {
		testenv.Require(t, i < len(want) && line == want[i],
			"kernels %v, line %d of %s, which -update writes: got %q, want %q", kernel.Active(), i+1, goldenFile, line, want[min(i, len(want)-1)])
	}
	if os.Getenv(kernel.EnvVar) != "" {
		return // this process is for one level
	}
	for _, level := range kernel.Available() {
		if level == kernel.Active() {
			continue
		}
		cmd := exec.Command(os.Args[0], "-test.run", "^TestGolden$")
		cmd.Env = append(os.Environ(), kernel.EnvVar+"="+level.String())
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.ENOEXEC) {
			t.Logf("kernels %v: not tested: this test runs in an emulator", level)
		} else if err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// goldenSums packs the images and serves the sets. It returns a line with a name and a sum for each result, and an empty one.
func goldenSums(t *testing.T) (lines []string) {
	sum := func(sum [sha256.Size]byte, format string, args ...any) {
		lines = append(lines, fmt.Sprintf(format, args...)+fmt.Sprintf(" %x", sum))
	}
	split := goldenSplit(t, goldenImages)
	names := []string{"original", "coefficients", "pixels", "index"}
	encodings := []encoding.Encoding{original.Encoding{}, coefficients.Encoding{}, must(pixels.New(pixelcodec.Params{}, pixels.Resize{})), nil}
	var sets []*shard.Set
	for i, name := range names {
		sets = append(sets, goldenSet(t, split, pack.Options{Partitions: 2, Seed: 3, Encoding: encodings[i], Index: name == "index"}))
		sum(sumSet(sets[i]), "set %s", name)
	}
	for _, text := range goldenTransforms {
		order := plan.Config{BatchSize: 5, Seed: 7, Epoch: 1, Shuffle: true}
		want := sumBatches(t, sets[0], text, order)
		sum(want, "transform %s", text)
		for i, name := range names {
			got := sumBatches(t, sets[i], text, order)
			testenv.Check(t, got == want, "%s from %s: %x, want %x as from original", text, name, got, want)
		}
	}
	for _, policy := range []plan.Policy{plan.Pad, plan.DropLast, plan.Uneven} {
		for _, ranks := range [][2]int{{0, 1}, {1, 2}, {0, 3}, {2, 3}} {
			order := plan.Config{BatchSize: 3, Seed: -7, Epoch: 2, Shuffle: true, Rank: ranks[0], World: ranks[1], Policy: policy}
			sum(sumBatches(t, sets[0], goldenCrop, order), "%v, rank %d of %d", policy, ranks[0], ranks[1])
		}
	}
	joined := must(shard.Join([]*shard.Set{goldenSet(t, split, pack.Options{}), goldenSet(t, goldenSplit(t, goldenImages[5:11]), pack.Options{})}, false))
	n := sets[0].Len()
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = float64(i%4) / 2
	}
	for _, c := range []struct {
		name string
		set  *shard.Set
		cfg  plan.SelectionConfig
	}{
		{"weights", sets[0], plan.SelectionConfig{Weights: weights, Positions: 2*n + 1}},
		{"repeats", sets[0], plan.SelectionConfig{Repeats: 3, Positions: 2 * n}},
		{"list", sets[0], plan.SelectionConfig{List: []uint32{9, 1, 1, 7, 4, 3}}},
		{"mixture", joined, plan.SelectionConfig{Joined: joined.Parts(), Mix: []float64{3, 1}, Positions: 3 * n}},
	} {
		c.cfg.Samples = c.set.Len()
		for _, world := range []int{1, 2} {
			order := plan.Config{BatchSize: 4, Seed: 5, Shuffle: true, World: world, Rank: world - 1, Selection: must(plan.NewSelection(c.cfg))}
			sum(sumBatches(t, c.set, goldenCrop, order), "%s, rank %d of %d", c.name, world-1, world)
		}
	}
	return append(lines, "")
}

// goldenSplit makes class folders of images. Their times are fixed, because an index set records them.
func goldenSplit(t *testing.T, images []string) *dataset.Split {
	dir := filepath.Join(t.TempDir(), "train")
	for i, name := range images {
		path := filepath.Join(dir, []string{"cat", "dog"}[i%2], filepath.Base(name))
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, must(os.ReadFile("../internal/image/"+name)), 0o666),
			os.Chtimes(path, time.Time{}, time.Unix(1_700_000_000, 0)))
		testenv.OK(t, err)
	}
	return must(source.Open(dir, dataset.Options{}))[0]
}

func goldenSet(t *testing.T, split *dataset.Split, o pack.Options) *shard.Set {
	dir := filepath.Join(t.TempDir(), "set")
	must(pack.Build(t.Context(), split, dir, o))
	set := must(shard.OpenSet(dir))
	t.Cleanup(func() { set.Close() })
	return set
}

// sumSet returns the sum of a set's files. An index set's manifest names the folder of the images: two of its own sums stand for it.
func sumSet(set *shard.Set) [sha256.Size]byte {
	h := sha256.New()
	for _, pattern := range []string{"*.json*", "*/*"} {
		for _, path := range must(filepath.Glob(filepath.Join(set.Dir(), pattern))) {
			data := must(os.ReadFile(path))
			if m := set.Manifest(); m.Index != nil && filepath.Base(path) == "manifest.json" {
				data = []byte(m.Fingerprint + m.Content)
			}
			fmt.Fprintf(h, "%s %d %s", strings.TrimPrefix(path, set.Dir()), len(data), data)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// sumBatches returns the sum of the batches of a rank's epoch: images in both layouts, labels, indices, repetitions and draws.
func sumBatches(t *testing.T, set *shard.Set, text string, order plan.Config) [sha256.Size]byte {
	served, views := must(loader.FromShards(set)), must(transform.ParseViews(text, transform.Pillow13))
	order.Fingerprint, order.Samples, order.Partitions = set.Manifest().Fingerprint, set.Len(), set.Partitions()
	planned := must(plan.New(order))
	pool := loader.NewPool(loader.PoolConfig{Threads: 2})
	defer pool.Close()
	h := sha256.New()
	for _, layout := range []transform.Layout{transform.NHWC, transform.NCHW} {
		slots := loader.NewSlotPool(loader.NewSlot(0, order.BatchSize, views), loader.NewSlot(1, order.BatchSize, views))
		stream := must(pool.NewStream(loader.StreamConfig{Dataset: served, Plan: planned, Views: views, Layout: layout, Slots: slots}))
		defer stream.Close()
		for {
			batch, err := stream.Next(t.Context())
			if err == io.EOF {
				break
			}
			s, n := must(batch, err).Slot, batch.Count
			binary.Write(h, binary.LittleEndian, slices.Concat([]int64{int64(n), int64(batch.Consumed)}, s.Labels[:n], s.Indices[:n], s.Repetitions[:n]))
			for v, spec := range views {
				h.Write(s.Images[v][:n*spec.OutputBytes()])
				binary.Write(h, binary.LittleEndian, s.Params[v][:n*transform.ParamsLen])
			}
			slots.Put(s)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
