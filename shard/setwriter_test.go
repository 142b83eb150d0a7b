package shard

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// names are what is in a folder, hidden files too.
func names(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	for _, e := range testenv.Must(os.ReadDir(dir))(t) {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

func TestNothingAppearsBeforeCommit(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "train-shards")
	w := testenv.Must(NewSetWriter(dir, testOptions(2)))(t)
	testenv.OK(t, os.WriteFile(filepath.Join(testenv.Must(w.Scratch())(t), "bucket"), []byte("x"), 0o666))
	for _, s := range makeSamples(9) {
		testenv.OK(t, w.Append(s))
		for name := range strings.FieldsSeq(names(t, parent)) {
			testenv.Require(t, strings.HasPrefix(name, ".train-shards."), "%s appeared", name)
		}
	}
	testenv.Fails(FindSets(parent))(t, ErrNotSet)
	testenv.Equal(t, testenv.Must(w.Commit())(t).Samples, 9, "samples")
	testenv.Equal(t, names(t, parent), "train-shards", "after Commit")
	testenv.Equal(t, names(t, dir), "manifest.json rank-0000 rank-0001", "in the set")
	testenv.OK(t, w.Abort())
	testenv.Says(t, "Append after Commit", w.Append(makeSamples(1)[0]), "already committed or aborted")
	openSet(t, dir)
}

func TestAbortLeavesNothing(t *testing.T) {
	parent := t.TempDir()
	w := testenv.Must(NewSetWriter(filepath.Join(parent, "out"), testOptions(2)))(t)
	appendAll(t, w, makeSamples(9))
	testenv.OK(t, w.Abort())
	testenv.Equal(t, names(t, parent), "", "left")
	testenv.Fails(w.Commit())(t, "already committed or aborted")
}

func TestInterruptedBuildIsCleared(t *testing.T) {
	parent := t.TempDir()
	stale := filepath.Join(parent, ".out.partial", "rank-0000")
	other := filepath.Join(parent, ".out2.partial")
	for _, dir := range []string{stale, other} {
		testenv.OK(t, os.MkdirAll(dir, 0o777))
	}
	testenv.OK(t, os.WriteFile(filepath.Join(parent, ".out.lock"), nil, 0o666))
	w := testenv.Must(NewSetWriter(filepath.Join(parent, "out"), testOptions(1)))(t)
	testenv.Fails(os.Stat(stale))(t, fs.ErrNotExist)
	testenv.Fails(NewSetWriter(filepath.Join(parent, "out"), testOptions(1)))(t, "another process")
	testenv.OK(t, w.Abort())
	testenv.Equal(t, names(t, parent), filepath.Base(other), "left")
}

func TestPathThatIsTaken(t *testing.T) {
	dir := writeSet(t, makeSamples(3), testOptions(1))
	testenv.Fails(NewSetWriter(dir, testOptions(1)))(t, "--force")
	options := testOptions(1)
	options.Replace = true
	w := testenv.Must(NewSetWriter(dir, options))(t)
	appendAll(t, w, makeSamples(5))
	testenv.Equal(t, openSet(t, dir).Len(), 3, "samples before Commit")
	testenv.Must(w.Commit())(t)
	testenv.Equal(t, openSet(t, dir).Len(), 5, "samples after Commit")
	testenv.Equal(t, names(t, filepath.Dir(dir)), "train-shards", "left")

	full := t.TempDir()
	testenv.OK(t, os.WriteFile(filepath.Join(full, "thesis.tex"), nil, 0o666))
	testenv.Fails(NewSetWriter(full, options))(t, "holds files")
	for _, path := range []string{"thesis.tex", "thesis.tex/set"} {
		testenv.Fails(NewSetWriter(filepath.Join(full, path), options))(t, "is a file: choose another path")
	}
}

// TestOutputIsALink writes to the folder that a link leads to, whether it is empty or has a set.
func TestOutputIsALink(t *testing.T) {
	parent := t.TempDir()
	link, to := filepath.Join(parent, "link"), filepath.Join(parent, "elsewhere", "set")
	testenv.OK(t, os.Symlink(to, link))
	testenv.Fails(NewSetWriter(link, testOptions(1)))(t, "a link that leads to no folder: make the folder")
	testenv.OK(t, os.MkdirAll(to, 0o777))
	for n := 1; n < 3; n++ {
		options := testOptions(1)
		options.Replace = n > 1
		w := testenv.Must(NewSetWriter(link, options))(t)
		for _, s := range makeSamples(n) {
			testenv.OK(t, w.Append(s))
		}
		testenv.Must(w.Commit())(t)
		testenv.Equal(t, openSet(t, link).Len(), n, "samples")
	}
	testenv.Equal(t, names(t, filepath.Dir(to)), "set", "left")
}

func TestRefusedSamples(t *testing.T) {
	samples := makeSamples(3)
	dir := filepath.Join(t.TempDir(), "out")
	w := testenv.Must(NewSetWriter(dir, testOptions(1)))(t)
	defer w.Abort()
	refuse := func(name string, change func(s *Sample)) {
		t.Helper()
		s := samples[1]
		change(&s)
		testenv.Check(t, w.Append(s) != nil, "%s was taken", name)
	}
	for i, s := range samples {
		if i == 1 {
			refuse("no key", func(s *Sample) { s.Key = "" })
			refuse("a long key", func(s *Sample) { s.Key = strings.Repeat("k", keyBytesMax+1) })
			refuse("label -2", func(s *Sample) { s.Label = -2 })
			refuse("label 3 of 3", func(s *Sample) { s.Label = 3 })
			refuse("no width", func(s *Sample) { s.Width = 0 })
			refuse("no height", func(s *Sample) { s.Height = -1 })
			refuse("a sample twice", func(s *Sample) { *s = samples[0] })
		}
		if i == 2 {
			refuse("the order broken", func(s *Sample) { *s = samples[0] })
		}
		testenv.OK(t, w.Append(s))
	}
	testenv.Equal(t, testenv.Must(w.Commit())(t).Samples, 3, "samples")
	testenv.Says(t, "SetClasses after Append", w.SetClasses(nil), "SetClasses after Append")
}

func TestRefusedOptions(t *testing.T) {
	for name, change := range map[string]func(o *SetOptions){
		"a negative world":       func(o *SetOptions) { o.Partitions = -1 },
		"too great a partitions": func(o *SetOptions) { o.Partitions = PartitionsMax + 1 },
		"no encoding":            func(o *SetOptions) { o.Encoding.Name = "" },
		"parameters":             func(o *SetOptions) { o.Encoding.Params = []byte("{") },
		"a class of no UTF-8":    func(o *SetOptions) { o.Classes = []string{"\xff"} },
	} {
		parent := t.TempDir()
		o := testOptions(1)
		change(&o)
		_, err := NewSetWriter(filepath.Join(parent, "out"), o)
		testenv.Check(t, err != nil && names(t, parent) == "", "%s: %v, leaves %v", name, err, names(t, parent))
	}
}

func TestEncodingParameters(t *testing.T) {
	samples, o := makeSamples(3), testOptions(1)
	o.Encoding = Encoding{Name: "pixels", Params: []byte(`{ "codec": "<bit&pack>", "widths": [0, 8] }`)}
	s := openSet(t, writeSet(t, samples, o))
	testenv.Check(t, s.Manifest().Encoding.Equal(o.Encoding), "%s", s.Manifest().Encoding)
}

// failingFile fails when the budget that it shares is used up.
type failingFile struct {
	writableFile
	budget *atomic.Int64
}

var errDiskFull = errors.New("no space left on device")

func (f failingFile) spend() error {
	if f.budget.Add(-1) < 0 {
		return errDiskFull
	}
	return nil
}

func (f failingFile) Write(p []byte) (int, error) {
	if err := f.spend(); err != nil {
		return 0, err
	}
	return f.writableFile.Write(p)
}

func (f failingFile) Close() error { return errors.Join(f.spend(), f.writableFile.Close()) }

// TestFailingWrites lets each write and sync of a build fail in turn: the error must surface, and nothing appear.
func TestFailingWrites(t *testing.T) {
	samples := makeSamples(11)
	for calls := int64(0); ; calls++ {
		parent := t.TempDir()
		dir := filepath.Join(parent, "out")
		w := testenv.Must(NewSetWriter(dir, testOptions(2)))(t)
		var budget atomic.Int64
		budget.Store(calls)
		create := w.create
		w.create = func(name string) (writableFile, error) {
			f, err := create(name)
			return failingFile{f, &budget}, err
		}
		for _, s := range samples {
			if err := w.Append(s); err != nil {
				break
			}
		}
		_, err := w.Commit()
		if err == nil {
			testenv.Check(t, calls >= 8, "only %d calls", calls)
			openSet(t, dir)
			return
		}
		testenv.Says(t, calls, err, errDiskFull)
		testenv.OK(t, w.Abort())
		testenv.Equal(t, names(t, parent), "", "left after call %d failed", calls)
	}
}

func TestFindSets(t *testing.T) {
	sets, err := FindSets(goldenV1)
	one := filepath.Join(goldenV1, "val-shards")
	testenv.Check(t, err == nil && len(sets) == 2 && sets["train"] == filepath.Join(goldenV1, "train-shards") && sets["val"] == one, "%v, %v", sets, err)
	sets, err = FindSets(one)
	testenv.Check(t, err == nil && len(sets) == 1 && sets["val"] == one, "%v, %v", sets, err)
	dir := t.TempDir()
	testenv.OK(t, os.Mkdir(filepath.Join(dir, "web"), 0o777))
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "web", manifestName), []byte(`{"name": "an app"}`), 0o666))
	testenv.Fails(FindSets(dir))(t, ErrNotSet) // another program's manifest
	testenv.Fails(FindSets(dir))(t, "web")
	for _, name := range []string{"a", "b"} {
		testenv.OK(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(one)))
	}
	_, err = FindSets(dir)
	testenv.Check(t, err != nil && !errors.Is(err, ErrNotSet), "two sets of a split: %v", err)
	testenv.OK(t, os.Truncate(filepath.Join(dir, "a", manifestName), 50))
	testenv.Fails(FindSets(dir))(t, isCorrupt, "a damaged set")
	testenv.Fails(FindSets(filepath.Join(dir, "nowhere")))(t, fs.ErrNotExist)
}

