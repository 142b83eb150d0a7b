package source

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// filesMax bounds how many files braces stand for.
const filesMax = 1 << 20

// OpenAll is Open of one path, or of several files that are one dataset: the tars of WebDataset or of classes, parquet files, or the lists of
// several splits. Braces stand for several as in a shell, where no file is called so: "imagenet1k-train-{0000..1023}.tar". StandardInput alone
// is a tar that comes by Options.Stdin: it can be walked over once, and its Output is not beside it.
func OpenAll(paths []string, opts Options) ([]*Split, error) {
	var all []string
	for _, path := range paths {
		expanded, err := expand(path)
		if err != nil {
			return nil, err
		}
		all = append(all, expanded...)
	}
	switch {
	case len(all) == 1 && all[0] == StandardInput:
		p, err := newStdin(opts)
		if err != nil {
			return nil, err
		}
		return p.openFor(opts)
	case len(all) == 1:
		return Open(all[0], opts)
	}
	p, err := newFiles(all, opts)
	if err != nil {
		return nil, err
	}
	return p.openFor(opts)
}

// expand gives the paths that a path with braces stands for.
func expand(path string) ([]string, error) {
	if _, err := os.Lstat(path); err == nil || !strings.Contains(path, "{") {
		return []string{path}, nil
	}
	expanded, ok := braces(path)
	if !ok {
		return nil, &FormatError{Path: path, Msg: fmt.Sprintf("the braces stand for more than %d files", filesMax)}
	}
	return expanded, nil
}

// braces expands {a,b} and {00..99}, which may stand in each other, as a shell does; ok is false where they are too many.
func braces(s string) (expanded []string, ok bool) {
	for open := 0; open < len(s); open++ {
		if s[open] != '{' {
			continue
		}
		parts, end := bracedParts(s, open)
		if parts == nil {
			continue
		}
		rest, ok := braces(s[end+1:])
		if !ok || len(parts)*len(rest) > filesMax {
			return nil, false
		}
		for _, part := range parts {
			inner, ok := braces(part)
			if !ok || len(expanded)+len(inner)*len(rest) > filesMax {
				return nil, false
			}
			for _, in := range inner {
				for _, r := range rest {
					expanded = append(expanded, s[:open]+in+r)
				}
			}
		}
		return expanded, true
	}
	return []string{s}, true
}

// bracedParts are the alternatives of the brace that opens at a place, and where it closes; nil: they are none.
func bracedParts(s string, open int) (parts []string, end int) {
	depth, from := 0, open+1
	for i := open; i < len(s); i++ {
		switch {
		case s[i] == '{':
			depth++
		case s[i] == ',' && depth == 1:
			parts, from = append(parts, s[from:i]), i+1
		case s[i] == '}':
			if depth--; depth > 0 {
				continue
			}
			if parts != nil {
				return append(parts, s[from:i]), i
			}
			return numberRange(s[from:i]), i
		}
	}
	return nil, 0
}

// numberRange gives the numbers of "8..11", with as many digits as the longer of "008..11" where one begins with 0.
func numberRange(s string) []string {
	low, high, ok := strings.Cut(s, "..")
	first, err1 := strconv.ParseUint(low, 10, 32)
	last, err2 := strconv.ParseUint(high, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return nil
	}
	digits := 0
	if low[0] == '0' || high[0] == '0' {
		digits = max(len(low), len(high))
	}
	n := int64(last) - int64(first)
	step := int64(1)
	if n < 0 {
		n, step = -n, -1
	}
	var numbers []string
	for i := range min(n, filesMax) + 1 {
		numbers = append(numbers, fmt.Sprintf("%0*d", digits, int64(first)+i*step))
	}
	return numbers
}

// newFiles is the place of several files: as if they alone lay in the folder that holds them all.
func newFiles(paths []string, opts Options) (*place, error) {
	p := &place{opts: opts, kinds: Kinds(), tree: fileSystem{}, folder: true, given: true}
	for i, path := range paths {
		abs, err := filepath.Abs(path)
		if err != nil || path == "" {
			return nil, &FormatError{Path: strconv.Quote(path), Msg: "the path is empty, as an unset variable is", Err: err}
		}
		info, err := os.Stat(abs)
		switch {
		case os.IsNotExist(err):
			return nil, &FormatError{Path: abs, Msg: fmt.Sprintf("there is no such file, of the %d that are given", len(paths)), Err: err}
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return nil, &FormatError{Path: abs, Msg: "several paths must be files of one dataset, and this is none: build folders one at a time, or the folder that holds them"}
		}
		p.files = append(p.files, abs)
		if i == 0 {
			p.path = filepath.Dir(abs)
		}
		for !below(abs, p.path) {
			p.path = filepath.Dir(p.path)
		}
	}
	slices.Sort(p.files)
	prefix, last, sort := p.files[0], "", fileSort(p.files[0])
	for i, file := range p.files {
		if file == last {
			return nil, &FormatError{Path: file, Msg: "is given twice"}
		}
		if last = file; fileSort(file) != sort {
			return nil, &FormatError{Path: file, Msg: "several paths must be files of one dataset, and this is not of the sort of others: build them one at a time"}
		}
		for !strings.HasPrefix(file, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
		p.files[i] = strings.TrimPrefix(strings.TrimPrefix(file, p.path), string(filepath.Separator))
	}
	p.split, p.output = splitName(prefix), strings.TrimRight(prefix, "-_.0123456789")
	if below(p.path, p.output) || strings.HasSuffix(p.output, string(filepath.Separator)) {
		p.output = p.path
	}
	return p, nil
}

// fileSort tells tars, parquet files and others apart by their names.
func fileSort(file string) string {
	switch {
	case namedTar(file):
		return ".tar"
	case strings.EqualFold(filepath.Ext(file), parquetExtension):
		return parquetExtension
	}
	return ""
}

// below says that a path lies in a folder, or is it.
func below(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}
