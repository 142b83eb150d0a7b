package source

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/bmp"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// cifarArchive packs files into a folder of a tar.gz.
func cifarArchive(t *testing.T, path, folder string, files map[string][]byte, seed uint64) string {
	t.Helper()
	return sourcetest.Write(t, path, sourcetest.Gzip(t, sourcetest.TarOfTree(t, files, folder+"/", seed)))
}

// decodeBMP returns the three planes of an image.
func decodeBMP(t *testing.T, file string) []byte {
	t.Helper()
	img := testenv.Must(bmp.Decode(strings.NewReader(file)))(t)
	testenv.Require(t, img.Bounds().Max.String() == "(32,32)", "an image of %v", img.Bounds())
	planes := make([]byte, 3072)
	for i := range 1024 {
		r, g, b, a := img.At(i%32, i/32).RGBA()
		testenv.Require(t, a == 0xffff, "not opaque")
		planes[i], planes[1024+i], planes[2048+i] = byte(r>>8), byte(g>>8), byte(b>>8)
	}
	return planes
}

// cifarWant is the expected content of a path with CIFAR.
type cifarWant struct {
	name, label   string
	fine, classes []string // the classes in keys, and those of the labels
	train, test   []sourcetest.CIFARBatch
}

// items returns the items of a split, as planes.
func (w cifarWant) items(prefix string, batches []sourcetest.CIFARBatch) map[string]item {
	want := make(map[string]item)
	for _, b := range batches {
		labels := b.Labels
		if w.label == "coarse" {
			labels = b.Coarse
		}
		for i, class := range b.Labels {
			key := fmt.Sprintf("%s/%s/%05d", prefix, w.fine[class], len(want))
			want[key] = item{label: int32(labels[i]), data: string(b.Planes[i*3072:][:3072])}
		}
	}
	return want
}

// require checks that a path holds the two splits.
func (w cifarWant) require(t *testing.T, path, layout, output string) {
	t.Helper()
	splits := openSplits(t, 2, dataset.Options{Label: w.label}, path)
	for i, tc := range []struct {
		name, prefix, describe string
		batches                []sourcetest.CIFARBatch
	}{{"train", "train", "the training images of ", w.train}, {"val", "test", "the test images of ", w.test}} {
		s, want := splits[i], w.items(tc.prefix, tc.batches)
		got := mustItems(t, s)
		for key, it := range got {
			it.data = string(decodeBMP(t, it.data))
			got[key] = it
		}
		described(t, s, tc.describe+w.name+", "+layout, tc.name, output+"-"+tc.name+"-shards")
		testenv.Check(t, reflect.DeepEqual(got, want) && slices.Equal(s.Classes(), w.classes) && s.Kind.Decoded && !s.Streamed(),
			"%s, label %q, %s: %d items of %q differ from the %d wanted", path, w.label, tc.name, len(got), s.Classes(), len(want))
	}
}

func TestEveryCIFARGivesTheSame(t *testing.T) {
	const archive, folder = "the binary version's archive", "the binary version's folder"
	dir, batches := t.TempDir(), sourcetest.CIFARBatches(1)
	files, ten := sourcetest.CIFARBinary(batches), cifarWant{"CIFAR-10", "", sourcetest.CIFARClasses, sourcetest.CIFARClasses, batches[:5], batches[5:]}
	for seed := range uint64(3) { // whatever the order of the entries
		at := filepath.Join(dir, fmt.Sprint(seed))
		ten.require(t, cifarArchive(t, filepath.Join(at, "cifar-10-binary.tar.gz"), "cifar-10-batches-bin", files, seed), archive, filepath.Join(at, "cifar-10-binary"))
		ten.require(t, cifarArchive(t, filepath.Join(at, "renamed.tgz"), "x", files, seed), archive, filepath.Join(at, "renamed"))
	}
	bin := sourcetest.WriteTree(t, filepath.Join(dir, "bin/cifar-10-batches-bin"), files)
	sourcetest.Write(t, filepath.Join(bin, "__pycache__/x.pyc"), nil) // a folder among the files makes no classes
	ten.require(t, bin, folder, bin)

	batches, fine, coarse := cifar100Batches(1)
	files = cifar100Binary(batches, fine, coarse)
	bin = sourcetest.WriteTree(t, filepath.Join(dir, "bin100/cifar-100-binary"), files)
	packed := cifarArchive(t, filepath.Join(dir, "cifar-100-binary.tar.gz"), "cifar-100-binary", files, 1)
	for label, classes := range map[string][]string{"": fine, "fine": fine, "coarse": coarse} {
		hundred := cifarWant{"CIFAR-100", label, fine, classes, batches[:1], batches[1:]}
		hundred.require(t, bin, folder, bin)
		hundred.require(t, packed, archive, filepath.Join(dir, "cifar-100-binary"))
	}
}

