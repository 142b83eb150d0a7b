package testenv

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
)

func (f *failing) Fatal(values ...any) {
	f.text = values[0].(error).Error()
	runtime.Goexit()
}

func (f *failing) Errorf(format string, values ...any) { f.text = fmt.Sprintf(format, values...) }

// TestSays reports an error that is not the wanted one, by its text or by what it wraps.
func TestSays(t *testing.T) {
	wrapped := fmt.Errorf("x: %w", io.EOF)
	for _, c := range []struct {
		err   error
		want  any
		right bool
	}{
		{nil, "", true}, {nil, "EOF", false}, {nil, io.EOF, false}, {wrapped, "", false}, {wrapped, "x: E", true}, {wrapped, "y", false},
		{wrapped, io.EOF, true}, {wrapped, io.ErrNoProgress, false}, {wrapped, os.IsNotExist, false}, {os.ErrNotExist, os.IsNotExist, true},
	} {
		f := &failing{TB: t}
		Says(f, "it", c.err, c.want)
		Equal(t, f.text == "", c.right, "%v is %v: %s", c.err, c.want, f.text)
	}
	f := &failing{TB: t}
	Fails(7, error(nil))(f, nil, "file %d", 7)
	Check(t, strings.HasPrefix(f.text, "file 7: <nil>"), "no error: %s", f.text)
	Fails(7, io.EOF)(t, nil)
	Equal(t, As[*errorOfATest](t, fmt.Errorf("x: %w", &errorOfATest{7}), "x: ", "7").number, 7, "the number of an error")
}

// TestBetween reports numbers outside of a range, and what is not a number.
func TestBetween(t *testing.T) {
	for got, right := range map[float64]bool{1: true, 2: true, 0.9: false, 2.1: false, math.NaN(): false} {
		f := &failing{TB: t}
		Between(f, got, 1, 2, "it")
		Equal(t, f.text == "", right, "%v: %s", got, f.text)
	}
}

type errorOfATest struct{ number int }

func (e *errorOfATest) Error() string { return fmt.Sprint(e.number) }

// TestMust returns a value, and ends a test by an error.
func TestMust(t *testing.T) {
	if got := Must(7, nil)(t); got != 7 {
		t.Error(got)
	}
	f, ended := &failing{TB: t}, make(chan bool)
	go func() {
		defer close(ended)
		Must(7, errors.New("bad"))(f)
		t.Error("a test goes on after an error")
	}()
	if <-ended; f.text != "bad" {
		t.Error(f.text)
	}
}
