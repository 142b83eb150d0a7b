package resample

import (
	"fmt"
	"strings"
)

// An Algorithm names the releases of Pillow whose bits a resize gives. They differ in the order of the two passes, whose
// sums are rounded to bytes between them, and in nothing else: weights, rounding and Nearest are the same. The zero value
// is the newest.
type Algorithm uint8

const (
	// Pillow13 is Pillow 13.0. The vertical pass comes first where it takes more than twice as many rows away as the
	// horizontal one takes columns:
	//
	//	h − outH > 0 and h − outH > 2·(w − outW)      of a w × h image resized to outW × outH, whatever is kept of it
	//
	// as for 300 × 700 to 256 × 597 (103 rows, 44 columns), and not for 375 × 500 to 256 × 341 (159 rows, 119 columns).
	Pillow13 Algorithm = iota
	// Pillow12 is Pillow 9.4 to 12.3: the horizontal pass always comes first.
	Pillow12
)

var algorithmNames = [...]string{"pillow-13", "pillow-12"}

// Algorithms returns the names that [ParseAlgorithm] reads, the default first.
func Algorithms() []string { return append([]string(nil), algorithmNames[:]...) }

// String returns the name by which users choose the algorithm: "pillow-13".
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return fmt.Sprintf("resample.Algorithm(%d)", uint8(a))
}

// ParseAlgorithm is the inverse of [Algorithm.String].
func ParseAlgorithm(name string) (Algorithm, error) {
	for i, n := range algorithmNames {
		if n == name {
			return Algorithm(i), nil
		}
	}
	return 0, fmt.Errorf("resample: unknown resampler %q, want one of %s", name, strings.Join(algorithmNames[:], ", "))
}

// MarshalText returns the name, for flags.
func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads a name.
func (a *Algorithm) UnmarshalText(name []byte) (err error) {
	*a, err = ParseAlgorithm(string(name))
	return err
}

// verticalFirst reports whether the vertical pass comes first. Where a side keeps its size, its pass is skipped and there
// is no order.
func (a Algorithm) verticalFirst(srcW, srcH, outW, outH int) bool {
	rows, columns := srcH-outH, srcW-outW
	return a == Pillow13 && columns != 0 && rows > 0 && rows > 2*columns
}
