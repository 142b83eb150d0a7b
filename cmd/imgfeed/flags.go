package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/transform"
)

// Values of flags that take some values only: the mistake is told when the flag is read, with the flag's name.

// threadsMax is far beyond what any machine has processors for: more is a slip that would take all its memory.
const threadsMax = 4096

// memoryMin is less than the ring of any batch worth training on.
const memoryMin = 1 << 20

// sessionsMax is far beyond what any machine has ranks and loaders for.
const sessionsMax = 1 << 20

// resamplerUsage describes --resampler.
const resamplerUsage = "whose bits resizing gives: pillow-13 (Pillow 13) or pillow-12 (Pillow 9.4 to 12.3)"

// An intFlag is a whole number from low to high.
type intFlag struct {
	n         *int
	low, high int
}

// Set implements pflag.Value.
func (f intFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case err == nil && n >= f.low && n <= f.high:
		*f.n = n
		return nil
	case f.high == math.MaxInt:
		return fmt.Errorf("want a whole number, %d or more", f.low)
	}
	return fmt.Errorf("want a whole number from %d to %d", f.low, f.high)
}

// String implements pflag.Value.
func (f intFlag) String() string { return strconv.Itoa(*f.n) }

// Type implements pflag.Value.
func (f intFlag) Type() string { return "int" }

// durationMax is far longer than a server runs.
const durationMax = 10000 * time.Hour

// A durationFlag is a time from low to durationMax.
type durationFlag struct {
	d   *time.Duration
	low time.Duration
}

// Set takes 30s, 1m30s and plain seconds.
func (f durationFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	if seconds, plain := strconv.ParseFloat(text, 64); plain == nil && math.Abs(seconds) < math.MaxInt64/float64(time.Second) {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d < f.low || d > durationMax {
		return fmt.Errorf("want a time such as 30s, from %v to 10000h", f.low)
	}
	*f.d = d
	return nil
}

// String implements pflag.Value; the help does not show a default of 0.
func (f durationFlag) String() string {
	if *f.d == 0 {
		return "0"
	}
	return f.d.String()
}

// Type implements pflag.Value.
func (f durationFlag) Type() string { return "duration" }

// A levelFlag is the least level of what is logged.
type levelFlag struct{ level *slog.Level }

// Set implements pflag.Value.
func (f levelFlag) Set(text string) error {
	if f.level.UnmarshalText([]byte(text)) != nil {
		return errors.New("want debug, info, warn or error")
	}
	return nil
}

// String implements pflag.Value.
func (f levelFlag) String() string { return strings.ToLower(f.level.String()) }

// Type implements pflag.Value.
func (f levelFlag) Type() string { return "level" }

// A layoutFlag is NHWC or NCHW.
type layoutFlag struct{ layout *transform.Layout }

// Set implements pflag.Value.
func (f layoutFlag) Set(text string) error {
	for _, layout := range []transform.Layout{transform.NHWC, transform.NCHW} {
		if strings.EqualFold(text, layout.String()) {
			*f.layout = layout
			return nil
		}
	}
	return fmt.Errorf("unknown layout, want %v or %v", transform.NHWC, transform.NCHW)
}

// String implements pflag.Value.
func (f layoutFlag) String() string { return f.layout.String() }

// Type implements pflag.Value.
func (f layoutFlag) Type() string { return "layout" }

// An addressFlag is where metrics are served, completed; "" is nowhere.
type addressFlag struct{ address *string }

// Set implements pflag.Value.
func (f addressFlag) Set(text string) (err error) {
	if *f.address = text; text != "" {
		*f.address, err = server.MetricsAddr(text)
	}
	return err
}

// String implements pflag.Value.
func (f addressFlag) String() string { return *f.address }

// Type implements pflag.Value.
func (f addressFlag) Type() string { return "address" }

// A modeFlag is a socket's permissions in octal: "0660".
type modeFlag struct{ mode *fs.FileMode }

// Set takes permissions that leave the socket to its user.
func (f modeFlag) Set(text string) error {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n&^0o777 != 0 || n&0o600 != 0o600 {
		return fmt.Errorf("%q is no mode of a socket, such as 0600, 0660 or 0666", text)
	}
	*f.mode = fs.FileMode(n)
	return nil
}

// String returns the permissions as they may be given.
func (f modeFlag) String() string { return fmt.Sprintf("%04o", uint32(*f.mode)) }

// Type implements pflag.Value.
func (f modeFlag) Type() string { return "mode" }
