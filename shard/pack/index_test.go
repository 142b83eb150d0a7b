package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/shard/storage/cache"
)

// requireSame compares all that two sets give.
func requireSame(t *testing.T, packed, index string) {
	t.Helper()
	a, b := openSet(t, packed), openSet(t, index)
	m, x := a.Manifest(), b.Manifest()
	testenv.Require(t, m.Fingerprint == x.Fingerprint && m.Content == x.Content && x.Index != nil, "the index is %+v, of %+v", x, m)
	testenv.Require(t, reflect.DeepEqual(m.Classes, x.Classes) && m.Fields.Equal(x.Fields), "the index is %+v, of %+v", x, m)
	for i := range a.Len() {
		r, _ := testenv.Must2(a.Read(i, nil))(t)
		s, _ := testenv.Must2(b.Read(i, nil))(t)
		r.Offset, s.Offset = 0, 0
		testenv.Require(t, reflect.DeepEqual(r, s), "sample %d: %+v, packed %+v", i, s.Entry, r.Entry)
	}
	problem := func(err error) { t.Errorf("verify: %v", err) }
	report := testenv.Must(shard.Verify(t.Context(), index, shard.VerifyOptions{Problem: problem}))(t)
	testenv.Equal(t, report.Samples, a.Len(), "samples that were verified")
}

// TestIndexIsThePackedSet indexes what can be, and compares it with what build makes. What repack makes of the index is that, to the byte.
func TestIndexIsThePackedSet(t *testing.T) {
	_, wds, _ := fieldSource(t, 3)
	tree := synthetic(t, 3, 7)
	tree["n90000001/text"] = []byte("no image")
	dir := t.TempDir()
	for class, data := range sourcetest.ClassTars(t, tree, 5) {
		sourcetest.Write(t, filepath.Join(dir, "tars", class+".tar"), data)
	}
	list := "path,label\n"
	for name := range synthetic(t, 2, 4) {
		list += name + "," + name[:9] + "\n"
	}
	sourcetest.WriteTree(t, filepath.Join(dir, "listed"), synthetic(t, 2, 4))
	for name, path := range map[string]string{
		"class folders": sourcetest.WriteTree(t, filepath.Join(dir, "folders"), tree),
		"WebDataset":    wds,
		"class tars":    filepath.Join(dir, "tars"),
		"tar of tars":   sourcetest.Write(t, filepath.Join(dir, "train.tar"), sourcetest.TarOfTars(t, tree, 6)),
		"tar of tree":   sourcetest.Write(t, filepath.Join(dir, "tree.tar"), sourcetest.TarOfTree(t, tree, "", 7)),
		"list":          sourcetest.Write(t, filepath.Join(dir, "listed/list.csv"), []byte(list)),
	} {
		out := t.TempDir()
		packed, index, again := filepath.Join(out, "packed"), filepath.Join(out, "index"), filepath.Join(out, "again")
		o := Options{Partitions: 2, Seed: 3, Jobs: 3, spoolBytes: 4 << 10}
		flags := []string{}
		if path == wds {
			flags = []string{"score=json.score", "caption=txt"}
		}
		testenv.Must(build(path, packed, o, flags...))(t)
		o.Index = true
		sum := testenv.Must(build(path, index, o, flags...))(t)
		requireSame(t, packed, index)
		set := openSet(t, index)
		objects := set.Manifest().Index.Objects
		if sum.ImageBytes < sum.OutputBytes || objects == 0 || name == "WebDataset" && objects != 1 || name == "class tars" && objects != 3 {
			t.Errorf("%s: %d bytes of images, %d of the index with %d objects", name, sum.ImageBytes, sum.OutputBytes, objects)
		}
		testenv.Must(Repack(context.Background(), set, again, Options{Partitions: 2, Seed: 3}))(t)
		sameFiles(t, again, packed)
		testenv.Equal(t, testenv.Must(build(path, index, o, flags...))(t).Kept, true, "%s: kept when it is built again", name)
	}
}