func TestCIFARReadsIntoTheBuffer(t *testing.T) {
	s := openSplits(t, 2, dataset.Options{}, sourcetest.WriteTree(t, t.TempDir(), sourcetest.CIFARBinary(sourcetest.CIFARBatches(2))))[1]
	var key string
	testenv.OK(t, s.Walk(t.Context(), func(it transport.Item) error { key = it.Key; return nil }))
	buf := make([]byte, 4000)
	data, err := s.Read(key, buf)
	testenv.Check(t, err == nil && &data[0] == &buf[0] && cap(data)-len(data) >= shard.SlackBytes, "%v, capacity %d after %d bytes", err, cap(data), len(data))
	data, err = s.Read(key, nil)
	testenv.Check(t, err == nil && cap(data)-len(data) >= shard.SlackBytes, "%v, capacity %d after %d bytes", err, cap(data), len(data))
	for _, key := range []string{"", "test/cat/x", "test/cat/-1", "test/cat/00008", "test/nothing/00000", strings.Replace(key, "test", "train", 1)} {
		testenv.Fails(s.Read(key, nil))(t, nil, "%q is read", key)
	}
}

func TestDamagedCIFAR(t *testing.T) {
	binary := sourcetest.CIFARBinary(sourcetest.CIFARBatches(3))
	batches, fine, coarse := cifar100Batches(2)
	hundred := cifar100Binary(batches, fine, coarse)
	replaced := func(data []byte, old, new string) []byte { return bytes.Replace(data, []byte(old), []byte(new), 1) }
	for name, tc := range map[string]struct {
		files map[string][]byte
		file  string
		data  []byte // nil: the file is missing
		want  string
	}{
		"a batch is missing":  {binary, "data_batch_3.bin", nil, `"data_batch_3.bin": is missing`},
		"half a record":       {binary, "test_batch.bin", binary["test_batch.bin"][:3000], "not a whole number of records"},
		"label 10":            {binary, "data_batch_2.bin", append([]byte{10}, binary["data_batch_2.bin"][1:]...), "image 0 has the label 10"},
		"nine classes":        {binary, "batches.meta.txt", replaced(binary["batches.meta.txt"], "truck\n", ""), "9 classes"},
		"a class twice":       {binary, "batches.meta.txt", replaced(binary["batches.meta.txt"], "truck", "ship"), `"ship" cannot be used`},
		"a class that climbs": {binary, "batches.meta.txt", replaced(binary["batches.meta.txt"], "truck", "../truck"), "cannot be used"},
		"coarse label 20":     {hundred, "train.bin", append([]byte{20}, hundred["train.bin"][1:]...), "image 0 has the label 20, the largest is 19"},
		"fine label 100":      {hundred, "test.bin", append([]byte{0, 100}, hundred["test.bin"][2:]...), "image 0 has the label 100, the largest is 99"},
	} {
		files, folder := maps.Clone(tc.files), "cifar-10-batches-bin"
		if files[tc.file] = tc.data; tc.data == nil {
			delete(files, tc.file)
		}
		if tc.files["train.bin"] != nil {
			folder = "cifar-100-binary"
		}
		dir := t.TempDir()
		for _, path := range []string{sourcetest.WriteTree(t, filepath.Join(dir, folder), files), cifarArchive(t, filepath.Join(dir, "x.tar.gz"), folder, files, 1)} {
			for _, s := range testenv.Must(Open(path, dataset.Options{}))(t) {
				_, err := items(s)
				testenv.Equal(t, testenv.As[*transport.FormatError](t, err, tc.want).Path, path, "%s: path of the error", name)
			}
		}
	}
	dir := t.TempDir()
	for folder, files := range map[string]map[string][]byte{"cifar-100-binary": hundred, "cifar-10-batches-bin": binary} {
		sourcetest.WriteTree(t, filepath.Join(dir, folder), files)
	}
	refuses(t, dir+"/cifar-100-binary", dataset.Options{Label: "superclass"}, "has the labels fine and coarse")
	refuses(t, dir+"/cifar-10-batches-bin", dataset.Options{Label: "coarse"}, "CIFAR-10 has one label")
}

