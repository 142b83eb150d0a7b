package loader

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/shard/storage/cache"
	"github.com/imgfeed/imgfeed/transform"
)

// packSet writes a set of n samples, of which each is made for its key, and returns its folder.
func packSet(t testing.TB, options shard.SetOptions, n int, sampleOf func(key string) shard.Sample) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "set")
	writer := testenv.Must(shard.NewSetWriter(dir, options))(t)
	defer writer.Abort()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	sort.Slice(keys, func(i, j int) bool { return shard.OrderHash(0, keys[i]) < shard.OrderHash(0, keys[j]) })
	for _, key := range keys {
		sample := sampleOf(key)
		sample.Key = key
		testenv.OK(t, writer.Append(sample))
	}
	testenv.Must(writer.Commit())(t)
	return dir
}

func jpegOf(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	testenv.OK(t, jpeg.Encode(&b, img, nil))
	return b.Bytes()
}

// writeSet writes a set of n images, as JPEG or as pixels, dealt to world partitions, and returns its folder.
func writeSet(t testing.TB, encoding string, n, world, w, h int) string {
	t.Helper()
	options := shard.SetOptions{Split: "train", Encoding: shard.Encoding{Name: encoding}, Classes: []string{"a", "b"}, Partitions: world}
	codec := testenv.Must(pixelcodec.New(pixelcodec.Params{}, kernel.Active()))(t)
	if encoding == "pixels" {
		options.Encoding.Params = testenv.Must(json.Marshal(codec.Params()))(t)
	}
	return packSet(t, options, n, func(key string) shard.Sample {
		sample := shard.Sample{Label: int32(len(key) % 2), Width: w, Height: h, Format: imagefile.JPEG}
		img := image.NewGray(image.Rect(0, 0, w, h))
		for i := range img.Pix {
			img.Pix[i] = byte(i*len(key) + int(key[0]))
		}
		if encoding != "pixels" {
			sample.Image = jpegOf(t, img)
			return sample
		}
		rgb := make([]byte, w*h*3)
		for i := range rgb {
			rgb[i] = img.Pix[i/3]
		}
		sample.Format, sample.Image = imagefile.Encoded, testenv.Must(codec.Encode(nil, rgb, w*3, w, h))(t)
		return sample
	})
}

func openTestSet(t testing.TB, dir string) (*shard.Set, *Dataset) {
	t.Helper()
	set := testenv.Opened(shard.OpenSet(dir))(t)
	served := testenv.Must(FromShards(set))(t)
	return set, served
}

func TestFromShards(t *testing.T) {
	pool := newTestPool(t, 2)
	for _, encoding := range []string{"jpeg", "pixels"} {
		set, served := openTestSet(t, writeSet(t, encoding, 21, 3, 20, 15))
		cfg := testStream(t, served, plan.Config{
			Fingerprint: set.Manifest().Fingerprint, Samples: set.Len(), Partitions: set.Partitions(), BatchSize: 4, Shuffle: true,
		}, 2)
		got := testenv.Must(serve(t, pool, cfg))(t)
		for i, index := range got.indices {
			want, err := set.Label(int(index))
			testenv.Check(t, err == nil && got.labels[i] == int64(want),
				"%s: sample %d has label %d, want %d, %v", encoding, index, got.labels[i], want, err)
		}
		testenv.Check(t, len(got.indices) == 21 && bytes.Count(got.images, []byte{0}) != len(got.images),
			"%s: %d samples", encoding, len(got.indices))
	}
}

func TestFromShardsUnknownEncoding(t *testing.T) {
	testenv.Fails(FromShards(testenv.Opened(shard.OpenSet(writeSet(t, "waves", 2, 1, 8, 8)))(t)))(t, "waves", "an unknown encoding")
}

