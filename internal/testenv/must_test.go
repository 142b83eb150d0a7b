package testenv

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
	Equal(t, Must(7, nil)(t), 7, "the value")
	f, ended := &failing{TB: t}, make(chan bool)
	go func() {
		defer close(ended)
		Must(7, errors.New("bad"))(f)
		t.Error("a test goes on after an error")
	}()
	<-ended
	Equal(t, f.text, "bad", "the error")
}

// A checked test keeps what is reported, and whether it goes on.
type checked struct {
	testing.TB
	said   string
	goesOn bool
}

func (c *checked) Helper()                             {}
func (c *checked) Errorf(format string, values ...any) { c.said = fmt.Sprintf(format, values...) }
func (c *checked) Fatalf(format string, values ...any) {
	c.Errorf(format, values...)
	runtime.Goexit()
}

// TestChecks has conditions that hold, which say nothing, and others.
func TestChecks(t *testing.T) {
	for _, tt := range []struct {
		check  func(testing.TB)
		want   string
		goesOn bool
	}{
		{func(t testing.TB) { Check(t, true, "x"); Require(t, true, "x"); DeepEqual(t, []int{1}, []int{1}, "x") }, "", true},
		{func(t testing.TB) { Check(t, false, "%d apples", 3) }, "3 apples", true},
		{func(t testing.TB) { Require(t, false, "%d apples", 3) }, "3 apples", false},
		{func(t testing.TB) { DeepEqual(t, []int{1}, []int{2}, "the apples of %s", "Eve") }, "the apples of Eve: [1], want [2]", true},
	} {
		c, ended := &checked{TB: t}, make(chan bool)
		go func() {
			defer close(ended)
			tt.check(c)
			c.goesOn = true
		}()
		<-ended
		Equal(t, c.said, tt.want, "the report")
		Equal(t, c.goesOn, tt.goesOn, "the test goes on after %q", c.said)
	}
}

// closing counts how often it is closed.
type closing struct{ times *int }

func (c closing) Close() error {
	*c.times++
	return nil
}

// TestOpened closes what a test has opened when it ends.
func TestOpened(t *testing.T) {
	times := 0
	t.Run("opens", func(t *testing.T) {
		Opened(closing{&times}, nil)(t)
		Equal(t, times, 0, "while the test runs: times that it is closed")
	})
	Equal(t, times, 1, "after the test: times that it is closed")
}

// A failing test keeps its failure.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, values ...any) {
	f.text = fmt.Sprintf(format, values...)
	runtime.Goexit()
}

// TestUntil waits for a condition that comes, and for one that doesn't.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		Until(t, func() bool { return time.Since(begun) >= time.Second })
		f, ended := &failing{TB: t}, make(chan bool)
		go func() {
			defer close(ended)
			Until(f, func() bool { return false })
		}()
		<-ended
		if took := time.Since(begun); !strings.HasPrefix(f.text, "the condition did not come in 1m0s:\ngoroutine ") || took > 62*time.Second {
			t.Errorf("%v, %q", took, f.text)
		}
	})
}

// A recorder notes that a test was skipped, and goes on.
type recorder struct {
	testing.TB
	skipped []any
}

func (*recorder) Helper()            {}
func (r *recorder) Skip(args ...any) { r.skipped = append(r.skipped, args...) }

// TestStranger puts programs of the right names on PATH that are others.
func TestStranger(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	write := func(name, said string, status string) {
		t.Helper()
		script := "#!/bin/sh\necho '" + said + "' >&2\nexit " + status + "\n"
		OK(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
	program := func() *Program {
		p := *ImageMagick
		p.find = p.search
		return &p
	}
	Equal(t, program().Find(), "", "where there is nothing")
	write("convert", "converts units", "0")
	Equal(t, program().Find(), "", "another program")
	write("convert", "ImageMagick is not installed here", "1")
	Equal(t, program().Find(), "", "a program that names ImageMagick in its error")
	write("convert", "Version: ImageMagick 6.9", "1")
	Equal(t, program().Find(), "", "a program that failed")
	r := &recorder{TB: t}
	program().Path(r)
	Equal(t, fmt.Sprint(r.skipped...), "needs ImageMagick: apt install imagemagick", "what a test without its program was skipped with")
	write("convert", "Version: ImageMagick 6.9", "0")
	Equal(t, program().Find(), filepath.Join(dir, "convert"), "convert")
	write("magick", "Version: ImageMagick 7.1", "0")
	p := program()
	Equal(t, p.Find(), filepath.Join(dir, "magick"), "found")
	Equal(t, p.Path(t), p.Find(), "path")
}