func TestOrderHash(t *testing.T) {
	// printf 'imgshard order v1\0007\000n01440764/n01440764_10026.JPEG' | sha256sum
	testenv.Equal(t, OrderHash(7, "n01440764/n01440764_10026.JPEG"), orderHashExample, "hash")
}

const orderHashExample = 0x73ca3ecd3e3bde4c

// A shard is as large as asked, however small its samples are.
func TestShardOfManySamples(t *testing.T) {
	samples := makeSamples(1<<16 + 1)
	for i := range samples {
		samples[i].Image, samples[i].Aux = []byte{byte(i)}, nil
	}
	options := testOptions(1)
	options.ShardSamples = 0
	s := openSet(t, writeSet(t, samples, options))
	testenv.Equal(t, len(s.Manifest().Shards), 1, "shards")
	testenv.Must(compareSample(s, len(samples)-1, &samples[len(samples)-1], nil))(t)
}

// TestBuildKilledWhileItReplaced is killed between the two renames: the next build gives the old set its name back.
func TestBuildKilledWhileItReplaced(t *testing.T) {
	for _, replace := range []bool{false, true} {
		dir := writeSet(t, makeSamples(3), testOptions(1))
		testenv.OK(t, errors.Join(os.Mkdir(hiddenBeside(dir, "partial"), 0o777), os.Rename(dir, hiddenBeside(dir, "replaced"))))
		options := testOptions(1)
		options.Replace = replace
		w, err := NewSetWriter(dir, options)
		if replace {
			testenv.OK(t, err)
			testenv.OK(t, w.Abort())
		} else {
			testenv.Says(t, "over the set", err, "--force")
		}
		testenv.Equal(t, openSet(t, dir).Len(), 3, "samples that are left")
	}
}

