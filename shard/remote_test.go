package shard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// TestRemoteSet reads a set from a web server as from its folder, with three requests a shard before its records.
func TestRemoteSet(t *testing.T) {
	dir := filepath.Join(goldenV1, "train-shards")
	var requests atomic.Int64
	files := http.FileServer(http.Dir(filepath.Dir(dir)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	url := server.URL + "/" + filepath.Base(dir)
	local, err := OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	set, err := OpenSet(url)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if n, most := requests.Load(), int64(1+3*len(set.Manifest().Shards)); n > most {
		t.Errorf("%d requests open the set, want at most %d", n, most)
	}
	if set.Dir() != url || !reflect.DeepEqual(set.Manifest(), local.Manifest()) {
		t.Errorf("%s: %+v", set.Dir(), set.Manifest())
	}
	for i := range local.Len() {
		want, _, err := local.Read(i, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := set.Read(i, nil)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("sample %d: %v", i, err)
		}
		key, err := set.Key(i)
		if found, findErr := set.Find(key); err != nil || findErr != nil || found != i {
			t.Fatalf("sample %d: key %q, %v, found at %d, %v", i, key, err, found, findErr)
		}
	}
	if err := set.Map(); !errors.Is(err, storage.ErrNotMapped) {
		t.Errorf("mapped: %v", err)
	}
	report, err := Verify(t.Context(), url, VerifyOptions{})
	if err != nil || report.Problems > 0 || report.Samples != local.Len() {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := FindAll(server.URL); !errors.Is(err, ErrNotSet) || !strings.Contains(err.Error(), "name the set's own") {
		t.Error(err)
	}
}

// TestRemoteSetsFound finds the sets of the usual splits below a URL, and names a shard that is missing there.
func TestRemoteSetsFound(t *testing.T) {
	dir := t.TempDir()
	for _, split := range []string{"train", "val"} {
		options := testOptions(1)
		options.Split = split
		if err := os.CopyFS(filepath.Join(dir, split), os.DirFS(writeSet(t, makeSamples(20), options))); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	found, err := FindAll(server.URL)
	if err != nil || found.Sets["train"] != server.URL+"/train" || found.Sets["val"] != server.URL+"/val" {
		t.Fatalf("%+v, %v", found, err)
	}
	lost := "rank-0000/00000.imgshard"
	if err := os.Remove(filepath.Join(dir, "val", lost)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSet(server.URL + "/val"); err == nil || !strings.Contains(err.Error(), server.URL+"/val/"+lost+" is missing") {
		t.Error(err)
	}
}

// TestRemoteSetWithDamagedCache reads a set again from the server where the cache's bytes are wrong.
func TestRemoteSetWithDamagedCache(t *testing.T) {
	dir, cached := writeSet(t, makeSamples(40), testOptions(2)), t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	before := storage.Remote
	defer func() { storage.Remote = before }()
	local := openSet(t, dir)
	for _, step := range []string{"empty", "full", "damaged", "verified"} {
		cache, err := storage.OpenCache(cached, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		storage.Remote.Cache = cache
		files, _ := filepath.Glob(filepath.Join(cached, "*.data"))
		if step == "damaged" || step == "verified" {
			for _, name := range files {
				data, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				for i := range data {
					if i%100 == 50 && (step == "damaged" || i < len(data)/2) {
						data[i] ^= 1
					}
				}
				if err := os.WriteFile(name, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if step == "verified" {
			list, err := cache.Objects()
			if err != nil || len(list) != len(files) {
				t.Fatal(list, err)
			}
			found := 0
			for _, info := range list {
				_, forgotten, err := VerifyCached(cache, info)
				if err != nil {
					t.Fatal(err)
				}
				found += forgotten
			}
			if found == 0 {
				t.Error("no damage was found")
			}
		}
		set, err := OpenSet(server.URL)
		if err != nil {
			t.Fatal(step, err)
		}
		for i := range local.Len() {
			want, _, _ := local.Read(i, nil)
			got, _, err := set.Read(i, nil)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: sample %d: %v", step, i, err)
			}
			wantKey, _ := local.Key(i)
			if key, err := set.Key(i); err != nil || key != wantKey {
				t.Fatalf("%s: key %d: %q, %v", step, i, key, err)
			}
		}
		if misses := cache.Stats().MissBytes.Load(); (misses == 0) != (step == "full") {
			t.Errorf("%s: %d bytes came from the server", step, misses)
		}
		set.Close()
		cache.Close()
	}
}

// TestInterruptedVerifyFindsNoDamage ends a verification of a set on a web server while a shard is read.
func TestInterruptedVerifyFindsNoDamage(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	files := http.FileServer(http.Dir(goldenV1))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".imgshard") {
			cancel()
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	storage.Remote.Context = ctx
	defer func() { storage.Remote.Context = context.Background() }()
	problem := func(err error) { t.Errorf("told: %v", err) }
	if _, err := Verify(ctx, server.URL+"/train-shards", VerifyOptions{Problem: problem}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
