package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/coefficients"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	pixelsencoding "github.com/imgfeed/imgfeed/shard/encoding/pixels"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/synth"
	"github.com/imgfeed/imgfeed/transform"
)

// build builds the only split of a source, with fields as --field has them.
func build(path, out string, o Options, flags ...string) (sum Summary, err error) {
	var opts dataset.Options
	for _, text := range flags {
		f, err := dataset.ParseField(text)
		if err != nil {
			return sum, err
		}
		opts.Fields = append(opts.Fields, f)
	}
	splits, err := source.Open(path, opts)
	if err != nil {
		return sum, err
	}
	err = BuildAll(context.Background(), Tasks(splits, out), o, func(s Summary) { sum = s })
	return sum, err
}

// wnids is a list of the names of so many classes.
func wnids(classes int) (names string) {
	for c := range classes {
		names += synth.WNID(c) + "\n"
	}
	return names
}

// fieldSource writes images with values in a list and as a tar of WebDataset.
func fieldSource(t *testing.T, classes int) (listed, tar string, scores map[string]float32) {
	dir, files, scores := t.TempDir(), make(map[string][]byte), make(map[string]float32)
	var members []sourcetest.File
	fields := func(key, meta, label, image, text string) []sourcetest.File {
		return []sourcetest.File{{Name: key + ".json", Data: []byte(meta)}, {Name: key + ".cls", Data: []byte(label)},
			{Name: key + ".jpg", Data: []byte(image)}, {Name: key + ".txt", Data: []byte(text)}}
	}
	var list []byte
	names := wnids(classes)
	for name, data := range synthetic(t, classes, 9) {
		key := strings.TrimSuffix(name, ".JPEG")
		scores[key] = float32(len(scores)) / 2
		meta := fmt.Appendf(nil, `{"score": %v, "tags": [%d]}`, scores[key], len(scores)%5)
		caption := "caption of " + key
		files[key] = data
		list = fmt.Appendf(list, `{"path": %q, "label": %q, "score": %v, "tags": [%d], "txt": %q}`+"\n", key, filepath.Dir(key), scores[key], len(scores)%5, caption)
		members = append(members, fields(key, string(meta), key[len("n9000000"):len("n90000000")], string(data), caption)...)
	}
	files["n90000001/bad"] = []byte("no image")
	files["train.jsonl"] = append(list, `{"path": "n90000001/bad", "label": "n90000001", "score": 1, "tags": [], "txt": ""}`...)
	members = append(members, fields("n90000001/bad", `{"score": 1, "tags": []}`, "1", string(files["n90000001/bad"]), "")...)
	sourcetest.Write(t, filepath.Join(dir, "wds/classes.txt"), []byte(names))
	tar = filepath.Dir(sourcetest.Write(t, filepath.Join(dir, "wds/train.tar"), sourcetest.Tar(t, members...)))
	return filepath.Join(sourcetest.WriteTree(t, filepath.Join(dir, "train"), files), "train.jsonl"), tar, scores
}

var fieldFlags = []string{"score=json.score:float32", "caption=txt:text", "tags=json.tags:multihot[5]"}

// TestFieldsGiveTheSameBytes packs fields from a list and from a tar, and packs the sets again.
func TestFieldsGiveTheSameBytes(t *testing.T) {
	list, tar, scores := fieldSource(t, 3)
	dir := t.TempDir()
	out := func(of string) string { return filepath.Join(dir, of) }
	o := Options{Partitions: 2, Seed: 7, ShardBytes: 1 << 20, Encoding: original.Encoding{}}
	sum := testenv.Must(build(list, out("list"), o, fieldFlags...))(t)
	testenv.Equal(t, fmt.Sprint(sum.Rejected, sum.Manifest.Samples), fmt.Sprint(1, len(scores)), "rejected and samples")
	o.Jobs, o.spoolBytes = 5, 4<<10
	testenv.Must(build(tar, out("tar"), o, fieldFlags...))(t)
	sameFiles(t, out("list"), out("tar"))

	set := openSet(t, out("list"))
	want := shard.Fields{{Name: "score", Type: shard.Float32}, {Name: "caption", Type: shard.Text, BytesMax: len("caption of n90000000/n90000000_1")}, {Name: "tags", Type: shard.Float32, Size: 5}}
	got := set.Manifest().Fields
	testenv.Check(t, got[1].BytesMax >= 20 && got.Equal(want), "fields %v, want %v", got, want)
	for key, r := range records(t, set) {
		values := testenv.Must(set.Manifest().Fields.Split(r.Fields, nil))(t)
		testenv.Check(t, reflect.DeepEqual(values[0], shard.AppendFloats(nil, scores[key])) && string(values[1]) == "caption of "+key,
			"%s: %q", key, values)
	}

	small := Options{Partitions: 3, Seed: 7, ShardBytes: 1 << 20, Encoding: mustPixels(t, "", "16", "")}
	testenv.Must(Repack(t.Context(), set, out("repacked"), small))(t)
	testenv.Must(build(list, out("small"), small, fieldFlags...))(t)
	sameFiles(t, out("repacked"), out("small"))
}

