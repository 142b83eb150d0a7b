// Package synth writes small image datasets of ImageNet's shape, for demonstrations and tests without ImageNet. They have class
// folders of JPEGs of varied sizes. Among those, as in ImageNet, are a PNG called .JPEG and a greyscale JPEG.
//
//	DIR/train/n90000000/n90000000_0.JPEG …
//	DIR/val/n90000000/ILSVRC2012_val_00000001.JPEG …
//
// The content is a function of the options alone. The drawing uses whole numbers, so every machine makes the same files with the same
// release of Go and its JPEG encoder. Images of a class share a colour and a shape, so that a network can learn them.
package synth

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Options choose the dataset. Zero values mean the defaults in brackets.
type Options struct {
	Classes int    // 1 to ClassesMax [10]
	Train   int    // images of each class in train [100]
	Val     int    // images of each class in val [10]; negative: no val
	Size    int    // mean of the longer sides, from SizeMin to SizeMax; they vary from a half to one and a half of it [400]
	Seed    uint64 // seed of everything
	Jobs    int    // workers [one for each CPU]; the files do not depend on it
}

// Limits of options.
const (
	ClassesMax       = 100_000
	SizeMin, SizeMax = 2, 8192 // pixels
)

func (o *Options) fill() {
	o.Classes, o.Train, o.Val = cmp.Or(o.Classes, 10), cmp.Or(o.Train, 100), cmp.Or(o.Val, 10)
	o.Size, o.Jobs = cmp.Or(o.Size, 400), cmp.Or(o.Jobs, runtime.GOMAXPROCS(0))
}

// A Summary describes the written dataset.
type Summary struct {
	Train, Val int // images
	Bytes      int64
}

// Write makes a dataset in a folder, which must be new or empty, and which appears when all is written.
func Write(ctx context.Context, dir string, o Options) (Summary, error) {
	var sum Summary
	o.fill()
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
	partial, err := os.MkdirTemp(parent, "."+name+".synth-")
	if err != nil {
		return sum, err
	}
	defer os.RemoveAll(partial)
	if err := os.Chmod(partial, 0o755); err != nil {
		return sum, err
	}
	if sum.Train, err = writeSplit(ctx, filepath.Join(partial, "train"), "train", o.Train, o, &sum.Bytes); err != nil {
		return sum, err
	}
	if sum.Val, err = writeSplit(ctx, filepath.Join(partial, "val"), "val", o.Val, o, &sum.Bytes); err != nil {
		return sum, err
	}
	// Rename replaces no folder, not even an empty one; and Remove removes only an empty one.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sum, err
	}
	return sum, os.Rename(partial, dir)
}

// writeSplit writes the class folders of one split, counts its bytes, and returns the number of its images.
func writeSplit(ctx context.Context, dir, split string, each int, o Options, size *int64) (int, error) {
	if each < 1 {
		return 0, nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Jobs)
	for class := range o.Classes {
		g.Go(func() error {
			wnid := WNID(class)
			if err := os.MkdirAll(filepath.Join(dir, wnid), 0o777); err != nil {
				return err
			}
			for k := range each {
				name := fmt.Sprintf("%s_%d.JPEG", wnid, k)
				if split == "val" {
					name = fmt.Sprintf("ILSVRC2012_val_%08d.JPEG", class*each+k+1)
				}
				data, err := Image(split, class, k, o)
				if err := errors.Join(ctx.Err(), err); err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(dir, wnid, name), data, 0o666); err != nil {
					return err
				}
				atomic.AddInt64(size, int64(len(data)))
			}
			return nil
		})
	}
	return o.Classes * each, g.Wait()
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
	o.fill()
	salt := uint64(len(split)) // "train" and "val" differ
	rng := rand.New(rand.NewPCG(o.Seed, salt<<56|uint64(class)<<32|uint64(k)))
	long := max(2, o.Size/2+rng.IntN(o.Size+1))
	short := max(1, long*(50+rng.IntN(51))/100)
	w, h := long, short
	if rng.IntN(3) == 0 {
		w, h = h, w
	}
	img := landscape(rng, w, h, class)
	var out bytes.Buffer
	var err error
	switch {
	case class == 0 && k == pngImage:
		err = png.Encode(&out, img)
	case class == 0 && k == greyImage:
		grey := image.NewGray(img.Rect)
		draw.Draw(grey, grey.Rect, img, image.Point{}, draw.Src)
		err = jpeg.Encode(&out, grey, &jpeg.Options{Quality: 90})
	default:
		err = jpeg.Encode(&out, img, &jpeg.Options{Quality: 75 + rng.IntN(21)})
	}
	return out.Bytes(), err
}

