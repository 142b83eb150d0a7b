package testenv

import (
	"io"
	"reflect"
	"testing"
)

// Check reports a format and its arguments unless a condition holds.
func Check(t testing.TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// Require is [Check] for what the rest of a test builds on: it ends the test.
func Require(t testing.TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Fatalf(format, args...)
	}
}

// DeepEqual is [Equal] for slices, maps and other types without ==.
func DeepEqual[V any](t testing.TB, got, want V, of string, args ...any) {
	if !reflect.DeepEqual(got, want) {
		t.Helper()
		t.Errorf(of+": %v, want %v", append(args, got, want)...)
	}
}

// Opened is [Must] for what is closed when the test ends.
func Opened[C io.Closer](c C, err error) func(testing.TB) C {
	return func(t testing.TB) C {
		t.Helper()
		OK(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
}
