package cliutil

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/pflag"
)

// A Flag is a pflag.Value that validates its values. Errors appear while the command line is parsed, with the flag's
// name.
type Flag[T any] struct {
	To    *T
	Kind  string // the name of the values in the help
	Parse func(text string) (T, error)
	Show  func(T) string
}

// Set implements pflag.Value.
func (f Flag[T]) Set(text string) error {
	value, err := f.Parse(text)
	if err == nil {
		*f.To = value
	}
	return err
}

// String implements pflag.Value.
func (f Flag[T]) String() string { return f.Show(*f.To) }

// Type implements pflag.Value.
func (f Flag[T]) Type() string { return f.Kind }

// Int returns the value of a flag that sets n to a whole number from low to high.
func Int(n *int, low, high int) pflag.Value {
	return Flag[int]{To: n, Kind: "int", Parse: func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		switch {
		case err == nil && n >= low && n <= high:
			return n, nil
		case high == math.MaxInt:
			return 0, fmt.Errorf("want a whole number, %d or more", low)
		}
		return 0, fmt.Errorf("want a whole number from %d to %d", low, high)
	}, Show: strconv.Itoa}
}

// Seed returns the value of a flag that sets the seed n.
//
// A seed for drawing is a signed 64-bit number, as in DataLoader and torch's generators. A seed for packing is not
// negative, because a manifest stores it unsigned, and at most the largest signed number, so that it is valid for
// drawing, too.
func Seed[T int64 | uint64](n *T) pflag.Value {
	low, zero := int64(math.MinInt64), T(0)
	if zero-1 > zero { // T has no sign
		low = 0
	}
	return Flag[T]{To: n, Kind: "int", Parse: func(text string) (T, error) {
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil || n < low {
			return 0, fmt.Errorf("want a whole number from %d to %d", low, math.MaxInt64)
		}
		return T(n), nil
	}, Show: func(n T) string { return fmt.Sprint(n) }}
}