func TestCIFARThatIsNotRead(t *testing.T) {
	dir, files := t.TempDir(), sourcetest.CIFARBinary(sourcetest.CIFARBatches(4))
	pickled := map[string][]byte{"batches.meta": nil, "data_batch_1": nil}
	batch := string(files["test_batch.bin"])
	matlab := map[string][]byte{"batches.meta.mat": []byte("MATLAB"), "readme.html": nil, "data_batch_1.mat": nil}
	empty := map[string][]byte{"coarse_label_names.txt": nil, "train.bin": nil}
	twice := webDatasetTar(t, "a/test_batch.bin", batch, "b/test_batch.bin", batch)
	for _, tc := range []struct{ path, want string }{
		{sourcetest.WriteTree(t, filepath.Join(dir, "cifar-10-batches-mat"), matlab), "get the binary version"},
		{cifarArchive(t, filepath.Join(dir, "cifar-100-matlab.tar.gz"), "x", matlab, 1), "get the binary version"},
		{sourcetest.WriteTree(t, filepath.Join(dir, "cifar-100-binary"), empty), "cannot be read as CIFAR-100"},
		{sourcetest.WriteTree(t, filepath.Join(dir, "cifar-10-batches-py"), pickled), "imgfeed.from_torch"},
		{cifarArchive(t, filepath.Join(dir, "cifar-10-python.tar.gz"), "cifar-10-batches-py", pickled, 1), "imgfeed.from_torch"},
		{sourcetest.Write(t, filepath.Join(dir, "twice.tar"), twice), `"b/test_batch.bin" near byte`},
		{sourcetest.Write(t, filepath.Join(dir, "cut.tar"), sourcetest.TarOfTree(t, files, "cifar-10-batches-bin/", 1)[:9000]), "incomplete"},
	} {
		refuses(t, tc.path, dataset.Options{}, tc.want)
	}
	for _, name := range []string{"odd/data_batch_1", "cifar-100-python/apple"} { // which are classes
		sourcetest.Write(t, filepath.Join(dir, name, "x.JPEG"), []byte(jpegStart))
		s := open(t, filepath.Dir(filepath.Join(dir, name)), dataset.Options{})
		testenv.Equal(t, s.Format, "a folder of class folders", "%s: format", name)
		testenv.Equal(t, s.Kind.Decoded, false, "%s: decoded", name)
	}
	good := sourcetest.WriteTree(t, filepath.Join(dir, "good"), files)
	testenv.Fails(Open(good, dataset.Options{Split: "x"}))(t, "two splits")
	splits := openSplits(t, 2, dataset.Options{}, good)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testenv.Says(t, "an interrupted walk", splits[0].Walk(ctx, func(transport.Item) error { return nil }), context.Canceled)
}

