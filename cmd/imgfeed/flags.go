package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/transform"
)

const (
	threadsMax  = 4096    // more processors than any machine has; a larger number is a typing error that would exhaust the memory
	memoryMin   = 1 << 20 // smaller than the ring of any useful batch
	sessionsMax = 1 << 20 // more ranks and loaders than any machine has
	durationMax = 10000 * time.Hour
)

// resamplerUsage describes --resampler.
const resamplerUsage = "resize like pillow-13 (Pillow 13) or pillow-12 (Pillow 9.4 to 12.1)"

// durationFlag takes a time from low to durationMax: 30s, 1m30s, or a number of seconds.
func durationFlag(to *time.Duration, low time.Duration) cliutil.Flag[time.Duration] {
	return cliutil.Flag[time.Duration]{To: to, Kind: "duration", Parse: func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if seconds, plain := strconv.ParseFloat(text, 64); plain == nil && math.Abs(seconds) < math.MaxInt64/float64(time.Second) {
			d, err = time.Duration(seconds*float64(time.Second)), nil
		}
		if err != nil || d < low || d > durationMax {
			return 0, fmt.Errorf("want a time such as 30s, from %v to 10000h", low)
		}
		return d, nil
	}, Show: func(d time.Duration) string {
		if d == 0 {
			return "0" // the help omits this default
		}
		return d.String()
	}}
}

// layoutFlag takes NHWC or NCHW.
func layoutFlag(to *transform.Layout) cliutil.Flag[transform.Layout] {
	return cliutil.Flag[transform.Layout]{To: to, Kind: "layout", Parse: func(text string) (transform.Layout, error) {
		for _, layout := range []transform.Layout{transform.NHWC, transform.NCHW} {
			if strings.EqualFold(text, layout.String()) {
				return layout, nil
			}
		}
		return 0, fmt.Errorf("unknown layout, want %v or %v", transform.NHWC, transform.NCHW)
	}, Show: transform.Layout.String}
}

// addressFlag takes the address of the metrics; "" disables them. A port without a host means this machine only.
func addressFlag(to *string) cliutil.Flag[string] {
	return cliutil.Flag[string]{To: to, Kind: "address", Parse: func(text string) (string, error) {
		if text == "" {
			return "", nil
		}
		if !strings.Contains(text, ":") {
			text = ":" + text
		}
		host, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return "", errors.New("want a port or HOST:PORT, e.g. 9090 or 0.0.0.0:9090")
		}
		return net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port), nil
	}, Show: func(address string) string { return address }}
}

// modeFlag takes a socket's permissions in octal, such as 0660. Its user must be able to read and write.
func modeFlag(to *fs.FileMode) cliutil.Flag[fs.FileMode] {
	return cliutil.Flag[fs.FileMode]{To: to, Kind: "mode", Parse: func(text string) (fs.FileMode, error) {
		n, err := strconv.ParseUint(text, 8, 32)
		if err != nil || n&^0o777 != 0 || n&0o600 != 0o600 {
			return 0, fmt.Errorf("%q is not a mode for a socket, such as 0600, 0660 or 0666", text)
		}
		return fs.FileMode(n), nil
	}, Show: func(mode fs.FileMode) string { return fmt.Sprintf("%04o", uint32(mode)) }}
}

// logFlags are the flags of logging.
type logFlags struct {
	level slog.Level
	json  bool
}

func (f *logFlags) register(flags *pflag.FlagSet) {
	flags.TextVar(&f.level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flags.BoolVar(&f.json, "log-json", false, "log JSON instead of text")
}

// logger logs to stderr, for the whole program.
func (f *logFlags) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: f.level}
	var handler slog.Handler = slog.NewTextHandler(os.Stderr, options)
	if f.json {
		handler = slog.NewJSONHandler(os.Stderr, options)
	}
	log := slog.New(handler)
	slog.SetDefault(log)
	return log
}