// TestOtherFieldsAreOtherOptions builds one of two splits again, with other fields than the one that is kept has.
func TestOtherFieldsAreOtherOptions(t *testing.T) {
	_, tar, _ := fieldSource(t, 2)
	both, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	for _, split := range []string{"train", "val"} {
		folder := filepath.Join(both, split)
		testenv.OK(t, os.CopyFS(folder, os.DirFS(tar)))
		testenv.OK(t, os.Rename(filepath.Join(folder, "train.tar"), filepath.Join(folder, split+".tar")))
	}
	testenv.Must(build(both, out, Options{}, "caption=txt:text"))(t)
	testenv.OK(t, os.RemoveAll(filepath.Join(out, "val")))
	testenv.Fails(build(both, out, Options{}, "caption=txt:bytes"))(t, errTaken)
	sum, err := build(both, out, Options{}, "caption=txt:text")
	testenv.Check(t, err == nil && sum.Split == "val" && !sum.Kept, "%+v, %v", sum, err)
}

// TestMissingFieldEndsTheBuild leaves out the value of one image.
func TestMissingFieldEndsTheBuild(t *testing.T) {
	list, _, _ := fieldSource(t, 2)
	out := filepath.Join(t.TempDir(), "out")
	_, err := build(list, out, Options{}, "score=json.score:float32", "age=json.age:int64")
	testenv.As[*transport.FormatError](t, err, "field \"age\": the JSON has no key age")
	requireNothing(t, filepath.Dir(out))
}

// TestCIFARSets packs the archive and the folder of CIFAR-10, in both encodings: these give the same bytes, and every image is served as it was.
func TestCIFARSets(t *testing.T) {
	dir, batches := t.TempDir(), sourcetest.CIFARBatches(7)
	archive := sourcetest.Write(t, filepath.Join(dir, "cifar-10-binary.tar.gz"),
		sourcetest.Gzip(t, sourcetest.TarOfTree(t, sourcetest.CIFARBinary(batches), "cifar-10-batches-bin/", 1)))
	binary := sourcetest.WriteTree(t, filepath.Join(dir, "cifar-10-batches-bin"), sourcetest.CIFARBinary(batches))
	pixels := mustPixels(t, "", "none", "")
	for name, encoder := range map[string]encoding.Encoding{"jpeg": original.Encoding{}, "pixels": pixels} {
		o := Options{Partitions: 2, Seed: 4, Encoding: encoder}
		a, b := filepath.Join(dir, name, "archive"), filepath.Join(dir, name, "folder")
		mustBuild(t, archive, a, o)
		sum := mustBuild(t, binary, b, o)
		testenv.Check(t, sum.Split == "val" && sum.Rejected == 0, "%s: the last split is %+v", name, sum)
		sameFiles(t, a, b)
		requireServed(t, filepath.Join(a, "train"), "train", batches[:5], pixels)
		requireServed(t, filepath.Join(a, "val"), "test", batches[5:], pixels)
	}
}

