package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

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
