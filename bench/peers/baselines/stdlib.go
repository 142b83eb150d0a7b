package main

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"strings"

	"golang.org/x/image/draw"
)

// stdlib decodes the files that a list names in turn, and for eval makes crops of them.
func stdlib(list, mode string) (step func() int, err error) {
	files, err := readAll(list)
	if err != nil {
		return nil, err
	}
	dst, next := image.NewRGBA(image.Rect(0, 0, crop, crop)), 0
	return func() int {
		decoded, err := jpeg.Decode(bytes.NewReader(files[next%len(files)]))
		next++
		if err != nil { // what image/jpeg does not read costs it little and counts for nothing
			return 0
		}
		if mode == "eval" {
			draw.ApproxBiLinear.Scale(dst, dst.Bounds(), decoded, centre(decoded.Bounds()), draw.Src, nil)
		}
		return 1
	}, nil
}

func readAll(list string) ([][]byte, error) {
	paths, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	var files [][]byte
	for path := range strings.Lines(string(paths)) {
		data, err := os.ReadFile(strings.TrimSpace(path))
		if err != nil {
			return nil, err
		}
		files = append(files, data)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s names no files", list)
	}
	return files, nil
}

// centre returns the part of an image that Resize(256) and CenterCrop(224) keep.
func centre(b image.Rectangle) image.Rectangle {
	side := min(b.Dx(), b.Dy()) * crop / 256
	at := b.Min.Add(image.Pt((b.Dx()-side)/2, (b.Dy()-side)/2))
	return image.Rectangle{at, at.Add(image.Pt(side, side))}
}
