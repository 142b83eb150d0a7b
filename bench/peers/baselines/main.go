// Command baselines measures two things that peers are compared with.
//
//	baselines stdlib LIST SECONDS eval|full
//	baselines memcpy SET SECONDS eval|train-resize
//
// stdlib works like a Go program without imgfeed: image/jpeg, and golang.org/x/image/draw's bilinear scaler (which does
// not antialias) from the decoded planes to the crop. LIST is a file with one path per line; the files are in memory
// before the clock starts.
//
// memcpy is the lower limit for serving crops: it copies them from raw pixels in memory into batches, row by row,
// without checks or decoding. SET is a shard set with the encoding pixels, codec none and Resize(256). Crops of 224×224
// are central or random. Images come in random order and go into three batches of 256 in turn, as in imgfeed bench.
//
// A quarter of SECONDS is warm-up. Each prints one JSON object.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const crop = 224

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "baselines:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	baselines := map[string]func(path, mode string) (step func() (images int), err error){"stdlib": stdlib, "memcpy": memcpy}
	if len(args) != 4 || baselines[args[0]] == nil {
		return fmt.Errorf("usage: baselines stdlib|memcpy LIST|SET SECONDS eval|full|train-resize")
	}
	seconds, err := strconv.ParseFloat(args[2], 64)
	if err != nil {
		return err
	}
	step, err := baselines[args[0]](args[1], args[3])
	if err != nil {
		return err
	}
	measure(seconds/4, step)
	cpu := cpuSeconds()
	done, elapsed := measure(seconds, step)
	cpu = cpuSeconds() - cpu
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"images_per_second": float64(done) / elapsed, "images_per_cpu_second": float64(done) / cpu,
		"cpu_seconds": cpu, "images": done, "seconds": elapsed,
	})
}

// measure repeats step until seconds have passed.
func measure(seconds float64, step func() (images int)) (done int, elapsed float64) {
	for start := time.Now(); elapsed < seconds; elapsed = time.Since(start).Seconds() {
		done += step()
	}
	return done, elapsed
}

// cpuSeconds returns the process's user and system time.
func cpuSeconds() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
