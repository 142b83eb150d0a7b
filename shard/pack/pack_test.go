package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/synth"
)

// synthetic makes a tree of class folders with tiny images.
func synthetic(t testing.TB, classes, each int) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for c := range classes {
		for k := range each {
			data := testenv.Must(synth.Image("train", c, k, synth.Options{Size: 24}))(t)
			files[fmt.Sprintf("%s/%s_%d.JPEG", synth.WNID(c), synth.WNID(c), k)] = data
		}
	}
	return files
}

func mustBuild(t *testing.T, path, out string, o Options) Summary {
	t.Helper()
	return testenv.Must(build(path, out, o))(t)
}

// records are the samples of a set, by their keys.
func records(t *testing.T, set *shard.Set) iter.Seq2[string, shard.Record] {
	return func(yield func(string, shard.Record) bool) {
		t.Helper()
		for i := range set.Len() {
			if r, _ := testenv.Must2(set.Read(i, nil))(t); !yield(testenv.Must(set.Key(i))(t), r) {
				return
			}
		}
	}
}

// requireNothing checks that a folder holds only the named entries, hidden ones too.
func requireNothing(t *testing.T, dir string, but ...string) {
	t.Helper()
	var got []string
	for _, e := range testenv.Must(os.ReadDir(dir))(t) {
		got = append(got, e.Name())
	}
	testenv.Equal(t, strings.Join(got, " "), strings.Join(but, " "), "%s holds", dir)
}

func TestSameBytesWhateverTheSource(t *testing.T) {
	files := synthetic(t, 5, 30)
	files["n90000003/bad.JPEG"] = []byte("no image")
	dir := t.TempDir()
	sourcetest.WriteTree(t, filepath.Join(dir, "folders/train"), files)
	for class, data := range sourcetest.ClassTars(t, files, 1) {
		sourcetest.Write(t, filepath.Join(dir, "tars/train", class+".tar"), data)
	}
	sourcetest.Write(t, filepath.Join(dir, "ILSVRC2012_img_train.tar"), sourcetest.TarOfTars(t, files, 2))
	sourcetest.Write(t, filepath.Join(dir, "train.tgz"), sourcetest.Gzip(t, sourcetest.TarOfTree(t, files, "train/", 3)))
	base := Options{Partitions: 3, Seed: 7, ShardBytes: 16 << 10}
	sum := mustBuild(t, filepath.Join(dir, "folders/train"), filepath.Join(dir, "want"), base)
	testenv.Check(t, sum.Manifest.Samples == 150 && sum.Rejected == 1 && sum.AuxBytes > 0, "summary %+v", sum)
	testenv.Check(t, sum.Formats[imagefile.PNG] == 1 && sum.Formats[imagefile.JPEG] == 149, "summary %+v", sum)
	want := filepath.Join(dir, "want")
	held := sourcetest.ReadTree(t, want)
	testenv.Require(t, len(held) >= 6 && len(held[shard.RejectsName]) > 0, "%d files in the set", len(held))
	for i, tc := range []struct {
		source     string
		jobs       int
		spoolBytes int64
	}{
		{"folders/train", 1, 0}, {"folders/train", 9, 0}, {"tars/train", 2, 0}, {"ILSVRC2012_img_train.tar", 3, 0},
		{"ILSVRC2012_img_train.tar", 1, 20 << 10}, {"train.tgz", 4, 1 << 10},
	} {
		o, out := base, filepath.Join(dir, fmt.Sprint("got", i))
		o.Jobs, o.spoolBytes = tc.jobs, tc.spoolBytes
		mustBuild(t, filepath.Join(dir, tc.source), out, o)
		sameFiles(t, out, want)
	}
	other := base
	other.Seed = 8
	mustBuild(t, filepath.Join(dir, "folders/train"), filepath.Join(dir, "other"), other)
	testenv.Check(t, !reflect.DeepEqual(sourcetest.ReadTree(t, filepath.Join(dir, "other")), sourcetest.ReadTree(t, want)),
		"another seed gives the same set")
}

