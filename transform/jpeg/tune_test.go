package jpeg

import (
	"fmt"
	"image"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/transform/kernel"
)

func cpuNow() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(1, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestTune(t *testing.T) {
	if os.Getenv("TUNE") == "" {
		t.Skip()
	}
	runtime.LockOSThread()
	files := photographs(t)
	var photos, indexes [][]byte
	var sizes []image.Point
	d := New(kernel.Active())
	tot, itot := 0, 0
	for _, f := range files {
		data := readFile(t, f)
		index, config, err := d.AppendIndex(nil, data)
		if err != nil {
			t.Fatal(err)
		}
		if config.Progressive {
			continue
		}
		photos, indexes = append(photos, data), append(indexes, index)
		sizes = append(sizes, image.Pt(config.Width, config.Height))
		tot += len(data)
		itot += len(index)
	}
	fmt.Printf("%d images, index %.2f %%\n", len(photos), 100*float64(itot)/float64(tot))
	dst := make([]byte, 5000*5000*3)
	type job struct {
		name  string
		level kernel.Level
		f     func(d *Decoder, i int)
	}
	dec := func(useIndex, full bool) func(d *Decoder, i int) {
		return func(d *Decoder, i int) {
			var index []byte
			if useIndex {
				index = indexes[i]
			}
			r := image.Rectangle{Max: sizes[i]}
			if !full {
				r = centerCrop(sizes[i])
			}
			d.Reset(photos[i], index)
			if err := d.Decode(dst, r.Dx()*3, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	var jobs []job
	for _, l := range kernel.Available()[1:] {
		jobs = append(jobs, job{"full", l, dec(false, true)}, job{"center", l, dec(false, false)}, job{"centerIdx", l, dec(true, false)})
	}
	buf := []byte{}
	jobs = append(jobs, job{"index", kernel.AVX512, func(d *Decoder, i int) { buf, _, _ = d.AppendIndex(buf[:0], photos[i]) }})
	best := make([]time.Duration, len(jobs))
	for round := 0; round < 4; round++ {
		for j, job := range jobs {
			d := New(job.level)
			start := cpuNow()
			for i := range photos {
				job.f(d, i)
			}
			e := cpuNow() - start
			if round == 0 || e < best[j] {
				best[j] = e
			}
		}
	}
	for j, job := range jobs {
		us := best[j].Microseconds() / int64(len(photos))
		fmt.Printf("%-10s %-8s %5d us  %6.0f /s\n", job.name, job.level, us, float64(len(photos))/best[j].Seconds())
	}
}
