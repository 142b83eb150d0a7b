// Package termsafe makes texts that may be anybody's, such as keys of samples, names of files, and what a server says, fit for a terminal
// and a log: nothing in them is obeyed, hidden, or spoils a line.
package termsafe

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a text for a place within a line: as it is, or in quotes with escapes if anything in it can't be seen.
func Text(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, hidden) {
		return strconv.Quote(s)
	}
	return s
}

// Shell returns a path as a shell takes it, in quotes if it needs them.
func Shell(s string) string {
	bare := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,=:@", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !bare(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// packages are the names of ours that stand before errors.
var packages = regexp.MustCompile(`(^|: )(?:(?:loader|shard): )+`)

// Message returns an error's text for people: without the names of our packages, which stand before it and within.
func Message(text string) string { return packages.ReplaceAllString(text, "$1") }

// A Writer writes lines, with U+FFFD in the place of all that can't be seen but tabs and the lines' ends.
type Writer struct{ io.Writer }

// Write implements [io.Writer].
func (w Writer) Write(text []byte) (int, error) {
	shown := bytes.Map(func(r rune) rune {
		if hidden(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, text)
	if _, err := w.Writer.Write(shown); err != nil {
		return 0, err
	}
	return len(text), nil
}

// hidden: controls, which a terminal obeys, and what turns the direction of a line or is nothing at all.
func hidden(r rune) bool { return !unicode.IsGraphic(r) }
