package pack

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/synth"
	"github.com/imgfeed/imgfeed/transform"
)

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
