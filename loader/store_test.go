package loader

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard/storage"
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
				slots := NewSlotPool(newSlots(2, batch, spec)...)
				storage.Default.Timeout = time.Second / 2 // until now requests had all the time that a busy machine takes
				dead.Store(true)
				stream, err := pool.NewStream(StreamConfig{
					Dataset: served, Plan: mustPlan(t, plan.Config{Samples: samples, BatchSize: batch, Shuffle: true}), Views: transform.Views{spec},
					Slots: slots, OnError: onError,
				})
				for err == nil {
					var b Batch
					if b, err = stream.Next(t.Context()); err == nil {
						slots.Put(b.Slot)
					}
				}
				stream.Close()
				bad, is := errors.AsType[*SampleError](err)
				if !is || !storage.IsDown(err) || !strings.Contains(err.Error(), "--store-timeout") || errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				if _, is := errors.AsType[*net.OpError](err); is {
					t.Error("the error of a store's connection may be taken for a client's")
				}
				_, _, err = served.Record(bad.Index, nil, false)
				if again, is := errors.AsType[*storage.RemoteError](err); !is || again.Tries > 1 {
					t.Errorf("the next request, which is to be tried once: %v", err)
				}
				if dead.Store(false); name != "refused" {
					if _, _, err := served.Record(bad.Index, nil, false); err != nil {
						t.Errorf("of a store that answers again: %v", err)
					}
				}
			})
		}
	}
}
