// Package synth writes small image datasets of ImageNet's shape, for demonstrations and tests where there is no ImageNet: class folders of JPEGs
// of varied sizes, and among them, as in ImageNet, a PNG that is called .JPEG and a greyscale JPEG.
//
//	DIR/train/n90000000/n90000000_0.JPEG …
//	DIR/val/n90000000/ILSVRC2012_val_00000001.JPEG …
//
// The content is a function of the options alone: the drawing uses whole numbers, so every machine makes the same files (with the same release of
// Go, whose JPEG encoder is used). Images of a class share a colour and a shape, so that a network can learn them.
package synth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Options say what to make. Zero values mean the defaults in brackets.
type Options struct {
	Classes int    // [10]
	Train   int    // images of each class in train [100]
	Val     int    // images of each class in val [10]; negative: no val
	Size    int    // mean of the longer sides, in pixels; they vary from a half to one and a half of it [400]
	Seed    uint64 // of everything
	Jobs    int    // workers [one for each CPU]; the files do not depend on it
}

func (o *Options) fill() error {
	for _, d := range []struct {
		value *int
		zero  int
	}{{&o.Classes, 10}, {&o.Train, 100}, {&o.Val, 10}, {&o.Size, 400}, {&o.Jobs, runtime.GOMAXPROCS(0)}} {
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	switch {
	case o.Classes < 1 || o.Classes > 100_000:
		return fmt.Errorf("%d classes: from 1 to 100,000 can be made", o.Classes)
	case o.Train < 1:
		return fmt.Errorf("%d training images of each class: at least 1 is needed", o.Train)
	case o.Size < 2 || o.Size > 8192:
		return fmt.Errorf("size %d: from 2 to 8,192 pixels can be made", o.Size)
	}
	return nil
}

// A Summary describes the written dataset.
type Summary struct {
	Train, Val int // images
	Bytes      int64
}

// Write makes a dataset in a folder, which must be new or empty, and which appears when all is written.
func Write(ctx context.Context, dir string, o Options) (Summary, error) {
	var sum Summary
	if err := o.fill(); err != nil {
		return sum, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return sum, err
	}
	if names, err := os.ReadDir(dir); err == nil && len(names) > 0 {
		return sum, fmt.Errorf("%s has files in it already: give a new folder, or an empty one (%w)", dir, fs.ErrExist)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sum, err
	}
	parent, name := filepath.Split(dir)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return sum, err
	}
	partial, discard, err := makePartial(parent, "."+name+".synth-")
	if err != nil {
		return sum, err
	}
	defer discard()
	if err := os.Chmod(partial, 0o755); err != nil {
		return sum, err
	}
	for _, s := range []struct {
		name  string
		each  int
		count *int
	}{{"train", o.Train, &sum.Train}, {"val", o.Val, &sum.Val}} {
		if s.each < 1 {
			continue
		}
		n, err := writeSplit(ctx, filepath.Join(partial, s.name), s.name, s.each, o)
		if err != nil {
			return sum, err
		}
		*s.count, sum.Bytes = o.Classes*s.each, sum.Bytes+n
	}
	// Rename takes the place of no folder, not even of an empty one; and Remove takes none that is not empty.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sum, err
	}
	return sum, os.Rename(partial, dir)
}

// makePartial makes the hidden folder that becomes the dataset, and removes those of the same prefix whose process was
// killed. Each is held by flock as long as its process lives. discard removes it, unless it has been renamed.
func makePartial(parent, prefix string) (partial string, discard func(), err error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return "", nil, err
	}
	for _, e := range entries {
		path := filepath.Join(parent, e.Name())
		if !strings.HasPrefix(e.Name(), prefix) || !e.IsDir() {
			continue
		}
		if f, err := lockFolder(path); err == nil {
			err = os.RemoveAll(path)
			f.Close()
			if err != nil {
				return "", nil, err
			}
		}
	}
	if partial, err = os.MkdirTemp(parent, prefix); err != nil {
		return "", nil, err
	}
	f, err := lockFolder(partial)
	if err != nil {
		os.Remove(partial)
		return "", nil, err
	}
	return partial, func() { os.RemoveAll(partial); f.Close() }, nil
}