// landscape paints nothing in particular: a sky and a ground with the texture of noise, and lit bodies that cast shadows on them,
// spheres, rings, bars or blocks by class. It computes in whole numbers, so that every processor paints the same.
func landscape(rng *rand.Rand, w, h, class int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	sky, ground, body := hue(class*157), hue(class*157+40+rng.IntN(60)), hue(class*157+220+rng.IntN(60))
	seed, horizon, side := rng.Uint32(), h*(30+rng.IntN(40))/100, min(w, h)
	for y := range h {
		for x := range w {
			from, light := sky, 150+60*y/max(1, horizon)
			if y >= horizon {
				from, light = ground, 90+100*(y-horizon)/(h-horizon)
			}
			light += (fractal(x, y, side, seed) - 128) * 3 / 4
			paint(img, x, y, from, light)
		}
	}
	for range 2 + rng.IntN(4) {
		r := max(1, side/8+rng.IntN(side/4+1))
		cx, cy := rng.IntN(w), rng.IntN(h)
		for y := max(0, cy-r); y < min(h, cy+r+r/3); y++ { // the shadow falls to the right and below
			for x := max(0, cx-r); x < min(w, cx+r+r/3); x++ {
				if inside(class%4, x-cx-r/3, y-cy-r/3, r) {
					pixel := img.Pix[y*img.Stride+4*x:]
					for c := range 3 {
						pixel[c] = pixel[c] / 2
					}
				}
			}
		}
		for y := max(0, cy-r); y < min(h, cy+r); y++ {
			for x := max(0, cx-r); x < min(w, cx+r); x++ {
				if inside(class%4, x-cx, y-cy, r) {
					lx, ly := x-cx+r/3, y-cy+r/3 // distance from the brightest point
					paint(img, x, y, body, 260-140*(lx*lx+ly*ly)/(r*r)+(fractal(x, y, side/4, seed+1)-128)/3)
				}
			}
		}
	}
	return img
}

// paint sets a pixel to a colour under a light; 255 shows the colour as it is.
func paint(img *image.RGBA, x, y int, colour [3]uint8, light int) {
	pixel := img.Pix[y*img.Stride+4*x:]
	for c := range 3 {
		pixel[c] = uint8(min(max(int(colour[c])*light/255, 0), 255))
	}
	pixel[3] = 255
}

// fractal returns noise from 0 to 255 with features of a quarter of size and of smaller ones, down to pixels.
func fractal(x, y, size int, seed uint32) int {
	sum, weight := 0, 0
	for grid, share := max(1, size/4), 8; share > 0; grid, share = max(1, grid/4), share/2 {
		gx, gy, fx, fy := x/grid, y/grid, x%grid, y%grid
		above := lattice(gx, gy, seed)*(grid-fx) + lattice(gx+1, gy, seed)*fx
		below := lattice(gx, gy+1, seed)*(grid-fx) + lattice(gx+1, gy+1, seed)*fx
		sum += share * ((above*(grid-fy) + below*fy) / (grid * grid))
		weight += share
	}
	return sum / weight
}

// lattice returns a number from 0 to 255 that depends on a point and a seed.
func lattice(x, y int, seed uint32) int {
	n := (uint32(x)*0x9E3779B1 ^ uint32(y)*0x85EBCA77 ^ seed) * 0xC2B2AE3D
	n = (n ^ n>>15) * 0x27D4EB2F
	return int(n >> 24)
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