func TestSetHoldsTheSourceInOrder(t *testing.T) {
	files := synthetic(t, 4, 10)
	dir := t.TempDir()
	mustBuild(t, sourcetest.WriteTree(t, filepath.Join(dir, "train"), files), "", Options{Partitions: 2, Seed: 3})
	set := openSet(t, filepath.Join(dir, "train-shards"))
	testenv.Require(t, set.Len() == len(files) && set.Manifest().Split == "train" && len(set.Manifest().Classes) == 4,
		"%d samples, split %q, classes %q", set.Len(), set.Manifest().Split, set.Manifest().Classes)
	var last uint64
	for key, rec := range records(t, set) {
		class, order := set.Manifest().Classes[rec.Label], shard.OrderHash(3, key)
		testenv.Check(t, bytes.Equal(rec.Image, files[key]) && strings.HasPrefix(key, class+"/") && order >= last,
			"%s: class %s, or other bytes, or out of order", key, class)
		last = order
	}
}

func TestRejects(t *testing.T) {
	files := synthetic(t, 2, 4)
	good := files["n90000001/n90000001_1.JPEG"]
	png := files["n90000000/n90000000_1.JPEG"]
	bad := map[string]struct {
		data []byte
		want string
	}{
		"n90000000/empty.JPEG": {nil, "the file is empty"},
		"n90000000/text.JPEG":  {[]byte("hello, world"), "not an image (it begins 68 65 6c 6c 6f 2c 20 77)"},
		"n90000000/cut.JPEG":   {good[:len(good)*2/3], "jpeg"},
		"n90000000/head.JPEG":  {good[:3], "jpeg"},
		"n90000001/cut.PNG":    {png[:len(png)-30], "png: invalid format: not enough pixel data"},
		"n90000002/only.JPEG":  {nil, "the file is empty"},
		"n90000001/x.tiff":     {[]byte("II*\x00rest"), "images of the format TIFF are not read"},
	}
	for key, b := range bad {
		files[key] = b.data
	}
	dir := t.TempDir()
	src := sourcetest.WriteTree(t, filepath.Join(dir, "src/train"), files)
	testenv.OK(t, os.Symlink("nowhere", filepath.Join(src, "n90000000/dangling.JPEG")))
	sum := mustBuild(t, src, filepath.Join(dir, "out"), Options{})
	testenv.Contains(t, strings.Join(sum.Notes, "\n"), "1 class has no sample (n90000002)") // but a reject
	testenv.Equal(t, sum.Rejected, len(bad)+1, "rejected")
	testenv.Equal(t, sum.Manifest.Samples, 8, "samples")
	var rejects []Reject
	testenv.OK(t, ReadRejects(filepath.Join(dir, "out"), func(r Reject) { rejects = append(rejects, r) }))
	testenv.Equal(t, len(rejects), sum.Rejected, "lines of rejects")
	for _, r := range rejects {
		want := bad[r.Key].want
		if r.Key == "n90000000/dangling.JPEG" {
			want = "a link to a file that is not there"
		}
		testenv.Check(t, want != "" && strings.Contains(r.Reason, want) && r.Bytes == int64(len(bad[r.Key].data)),
			"%+v, want a reason with %q", r, want)
	}
	testenv.Fails(build(src, filepath.Join(dir, "strict"), Options{Strict: true}))(t, rejects[0].Key+": "+rejects[0].Reason)
	requireNothing(t, dir, "out", "src")
}