// TestReplacedSetLeavesOtherFiles replaces a set with other files and another set in its folder, at once and after a kill.
func TestReplacedSetLeavesOtherFiles(t *testing.T) {
	for _, killed := range []bool{false, true} {
		dir := writeSet(t, makeSamples(3), testOptions(2))
		testenv.OK(t, os.CopyFS(filepath.Join(dir, "val"), os.DirFS(writeSet(t, makeSamples(2), testOptions(1)))))
		others := []string{"checkpoints/best.pt", "rank-0001/notes.txt", ".hidden", "rejects.jsonl"}
		for _, name := range others {
			path := filepath.Join(dir, name)
			testenv.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(name), 0o666)))
		}
		options := testOptions(1)
		options.Replace = true
		if killed { // after the renames
			testenv.OK(t, errors.Join(os.Rename(dir, hiddenBeside(dir, "replaced")), os.CopyFS(dir, os.DirFS(writeSet(t, makeSamples(5), options)))))
		}
		w := testenv.Must(NewSetWriter(dir, options))(t)
		appendAll(t, w, makeSamples(5))
		testenv.Must(w.Commit())(t)
		for _, name := range others {
			data, err := os.ReadFile(filepath.Join(dir, name))
			own := name == "rejects.jsonl"
			testenv.Check(t, own == (err != nil) && (own || string(data) == name), "killed %v: %s: %q, %v", killed, name, data, err)
		}
		testenv.Equal(t, openSet(t, dir).Len(), 5, "killed %v: samples", killed)
		testenv.Equal(t, openSet(t, filepath.Join(dir, "val")).Len(), 2, "killed %v: samples of the other set", killed)
		testenv.Equal(t, names(t, filepath.Dir(dir)), filepath.Base(dir), "killed %v: left", killed)
	}
}

