package source

import (
	"errors"
	"io"
	"io/fs"
	"strings"
)

// linesBytesMax bounds a file of lines.
const linesBytesMax = 64 << 20

// readLines reads a file of lines that the user gave, without a byte order mark and without empty lines at its end; what says for what, in errors.
func readLines(t fileTree, p, what string) (string, error) {
	info, err := t.stat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &FormatError{Path: p, Msg: "there is no such file of " + what, Err: err}
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > linesBytesMax {
		return "", refuse(p, "no regular file of at most %d bytes: %s stand in one, a line for each", linesBytesMax, what)
	}
	f, err := t.open(p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, linesBytesMax))
	return strings.TrimRight(strings.TrimPrefix(string(data), "\ufeff"), " \t\r\n"), err
}