// TestIndexOfTheWeb indexes tars and a listed folder on a web server, and opens the index there by few requests. An error names a file that was replaced or is gone.
func TestIndexOfTheWeb(t *testing.T) {
	dir, tree := t.TempDir(), synthetic(t, 3, 7)
	var paths []string
	for class, data := range sourcetest.ClassTars(t, tree, 5) {
		sourcetest.Write(t, filepath.Join(dir, "tars", class+".tar"), data)
	}
	var requests atomic.Int64
	files := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, class := range []string{"n90000000", "n90000001", "n90000002"} {
		paths = append(paths, server.URL+"/tars/"+class+".tar")
	}
	packed, index := filepath.Join(dir, "packed"), filepath.Join(dir, "index")
	mustBuild(t, filepath.Join(dir, "tars"), packed, Options{})
	splits := testenv.Must(source.OpenAll(paths, dataset.Options{}))(t)
	testenv.OK(t, BuildAll(context.Background(), Tasks(splits, index), Options{Index: true}, func(Summary) {}))
	requireSame(t, packed, index)

	remote := server.URL + "/index"
	requests.Store(0)
	set := testenv.Opened(shard.OpenSet(remote))(t)
	testenv.Between(t, requests.Load(), 1, 6, "requests that open an index")
	cacheDir := t.TempDir()
	storage.Default.Cache = testenv.Must(cache.Open(cacheDir, 1<<30))(t)
	defer func() { storage.Default.Cache = nil }()
	requireSame(t, packed, remote)
	for range 3 { // the last time from the cache
		requests.Store(0)
		cached := testenv.Opened(shard.OpenSet(remote))(t)
		for range records(t, cached) {
		}
	}
	testenv.Between(t, requests.Load(), 1, 4, "requests where all is in the cache: the manifest, the objects, and the version of each shard")
	damageCache(t, cacheDir)
	requireSame(t, packed, remote)

	read := func() error {
		for i := range set.Len() {
			if _, _, err := set.Read(i, nil); err != nil {
				return err
			}
		}
		return nil
	}
	tar := filepath.Join(dir, "tars/n90000001.tar")
	testenv.OK(t, os.Chtimes(tar, time.Time{}, time.Now().Add(time.Hour)))
	err := read()
	testenv.Says(t, "a replaced tar", err, storage.ErrReplaced)
	testenv.Contains(t, err.Error(), "/tars/n90000001.tar, bytes ", "it has changed since it was indexed: index it again")
	testenv.OK(t, os.Remove(tar))
	err = read()
	testenv.Says(t, "a missing tar", err, fs.ErrNotExist)
	testenv.Says(t, "a missing tar", err, "are looked for where they were indexed")
}

// damageCache writes over all that a cache keeps.
func damageCache(t *testing.T, dir string) {
	t.Helper()
	testenv.Equal(t, len(testenv.Must(filepath.Glob(filepath.Join(dir, "*.kept")))(t)), 2, "files of the cache")
	sourcetest.Flip(t, filepath.Join(dir, "*.kept"), 40, 997)
}

// TestIndexRefuses what has no images byte for byte in a file.
func TestIndexRefuses(t *testing.T) {
	dir, tree := t.TempDir(), synthetic(t, 2, 3)
	for name, path := range map[string]string{
		"tar.gz": sourcetest.Write(t, filepath.Join(dir, "train.tar.gz"), sourcetest.Gzip(t, sourcetest.TarOfTree(t, tree, "", 1))),
		"CIFAR":  sourcetest.WriteTree(t, filepath.Join(dir, "cifar-10-batches-bin"), sourcetest.CIFARBinary(sourcetest.CIFARBatches(3))),
	} {
		_, err := build(path, filepath.Join(dir, name, "set"), Options{Index: true})
		testenv.Says(t, name, err, "cannot be indexed, as its images lie in no file byte for byte\n"+
			"  to pack it instead:\n    imgshard build "+path)
		testenv.Equal(t, len(testenv.Must(filepath.Glob(filepath.Join(dir, name, "set*/*")))(t)), 0, "%s: files that it leaves", name)
	}
}

