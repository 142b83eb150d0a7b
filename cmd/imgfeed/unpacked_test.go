package main

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/shard/storage/cache"
)

// classFolders writes a folder of class folders, two images in each.
func classFolders(t *testing.T, classes ...string) string {
	t.Helper()
	var file bytes.Buffer
	testenv.OK(t, png.Encode(&file, image.NewRGBA(image.Rect(0, 0, 8, 8))))
	dir := t.TempDir()
	for _, class := range classes {
		for _, name := range []string{"a.png", "b.png"} {
			write(t, filepath.Join(dir, class, name), file.Bytes())
		}
	}
	return dir
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	testenv.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)))
}

func testIndexer(t *testing.T) (x *indexer, progress *bytes.Buffer) {
	progress = &bytes.Buffer{}
	return &indexer{client: storage.Default, log: slog.New(slog.NewTextHandler(io.Discard, nil)), progress: progress}, progress
}

// TestUnpackedDataset is indexed once, and again when an image changes, and not for other files. Its labels are those of ImageFolder.
func TestUnpackedDataset(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := classFolders(t, "2", "10")
	write(t, filepath.Join(dir, "notes.txt"), []byte("1"))
	x, progress := testIndexer(t)
	seen := map[string]bool{}
	for _, change := range []struct {
		make    func()
		samples int
		same    bool
	}{
		{func() {}, 4, false},
		{func() { write(t, filepath.Join(dir, "notes.txt"), []byte("12")) }, 4, true},
		{func() { os.Rename(filepath.Join(dir, "2", "b.png"), filepath.Join(dir, "2", "c.png")) }, 4, false},
		{func() { write(t, filepath.Join(dir, "2", "c.png"), []byte("cut")) }, 3, false},
		{func() { os.Rename(filepath.Join(dir, "10", "b.png"), filepath.Join(dir, "2", "c.png")) }, 3, false},
	} {
		change.make()
		for again := range 2 {
			if change.same {
				again = 1
			}
			progress.Reset()
			set := testenv.Must(x.set(t.Context(), dir))(t)
			indexed := progress.Len() > 0
			testenv.Check(t, indexed == (again == 0) && seen[set] == (again == 1), "time %d: %s, and printed %q", again, set, progress)
			seen[set] = true
			m, err := shard.ReadManifest(set)
			testenv.Check(t, err == nil && m.Samples == change.samples && slices.Equal(m.Classes, []string{"10", "2"}), "%+v, %v", m, err)
		}
	}
	testenv.Contains(t, x.notes[0], "imgshard build --class-order string "+dir)
	x.notes = nil
	testenv.OK(t, os.CopyFS(dir+"-shards", os.DirFS(testenv.Must(x.set(t.Context(), dir))(t))))
	testenv.Must(x.set(t.Context(), dir+"/"))(t)
	testenv.Contains(t, strings.Join(x.notes, "\n"), "; the set "+dir+"-shards is read faster")
	left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "imgfeed/indexes/*.partial"))
	testenv.Check(t, len(left) == 0, "%v", left)
}

// TestUnpackedTogether has several processes ask for the same dataset, and one that was killed before them.
func TestUnpackedTogether(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := classFolders(t, "cat", "dog")
	name := testenv.Must(indexName(t.Context(), dir))(t)
	write(t, filepath.Join(os.Getenv("XDG_CACHE_HOME"), "imgfeed/indexes", name+".partial/half"), nil)
	var printed [4]int
	var all sync.WaitGroup
	for i := range printed {
		all.Go(func() {
			x, progress := testIndexer(t)
			set, err := x.set(t.Context(), dir)
			testenv.Check(t, err == nil && filepath.Base(set) == name, "%s, %v", set, err)
			printed[i] = min(progress.Len(), 1)
		})
	}
	all.Wait()
	slices.Sort(printed[:])
	testenv.Equal(t, printed, [4]int{0, 0, 0, 1}, "who indexed")
}

