// Package termsafe makes untrusted texts safe for terminals and logs: keys of samples, names of files, answers of
// servers. Nothing in them is executed, hidden, or breaks a line.
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

// Text returns a text for use within a line: unchanged, or quoted and escaped if it has invisible characters.
func Text(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, hidden) {
		return strconv.Quote(s)
	}
	return s
}

// Shell returns a path for a shell's command line, in quotes if necessary.
func Shell(s string) string {
	bare := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,=:@", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !bare(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// packages are our packages' names, which begin their errors.
var packages = regexp.MustCompile(`(^|: )(?:(?:loader|shard): )+`)

// Message returns an error's text for people, without the names of our packages.
func Message(text string) string { return packages.ReplaceAllString(text, "$1") }

// A Writer writes lines, with U+FFFD instead of invisible characters except tabs and line ends.
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

// hidden reports whether a character is invisible: a control character, a change of direction, or unassigned.
func hidden(r rune) bool { return !unicode.IsGraphic(r) }
