package source

import (
	"errors"
	"fmt"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/imgfeed/imgfeed/shard"
)

// classNamesFiles are what a file with a class name in each line is called, beside data whose labels are numbers.
var classNamesFiles = []string{"classes.txt", "classnames.txt"}

// classNames are the names of labels that a source gives as numbers.
type classNames struct {
	names []string // nil: the numbers themselves
	from  string   // the file
}

// ilsvrcClasses names, in place of a file, the 1,000 wnids of ILSVRC2012.
const ilsvrcClasses = "ilsvrc2012"

// findClassNames takes the file that was given, or looks in the folders for one.
func findClassNames(folders []string, opts Options) (classNames, error) {
	switch opts.Classes {
	case "":
	case ilsvrcClasses:
		return classNames{names: wordnet.Wnids(), from: ilsvrcClasses}, nil
	default:
		if m, err := shard.ReadManifest(opts.Classes); !errors.Is(err, shard.ErrNotSet) && !errors.Is(err, syscall.ENOTDIR) {
			if err != nil {
				return classNames{}, err
			}
			return classNames{names: m.Classes, from: opts.Classes}, nil
		}
		return readClassNames(opts.Classes)
	}
	for _, folder := range folders {
		for _, name := range classNamesFiles {
			c, err := readClassNames(filepath.Join(folder, name))
			if !errors.Is(err, fs.ErrNotExist) {
				return c, err
			}
		}
	}
	return classNames{}, nil
}

// readClassNames reads a file of names, one a line, the first for label 0.
func readClassNames(p string) (classNames, error) {
	text, err := readLines(fileSystem{}, p, "class names")
	if err != nil {
		return classNames{}, err
	}
	c := classNames{from: p}
	lines := make(map[string]int) // name → line
	for line := range strings.Lines(text) {
		name, n := strings.TrimSpace(line), len(c.names)+1
		if name == "" {
			return classNames{}, refuse(p, "line %d is empty: line k names label k-1, one name a line", n)
		}
		if reason := nameReason(name); reason != "" {
			return classNames{}, refuse(p, "line %d cannot be a class because %s", n, reason)
		}
		if first, twice := lines[name]; twice {
			return classNames{}, refuse(p, "lines %d and %d both say %.60q: classes need names that differ", first, n, name)
		}
		lines[name] = n
		c.names = append(c.names, name)
	}
	if len(c.names) == 0 {
		return classNames{}, refuse(p, "is empty: it must name the classes, one a line")
	}
	return c, nil
}

// labels are the classes of a split with the labels 0 to n-1.
func (c classNames) labels(s *Split, n int) (labels, error) {
	names, numbered := c.names, false
	switch {
	case len(names) == 0:
		names, numbered = numberNames(n), true
		if n > 0 {
			s.note("the classes are called by their numbers, %s to %s: %s beside the tars, or --classes FILE, would name them, one a line",
				names[0], names[len(names)-1], classNamesFiles[0])
		}
		if n == len(wordnet.Wnids()) {
			s.note("if they are ILSVRC2012's, --classes %s calls them by their wnids", ilsvrcClasses)
		}
	case len(names) < n:
		return labels{}, refuse(c.from, "names %d classes, but %s has the label %d: it must have a line for each label from 0 on",
			len(names), s.Path, n-1)
	default:
		s.note("the classes are named by %s", c.from)
	}
	return labels{classes: names, numbered: numbered}, nil
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
