package testenv

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// OK ends the test on an error. of says of what it is, if the error does not: a format and its arguments.
func OK(t testing.TB, err error, of ...any) {
	if err == nil {
		return
	}
	if t.Helper(); len(of) > 0 {
		t.Fatalf(of[0].(string)+": %v", append(of[1:], err)...)
	}
	t.Fatal(err)
}

// Must returns a call's result to a test, which it ends if the call fails: blob := testenv.Must(os.ReadFile(path))(t).
func Must[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// Must2 is [Must] for calls with two results.
func Must2[V, W any](v V, w W, err error) func(testing.TB) (V, W) {
	return func(t testing.TB) (V, W) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v, w
	}
}

// Says reports any error but the wanted one: an error that it wraps, a part of its text, or one that a function accepts. For "" there must
// be no error.
func Says(t testing.TB, of any, err error, want any) {
	right, as := false, want
	switch want := want.(type) {
	case error:
		right = errors.Is(err, want)
	case func(error) bool:
		right, as = want(err), "another error"
	default:
		text, _ := want.(string)
		right = (err == nil) == (text == "") && (err == nil || strings.Contains(err.Error(), text))
	}
	if !right {
		t.Helper()
		t.Errorf("%.80v: %.1000v, want %q", of, err, as)
	}
}

// Fails checks that a call fails, and that its error is the wanted one, as [Says] does: testenv.Fails(shard.OpenSet(dir))(t, "is missing").
// Any error will do for nil. of says of what the error is: a format and its arguments.
func Fails[T any](_ T, err error) func(t testing.TB, want any, of ...any) {
	return func(t testing.TB, want any, of ...any) {
		t.Helper()
		if want == nil {
			want = func(err error) bool { return err != nil }
		}
		if of = append(of, "the call"); len(of) > 1 {
			of[0] = fmt.Sprintf(of[0].(string), of[1:len(of)-1]...)
		}
		Says(t, of[0], err, want)
	}
}

// FailsAs is [As] for the error of a call: testenv.FailsAs[*shard.CorruptError](shard.OpenSet(dir))(t, "checksum").
func FailsAs[E error, T any](_ T, err error) func(t testing.TB, parts ...string) E {
	return func(t testing.TB, parts ...string) E {
		t.Helper()
		return As[E](t, err, parts...)
	}
}

// As returns the error of a type that err is or wraps, and ends the test without one. The text of err has to have some parts.
func As[E error](t testing.TB, err error, parts ...string) E {
	t.Helper()
	as, is := errors.AsType[E](err)
	if !is {
		t.Fatalf("error %v of type %[1]T, want a %T", err, as)
	}
	Contains(t, err.Error(), parts...)
	return as
}

// Same ends the test unless got equals want. It says of what they are, and where they differ first.
func Same(t testing.TB, got, want []byte, of string, args ...any) {
	if bytes.Equal(got, want) {
		return
	}
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf(of+": byte %d of %d is %d, want %d", append(args, i, len(want), got[i], want[i])...)
		}
	}
	t.Fatalf(of+": %d bytes, want %d", append(args, len(got), len(want))...)
}

// Equal reports a result that is not the wanted one.
func Equal[V comparable](t testing.TB, got, want V, of string, args ...any) {
	if got == want {
		return
	}
	t.Helper()
	verb := "%v"
	if _, text := any(got).(string); text {
		verb = "%q"
	}
	t.Errorf(of+": "+verb+", want "+verb, append(args, got, want)...)
}

// Between reports a number outside low to high, and NaN.
func Between[N cmp.Ordered](t testing.TB, got, low, high N, of string, args ...any) {
	if !(got >= low && got <= high) {
		t.Helper()
		t.Errorf(of+": %v, want %v to %v", append(args, got, low, high)...)
	}
}

// NoAllocations reports allocations of run, which has been called often enough for its memory to have its size.
func NoAllocations(t testing.TB, runs int, run func(), of string, args ...any) {
	if n := testing.AllocsPerRun(runs, run); n > 0 {
		t.Helper()
		t.Errorf(of+": %v allocations", append(args, n)...)
	}
}

// FromJSON returns a value that is written as JSON, and ends the test if it is not one.
func FromJSON[V any, T string | []byte](t testing.TB, text T) (v V) {
	t.Helper()
	OK(t, json.Unmarshal([]byte(text), &v))
	return v
}