// TestImagesOfOtherNames notes images that are not called so: torchvision's ImageFolder leaves them out.
func TestImagesOfOtherNames(t *testing.T) {
	tree := synthetic(t, 2, 2)
	var image []byte
	for name, data := range tree {
		if strings.HasSuffix(name, ".JPEG") {
			image = data
		}
	}
	for i, name := range []string{"1.jpg~", "1.jpg.bak", "2.JPG_large", "noname"} {
		tree[fmt.Sprintf("n%08d/%s", 90000000+i%2, name)] = image
	}
	dir := t.TempDir()
	for _, src := range []string{sourcetest.WriteTree(t, filepath.Join(dir, "train"), tree), sourcetest.Write(t, filepath.Join(dir, "x.tar"), sourcetest.TarOfTree(t, tree, "", 1))} {
		sum := mustBuild(t, src, src+"-set", Options{})
		testenv.Equal(t, sum.Manifest.Samples, 8, "%s: samples", src)
		testenv.Contains(t, strings.Join(sum.Notes, "\n"), "4 images have no image's extension: packed by content (")
	}
}

// TestOnlyOtherKeys selects by names that are not keys.
func TestOnlyOtherKeys(t *testing.T) {
	dir := t.TempDir()
	src := sourcetest.WriteTree(t, filepath.Join(dir, "train"), synthetic(t, 2, 2))
	set := filepath.Join(dir, "set")
	mustBuild(t, src, set, Options{})
	var selection dataset.Selection
	list := sourcetest.Write(t, filepath.Join(dir, "names"), []byte("90000000_0.JPEG\n"))
	const want = "/names names no key that is here: keys are such as n90000000/"
	testenv.OK(t, selection.Only(list))
	splits := testenv.Must(source.Open(src, dataset.Options{Select: selection}))(t)
	testenv.Fails(Build(t.Context(), splits[0], filepath.Join(dir, "out"), Options{Select: selection}))(t, want)
	testenv.OK(t, selection.Only(list))
	testenv.Fails(Repack(t.Context(), openSet(t, set), filepath.Join(dir, "out"), Options{Select: selection}))(t, "keys are such as n9000000")
	requireNothing(t, dir, "names", "set", "train")
}

// TestSplitsOfOneName packs nothing of two splits with one name.
func TestSplitsOfOneName(t *testing.T) {
	dir := t.TempDir()
	splits := testenv.Must(source.Open(sourcetest.WriteTree(t, filepath.Join(dir, "train"), synthetic(t, 2, 2)), dataset.Options{}))(t)
	splits = append(splits, splits[0].Reopen())
	testenv.Says(t, "two splits", BuildAll(t.Context(), Tasks(splits, filepath.Join(dir, "out")), Options{Replace: true},
		func(Summary) { t.Error("a set is built") }), "are both called train")
	requireNothing(t, dir, "train")
}

func TestNoImageAtAll(t *testing.T) {
	dir := t.TempDir()
	src := sourcetest.WriteTree(t, filepath.Join(dir, "train"), map[string][]byte{"a/x.jpg": []byte("text"), "b/y.jpg": []byte("text")})
	testenv.Fails(build(src, "", Options{}))(t, "has no image: 2 files were read, such as ")
	requireNothing(t, dir, "train")
}

func TestKeyTwice(t *testing.T) {
	files := synthetic(t, 2, 2)
	var entries []sourcetest.File
	for key, data := range files {
		entries = append(entries, sourcetest.File{Name: key, Data: data}, sourcetest.File{Name: "./" + key, Data: data})
	}
	dir := t.TempDir()
	src := sourcetest.Write(t, filepath.Join(dir, "train.tar"), sourcetest.Tar(t, entries...))
	testenv.FailsAs[*transport.FormatError](build(src, "", Options{}))(t, "occurs twice")
	requireNothing(t, dir, "train.tar")
}