// TestDamagedRecord flips a byte of a record on disk: the error must name key, file, record and offset.
func TestDamagedRecord(t *testing.T) {
	dir := writeSet(t, "jpeg", 9, 1, 20, 15)
	set, served := openTestSet(t, dir)
	entry := testenv.Must(set.Entry(5))(t)
	file := filepath.Join(dir, "rank-0000", "00000.imgshard")
	testenv.OK(t, os.Chmod(file, 0o644))
	f := testenv.Must(os.OpenFile(file, os.O_RDWR, 0))(t)
	testenv.Must(f.WriteAt([]byte{0xA5, 0x5A}, entry.Offset+40))(t)
	f.Close()
	_, err := serve(t, newTestPool(t, 1), testStream(t, served, plan.Config{Samples: 9, BatchSize: 3}, 2))
	var sample *SampleError
	var corrupt *shard.CorruptError
	if !errors.As(err, &sample) || !errors.As(err, &corrupt) || sample.Index != 5 || corrupt.Offset != entry.Offset || corrupt.Path != file {
		t.Fatalf("error %v", err)
	}
	key, _ := set.Key(5)
	testenv.Check(t, sample.Key == key, "the error names key %q, want %q", sample.Key, key)
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
				s := testenv.Must(pool.NewStream(cfg))(b)
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

// someFields are a vector, a text and a number; record is what a sample has of them.
func someFields() (schema shard.Fields, record []byte) {
	schema = shard.Fields{{Name: "attributes", Type: shard.Float32, Size: 40}, {Name: "caption", Type: shard.Text, BytesMax: 21}, {Name: "age", Type: shard.Int64}}
	record = shard.AppendFloats(nil, make([]float32, 40)...)
	return schema, shard.AppendInts(shard.AppendBytes(record, []byte("a caption")), -3)
}

// fieldSlot has room for n samples' values.
func fieldSlot(f *Fields, n int) *Slot {
	s := &Slot{}
	for k := range f.Len() {
		s.Fields = append(s.Fields, make([]byte, n*f.Stride(k)))
	}
	return s
}

func TestFieldsArePut(t *testing.T) {
	schema, record := someFields()
	f, err := NewFields(schema, []string{"age", "caption"})
	testenv.Require(t, err == nil && f.Len() == 2 && f.Stride(0) == 8 && f.Stride(1) == 28 && f.Field(1).Name == "caption", "%+v, %v", f, err)
	s := fieldSlot(f, 3)
	values := testenv.Must(schema.Split(record, nil))(t)
	f.put(s, 1, &shard.Record{Fields: record}, values)
	age, caption := s.Fields[0][8:16], s.Fields[1][28:56]
	testenv.Equal(t, int64(binary.LittleEndian.Uint64(age)), -3, "the age")
	testenv.Check(t, binary.LittleEndian.Uint32(caption) == 9 && strings.HasPrefix(string(caption[4:]), "a caption"), "%q", caption)
	testenv.Fails(f.values(&shard.Record{Fields: record[:100]}))(t, nil, "half a record is taken")
	floats := testenv.Must(NewFields(schema, []string{"attributes"}))(t)
	s = fieldSlot(floats, 1)
	floats.blank(s, 0)
	x := math.Float32frombits(binary.LittleEndian.Uint32(s.Fields[0][156:]))
	testenv.Check(t, x != x, "a blank sample's last number is %v", x)
	for _, names := range [][]string{{"colour"}, {"age", "age"}} {
		testenv.Fails(NewFields(schema, names))(t, nil, "%v are chosen", names)
	}
}

// BenchmarkFieldsPut writes a vector of 40 numbers, a text and a number.
func BenchmarkFieldsPut(b *testing.B) {
	schema, record := someFields()
	f, err := NewFields(schema, []string{"attributes", "caption", "age"})
	testenv.OK(b, err)
	s, values := fieldSlot(f, 256), make([][]byte, 0, 3)
	b.ReportAllocs()
	for i := range b.N {
		if values, err = schema.Split(record, values[:0]); err != nil {
			b.Fatal(err)
		}
		f.put(s, i%256, &shard.Record{Fields: record}, values)
	}
}

// TestDeadStore ends an epoch when its store has died, whatever becomes of bad samples: none of these is bad.
func TestDeadStore(t *testing.T) {
	const samples, batch = 600, 128
	defer func(before *storage.Client) { storage.Default = before }(storage.Default)
	dir := writeSet(t, "jpeg", samples, 1, 40, 30)
	for name, die := range map[string]func(w http.ResponseWriter, s *httptest.Server){
		"refused": func(_ http.ResponseWriter, s *httptest.Server) {
			s.Listener.Close()
			panic(http.ErrAbortHandler)
		},
		"closed": func(http.ResponseWriter, *httptest.Server) { panic(http.ErrAbortHandler) },
		"503":    func(w http.ResponseWriter, _ *httptest.Server) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		for _, onError := range []OnError{Fail, Blank, Substitute} {
			if name != "503" && onError != Fail {
				continue
			}
			t.Run(fmt.Sprint(name, onError), func(t *testing.T) {
				storage.Default = storage.NewClient()
				var dead atomic.Bool
				files := http.FileServer(http.Dir(dir))
				var server *httptest.Server
				server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if dead.Load() {
						w.Header().Set("Connection", "close")
						die(w, server)
					} else {
						files.ServeHTTP(w, r)
					}
				}))
				server.Start()
				defer server.Close()
				_, served := openTestSet(t, server.URL)
				spec := mustSpec(t, `[{"op":"RandomResizedCrop","size":24}]`)
				pool := NewPool(PoolConfig{Threads: 2, ReadAheadBytes: 256 << 10})
				defer pool.Close()
				storage.Default.Timeout = time.Second / 2 // until now requests had all the time that a busy machine takes
				dead.Store(true)
				_, err := serve(t, pool, StreamConfig{
					Dataset: served, Plan: mustPlan(t, plan.Config{Samples: samples, BatchSize: batch, Shuffle: true}), Views: transform.Views{spec},
					Slots: NewSlotPool(newSlots(2, batch, spec)...), OnError: onError,
				})
				bad, is := errors.AsType[*SampleError](err)
				testenv.Require(t, is && storage.IsDown(err) && strings.Contains(err.Error(), "--store-timeout") && !errors.Is(err, io.EOF), "%v", err)
				_, is = errors.AsType[*net.OpError](err)
				testenv.Check(t, !is, "the error of a store's connection may be taken for a client's")
				_, _, err = served.Record(bad.Index, nil, false)
				again, is := errors.AsType[*storage.RemoteError](err)
				testenv.Check(t, is && again.Tries <= 1, "the next request, which is to be tried once: %v", err)
				if dead.Store(false); name != "refused" {
					_, _, err := served.Record(bad.Index, nil, false)
					testenv.Says(t, "a store that answers again", err, "")
				}
			})
		}
	}
}