// requireServed checks the labels and pixels of a set of CIFAR-10.
func requireServed(t *testing.T, dir, prefix string, batches []sourcetest.CIFARBatch, e encoding.Encoding) {
	t.Helper()
	var labels, planes []byte
	for _, b := range batches {
		labels, planes = append(labels, b.Labels...), append(planes, b.Planes...)
	}
	spec := testenv.Must(transform.Parse(`[{"op":"CenterCrop","size":32}]`))(t)
	set, engine := openSet(t, dir), transform.NewEngine(0)
	testenv.Equal(t, set.Len(), len(labels), "%s: samples", dir)
	for key, r := range records(t, set) {
		n, err := strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
		testenv.Require(t, err == nil && n < len(labels), "%s: key %q: %v", dir, key, err)
		if want := fmt.Sprintf("%s/%s/%05d", prefix, sourcetest.CIFARClasses[labels[n]], n); key != want || r.Label != int32(labels[n]) {
			t.Errorf("%s: key %q, label %d, want %q, label %d", dir, key, r.Label, want, labels[n])
		}
		src := transform.Source{Format: r.Format, Image: r.Image, Encoding: e}
		rgb := apply(t, engine, spec, src)
		for k, v := range planes[n*3072:][:3072] {
			testenv.Require(t, rgb[k%1024*3+k/1024] == v,
				"%s: %s: pixel %d of plane %d is %d, want %d", dir, key, k%1024, k/1024, rgb[k%1024*3+k/1024], v)
		}
	}
}

// TestWebDatasetGivesTheSameBytes packs images from class folders, whose files have no extension, and from WebDataset's tars with the same keys,
// labels and class names: the sets are the same, byte for byte, whatever the tars.
func TestWebDatasetGivesTheSameBytes(t *testing.T) {
	dir, files := t.TempDir(), make(map[string][]byte)
	for name, data := range synthetic(t, 4, 12) {
		files[strings.TrimSuffix(name, ".JPEG")] = data
	}
	files["n90000001/bad"] = []byte("no image")
	var samples [][]sourcetest.File
	for key, data := range files { // in Go's random order
		label := key[len("n9000000"):len("n90000000")]
		samples = append(samples, []sourcetest.File{{Name: key + ".cls", Data: []byte(label)}, {Name: key + ".jpg", Data: data}, {Name: key + ".json", Data: []byte("{}")}})
	}
	sourcetest.Write(t, filepath.Join(dir, "wds/train/classes.txt"), []byte(wnids(4)))
	for i, part := range slices.Collect(slices.Chunk(samples, 20)) {
		var members []sourcetest.File
		for _, s := range part {
			slices.SortFunc(s, func(a, b sourcetest.File) int { return (2*i - 1) * strings.Compare(a.Name, b.Name) }) // the image first in one tar
			members = append(members, s...)
		}
		data := sourcetest.Tar(t, members...)
		sourcetest.Write(t, filepath.Join(dir, fmt.Sprintf("wds/train/train-%06d.tar", i)), data)
		sourcetest.Write(t, filepath.Join(dir, fmt.Sprintf("gz/x-train-%06d.tar.gz", i)), sourcetest.Gzip(t, data))
	}
	folders := sourcetest.WriteTree(t, filepath.Join(dir, "folders/train"), files)
	for name, encoder := range map[string]encoding.Encoding{"jpeg": original.Encoding{}, "pixels": mustPixels(t, "", "16", "")} {
		o := Options{Partitions: 3, Seed: 7, ShardBytes: 16 << 10, Encoding: encoder}
		out := func(of string) string { return filepath.Join(dir, name, of) }
		mustBuild(t, folders, out("folders"), o)
		sum := mustBuild(t, filepath.Join(dir, "wds"), out("wds"), o)
		got := fmt.Sprintf("%d of %s, %d rejected", sum.Manifest.Samples, sum.Split, sum.Rejected)
		testenv.Equal(t, got, "48 of train, 1 rejected", "%s", name)
		sameFiles(t, out("wds"), out("folders"))
		splits := testenv.Must(source.Open(filepath.Join(dir, "gz"), dataset.Options{Classes: filepath.Join(dir, "wds/train/classes.txt")}))(t)
		o.Jobs, o.spoolBytes = 5, 4<<10
		testenv.OK(t, BuildAll(context.Background(), Tasks(splits, out("gz")), o, func(Summary) {}))
		sameFiles(t, out("gz"), out("folders"))
	}
}

