package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/transform"
)

const (
	threadsMax  = 4096    // far more processors than any machine has: a larger number is a slip that would take all its memory
	memoryMin   = 1 << 20 // less than the ring of any batch worth training on
	sessionsMax = 1 << 20 // far more ranks and loaders than any machine has
	durationMax = 10000 * time.Hour
)

// resamplerUsage describes --resampler.
const resamplerUsage = "whose bits resizing gives: pillow-13 (Pillow 13) or pillow-12 (Pillow 9.4 to 12.3)"

// A checkedFlag is a pflag.Value that takes some values only. It reports a mistake when the flag is read, with the flag's
// name.
type checkedFlag[T any] struct {
	to    *T
	kind  string
	parse func(text string) (T, error)
	show  func(T) string
}

// Set implements pflag.Value.
func (f checkedFlag[T]) Set(text string) error {
	value, err := f.parse(text)
	if err == nil {
		*f.to = value
	}
	return err
}

// String implements pflag.Value.
func (f checkedFlag[T]) String() string { return f.show(*f.to) }

// Type implements pflag.Value.
func (f checkedFlag[T]) Type() string { return f.kind }

// intFlag is a whole number from low to high.
func intFlag(to *int, low, high int) checkedFlag[int] {
	return checkedFlag[int]{to, "int", func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		switch {
		case err == nil && n >= low && n <= high:
			return n, nil
		case high == math.MaxInt:
			return 0, fmt.Errorf("want a whole number, %d or more", low)
		}
		return 0, fmt.Errorf("want a whole number from %d to %d", low, high)
	}, strconv.Itoa}
}

// durationFlag is a time from low to durationMax: 30s, 1m30s, or plain seconds.
func durationFlag(to *time.Duration, low time.Duration) checkedFlag[time.Duration] {
	return checkedFlag[time.Duration]{to, "duration", func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if seconds, plain := strconv.ParseFloat(text, 64); plain == nil && math.Abs(seconds) < math.MaxInt64/float64(time.Second) {
			d, err = time.Duration(seconds*float64(time.Second)), nil
		}
		if err != nil || d < low || d > durationMax {
			return 0, fmt.Errorf("want a time such as 30s, from %v to 10000h", low)
		}
		return d, nil
	}, func(d time.Duration) string {
		if d == 0 {
			return "0" // which the help does not show as a default
		}
		return d.String()
	}}
}

// levelFlag is the lowest level that is logged.
func levelFlag(to *slog.Level) checkedFlag[slog.Level] {
	return checkedFlag[slog.Level]{to, "level", func(text string) (level slog.Level, err error) {
		if level.UnmarshalText([]byte(text)) != nil {
			err = errors.New("want debug, info, warn or error")
		}
		return level, err
	}, func(level slog.Level) string { return strings.ToLower(level.String()) }}
}

// layoutFlag is NHWC or NCHW.
func layoutFlag(to *transform.Layout) checkedFlag[transform.Layout] {
	return checkedFlag[transform.Layout]{to, "layout", func(text string) (transform.Layout, error) {
		for _, layout := range []transform.Layout{transform.NHWC, transform.NCHW} {
			if strings.EqualFold(text, layout.String()) {
				return layout, nil
			}
		}
		return 0, fmt.Errorf("unknown layout, want %v or %v", transform.NHWC, transform.NCHW)
	}, transform.Layout.String}
}

// addressFlag is where metrics are served, completed; "" is nowhere.
func addressFlag(to *string) checkedFlag[string] {
	return checkedFlag[string]{to, "address", func(text string) (string, error) {
		if text == "" {
			return "", nil
		}
		return completeAddress(text)
	}, func(address string) string { return address }}
}

// completeAddress completes the address of the metrics: a port alone, or without a host, means this machine only.
func completeAddress(text string) (string, error) {
	if !strings.Contains(text, ":") {
		text = ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return "", fmt.Errorf("metrics address: %w", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// modeFlag is a socket's permissions in octal, which leave the socket to its user: 0660.
func modeFlag(to *fs.FileMode) checkedFlag[fs.FileMode] {
	return checkedFlag[fs.FileMode]{to, "mode", func(text string) (fs.FileMode, error) {
		n, err := strconv.ParseUint(text, 8, 32)
		if err != nil || n&^0o777 != 0 || n&0o600 != 0o600 {
			return 0, fmt.Errorf("%q is no mode of a socket, such as 0600, 0660 or 0666", text)
		}
		return fs.FileMode(n), nil
	}, func(mode fs.FileMode) string { return fmt.Sprintf("%04o", uint32(mode)) }}
}

// shareFlag is a number above 0 and up to 1.
func shareFlag(to *float64) checkedFlag[float64] {
	return checkedFlag[float64]{to, "share", func(text string) (float64, error) {
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || !(share > 0 && share <= 1) {
			return 0, errors.New("want a number above 0 and up to 1, as 0.01 for one batch in a hundred")
		}
		return share, nil
	}, func(share float64) string { return strconv.FormatFloat(share, 'g', -1, 64) }}
}

// targetFlag is the address of a collector of traces, or none.
func targetFlag(to *server.TraceTarget) checkedFlag[server.TraceTarget] {
	return checkedFlag[server.TraceTarget]{to, "URL", func(text string) (server.TraceTarget, error) {
		if text == "none" {
			return server.TraceTarget{}, nil
		}
		return server.ParseTraceTarget(text)
	}, func(to server.TraceTarget) string { return to.URL }}
}