func TestCreateFileGoesWithTheSet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	w := testenv.Must(NewSetWriter(dir, SetOptions{Split: "train", Encoding: Encoding{Name: "jpeg"}}))(t)
	defer w.Abort()
	for _, name := range []string{"manifest.json", "rank-0000", "scratch", ".hidden", "a/b", "..", ""} {
		if f, err := w.CreateFile(name); err == nil {
			f.Close()
			t.Errorf("a file %q is made", name)
		}
	}
	f := testenv.Must(w.CreateFile("rejects.jsonl"))(t)
	testenv.Must(io.WriteString(f, "{}\n"))(t)
	testenv.OK(t, f.Close())
	testenv.Fails(os.Stat(dir))(t, fs.ErrNotExist)
	testenv.Must(w.Commit())(t)
	testenv.Equal(t, string(testenv.Must(os.ReadFile(filepath.Join(dir, "rejects.jsonl")))(t)), "{}\n", "the file")
	testenv.Fails(w.CreateFile("late"))(t, "already committed or aborted")
}

// TestEmptyFolderIsTaken commits a set over an empty folder, and over one that has got a file meanwhile.
func TestEmptyFolderIsTaken(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "set")
		testenv.OK(t, os.Mkdir(dir, 0o777))
		w := testenv.Must(NewSetWriter(dir, SetOptions{Encoding: Encoding{Name: "jpeg"}}))(t)
		defer w.Abort()
		testenv.OK(t, w.Append(Sample{Key: "a", Image: []byte("x"), Width: 1, Height: 1, Format: 1}))
		if meanwhile {
			testenv.OK(t, errors.Join(os.Mkdir(dir, 0o777), os.WriteFile(filepath.Join(dir, "mine"), nil, 0o666)))
		}
		_, err := w.Commit()
		testenv.Equal(t, err != nil, meanwhile, "refused: %v", err)
		if meanwhile {
			testenv.Must(os.Stat(filepath.Join(dir, "mine")))(t)
		}
	}
}