// writeSource makes a folder of class folders, with a file among them that is not an image and two that are damaged.
func writeSource(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	testenv.Must(synth.Write(t.Context(), dir, synth.Options{Classes: 2, Train: 6, Val: -1, Size: 300}))(t)
	train := filepath.Join(dir, "train")
	files, err := filepath.Glob(filepath.Join(train, "*", "*"))
	testenv.Require(t, err == nil && len(files) > 0, "%v: no files", err)
	data := testenv.Must(os.ReadFile(files[0]))(t)
	class := filepath.Dir(files[0])
	for name, content := range map[string][]byte{"cut.JPEG": data[:len(data)/2], "text.JPEG": []byte("no image"), "empty.JPEG": nil} {
		testenv.OK(t, os.WriteFile(filepath.Join(class, name), content, 0o666))
	}
	return train
}

func buildSet(t testing.TB, src string, o Options) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "set")
	testenv.Must(build(src, out, o))(t)
	return out
}

func mustPixels(t *testing.T, codec, size, interpolation string) *pixelsencoding.Encoding {
	t.Helper()
	resize := testenv.Must(pixelsencoding.ParseResize(size, interpolation))(t)
	return testenv.Must(pixelsencoding.New(pixelcodec.Params{Codec: codec}, resize))(t)
}

func openSet(t *testing.T, dir string) *shard.Set {
	t.Helper()
	set := testenv.Must(shard.OpenSet(dir))(t)
	t.Cleanup(func() { set.Close() })
	return set
}

// sameFiles compares the files of a folder with those of another.
func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	of, others := sourcetest.ReadTree(t, a), sourcetest.ReadTree(t, b)
	testenv.Equal(t, len(of), len(others), "%s: files, of %s", a, b)
	for name, data := range of {
		other, ok := others[name]
		testenv.Check(t, ok && bytes.Equal(data, other), "%s: %s differs from that of %s", a, name, b)
	}
}

// TestRepackIsBuild checks that a repacked set is the set that a build makes, for every codec and other partitions, and that
// the encodings agree on what they leave out and on what is served.
func TestRepackIsBuild(t *testing.T) {
	src := writeSource(t)
	original := openSet(t, buildSet(t, src, Options{Partitions: 2, Seed: 5}))
	testenv.Equal(t, original.Len(), 12, "samples")
	for _, codec := range pixelcodec.Names() {
		for _, world := range []int{2, 3} {
			o := Options{Partitions: world, Seed: uint64(world + 3), Encoding: mustPixels(t, codec, "64", ""), Jobs: 3}
			built := buildSet(t, src, o)
			out := filepath.Join(t.TempDir(), "repacked")
			sum := testenv.Must(Repack(t.Context(), original, out, o))(t)
			testenv.Check(t, sum.Formats[imagefile.Encoded] == 12 && sum.OutputBytes != 0, "%s: %+v", codec, sum)
			sameFiles(t, built, out)
			same := sum.Manifest.Fingerprint == original.Manifest().Fingerprint
			testenv.Equal(t, same, world == 2, "%s, world %d: the fingerprints are equal", codec, world)
		}
	}
}

// TestPixelsSizes packs with every kind of resize and compares what is stored with what a transform makes of the files.
func TestPixelsSizes(t *testing.T) {
	src := writeSource(t)
	original := openSet(t, buildSet(t, src, Options{}))
	for _, c := range []struct{ size, interpolation, op string }{
		{"40", "", `[{"op":"Resize","size":40},{"op":"CenterCrop","size":40}]`},
		{"100x290", "", `[{"op":"Resize","size":[100,290]}]`},
		{"33x47", "bicubic", `[{"op":"Resize","size":[33,47],"interpolation":"bicubic"}]`},
		{"none", "", `[{"op":"CenterCrop","size":100}]`},
		{"max:120", "box", ""},
	} {
		p := mustPixels(t, pixelcodec.Bitpack, c.size, c.interpolation)
		set := openSet(t, buildSet(t, src, Options{Encoding: p}))
		engine := transform.NewEngine(0)
		for i := range set.Len() {
			stored, _ := testenv.Must2(set.Read(i, nil))(t)
			file, _ := testenv.Must2(original.Read(i, nil))(t)
			if c.op == "" {
				testenv.Equal(t, max(stored.Width, stored.Height), min(120, max(file.Width, file.Height)), "%s: the longer side", c.size)
				continue
			}
			spec := testenv.Must(transform.Parse(c.op))(t)
			got := apply(t, engine, spec, transform.Source{Format: imagefile.Encoded, Image: stored.Image, Encoding: p})
			testenv.Same(t, got, apply(t, engine, spec, transform.Source{Image: file.Image}), "%s: sample %d", c.size, i)
		}
	}
}