// noiseSet writes a set of n images of noise, of some 60 KB each.
func noiseSet(t *testing.T, n int) string {
	t.Helper()
	options := shard.SetOptions{Split: "train", Encoding: shard.Encoding{Name: "jpeg"}, Partitions: 1, ShardSamples: 100}
	rng := rand.New(rand.NewPCG(1, 2))
	return packSet(t, options, n, func(string) shard.Sample {
		img := image.NewGray(image.Rect(0, 0, 256+rng.IntN(64), 256))
		for i := range img.Pix {
			img.Pix[i] = byte(rng.Uint32())
		}
		return shard.Sample{Width: img.Rect.Dx(), Height: 256, Format: imagefile.JPEG, Image: jpegOf(t, img)}
	})
}

// TestCacheHits reads three epochs through caches of parts of a set: the same batches as from a folder. Records that are kept are found
// again, and in the end that is the cache's share of the set.
func TestCacheHits(t *testing.T) {
	const samples = 400
	dir := noiseSet(t, samples)
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(dir))))
	defer server.Close()
	before := storage.Default
	defer func() { storage.Default = before }()
	storage.Default = storage.NewClient()
	for _, share := range []float64{0.1, 0.5, 0.9} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			local, served := openTestSet(t, dir)
			cache := testenv.Opened(cache.Open(t.TempDir(), int64(share*float64(local.Bytes()))))(t)
			storage.Default.Cache = cache
			set, data := openTestSet(t, server.URL+"/"+filepath.Base(dir))
			pool := newTestPool(t, 2)
			hits, misses := int64(0), int64(0)
			for epoch := range 3 {
				order := plan.Config{Fingerprint: set.Manifest().Fingerprint, Samples: set.Len(), Seed: 5, Epoch: epoch, BatchSize: 32, Shuffle: true}
				used := cache.Used()
				want := testenv.Must(serve(t, pool, testStream(t, served, order, 3)))(t)
				compareEpochs(t, "through the cache", testenv.Must(serve(t, pool, testStream(t, data, order, 3)))(t), want)
				hit, miss := cache.HitBytes.Load()-hits, cache.MissBytes.Load()-misses
				hits, misses = hits+hit, misses+miss
				rate, kept := float64(hit)/float64(hit+miss), float64(used)/float64(local.Bytes())
				t.Logf("epoch %d: %.3f from the cache, %.3f of the set kept", epoch, rate, kept)
				// A record of 41 KB takes parts of two blocks of the disk in addition, and the indexes are kept too.
				testenv.Check(t, rate >= 0.9*kept-2./samples && rate <= share+0.02,
					"epoch %d: %.3f of the bytes came from a cache that had %.3f of the set", epoch, rate, kept)
			}
			kept := float64(cache.Used()) / float64(local.Bytes())
			testenv.Check(t, kept >= 0.9*share-2./samples, "a cache of %.1f of the set keeps %.3f", share, kept)
			testenv.Check(t, cache.Used() <= cache.Max*101/100, // the file system's own blocks count too
				"%d bytes are kept, of at most %d", cache.Used(), cache.Max)
		})
	}
}
