package loader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// writeSet writes a set of n images, as JPEG or as pixels, dealt to world partitions, and returns its folder.
func writeSet(t testing.TB, encoding string, n, world, w, h int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "set")
	options := shard.SetOptions{Split: "train", Encoding: shard.Encoding{Name: encoding}, Classes: []string{"a", "b"}, Partitions: world}
	codec, err := pixelcodec.New(pixelcodec.Params{}, kernel.Active())
	if err != nil {
		t.Fatal(err)
	}
	if encoding == "pixels" {
		if options.Encoding.Params, err = json.Marshal(codec.Params()); err != nil {
			t.Fatal(err)
		}
	}
	writer, err := shard.NewSetWriter(dir, options)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Abort()
	for _, key := range sortedKeys(n) {
		sample := shard.Sample{Key: key, Label: int32(len(key) % 2), Width: w, Height: h, Format: imagefile.JPEG}
		img := image.NewGray(image.Rect(0, 0, w, h))
		for i := range img.Pix {
			img.Pix[i] = byte(i*len(key) + int(key[0]))
		}
		var b bytes.Buffer
		if encoding == "pixels" {
			rgb := make([]byte, w*h*3)
			for i := range rgb {
				rgb[i] = img.Pix[i/3]
			}
			sample.Format = imagefile.Encoded
			sample.Image, err = codec.Encode(nil, rgb, w*3, w, h)
		} else {
			err = jpeg.Encode(&b, img, nil)
			sample.Image = b.Bytes()
		}
		if err == nil {
			err = writer.Append(sample)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := writer.Commit(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sortedKeys returns n keys in the order in which a set wants its samples.
func sortedKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	sort.Slice(keys, func(i, j int) bool { return shard.OrderHash(0, keys[i]) < shard.OrderHash(0, keys[j]) })
	return keys
}

func openTestSet(t testing.TB, dir string) (*shard.Set, Dataset) {
	t.Helper()
	set, err := shard.OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	served, err := FromShards(set)
	if err != nil {
		t.Fatal(err)
	}
	return set, served
}

func TestFromShards(t *testing.T) {
	pool := newTestPool(t, 2)
	for _, encoding := range []string{"jpeg", "pixels"} {
		set, served := openTestSet(t, writeSet(t, encoding, 21, 3, 20, 15))
		cfg := testStream(t, served, plan.Config{
			Fingerprint: set.Manifest().Fingerprint, Samples: set.Len(), Partitions: set.Partitions(), BatchSize: 4, Shuffle: true,
		}, 2)
		got, err := serve(t, pool, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i, index := range got.indices {
			if want, err := set.Label(int(index)); err != nil || got.labels[i] != int64(want) {
				t.Errorf("%s: sample %d has label %d, want %d, %v", encoding, index, got.labels[i], want, err)
			}
		}
		if len(got.indices) != 21 || bytes.Count(got.images, []byte{0}) == len(got.images) {
			t.Errorf("%s: %d samples", encoding, len(got.indices))
		}
	}
}

func TestFromShardsUnknownEncoding(t *testing.T) {
	set, err := shard.OpenSet(writeSet(t, "waves", 2, 1, 8, 8))
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if _, err := FromShards(set); err == nil || !strings.Contains(err.Error(), "waves") {
		t.Errorf("an unknown encoding: %v", err)
	}
}

// TestDamagedRecord flips a byte of a record on disk: the error must name key, file, record and offset.
func TestDamagedRecord(t *testing.T) {
	dir := writeSet(t, "jpeg", 9, 1, 20, 15)
	set, served := openTestSet(t, dir)
	entry, err := set.Entry(5)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "rank-0000", "00000.imgshard")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xA5, 0x5A}, entry.Offset+40); err != nil {
		t.Fatal(err)
	}
	f.Close()
	_, err = serve(t, newTestPool(t, 1), testStream(t, served, plan.Config{Samples: 9, BatchSize: 3}, 2))
	var sample *SampleError
	var corrupt *shard.CorruptError
	if !errors.As(err, &sample) || !errors.As(err, &corrupt) || sample.Index != 5 || corrupt.Offset != entry.Offset || corrupt.Path != file {
		t.Fatalf("error %v", err)
	}
	if key, _ := set.Key(5); sample.Key != key {
		t.Errorf("the error names key %q, want %q", sample.Key, key)
	}
}