// Whatever the bytes of CIFAR's files, reading them gives labels of their classes, and images, or a *FormatError.
func FuzzCIFAR(f *testing.F) {
	type files struct {
		of   *cifarFormat
		data map[string][]byte
	}
	ten := sourcetest.CIFARBatches(1)
	hundred, fine, coarse := cifar100Batches(1)
	sorts := []files{{&cifar10, sourcetest.CIFARBinary(ten)}, {&cifar100, cifar100Binary(hundred, fine, coarse)}}
	for sort, c := range sorts {
		for i, name := range c.of.files() {
			whole := c.data[name]
			f.Add(uint8(sort), uint8(i), uint32(0), whole[:1], whole[len(whole)-1:], uint32(len(whole)))
			f.Add(uint8(sort), uint8(i), uint32(1), []byte{0xff, 0, '/'}, []byte("\n\n"), uint32(3073))
		}
	}
	f.Fuzz(func(t *testing.T, sort, file uint8, at uint32, change, end []byte, length uint32) {
		c := sorts[int(sort)%len(sorts)]
		names := c.of.files()
		got := &cifarFiles{path: "cifar", format: c.of, data: make(map[string][]byte)}
		for i, name := range names {
			data := c.data[name]
			if i == int(file)%len(names) {
				data = bytes.Clone(data[:min(int(length), len(data))])
				if len(data) > 0 {
					copy(data[int(at)%len(data):], change)
				}
				data = append(data, end...)
			}
			got.data[name] = data
		}
		got.once.Do(func() {}) // the files are read
		if err := got.check(); err != nil {
			testenv.As[*transport.FormatError](t, err)
			return
		}
		for _, split := range []*cifarSplit{{got, "train", c.of.train, nil}, {got, "test", c.of.test, nil}} {
			var given []int32
			labels, err := split.Walk(&transport.Walk{Ctx: t.Context()}, &dataset.Split{Path: "cifar"}, func(it transport.Item) error {
				given = append(given, it.Label)
				image, err := split.Read(it.Key, nil)
				testenv.Check(t, len(image) == cifarBMPBytes, "%s is of %d bytes", it.Key, len(image))
				return err
			})
			testenv.Says(t, "a walk", err, "")
			for _, label := range given {
				testenv.Check(t, int(label) < len(labels.Classes), "the label %d of %d classes", label, len(labels.Classes))
			}
		}
	})
}

// cifar100Batches makes a batch for training and one for testing, of 300 and 40 random images, and the names of the classes, fine
// and coarse.
func cifar100Batches(seed uint64) (batches []sourcetest.CIFARBatch, fine, coarse []string) {
	rng := rand.NewChaCha8([32]byte{byte(seed)})
	for _, n := range []int{300, 40} {
		b := sourcetest.CIFARBatch{Labels: make([]byte, n), Coarse: make([]byte, n), Planes: make([]byte, n*3072)}
		rng.Read(b.Planes)
		for i := range n {
			b.Labels[i], b.Coarse[i] = byte(rng.Uint64()%100), byte(rng.Uint64()%20)
		}
		batches = append(batches, b)
	}
	for i := range 100 {
		fine = append(fine, fmt.Sprintf("fine_%02d", (i*37)%100)) // in no order of letters
	}
	for i := range 20 {
		coarse = append(coarse, fmt.Sprintf("coarse %02d", (i*7)%20))
	}
	return batches, fine, coarse
}

// cifar100Binary returns the files of the binary version.
func cifar100Binary(batches []sourcetest.CIFARBatch, fine, coarse []string) map[string][]byte {
	files := map[string][]byte{"fine_label_names.txt": []byte(strings.Join(fine, "\n") + "\n"),
		"coarse_label_names.txt": []byte(strings.Join(coarse, "\n") + "\n")}
	for i, name := range []string{"train.bin", "test.bin"} {
		b := batches[i]
		for k, label := range b.Labels {
			files[name] = append(append(files[name], b.Coarse[k], label), b.Planes[k*3072:][:3072]...)
		}
	}
	return files
}