func apply(t *testing.T, e *transform.Engine, spec *transform.Spec, src transform.Source) []byte {
	t.Helper()
	pix := make([]byte, spec.OutputBytes())
	testenv.Must(e.Apply(spec, resample.Output{Pix: pix}, src, transform.NewRNG(1, 2, 3)))(t)
	return pix
}

// TestPixelsRejects feeds damaged files to both encodings, which must leave out the same, but for what pixels cannot hold.
func TestPixelsRejects(t *testing.T) {
	files, err := filepath.Glob("../../shard/testdata/images/*/*")
	testenv.Require(t, err == nil && len(files) > 0, "%v: no files", err)
	originals, stored := original.Encoding{}.NewWorker(), mustPixels(t, "", "16", "").NewWorker()
	rng := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for _, file := range files {
		data := testenv.Must(os.ReadFile(file))(t)
		for range 60 {
			damaged := append(make([]byte, 0, len(data)+shard.SlackBytes), data[:1+rng.IntN(len(data))]...)
			if rng.IntN(2) == 0 {
				damaged = damaged[:len(data)]
				copy(damaged, data)
				damaged[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
			}
			errA := originals.Encode(&shard.Sample{Image: damaged}, &encoding.Scratch{})
			errB := stored.Encode(&shard.Sample{Image: damaged}, &encoding.Scratch{})
			_, tooLarge := errors.AsType[*pixelcodec.LimitError](errB)
			testenv.Check(t, (errA == nil) == (errB == nil) || tooLarge, "%s, damaged: original says %v, pixels %v", filepath.Base(file), errA, errB)
			if errA != nil {
				refused++
			}
		}
	}
	testenv.Check(t, refused > 0, "nothing was refused")
}

// TestRepackToCoefficientsAndBack checks that baseline JPEGs become coefficients and other files stay, and that a set is the same again afterwards.
func TestRepackToCoefficientsAndBack(t *testing.T) {
	src := writeSource(t)
	var flat bytes.Buffer // its coefficients would take several times as many bytes
	testenv.OK(t, jpeg.Encode(&flat, image.NewGray(image.Rect(0, 0, 800, 800)), nil))
	sourcetest.Write(t, filepath.Join(src, "n90000000", "flat.JPEG"), flat.Bytes())
	o := Options{Partitions: 2, Seed: 5}
	files := buildSet(t, src, o)
	o.Encoding = coefficients.Encoding{}
	built := buildSet(t, src, o)
	set := openSet(t, built)
	formats := map[shard.Format]int{}
	for i := range set.Len() {
		entry := testenv.Must(set.Entry(i))(t)
		formats[entry.Format]++
	}
	testenv.Check(t, formats[imagefile.Encoded] >= 8 && formats[imagefile.PNG] != 0 && formats[imagefile.JPEG] != 0, "records are %v", formats)
	repacked, back := filepath.Join(t.TempDir(), "set"), filepath.Join(t.TempDir(), "set")
	testenv.Must(Repack(t.Context(), openSet(t, files), repacked, o))(t)
	sameFiles(t, built, repacked)
	o.Encoding = original.Encoding{}
	testenv.Must(Repack(t.Context(), set, back, o))(t)
	sameFiles(t, files, back)
}

// TestRepackRefuses checks what cannot be repacked.
func TestRepackRefuses(t *testing.T) {
	src := writeSource(t)
	dir := buildSet(t, src, Options{Partitions: 2})
	o := Options{Partitions: 2, Encoding: mustPixels(t, "", "32", "")}
	small := openSet(t, buildSet(t, src, o))
	testenv.Fails(Repack(t.Context(), small, filepath.Join(t.TempDir(), "out"), o))(t, "does not keep the original files")
	testenv.Fails(Repack(t.Context(), openSet(t, dir), dir, o))(t, "give another path")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := filepath.Join(t.TempDir(), "out")
	testenv.Fails(Repack(ctx, openSet(t, dir), out, o))(t, context.Canceled)
	testenv.Fails(os.Stat(out))(t, os.ErrNotExist)
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "rank-0001")))
	testenv.Fails(Repack(t.Context(), openSet(t, dir), out, o))(t, "needs all")
}
