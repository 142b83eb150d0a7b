// Package page makes HTML pages: the status page of a server, and those of imgshard view and stats. All have the same style sheet
// and head. html/template is not used: it looks up methods by name, so the linker would keep every method of every type, 11 MB in all.
package page

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"io"
)

//go:embed page.css
var css string

const head = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
%s
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="%s">
<title>%s</title>
<link rel="icon" href="data:,">
<style>
%s</style>
</head>
<body class="%s">
`

// Mark is the line near the start of a page that says what made it.
func Mark(class string) HTML { return Markup(`<meta name="generator" content="imgfeed %s">`, class) }

// A Page is a self-contained HTML page under construction.
type Page struct {
	*bufio.Writer
	script string
}

// HTML is text with markup.
type HTML string

// A Number is text that a table aligns as a number.
type Number string

// Begin writes a page up to the start of its body. class names the page's own rules in the style sheet. The page's policy allows
// only its own style, script and pictures, and requests to its own server.
func Begin(out io.Writer, title, class, script string) Page {
	p := Page{bufio.NewWriter(out), script}
	sum := sha256.Sum256([]byte(script))
	p.Add(head, Mark(class), "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-"+
		base64.StdEncoding.EncodeToString(sum[:])+"'", title, HTML(css), class)
	return p
}

// Markup formats HTML. It escapes text values for elements and for attributes in double quotes.
func Markup(format string, values ...any) HTML {
	for i, value := range values {
		switch value.(type) {
		case int, int32, float64, HTML:
		default:
			values[i] = html.EscapeString(fmt.Sprint(value))
		}
	}
	return HTML(fmt.Sprintf(format, values...))
}

// Add writes [Markup].
func (p Page) Add(format string, values ...any) { p.WriteString(string(Markup(format, values...))) }

// Table adds a table, unless it has no rows. Columns of integers and of [Number] are aligned to the right.
func (p Page) Table(columns []string, rows [][]any) {
	if len(rows) == 0 {
		return
	}
	cell := func(tag HTML, content, kind any) {
		class := HTML("")
		switch kind.(type) {
		case int, int32, Number:
			class = ` class="number"`
		}
		p.Add("<%s%s>%v", tag, class, content)
	}
	p.Add(`<div class="scroll"><table><tr>`)
	for i, name := range columns {
		cell("th", name, rows[0][i])
	}
	for _, row := range rows {
		p.Add("</tr>\n<tr>")
		for _, value := range row {
			cell("td", value, value)
		}
	}
	p.Add("</tr></table></div>\n")
}

// End writes the page's script, if any, and its end. It returns the first error of all writes.
func (p Page) End() error {
	if p.script != "" {
		p.WriteString("<script>" + p.script + "</script>\n")
	}
	p.WriteString("</body>\n</html>\n")
	return p.Flush()
}
