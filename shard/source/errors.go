package source

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// FormatError says that a source is malformed, hostile, or not laid out as any that is read. It ends the build: such a source should be mended.
type FormatError struct {
	Path   string // the folder or tar
	Entry  string // the name of the tar's entry, or the file
	Offset int64  // in the tar, when Entry is one's; else 0
	Msg    string // what is wrong and what to do
	Err    error  // what caused it, may be nil
}

// refuse is a FormatError about a path.
func refuse(path, format string, args ...any) error { return refuseEntry(path, "", format, args...) }

// refuseEntry is a FormatError about a file in a folder, or a member of an archive.
func refuseEntry(path, entry, format string, args ...any) error {
	return &FormatError{Path: path, Entry: entry, Msg: fmt.Sprintf(format, args...)}
}

func (e *FormatError) Error() string {
	var b strings.Builder
	b.WriteString(ShownPath(e.Path))
	if e.Entry != "" {
		fmt.Fprintf(&b, ": entry %q", e.Entry)
	}
	if e.Offset > 0 {
		fmt.Fprintf(&b, " near byte %d", e.Offset)
	}
	b.WriteString(": " + e.Msg)
	if e.Err != nil && !errors.Is(e.Err, errors.ErrUnsupported) && !errors.Is(e.Err, errNotTar) && !errors.Is(e.Err, fs.ErrNotExist) { // which Msg has said in better words
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

func (e *FormatError) Unwrap() error { return e.Err }

// RejectError says that one file cannot be a sample. The Reason names no path of this machine, so that a list of rejects is the same everywhere.
type RejectError struct{ Reason string }

func (e *RejectError) Error() string { return e.Reason }

// combining matches the marks and the parts of Korean letters that decomposed Unicode (NFD) writes instead of one letter (NFC).
var combining = regexp.MustCompile(`[\x{300}-\x{36f}\x{1100}-\x{11ff}\x{3099}\x{309a}]`)

// someNames lists the first few names for a message. A decomposed letter shows as e\u0301, to be told from the same letter in another name.
func someNames(names []string) string {
	return combining.ReplaceAllStringFunc(bytesize.Listed(names, 5), func(mark string) string { return strings.Trim(strconv.QuoteToASCII(mark), `"`) })
}
