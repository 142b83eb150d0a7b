package source

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// OpenAll is Open of one path, or of several files that are one dataset: the tars of WebDataset or of classes, parquet files, or the lists of
// several splits. StandardInput alone is a tar that comes by Options.Stdin: it can be walked over once, and its Output is not beside it.
func OpenAll(paths []string, opts Options) ([]*Split, error) {
	for _, path := range paths {
		if _, err := os.Lstat(path); err != nil && strings.Contains(path, "{") {
			return nil, &FormatError{Path: path, Msg: "there is no such file: the shell expands braces where they stand without quotes", Err: err}
		}
	}
	switch {
	case len(paths) == 1 && paths[0] == StandardInput:
		p, err := newStdin(opts)
		if err != nil {
			return nil, err
		}
		return p.openFor(opts)
	case len(paths) == 1:
		return Open(paths[0], opts)
	}
	p, err := newFiles(paths, opts)
	if err != nil {
		return nil, err
	}
	return p.openFor(opts)
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