// TestNotADataset leaves sets and missing folders to those who open them, and says why a dataset cannot be indexed.
func TestNotADataset(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	x, _ := testIndexer(t)
	for _, path := range []string{oneSet(t), filepath.Join(t.TempDir(), "missing")} {
		testenv.Equal(t, testenv.Must(x.set(t.Context(), path))(t), path, "what is left to who opens it")
	}
	dir := classFolders(t, "cat", "dog")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testenv.Fails(x.set(ctx, dir))(t, context.Canceled)
	t.Setenv("XDG_CACHE_HOME", "relative")
	_, err := x.set(t.Context(), dir)
	testenv.Says(t, "no folder", err, dir+" is not packed, and there is no folder for its index")
	testenv.Says(t, "no folder", err, otherCache)
	file := filepath.Join(t.TempDir(), "x.tar")
	write(t, file, []byte("not a tar"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	testenv.Fails(x.set(t.Context(), file))(t, file+" is not packed, and cannot be indexed: ")
}

// TestUnpackedNotes tells at each start which folders were skipped, which classes are empty, and what was left out.
func TestUnpackedNotes(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := classFolders(t, "cat", "dog", "fox", ".thumbs")
	for _, name := range []string{"a.png", "b.png"} {
		write(t, filepath.Join(dir, "fox", name), []byte("cut"))
	}
	for range 2 {
		x, _ := testIndexer(t)
		set := testenv.Must(x.set(t.Context(), dir))(t)
		m := testenv.Must(shard.ReadManifest(set))(t)
		notes := strings.Join(x.notes, "\n")
		for _, want := range []string{dir + ": 1 file or folder is skipped, as hidden or a system's (.thumbs)", dir + ": 1 class has no sample (fox)",
			dir + ": 2 files are not readable as an image, and left out: " + filepath.Join(set, shard.RejectsName), m.Fingerprint} {
			testenv.Check(t, strings.Count(notes, want) == 1, "%q, want %q once", notes, want)
		}
	}
}

// TestDamagedUnpackedIndex is made anew by itself.
func TestDamagedUnpackedIndex(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	for _, split := range []string{"train", "val"} {
		testenv.OK(t, os.Rename(classFolders(t, "cat", "dog"), filepath.Join(dir, split)))
	}
	x, _ := testIndexer(t)
	set := testenv.Must(x.set(t.Context(), dir))(t)
	for what, damage := range map[string]func() error{
		"cut":          func() error { return os.Truncate(filepath.Join(set, "train/rank-0000/00000.imgshard"), 100) },
		"emptied":      func() error { return errors.Join(os.RemoveAll(set), os.Mkdir(set, 0o700)) },
		"no split":     func() error { return os.RemoveAll(filepath.Join(set, "val")) },
		"no partition": func() error { return os.RemoveAll(filepath.Join(set, "val/rank-0000")) },
		"no manifest":  func() error { return os.Truncate(filepath.Join(set, "val/manifest.json"), 0) },
		"no objects":   func() error { return os.Remove(filepath.Join(set, "train/objects.jsonl")) },
		"no notes":     func() error { return os.Truncate(filepath.Join(set, madeIndexName), 0) },
	} {
		testenv.OK(t, damage())
		testenv.Equal(t, testenv.Must(x.set(t.Context(), dir))(t), set, "%s: the index", what)
		for _, split := range []string{"train", "val"} {
			if s, err := shard.OpenSet(filepath.Join(set, split)); err != nil {
				t.Errorf("%s: %v", what, err)
			} else {
				s.Close()
			}
		}
	}
}

// deleting is where progress is shown: the first lines delete all indexes.
type deleting struct{ times int }

func (d *deleting) Write(text []byte) (int, error) {
	if d.times > 0 {
		d.times--
		if err := os.RemoveAll(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "imgfeed/indexes")); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// TestUnpackedDeleted deletes indexes while they are made, which is allowed at any time.
func TestUnpackedDeleted(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := classFolders(t, "cat", "dog")
	var all sync.WaitGroup
	var sets [3]string
	for i := range sets {
		all.Go(func() {
			x, _ := testIndexer(t)
			x.progress = &deleting{times: 1}
			var err error
			sets[i], err = x.set(t.Context(), dir)
			testenv.Says(t, "a deleted index", err, "")
		})
	}
	all.Wait()
	_, err := shard.ReadManifest(sets[0])
	testenv.Check(t, err == nil && sets[1] == sets[0] && sets[2] == sets[0], "%v, %v", sets, err)
}

// TestUnpackedNotUTF8 is refused at the start: an index could not name its images.
func TestUnpackedNotUTF8(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := filepath.Join(t.TempDir(), "caf\xe9")
	if err := os.Rename(classFolders(t, "cat", "dog"), dir); err != nil {
		t.Skip(err) // a file system without such names
	}
	x, _ := testIndexer(t)
	testenv.Fails(x.set(t.Context(), dir))(t, "is not UTF-8, and an index names where the images lie: rename it")
}

// TestUnpackedCacheFull names the variable that moves the indexes, as a loader has no path for them.
func TestUnpackedCacheFull(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testenv.OK(t, os.WriteFile(file, nil, 0o600))
	x, _ := testIndexer(t)
	for _, cache := range []string{filepath.Join(file, "cache"), "/proc/cache"} {
		t.Setenv("XDG_CACHE_HOME", cache)
		testenv.Fails(x.set(t.Context(), classFolders(t, "cat", "dog")))(t, otherCache)
	}
}

// awaited is a log; each line goes to who waits for one.
type awaited struct{ line chan string }

func (a awaited) Write(text []byte) (int, error) {
	select {
	case a.line <- string(text):
	default:
	}
	return len(text), nil
}

// progressAfter shows progress when the log has a line with a text.
type progressAfter struct {
	line chan string
	want string
}

func (p progressAfter) Write(text []byte) (int, error) {
	for line := range p.line {
		if strings.Contains(line, p.want) {
			break
		}
	}
	return len(text), nil
}

// TestUnpackedAlive logs that the images are indexed while it takes long, as a loader gives up a server that says nothing.
func TestUnpackedAlive(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	defer func(every time.Duration) { aliveEvery = every }(aliveEvery)
	aliveEvery = time.Millisecond
	x, _ := testIndexer(t)
	line := make(chan string)
	x.log = slog.New(slog.NewTextHandler(awaited{line}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	x.progress = progressAfter{line, "indexing the images"}
	testenv.Must(x.set(t.Context(), classFolders(t, "cat", "dog")))(t)
}

// TestAdviceInPlace serves what needs a flag of imgshard: the error has the command that makes an index, and no flags that serve lacks.
func TestAdviceInPlace(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for name, dir := range map[string]string{"on opening": t.TempDir(), "on indexing": classFolders(t, "cat")} {
		if name == "on opening" {
			write(t, filepath.Join(dir, "1.jpg"), []byte("\xff\xd8\xff"))
		}
		x, _ := testIndexer(t)
		_, err := x.set(t.Context(), dir)
		testenv.Says(t, name, err, "\n    imgshard index "+dir+" -o "+dir+"-index --no-labels\n")
		testenv.Check(t, !strings.Contains(err.Error(), "add --"), "%s: %v", name, err)
		testenv.Fails(os.Stat(dir+"-index"))(t, nil, "%s: the index is made already", name)
	}
}

// TestDefaultPaths checks where a command without SET finds its sets.
func TestDefaultPaths(t *testing.T) {
	set, damaged, empty, beside := oneSet(t), oneSet(t), t.TempDir(), oneSet(t)
	testenv.OK(t, os.WriteFile(filepath.Join(damaged, "train-shards", "manifest.json"), []byte(`{"format": "imgshard"}`), 0o600))
	testenv.OK(t, os.Mkdir(filepath.Join(beside, "train"), 0o700))
	for _, tt := range []struct {
		args              []string
		env, folder, want string
	}{
		{[]string{"a", "b"}, set, set, "a + b"},
		{nil, empty, set, empty + " ($IMGFEED_DATA)"},
		{nil, "", set, set + " (the working folder)"},
		{nil, "", filepath.Join(set, "train-shards"), filepath.Join(set, "train-shards") + " (the working folder)"},
		{nil, "", damaged, damaged + " (the working folder)"},
		{nil, "", filepath.Join(beside, "train"), filepath.Join(beside, "train-shards") + " (beside the working folder)"},
	} {
		t.Chdir(tt.folder)
		t.Setenv(dataEnv, tt.env)
		testenv.Equal(t, testenv.Must(setPathsOf(tt.args))(t).String(), tt.want, "%v in %s, $%s is %q", tt.args, tt.folder, dataEnv, tt.env)
	}
	write(t, filepath.Join(empty, "notes.txt"), nil)
	t.Chdir(empty)
	t.Setenv(dataEnv, "")
	if _, err := os.Stat(usualFolder); err == nil {
		t.Skip("this machine has the usual folder")
	}
	_, err := setPathsOf(nil)
	for _, want := range []string{"name the shard set", "as SET, or in $IMGFEED_DATA", empty + " (the working folder): shard: ",
		"it holds notes.txt", "\n  /data (the usual folder): file does not exist"} {
		testenv.Says(t, "no set", err, want)
	}
}

// TestCacheCommand lists and removes what a cache has, a name that would change the terminal's colours among it, and a file that is not its own.
func TestCacheCommand(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, 9000)))
	}))
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "cache")
	run := func(args ...string) string {
		t.Helper()
		return testenv.Must(runCommand(append([]string{"cache"}, args...)...))(t)
	}
	kept := testenv.Must(cache.Open(dir, 1<<20))(t)
	client := storage.NewClient()
	client.Cache = kept
	at := testenv.Must(client.At(server.URL))(t)
	testenv.Must(testenv.Must(at.Open("red\x1b[31m", 9000, "claimed"))(t).ReadAt(make([]byte, 9000), 0))(t)
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "notes\x1b.txt"), make([]byte, 9000), 0o600))
	listed := run("ls", dir)
	testenv.Contains(t, listed, `red\x1b[31m"`+"\n", `"notes\x1b.txt", a file that is not the cache's`)
	testenv.Check(t, !strings.Contains(listed, "\x1b"), "%q would change the terminal", listed)
	run("rm", dir, "http://elsewhere")
	testenv.Equal(t, run("ls", dir), listed, "after a removal of what is not there")
	text := run("rm", dir)
	testenv.Check(t, strings.Contains(text, "stays: another process uses it") && !strings.Contains(run("ls", dir), "notes"),
		"while it is used: %s", text)
	kept.Close()
	run("rm", dir)
	testenv.Equal(t, len(testenv.Must(os.ReadDir(dir))(t)), 1, "files that are left")
}

// TestUnpackedMasks have colours, and the remedy is a command, as a loader has no flags of imgshard.
func TestUnpackedMasks(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	var picture bytes.Buffer
	testenv.OK(t, png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 2, 2))))
	for _, name := range []string{"images", "masks"} {
		write(t, filepath.Join(dir, name, "a.png"), picture.Bytes())
	}
	x, _ := testIndexer(t)
	testenv.Fails(x.set(t.Context(), dir))(t, "type imgshard index "+dir+" -o "+dir+"-index --map-labels FILE --class-order string and open the index")
}
