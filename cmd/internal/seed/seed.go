// Package seed reads the seeds on both programs' command lines.
//
// A seed that draws is a number of 64 bits, signed, as DataLoader and torch's generators have it. One that packs begins at 0, since a
// manifest keeps it without a sign, and ends where the other does, so that every seed that packs can draw.
package seed

import (
	"fmt"
	"math"
	"strconv"
)

// Draws is a seed of orders and random parameters, as a flag's value.
type Draws int64

// Set implements pflag.Value.
func (s *Draws) Set(text string) error {
	n, err := read(text, math.MinInt64)
	if err == nil {
		*s = Draws(n)
	}
	return err
}

// String implements pflag.Value.
func (s *Draws) String() string { return strconv.FormatInt(int64(*s), 10) }

// Type names the value in the help.
func (s *Draws) Type() string { return "int" }

// Packs is a seed of what is written once: the order in a set, synthetic images; as a flag's value.
type Packs uint64

// Set implements pflag.Value.
func (s *Packs) Set(text string) error {
	n, err := read(text, 0)
	if err == nil {
		*s = Packs(n)
	}
	return err
}

// String implements pflag.Value.
func (s *Packs) String() string { return strconv.FormatUint(uint64(*s), 10) }

// Type names the value in the help.
func (s *Packs) Type() string { return "int" }

func read(text string, low int64) (int64, error) {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || n < low {
		return 0, fmt.Errorf("want a whole number from %d to %d", low, math.MaxInt64)
	}
	return n, nil
}