// lockFolder locks a folder until the file that it returns is closed, or fails if another process has done so.
func lockFolder(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// writeSplit writes the class folders of one split and returns the bytes in them.
func writeSplit(ctx context.Context, dir, split string, each int, o Options) (int64, error) {
	sizes := make([]int64, o.Classes)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Jobs)
	for class := range o.Classes {
		g.Go(func() error {
			wnid := WNID(class)
			if err := os.MkdirAll(filepath.Join(dir, wnid), 0o777); err != nil {
				return err
			}
			for k := range each {
				if err := ctx.Err(); err != nil {
					return err
				}
				name := fmt.Sprintf("%s_%d.JPEG", wnid, k)
				if split == "val" {
					name = fmt.Sprintf("ILSVRC2012_val_%08d.JPEG", class*each+k+1)
				}
				data, err := Image(split, class, k, o)
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(dir, wnid, name), data, 0o666); err != nil {
					return err
				}
				sizes[class] += int64(len(data))
			}
			return nil
		})
	}
	err := g.Wait()
	var total int64
	for _, n := range sizes {
		total += n
	}
	return total, err
}

// WNID is the name of a class; the numbers are beyond those of WordNet.
func WNID(class int) string { return fmt.Sprintf("n9%07d", class) }

// Which images of each split's first class are special.
const (
	pngImage  = 1
	greyImage = 2
)

// Image returns the file of one image. Of the first class in each split, image 1 is a PNG and image 2 a greyscale JPEG.
func Image(split string, class, k int, o Options) ([]byte, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	salt := uint64(len(split)) // "train" and "val" differ
	rng := rand.New(rand.NewPCG(o.Seed, salt<<56|uint64(class)<<32|uint64(k)))
	long := max(2, o.Size/2+rng.IntN(o.Size+1))
	short := max(1, long*(50+rng.IntN(51))/100)
	w, h := long, short
	if rng.IntN(3) == 0 {
		w, h = h, w
	}
	img := draw(rng, w, h, class)
	var out bytes.Buffer
	var err error
	switch {
	case class == 0 && k == pngImage:
		err = png.Encode(&out, img)
	case class == 0 && k == greyImage:
		err = jpeg.Encode(&out, grey(img), &jpeg.Options{Quality: 90})
	default:
		err = jpeg.Encode(&out, img, &jpeg.Options{Quality: 75 + rng.IntN(21)})
	}
	return out.Bytes(), err
}

// draw paints a gradient with a little noise, and shapes on it: discs, rings, bars or squares by class.
func draw(rng *rand.Rand, w, h, class int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	base, tint := hue(class*157), hue(class*157+220+rng.IntN(60))
	noise := rng.Uint32()
	for y := range h {
		row := img.Pix[y*img.Stride:]
		for x := range w {
			noise = noise*1664525 + 1013904223
			n := int(noise>>28) - 8
			t := (x*128/w + y*128/h) // 0 … 255
			for c := range 3 {
				v := (int(base[c])*(255-t)+40*t)/255 + n
				row[4*x+c] = uint8(min(max(v, 0), 255))
			}
			row[4*x+3] = 255
		}
	}
	side := min(w, h)
	for range 2 + rng.IntN(4) {
		r := max(1, side/8+rng.IntN(side/4+1))
		cx, cy := rng.IntN(w), rng.IntN(h)
		shade := 160 + rng.IntN(96)
		for y := max(0, cy-r); y < min(h, cy+r); y++ {
			for x := max(0, cx-r); x < min(w, cx+r); x++ {
				if !inside(class%4, x-cx, y-cy, r) {
					continue
				}
				for c := range 3 {
					img.Pix[y*img.Stride+4*x+c] = uint8(int(tint[c]) * shade / 255)
				}
			}
		}
	}
	return img
}

// inside says whether a point (x, y) relative to its centre lies in a shape of radius r.
func inside(shape, x, y, r int) bool {
	d := x*x + y*y
	switch shape {
	case 0: // disc
		return d < r*r
	case 1: // ring
		return d < r*r && 4*d > r*r
	case 2: // bar
		return 3*y < r && -3*y < r
	}
	return true // square
}

// hue returns a saturated colour of an angle in degrees.
func hue(angle int) [3]uint8 {
	angle = (angle%360 + 360) % 360
	var c [3]uint8
	for i := range c {
		d := (angle + 120*i) % 360 // distance from the channel's own angle, going round
		if d > 180 {
			d = 360 - d
		}
		c[i] = uint8(min(max(60, 255*(120-d)/60), 235))
	}
	return c
}

// grey drops an image's colours.
func grey(img *image.RGBA) *image.Gray {
	g := image.NewGray(img.Bounds())
	for y := range g.Rect.Dy() {
		for x := range g.Rect.Dx() {
			g.SetGray(x, y, color.GrayModel.Convert(img.RGBAAt(x, y)).(color.Gray))
		}
	}
	return g
}
