package loader

import (
	"errors"
	"fmt"
	"image"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/shard/storage/cache"
	"github.com/imgfeed/imgfeed/transform"
)

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