func TestInterruptedBuildLeavesNothing(t *testing.T) {
	files := synthetic(t, 3, 20)
	for name, write := range map[string]func(dir string){
		"folder": func(dir string) { sourcetest.WriteTree(t, filepath.Join(dir, "train"), files) },
		"tar":    func(dir string) { sourcetest.Write(t, filepath.Join(dir, "train"), sourcetest.TarOfTars(t, files, 1)) },
	} {
		for _, stage := range []Stage{StageList, StageRead, StagePack} {
			if (name == "folder" && stage == StageRead) || (name == "tar" && stage == StageList) {
				continue
			}
			for _, at := range []int{1, 30, 60} {
				dir := t.TempDir()
				write(dir)
				splits := testenv.Must(source.Open(filepath.Join(dir, "train"), dataset.Options{}))(t)
				ctx, cancel := context.WithCancel(context.Background())
				o := Options{Jobs: 2, ShardBytes: 8 << 10, Progress: func(p Progress) {
					if p.Stage == stage && p.Images >= at {
						cancel()
					}
				}}
				testenv.Fails(Build(ctx, splits[0], filepath.Join(dir, "out"), o))(t, context.Canceled, "%s, %s at %d", name, stage, at)
				requireNothing(t, dir, "train")
			}
		}
	}
}

func TestFileThatVanishesEndsTheBuild(t *testing.T) {
	files := synthetic(t, 2, 40)
	dir := t.TempDir()
	src := sourcetest.WriteTree(t, filepath.Join(dir, "train"), files)
	var once sync.Once
	_, err := build(src, "", Options{Jobs: 1, Progress: func(p Progress) {
		if p.Stage == StagePack {
			once.Do(func() { testenv.OK(t, os.RemoveAll(filepath.Join(src, "n90000001"))) })
		}
	}})
	testenv.Says(t, "a file that vanishes", err, fs.ErrNotExist)
	testenv.Says(t, "a file that vanishes", err, "n90000001")
	requireNothing(t, dir, "train")
}

func TestPathsThatAreTaken(t *testing.T) {
	files := synthetic(t, 2, 3)
	dir := t.TempDir()
	src := sourcetest.WriteTree(t, filepath.Join(dir, "train"), files)
	out := filepath.Join(dir, "out")
	mustBuild(t, src, out, Options{})
	before := sourcetest.ReadTree(t, out)
	testenv.Fails(build(src, out, Options{Partitions: 2}))(t, errTaken)
	testenv.Check(t, reflect.DeepEqual(sourcetest.ReadTree(t, out), before), "the finished set has changed")
	replacing := mustBuild(t, src, out, Options{Partitions: 2, Replace: true})
	testenv.Equal(t, replacing.Manifest.Partitions, 2, "partitions of the set that replaces it")
	testenv.Fails(build(src, filepath.Join(src, "shards"), Options{}))(t, "lies in the source")
	links := t.TempDir()
	for link, to := range map[string]string{"source": src, "class": filepath.Join(src, "n90000000")} {
		testenv.OK(t, os.Symlink(to, filepath.Join(links, link)))
	}
	for _, out := range []string{"source/shards", "source/new/shards", "class/shards", "source"} {
		testenv.Fails(build(src, filepath.Join(links, out), Options{Replace: true}))(t, "lies in the source")
	}
	testenv.Fails(build(filepath.Join(links, "source"), filepath.Join(src, "shards"), Options{}))(t, "lies in the source")
	requireNothing(t, src, "n90000000", "n90000001")
	other := sourcetest.WriteTree(t, filepath.Join(dir, "other"), map[string][]byte{"thesis.txt": []byte("precious")})
	testenv.Fails(build(src, other, Options{Replace: true}))(t, "holds files")
	requireNothing(t, dir, "other", "out", "train")
	requireNothing(t, other, "thesis.txt")
}

func TestTarThatTheDiskCannotHold(t *testing.T) {
	dir := t.TempDir()
	src := sourcetest.Write(t, filepath.Join(dir, "train.tar"), sourcetest.TarOfTree(t, synthetic(t, 1, 1), "", 1))
	if err := os.Truncate(src, 8<<40); err != nil {
		t.Skipf("no file of 8 TiB with holes can be made here: %v", err)
	}
	testenv.Fails(build(src, "", Options{}))(t, "free some space")
	requireNothing(t, dir, "train.tar")
}

