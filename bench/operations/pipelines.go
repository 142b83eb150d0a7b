package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/transform"
)

// readJPEGs reads up to countMax JPEG files of a folder, and makes their row indices like a packer.
func readJPEGs(folder string, countMax int) ([]transform.Source, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		return nil, err
	}
	var list []transform.Source
	indexer := jpeg.New(kernel.Active())
	for _, file := range files {
		if len(list) == countMax {
			break
		}
		data, err := os.ReadFile(file)
		if err != nil || imagefile.Sniff(data) != imagefile.JPEG {
			continue
		}
		aux, _, err := indexer.AppendIndex(nil, data)
		if err != nil {
			continue
		}
		data = append(data, make([]byte, imagefile.SlackBytes)...)[:len(data)]
		list = append(list, transform.Source{Format: imagefile.JPEG, Image: data, Aux: aux})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no JPEG file", folder)
	}
	return list, nil
}

// measurePipelines returns each transform's CPU time per image, in microseconds: the mean over all images, from stored
// bytes to pixels, in the shortest of several passes. Transforms alternate, image by image, and have the same draws.
func measurePipelines(level kernel.Level, texts []string, images []transform.Source, seconds float64) ([]float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	engine := transform.NewEngine(level)
	pipelines := make([][]transform.View, len(texts))
	shortest := make([]float64, len(texts))
	for i, text := range texts {
		views, err := transform.ParseViews(text, transform.Pillow13)
		if err != nil {
			return nil, err
		}
		for _, spec := range views {
			pipelines[i] = append(pipelines[i], transform.View{Spec: spec, Dst: transform.Output{Pix: make([]byte, spec.OutputBytes())}})
		}
		shortest[i] = math.Inf(1)
	}
	for pass, began := 0, time.Now(); pass < 2 || time.Since(began).Seconds() < seconds; pass++ {
		spent := make([]time.Duration, len(texts))
		for at, src := range images {
			for i, views := range pipelines {
				for k := range views {
					views[k].RNG = transform.NewViewRNG(1, 0, at, 0, k)
				}
				started := threadTime()
				if err := engine.ApplyViews(src, views); err != nil {
					return nil, err
				}
				spent[i] += threadTime() - started
			}
		}
		for i := range spent {
			shortest[i] = min(shortest[i], float64(spent[i].Nanoseconds())/1000/float64(len(images)))
		}
	}
	return shortest, nil
}

// threadTime returns the CPU time that the thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