func TestBench(t *testing.T) {
	for encoding, text := range map[string]string{"jpeg": "original", "pixels": "pixels (bitpack, resize none)"} {
		dir := writeSet(t, encoding, 12, 2, 40, 30)
		os.RemoveAll(filepath.Join(dir, "rank-0001")) // a set of which a part is here
		set, _ := openTestSet(t, dir)
		for _, name := range []string{"train", "full"} {
			cfg := BenchConfig{Set: set, Threads: 2, BatchSize: 8, Duration: 50 * time.Millisecond, Layout: resample.NCHW}
			if name != "full" {
				cfg.Views = transform.Views{mustSpec(t, name)}
			}
			r, err := Bench(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if r.Images == 0 || r.ImagesPerSecond <= 0 || r.CPUSeconds <= 0 || r.Stages["decode"] <= 0 || r.Stages["read"] <= 0 ||
				r.BytesRead == 0 || r.Encoding != text || r.Threads != 2 || r.Layout != "NCHW" {
				t.Errorf("%s %s: %+v", encoding, name, r)
			}
			if (name == "full") != (r.Stages["resample"] == 0) {
				t.Errorf("%s %s: %v s of resampling", encoding, name, r.Stages["resample"])
			}
		}
	}
}

// TestBenchWithoutTime measures for less than an image takes.
func TestBenchWithoutTime(t *testing.T) {
	set, _ := openTestSet(t, writeSet(t, "jpeg", 12, 1, 40, 30))
	for _, views := range []transform.Views{nil, {mustSpec(t, "train")}} {
		r, err := Bench(t.Context(), BenchConfig{Set: set, Views: views, BatchSize: 256, Threads: 1, Duration: time.Microsecond, WarmUp: 1})
		if err != nil || r.Images == 0 || r.ImagesPerSecond <= 0 {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestBenchErrors(t *testing.T) {
	dir := writeSet(t, "jpeg", 4, 1, 20, 20)
	set, _ := openTestSet(t, dir)
	spec := mustSpec(t, `[{"op":"RandomCrop","size":30}]`) // larger than the images
	var bad *SampleError
	if _, err := Bench(t.Context(), BenchConfig{Set: set, Views: transform.Views{spec}, BatchSize: 8, Duration: time.Minute}); !errors.As(err, &bad) || bad.Index < 0 || bad.Index >= 4 {
		t.Errorf("images that are too small: %v, want a SampleError of one of the set's samples", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := Bench(ctx, BenchConfig{Set: set, Views: transform.Views{mustSpec(t, "eval")}, BatchSize: 8, Duration: time.Minute}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context that ends: %v", err)
	}
}

// BenchmarkStream serves pixels, the fastest encoding, through a pool of one worker.
func BenchmarkStream(b *testing.B) {
	_, served := openTestSet(b, writeSet(b, "pixels", 256, 1, 341, 256))
	for _, name := range []string{"eval", "train-resize", "train"} {
		b.Run(name, func(b *testing.B) {
			cfg := testStream(b, served, plan.Config{Samples: 256, BatchSize: 64, Shuffle: true}, 3)
			cfg.Views = transform.Views{mustSpec(b, name)}
			cfg.Slots = NewSlotPool(newSlots(3, 64, cfg.Views[0])...)
			pool := newTestPool(b, 1)
			for b.Loop() {
				s, err := pool.NewStream(cfg)
				if err != nil {
					b.Fatal(err)
				}
				for {
					batch, err := s.Next(b.Context())
					if err != nil {
						break
					}
					cfg.Slots.Put(batch.Slot)
				}
				s.Close()
			}
			c := pool.Counters()
			b.ReportMetric(256*float64(b.N)/b.Elapsed().Seconds(), "images/s")
			b.ReportMetric(float64(c.Read.Nanoseconds())/float64(c.Images), "read-ns")
			b.ReportMetric(float64(c.Decode.Nanoseconds())/float64(c.Images), "decode-ns")
			b.ReportMetric(float64(c.Resample.Nanoseconds())/float64(c.Images), "resample-ns")
		})
	}
}
