//go:build unix

// Command stdlib measures what a Go program does without imgfeed: image/jpeg, and golang.org/x/image/draw's bilinear
// scaler (which does not antialias) straight from the decoded planes to the crop.
//
//	stdlib LIST SECONDS eval|full
//
// LIST names a file with one path a line; the files are in memory before the clock starts. A quarter of SECONDS is
// warm-up. Prints one JSON object.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/image/draw"
	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stdlib:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: stdlib LIST SECONDS eval|full")
	}
	files, err := readAll(args[0])
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return err
	}
	duration := time.Duration(seconds * float64(time.Second))
	crop := image.NewRGBA(image.Rect(0, 0, 224, 224))
	next := 0
	measure := func(duration time.Duration) (done int, elapsed float64) {
		start := time.Now()
		for time.Since(start) < duration {
			decoded, err := jpeg.Decode(bytes.NewReader(files[next%len(files)]))
			next++
			if err != nil { // what image/jpeg does not read costs it little and counts for nothing
				continue
			}
			if args[2] == "eval" {
				draw.ApproxBiLinear.Scale(crop, crop.Bounds(), decoded, centre(decoded.Bounds()), draw.Src, nil)
			}
			done++
		}
		return done, time.Since(start).Seconds()
	}
	measure(duration / 4)
	before, err := cpuSeconds()
	if err != nil {
		return err
	}
	done, elapsed := measure(duration)
	after, err := cpuSeconds()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"images_per_second": float64(done) / elapsed, "images": done, "seconds": elapsed, "cpu_seconds": after - before,
	})
}

// cpuSeconds returns the processor time that the process has taken so far.
func cpuSeconds() (float64, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9, nil
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
	side := min(b.Dx(), b.Dy()) * 224 / 256
	at := b.Min.Add(image.Pt((b.Dx()-side)/2, (b.Dy()-side)/2))
	return image.Rectangle{at, at.Add(image.Pt(side, side))}
}
