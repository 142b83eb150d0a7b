package testenv

import (
	"errors"
	"runtime"
	"testing"
)

func (f *failing) Fatal(values ...any) {
	f.text = values[0].(error).Error()
	runtime.Goexit()
}

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
