package synth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"image"
	"image/color"
	_ "image/jpeg"
	_ "image/png"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

func TestWriteDependsOnItsOptionsAlone(t *testing.T) {
	dir := t.TempDir()
	o := Options{Classes: 3, Train: 5, Val: 2, Size: 40, Seed: 1, Jobs: 1}
	sum := testenv.Must(Write(context.Background(), filepath.Join(dir, "a"), o))(t)
	testenv.Check(t, sum.Train == 15 && sum.Val == 6 && sum.Bytes >= 1000, "summary %+v", sum)
	want := sourcetest.ReadTree(t, filepath.Join(dir, "a"))
	testenv.Equal(t, len(want), 21, "files")
	testenv.Check(t, want["train/n90000002/n90000002_4.JPEG"] != nil && want["val/n90000001/ILSVRC2012_val_00000003.JPEG"] != nil, "names")
	o.Jobs = 4
	testenv.Must(Write(context.Background(), filepath.Join(dir, "b"), o))(t)
	testenv.Check(t, reflect.DeepEqual(sourcetest.ReadTree(t, filepath.Join(dir, "b")), want), "more workers write other files")
	o.Seed = 2
	testenv.Must(Write(context.Background(), filepath.Join(dir, "c"), o))(t)
	testenv.Check(t, !reflect.DeepEqual(sourcetest.ReadTree(t, filepath.Join(dir, "c")), want), "another seed writes the same files")
}

func TestImagesAreAsVariedAsImageNet(t *testing.T) {
	sizes := make(map[image.Point]bool)
	for k := range 30 {
		data := testenv.Must(Image("train", 0, k, Options{Size: 60}))(t)
		img, format := testenv.Must2(image.Decode(bytes.NewReader(data)))(t)
		b := img.Bounds().Size()
		sizes[b] = true
		long := max(b.X, b.Y)
		testenv.Check(t, long >= 30 && long <= 90 && min(b.X, b.Y) >= 1, "image %d has %v pixels", k, b)
		wantFormat, wantGrey := "jpeg", k == greyImage
		if k == pngImage {
			wantFormat = "png"
		}
		testenv.Check(t, format == wantFormat && (img.ColorModel() == color.GrayModel) == wantGrey, "image %d is a %s of %T", k, format, img)
	}
	testenv.Between(t, len(sizes), 20, 30, "sizes")
	a, _ := Image("train", 1, 1, Options{Size: 60})
	b, _ := Image("val", 1, 1, Options{Size: 60})
	testenv.Check(t, !bytes.Equal(a, b), "train and val have the same image")
}

// The drawing must not change by accident: other tests and documents count on the files.
func TestDrawingIsStable(t *testing.T) {
	data := testenv.Must(Image("train", 0, pngImage, Options{Size: 60}))(t)
	img, _ := testenv.Must2(image.Decode(bytes.NewReader(data)))(t)
	var pix []byte
	switch m := img.(type) {
	case *image.RGBA:
		pix = m.Pix
	case *image.NRGBA:
		pix = m.Pix
	}
	sum := sha256.Sum256(pix)
	testenv.Equal(t, hex.EncodeToString(sum[:8]), "90dfd26627534750", "hash of the pixels")
}

func TestWriteTakesAnEmptyFolderAndNoOther(t *testing.T) {
	dir := t.TempDir()
	sourcetest.Write(t, filepath.Join(dir, "used/file"), nil)
	testenv.Fails(Write(context.Background(), filepath.Join(dir, "used"), Options{}))(t, fs.ErrExist)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	testenv.Fails(Write(ctx, filepath.Join(dir, "new"), Options{}))(t, context.Canceled)
	testenv.Equal(t, len(testenv.Must(os.ReadDir(dir))(t)), 1, "folders that are left")
	sum := testenv.Must(Write(context.Background(), t.TempDir(), Options{Classes: 1, Train: 1, Val: -1, Size: 16}))(t)
	testenv.Equal(t, sum.Train, 1, "images in an empty folder")
}
