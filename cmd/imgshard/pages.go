package main

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
	"github.com/imgfeed/imgfeed/internal/wordnet"
)

//go:embed pages.html
var pagesHTML string

// pages are the pages that stats and view write, each complete in itself.
var pages = template.Must(template.New("pages").Funcs(template.FuncMap{
	"word":   firstWord,
	"policy": policy,
	"words":  wordnet.Words,
	"bytes":  bytesize.Format,
	"bars":   bars,
	"src":    func(p *thumbnail.Picture) template.URL { return template.URL(p.URL()) },
	"share": func(n int, of []classCount) float64 {
		return 100 * float64(n) / float64(max(1, slices.MaxFunc(of, func(a, b classCount) int { return a.Samples - b.Samples }).Samples))
	},
}).Parse(pagesHTML))

// policy allows a page its own style, script and pictures, and nothing from elsewhere.
func policy() string {
	_, rest, _ := strings.Cut(pagesHTML, "<script>")
	script, _, _ := strings.Cut(rest, "</script>")
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// A bar is one of a histogram, in units of an SVG of 400 × 100.
type bar struct {
	X, Y, Height float64
	Title        string
}

func bars(row namedDistribution) []bar {
	d := row.Of
	highest := slices.Max(append([]int{1}, d.Histogram...))
	step := (d.High - d.Low) / histogramBins
	list := make([]bar, len(d.Histogram))
	for i, n := range d.Histogram {
		height := 100 * float64(n) / float64(highest)
		title := fmt.Sprintf("%s to %s: %d", row.Write(d.Low+float64(i)*step), row.Write(d.Low+float64(i+1)*step), n)
		list[i] = bar{X: float64(10 * i), Y: 100 - height, Height: height, Title: title}
	}
	return list
}

// writeFile writes to a file that is there in full or not at all; "-" is out.
func writeFile(path string, out io.Writer, write func(io.Writer) error) error {
	if path == "-" {
		return write(out)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	unfinished.Store(f.Name(), nil)
	defer unfinished.Delete(f.Name())
	defer os.Remove(f.Name())
	w := bufio.NewWriter(f)
	if err := errors.Join(write(w), w.Flush(), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
