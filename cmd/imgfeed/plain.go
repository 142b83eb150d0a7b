package main

import (
	"bytes"
	"io"
	"unicode"
)

// plain writes what a server said, which may be anybody's, with U+FFFD in the place of what a terminal would obey.
type plain struct{ io.Writer }

func (p plain) Write(text []byte) (int, error) {
	if _, err := p.Writer.Write(bytes.Map(visible, text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

func visible(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return unicode.ReplacementChar
	}
	return r
}
