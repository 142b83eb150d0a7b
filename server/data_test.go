package server

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
)

// writeSet writes a set of samples PNGs of 8×6 pixels whose colour is (10·label, index, 7), with label = index mod 2,
// in partitions.
func writeSet(t testing.TB, dir, split string, samples, partitions int) {
	t.Helper()
	writeFieldSet(t, dir, split, samples, partitions, nil, func(int) []byte { return nil })
}

// trainSet writes a set of the split train with fields, and returns the folder above it.
func trainSet(t testing.TB, samples, partitions int, fields shard.Fields, values func(index int) []byte) string {
	t.Helper()
	dir := t.TempDir()
	writeFieldSet(t, filepath.Join(dir, "train-shards"), "train", samples, partitions, fields, values)
	return dir
}

// oneSet is trainSet without fields.
func oneSet(t testing.TB, samples, partitions int) string {
	t.Helper()
	return trainSet(t, samples, partitions, nil, func(int) []byte { return nil })
}

// valueFields are the fields of a set whose samples have values: a score of half the index, and "sample 7".
var valueFields = shard.Fields{{Name: "score", Type: shard.Float32}, {Name: "caption", Type: shard.Text}}

func valuesOf(index int) []byte {
	return shard.AppendBytes(shard.AppendFloats(nil, float32(index)/2), fmt.Appendf(nil, "sample %d", index))
}

// writeFieldSet is writeSet with fields.
func writeFieldSet(t testing.TB, dir, split string, samples, partitions int, fields shard.Fields, values func(index int) []byte) {
	t.Helper()
	writeClassSet(t, dir, split, samples, partitions, []string{"cat", "dog"}, fields, values)
}

// writeClassSet is writeFieldSet with two classes of other names.
func writeClassSet(t testing.TB, dir, split string, samples, partitions int, classes []string, fields shard.Fields, values func(index int) []byte) {
	t.Helper()
	w := testenv.Must(shard.NewSetWriter(dir, shard.SetOptions{Split: split, Encoding: shard.Encoding{Name: "jpeg"}, Classes: classes, Partitions: partitions, Fields: fields}))(t)
	defer w.Abort()
	for i, key := range keysInOrder(samples) {
		label := i % 2
		s := shard.Sample{Key: key, Label: int32(label), Width: 8, Height: 6, Format: imagefile.PNG, Image: onePNG(t, color.NRGBA{uint8(10 * label), uint8(i), 7, 255}), Fields: values(i)}
		testenv.OK(t, w.Append(s))
	}
	testenv.Must(w.Commit())(t)
}

// keysInOrder returns the keys of a set in the order in which it is written.
func keysInOrder(samples int) []string {
	keys := make([]string, samples)
	for i := range keys {
		keys[i] = fmt.Sprintf("%04d.png", i)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Compare(shard.OrderHash(0, a), shard.OrderHash(0, b)) })
	return keys
}

func onePNG(t testing.TB, c color.NRGBA) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 8, 6))
	for i := 0; i < len(img.Pix); i += 4 {
		copy(img.Pix[i:], []byte{c.R, c.G, c.B, c.A})
	}
	var b bytes.Buffer
	testenv.OK(t, png.Encode(&b, img))
	return b.Bytes()
}

// change rewrites a file.
func change(t testing.TB, path string, to func(data []byte) []byte) {
	t.Helper()
	testenv.OK(t, os.WriteFile(path, to(testenv.Must(os.ReadFile(path))(t)), 0o666))
}

// crc is CRC-32C.
func crc(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// forge changes the manifest of a trainSet, and then the manifest's checksum.
func forge(t testing.TB, dir string, to func(manifest []byte) []byte) {
	t.Helper()
	change(t, filepath.Join(dir, "train-shards/manifest.json"), func(text []byte) []byte {
		text = to(text)
		body := text[:bytes.LastIndex(text, []byte(`"crc32c"`))]
		return fmt.Appendf(bytes.Clone(body), "\"crc32c\": \"%08x\"\n}\n", crc(body))
	})
}

// damage flips a byte in the middle of the image of sample i of the set in dir.
func damage(t testing.TB, dir string, i int) {
	t.Helper()
	set := testenv.Opened(shard.OpenSet(dir))(t)
	at := testenv.Must(set.Locate(i))(t)
	e := testenv.Must(set.Entry(i))(t)
	change(t, filepath.Join(dir, filepath.FromSlash(at.Path)), func(b []byte) []byte {
		b[e.Offset+int64(e.ImageLength)/2] ^= 0x40
		return b
	})
}
