package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// classNamesBytesMax bounds a file of class names.
	classNamesBytesMax = 64 << 20
	// emptyClassesShownMax is how many classes without samples are named.
	emptyClassesShownMax = 5
)

// classNamesFiles are what a file with a class name in each line is called, beside data whose labels are numbers.
var classNamesFiles = []string{"classes.txt", "classnames.txt"}

// classNames are the names of labels that a source gives as numbers.
type classNames struct {
	names []string // nil: the numbers themselves
	from  string   // the file
	// exact says that these are the classes only if there are just as many: a devkit that was found beside the data need not be about it.
	exact bool
}

// findClassNames takes the file that was given, or looks in the folders for one, or for ImageNet's devkit: labels of ImageNet are, as anywhere in
// PyTorch, the places of the wnids in sorted order.
func findClassNames(folders []string, opts Options) (classNames, error) {
	if opts.Classes != "" {
		return readClassNames(opts.Classes)
	}
	if opts.Devkit != "" {
		d, err := openDevkit(opts.Devkit)
		if err != nil {
			return classNames{}, err
		}
		return classNames{names: d.Classes, from: d.Path}, nil
	}
	for _, folder := range folders {
		for _, name := range classNamesFiles {
			c, err := readClassNames(filepath.Join(folder, name))
			if !errors.Is(err, fs.ErrNotExist) {
				return c, err
			}
		}
	}
	d, err := lookForDevkit(folders)
	if d == nil || err != nil {
		return classNames{}, err
	}
	return classNames{names: d.Classes, from: d.Path, exact: true}, nil
}

// readClassNames reads a file of names, one a line, the first for label 0.
func readClassNames(p string) (classNames, error) {
	info, err := os.Stat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return classNames{}, &FormatError{Path: p, Msg: "there is no such file of class names", Err: err}
	}
	if err != nil {
		return classNames{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > classNamesBytesMax {
		return classNames{}, &FormatError{Path: p, Msg: fmt.Sprintf("no regular file of at most %d bytes: class names stand in one, a line for each", classNamesBytesMax)}
	}
	data, err := os.ReadFile(p)
	if err != nil {
		return classNames{}, err
	}
	c := classNames{from: p}
	lines := make(map[string]int) // name → line
	text := strings.TrimRight(strings.TrimPrefix(string(data), "\ufeff"), " \t\r\n")
	for line := range strings.Lines(text) {
		name, n := strings.TrimSpace(line), len(c.names)+1
		if name == "" {
			return classNames{}, &FormatError{Path: p, Msg: fmt.Sprintf("line %d is empty: line k names label k-1, one name a line", n)}
		}
		if reason := nameReason(name); reason != "" {
			return classNames{}, &FormatError{Path: p, Msg: fmt.Sprintf("line %d cannot be a class because %s", n, reason)}
		}
		if first, twice := lines[name]; twice {
			return classNames{}, &FormatError{Path: p, Msg: fmt.Sprintf("lines %d and %d both say %.60q: classes need names that differ", first, n, name)}
		}
		lines[name] = n
		c.names = append(c.names, name)
	}
	if len(c.names) == 0 {
		return classNames{}, &FormatError{Path: p, Msg: "is empty: it must name the classes, one a line"}
	}
	return c, nil
}

// labels are the classes of a split of which counts says how many samples each label has.
func (c classNames) labels(s *Split, counts []int) (labels, error) {
	names, numbered := c.names, false
	switch {
	case len(names) == 0, c.exact && len(names) != len(counts):
		names, numbered = numberNames(len(counts)), true
		if len(counts) > 0 {
			s.note("the classes are called by their numbers, %s to %s: %s beside the tars, or --classes FILE, would name them, one a line",
				names[0], names[len(names)-1], classNamesFiles[0])
		}
	case len(names) < len(counts):
		return labels{}, &FormatError{Path: c.from, Msg: fmt.Sprintf("names %d classes, but %s has the label %d: it must have a line for each label from 0 on",
			len(names), s.Path, len(counts)-1)}
	default:
		s.note("the classes are named by %s", c.from)
	}
	var empty []string
	for i, n := range counts {
		if n == 0 {
			empty = append(empty, fmt.Sprint(i))
		}
	}
	if len(empty) > 0 {
		shown := strings.Join(empty[:min(len(empty), emptyClassesShownMax)], ", ")
		if len(empty) > emptyClassesShownMax {
			shown += ", …"
		}
		s.note("%d of the labels from 0 to %d have no samples (%s)", len(empty), len(counts)-1, shown)
	}
	l := newLabels(names)
	l.numbered = numbered
	return l, nil
}

// numberNames calls classes by their numbers, with as many digits each that they sort by them.
func numberNames(n int) []string {
	digits := len(fmt.Sprint(max(n-1, 0)))
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%0*d", digits, i)
	}
	return names
}