// TestIndexOfChangedFiles changes what an index points to: a server that looks again would not help.
func TestIndexOfChangedFiles(t *testing.T) {
	tree := synthetic(t, 2, 1)
	rewrite := func(change func(data []byte) []byte) func(path string) error {
		return func(path string) error {
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, change(data), 0o600))
		}
	}
	for want, change := range map[string]func(path string) error{
		"": func(path string) error { return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)) }, // as cp -r does
		"it has changed since it was indexed: index it again: ": rewrite(func(data []byte) []byte { return append(data, 0) }),
		": not the image that was indexed, or the index is damaged: CRC-32C ": rewrite(func(data []byte) []byte {
			data[bytes.Index(data, []byte{0xff, 0xd8})+100] ^= 1
			return data
		}),
		"put them back, or index them where they are": os.Remove,
	} {
		dir := t.TempDir()
		folder := sourcetest.WriteTree(t, filepath.Join(dir, "folder"), tree)
		for source, file := range map[string]string{
			folder: filepath.Join(folder, "n90000000/n90000000_0.JPEG"),
			sourcetest.Write(t, filepath.Join(dir, "train.tar"), sourcetest.TarOfTree(t, tree, "", 1)): filepath.Join(dir, "train.tar"),
		} {
			index := filepath.Join(dir, "index-of-"+filepath.Base(source))
			mustBuild(t, source, index, Options{Index: true})
			testenv.OK(t, change(file))
			set, err := openSet(t, index), error(nil)
			for i := range set.Len() {
				_, _, failed := set.Read(i, nil)
				err = errors.Join(err, failed)
			}
			switch {
			case want == "" && err == nil:
			case want == "" || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file+": "),
				strings.Contains(err.Error(), "reload"), strings.Contains(err.Error(), "imgshard copy"):
				t.Errorf("%s: %v, want %q", file, err, want)
			}
		}
	}
}

// TestDamagedIndex flips each byte of the files of an index: it gives the same samples, or an error.
func TestDamagedIndex(t *testing.T) {
	dir := t.TempDir()
	tar := sourcetest.Write(t, filepath.Join(dir, "train.tar"), sourcetest.TarOfTree(t, synthetic(t, 2, 1), "", 1))
	index := filepath.Join(dir, "index")
	testenv.Must(build(tar, index, Options{Index: true}))(t)
	var want [][]byte
	for _, r := range records(t, openSet(t, index)) {
		want = append(want, bytes.Clone(r.Image))
	}
	found := 0
	for _, name := range []string{shard.ObjectsName, "rank-0000/00000.imgshard"} {
		path := filepath.Join(index, name)
		good := testenv.Must(os.ReadFile(path))(t)
		for at := range good {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << (at % 8)
			sourcetest.Write(t, path, bad)
			if readAll(index, want) != nil {
				found++
			}
		}
		for _, length := range []int{0, 1, len(good) / 2, len(good) - 1} {
			sourcetest.Write(t, path, good[:length])
			testenv.Check(t, readAll(index, want) != nil, "%s cut to %d bytes goes unnoticed", name, length)
		}
		sourcetest.Write(t, path, good)
	}
	testenv.Between(t, found, 100, 1<<20, "damaged bytes that were noticed")
}

// readAll returns the first error of a set, or says that images are others.
func readAll(dir string, want [][]byte) error {
	set, err := shard.OpenSet(dir)
	if err != nil {
		return err
	}
	defer set.Close()
	for i := range want {
		r, _, err := set.Read(i, nil)
		if err != nil {
			return err
		}
		if !bytes.Equal(r.Image, want[i]) {
			panic(fmt.Sprintf("sample %d of %s is another", i, dir))
		}
	}
	return nil
}
