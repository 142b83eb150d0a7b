package cliutil

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/pflag"
)

// Seed returns the value of a flag that sets the seed n.
//
// A seed that draws is a signed number of 64 bits, as DataLoader and torch's generators take it. A seed that packs is not negative, because a
// manifest keeps it without a sign, and not above the largest signed number, so that every seed that packs can draw.
func Seed[T int64 | uint64](n *T) pflag.Value { return seedValue[T]{n} }

type seedValue[T int64 | uint64] struct{ n *T }

// Set implements pflag.Value.
func (s seedValue[T]) Set(text string) error {
	low, zero := int64(math.MinInt64), T(0)
	if zero-1 > zero { // T has no sign
		low = 0
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || n < low {
		return fmt.Errorf("want a whole number from %d to %d", low, math.MaxInt64)
	}
	*s.n = T(n)
	return nil
}

// String implements pflag.Value.
func (s seedValue[T]) String() string { return fmt.Sprint(*s.n) }

// Type names the value in the help.
func (s seedValue[T]) Type() string { return "int" }