func TestBothSplitsGoOnWhereTheyStopped(t *testing.T) {
	dir := t.TempDir()
	sourcetest.WriteTree(t, filepath.Join(dir, "train"), synthetic(t, 3, 4))
	sourcetest.WriteTree(t, filepath.Join(dir, "val"), synthetic(t, 2, 4)) // lacks a class of train
	splits := testenv.Must(source.Open(dir, dataset.Options{ForceClasses: true}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	testenv.Says(t, "a build that is ended", BuildAll(ctx, Tasks(splits, ""), Options{}, func(Summary) { cancel() }), context.Canceled)
	requireNothing(t, dir, "train", "train-shards", "val")
	again := func(o Options) ([]Summary, error) {
		splits := testenv.Must(source.Open(dir, dataset.Options{ForceClasses: true}))(t)
		var sums []Summary
		err := BuildAll(context.Background(), Tasks(splits, ""), o, func(s Summary) { sums = append(sums, s) })
		return sums, err
	}
	testenv.Fails(again(Options{Partitions: 2}))(t, errTaken)
	sums, err := again(Options{})
	testenv.Require(t, err == nil && len(sums) == 2 && sums[0].Kept && !sums[1].Kept, "going on: %+v, %v", sums, err)
	m := sums[1].Manifest
	testenv.Check(t, m.Split == "val" && len(m.Classes) == 3, "val: split %q, classes %q", m.Split, m.Classes)
	sums = testenv.Must(again(Options{}))(t)
	testenv.Check(t, len(sums) == 2 && sums[0].Kept && sums[1].Kept, "a third time: %+v", sums)
	out := filepath.Join(dir, "elsewhere")
	tasks := Tasks(splits, out)
	testenv.Check(t, tasks[0].Output == filepath.Join(out, "train") && tasks[1].Output == filepath.Join(out, "val"), "tasks %+v", tasks)
}

// panicking is an encoding whose decoder stumbles over every second image and is good for nothing after that.
type panicking struct{ original.Encoding }

func (p panicking) NewWorker() encoding.Worker {
	return &panickingWorker{Worker: p.Encoding.NewWorker()}
}

type panickingWorker struct {
	encoding.Worker
	fell bool
}

func (w *panickingWorker) Encode(s *shard.Sample, scratch *encoding.Scratch) error {
	if w.fell {
		return errors.New("this decoder has stumbled before")
	}
	if len(s.Image)%2 == 0 {
		w.fell = true
		panic("index out of range")
	}
	return w.Worker.Encode(s, scratch)
}

func TestDecoderThatPanicsRejects(t *testing.T) {
	files := synthetic(t, 2, 20)
	odd := 0
	for _, data := range files {
		odd += len(data) % 2
	}
	sum := mustBuild(t, sourcetest.WriteTree(t, filepath.Join(t.TempDir(), "train"), files), "", Options{Encoding: panicking{}})
	testenv.Equal(t, fmt.Sprint(sum.Manifest.Samples, sum.Rejected), fmt.Sprint(odd, len(files)-odd), "samples and rejected files")
	testenv.Contains(t, sum.Reasons.List()[0].Reason, "index out of range")
}

func BenchmarkBuild(b *testing.B) {
	files := make(map[string][]byte)
	var total int64
	for k := range 200 {
		data := testenv.Must(synth.Image("train", 1, k, synth.Options{}))(b)
		files[fmt.Sprintf("n/%d.JPEG", k)] = data
		total += int64(len(data))
	}
	dir := b.TempDir()
	src := sourcetest.WriteTree(b, filepath.Join(dir, "train"), files)
	b.SetBytes(total)
	for b.Loop() {
		testenv.Must(build(src, "", Options{Replace: true}))(b)
	}
	b.ReportMetric(float64(len(files)*b.N)/b.Elapsed().Seconds(), "images/s")
}
