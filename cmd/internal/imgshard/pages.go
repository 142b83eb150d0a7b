package imgshard

import (
	"bufio"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"

	"github.com/imgfeed/imgfeed/internal/style"
)

//go:embed pages
var pageFiles embed.FS

// A page is a self-contained HTML page under construction. html/template is not used: it looks up methods by name, so
// the linker would keep every method of every type, 11 MB in all.
type page struct{ *bufio.Writer }

// add writes formatted HTML. It escapes text values for elements and for attributes in double quotes.
func (p page) add(format string, values ...any) {
	for i, value := range values {
		switch value.(type) {
		case int, int32, float64:
		default:
			values[i] = html.EscapeString(fmt.Sprint(value))
		}
	}
	fmt.Fprintf(p, format, values...)
}

// begin writes the head of a page up to its body, with the page's own style after the common one. Its policy allows
// only the page's own style, script and pictures.
func (p page) begin(title, name, script string) {
	sum := sha256.Sum256([]byte(script))
	p.add(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="%s">
<title>%s</title>
<style>
`, "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", title)
	p.WriteString(style.CSS + pageFile(name) + "</style>\n</head>\n<body>\n")
}

// end writes the page's script, if any, and its end. It returns the first error of all writes.
func (p page) end(script string) error {
	if script != "" {
		p.WriteString("<script>" + script + "</script>\n")
	}
	p.WriteString("</body>\n</html>\n")
	return p.Flush()
}

// pageFile returns a style or script of the pages.
func pageFile(name string) string {
	text, err := pageFiles.ReadFile("pages/" + name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// writeFile writes a file atomically; "-" is out.
func writeFile(path string, out io.Writer, write func(io.Writer) error) error {
	if path == "-" {
		return write(out)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	w := bufio.NewWriter(f)
	if err := errors.Join(write(w), w.Flush(), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
