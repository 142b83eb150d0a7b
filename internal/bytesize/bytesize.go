// Package bytesize parses sizes on the command line, and formats sizes, numbers and lists for people.
package bytesize

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, as a flag's value.
type Size int64

// sizeMax exceeds any disk, and sums of it do not overflow.
const sizeMax = 1 << 60

// units are tried in this order, so that "KIB" and "KB" are not parsed as "B".
var units = []struct {
	suffix string
	bytes  int64
}{
	{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40},
	{"B", 1}, {"", 1},
}

// Set parses a size of at least one byte: "512MiB" and "512M" have units of 1024, "512MB" of 1000, "300000000" are bytes. It ignores case.
func (s *Size) Set(text string) error {
	upper := strings.ToUpper(strings.TrimSpace(text))
	for _, u := range units {
		number, ok := strings.CutSuffix(upper, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if bytes := n * float64(u.bytes); err == nil && bytes >= 1 && bytes <= sizeMax {
			*s = Size(bytes)
			return nil
		}
		break
	}
	return errors.New("want a size, such as 256MB or 1GiB") // the flag's error has the value
}

// String returns the size in a form that Set parses.
func (s *Size) String() string {
	if *s > 0 && *s%(1<<20) == 0 {
		return fmt.Sprintf("%dMiB", *s>>20)
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type names the value in the help.
func (s *Size) Type() string { return "size" }

// Format formats a number of bytes for people: "1.5 GiB".
func Format(n int64) string {
	if n < 1<<10 {
		return Counted(int(n), "byte", "bytes")
	}
	const units = "KMGT"
	amount, unit := float64(n)/(1<<10), 0
	for ; amount >= 1<<10 && unit < len(units)-1; unit++ {
		amount /= 1 << 10
	}
	return fmt.Sprintf("%.1f %ciB", amount, units[unit])
}

// Grouped formats a whole number for people: "1,281,167".
func Grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Rounded formats a number for people without its fraction.
func Rounded(n float64) string { return Grouped(int(math.Round(n))) }

// Counted formats a number with its noun for people: "1 shard", "1,000 classes".
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Grouped(n) + " " + many
}

// Listed formats the first shown of a list of names for people: "a, b and 6 more".
func Listed(names []string, shown int) string {
	if more := len(names) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), more)
	}
	return strings.Join(names, ", ")
}
