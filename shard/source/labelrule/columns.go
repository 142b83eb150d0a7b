package labelrule

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

const (
	NoLabel            = -1      // the label of a sample without a class
	LeftOutLabel       = -2      // the label of a sample with a class outside --classes
	numberedClassesMax = 1 << 20 // bounds the labels, and so the list of classes that one hostile label can ask for
)

// WholeNumber reads a number as a label: 3, or 3.0 as MXNet and pandas write it. number says that the text is a number, whole or not.
func WholeNumber(text string) (n int32, whole, number bool) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x != math.Trunc(x) {
		return 0, false, err == nil
	}
	return int32(min(max(x, NoLabel-1), numberedClassesMax)), true, true // beyond both, any label is refused
}

// ParseLabel reads a label, or -1 for none.
func ParseLabel(text string, at Errorf) (int32, error) {
	n, whole, _ := WholeNumber(text)
	switch {
	case !whole:
		return 0, at("the label %.40q is not a whole number", text).Or(remedy.Label)
	case n < NoLabel || n >= numberedClassesMax:
		return 0, at("the label %.40s is not from 0 to %d", text, numberedClassesMax-1)
	}
	return n, nil
}

// Column collects the distinct labels of a column. If all are whole numbers, they are the labels; otherwise they name classes.
type Column struct {
	Values []string
	errorf []Errorf // makes an error about the first row with each
	index  map[string]int32
}

// Errorf makes an error about one line or row.
type Errorf func(format string, args ...any) *transport.FormatError

// Add returns the index of a label among the distinct ones.
func (v *Column) Add(label string, at Errorf) (int32, error) {
	i, ok := v.index[label]
	if ok {
		return i, nil
	}
	if len(v.Values) == numberedClassesMax {
		return 0, at("more than %d labels that differ", numberedClassesMax).Or(remedy.Label)
	}
	if v.index == nil {
		v.index = make(map[string]int32)
	}
	label = strings.Clone(label) // so that the line can be freed
	i = int32(len(v.Values))
	v.index[label] = i
	v.Values, v.errorf = append(v.Values, label), append(v.errorf, at)
	return i, nil
}

// Resolved are the labels of the values that were added.
type Resolved struct {
	Labels   []int32
	Numbered bool     // the values are the labels
	classes  []string // otherwise the values name these classes, in the order of their labels
	Note     string
}

// SplitLabels gives the labels of a split after its walk; of is their Labels.Of.
func (r *Resolved) SplitLabels(s *dataset.Split, names ClassNames, of []int32) (l dataset.Labels, err error) {
	n, unlabelled := s.Seen(dataset.Labels{Of: of})
	if unlabelled > 0 && s.Targets == nil {
		s.Note("%s no label: -1 stands for it", bytesize.Counted(unlabelled, "image has", "images have"))
	}
	if r.Numbered {
		l, err = names.Labels(s, n)
	} else {
		l = dataset.Labels{Classes: r.classes, Texts: names.Names == nil}
		if l.Texts && !s.Options.ForceClasses {
			err = checkWnids(s, r.classes)
		}
	}
	l.Of = of
	return l, err
}

// Resolve finds the labels of all values. names come from --classes or a file beside the data; path is the source's.
func (v *Column) Resolve(path string, names ClassNames, opts dataset.Options) (r Resolved, err error) {
	r.Labels = make([]int32, len(v.Values))
	var whole, fractions, texts []int // the positions of such values
	for i, value := range v.Values {
		switch _, isWhole, isNumber := WholeNumber(value); {
		case isWhole:
			if r.Labels[i], err = ParseLabel(value, v.errorf[i]); err != nil {
				return r, err
			}
			whole = append(whole, i)
		case isNumber:
			fractions = append(fractions, i)
		default:
			texts = append(texts, i)
		}
	}
	numbers := slices.Concat(whole, fractions)
	switch {
	case len(texts) == 0 && len(fractions) > 0:
		_, err = ParseLabel(v.Values[fractions[0]], v.errorf[fractions[0]])
		return r, err
	case len(texts) == 0:
		r.Numbered = true
		return r, nil
	case len(numbers) > 0 && !opts.ForceClasses:
		return r, v.errorf[texts[0]]("the label %.60q is a name, and others are numbers (%s): correct it",
			v.Values[texts[0]], v.Values[numbers[0]]).Or(remedy.Label, remedy.ForceClasses)
	}
	return v.resolveNames(r, path, names)
}

func (v *Column) resolveNames(r Resolved, path string, names ClassNames) (_ Resolved, err error) {
	for i, value := range v.Values {
		if reason := transport.NameReason(value); reason != "" {
			return r, v.errorf[i]("the class %.60q cannot be used because %s", value, reason)
		}
	}
	r.classes = slices.Sorted(slices.Values(v.Values))
	if names.Names != nil {
		r.classes = names.Names
	}
	index := dataset.ClassIndex(r.classes)
	var others []string
	for i, value := range v.Values {
		label, ok := index[value]
		if !ok {
			label, others = LeftOutLabel, append(others, value)
		}
		r.Labels[i] = label
	}
	if names.Names == nil {
		return r, nil
	}
	slices.Sort(others)
	r.Note, err = names.chosen(path, len(v.Values)-len(others), others)
	return r, err
}

// chosen is the note that some classes are here, and others are not among the names. It refuses a dataset of other classes only.
func (c ClassNames) chosen(path string, here int, others []string) (note string, err error) {
	if here == 0 {
		return "", transport.Refuse(path, "none of its classes (%s) is among the %d of %s", transport.SomeNames(others),
			len(c.Names), c.From)
	}
	return fmt.Sprintf("the labels are those of %s: of its %d classes %d are here, and %d others are left out",
		c.From, len(c.Names), here, len(others)), nil
}

// classNamesFiles are the usual names of a file with a class name in each line, beside data with numbers as labels.
var classNamesFiles = []string{"classes.txt", "classnames.txt"}

// ClassNames are the names of labels that a source gives as numbers.
type ClassNames struct {
	Names []string // nil: the numbers themselves
	From  string   // the file
}

// ilsvrcClasses is the value of --classes for the 1,000 wnids of ILSVRC2012.
const ilsvrcClasses = "ilsvrc2012"

// FindClassNames takes the file that was given, or looks in the folders of a tree for one.
func FindClassNames(tree transport.Tree, folders []string, opts dataset.Options) (ClassNames, error) {
	switch opts.Classes {
	case "":
	case ilsvrcClasses:
		return ClassNames{Names: wordnet.Wnids(), From: ilsvrcClasses}, nil
	default:
		if m, err := shard.ReadManifest(opts.Classes); !errors.Is(err, shard.ErrNotSet) && !errors.Is(err, syscall.ENOTDIR) {
			if err != nil {
				return ClassNames{}, err
			}
			return ClassNames{Names: classesOf(m), From: opts.Classes}, nil
		}
		return readClassNames(transport.FileSystem{}, opts.Classes)
	}
	for _, folder := range folders {
		for _, name := range classNamesFiles {
			c, err := readClassNames(tree, filepath.Join(folder, name))
			if !errors.Is(err, fs.ErrNotExist) {
				return c, err
			}
		}
	}
	return ClassNames{}, nil
}

// classesOf are the classes of a set's labels, or of its targets if its samples have no labels.
func classesOf(m *shard.Manifest) []string {
	for _, f := range m.Fields {
		if len(m.Classes) == 0 && len(f.Classes) > 0 {
			return f.Classes
		}
	}
	return m.Classes
}

// readClassNames reads a file of names, one a line, the first for label 0.
func readClassNames(tree transport.Tree, p string) (ClassNames, error) {
	text, err := transport.ReadLines(tree, p, "class names")
	if err != nil {
		return ClassNames{}, err
	}
	c := ClassNames{From: p}
	lines := make(map[string]int) // name → line
	for line := range strings.Lines(text) {
		name, n := strings.TrimSpace(line), len(c.Names)+1
		if name == "" {
			return ClassNames{}, transport.Refuse(p, "line %d is empty: line k names label k-1, one name a line", n)
		}
		if reason := transport.NameReason(name); reason != "" {
			return ClassNames{}, transport.Refuse(p, "line %d cannot be a class because %s", n, reason)
		}
		if first, twice := lines[name]; twice {
			return ClassNames{}, transport.Refuse(p, "lines %d and %d both say %.60q: classes need names that differ", first, n, name)
		}
		lines[name] = n
		c.Names = append(c.Names, name)
	}
	if len(c.Names) == 0 {
		return ClassNames{}, transport.Refuse(p, "is empty: it must name the classes, one a line")
	}
	return c, nil
}

// Labels are the classes of a split with the labels 0 to n-1.
func (c ClassNames) Labels(s *dataset.Split, n int) (dataset.Labels, error) {
	names, numbered := c.Names, false
	switch {
	case len(names) == 0:
		names, numbered = make([]string, n), true
		for i := range names {
			names[i] = fmt.Sprintf("%0*d", len(fmt.Sprint(n-1)), i) // they sort by their numbers
		}
		if n > 0 {
			s.Note("the classes are called by their numbers, %s to %s, as there is no %s beside them; %v",
				names[0], names[len(names)-1], classNamesFiles[0], remedy.NameClasses)
		}
		if n == len(wordnet.Wnids()) {
			s.Note("there are as many classes as in ILSVRC2012; %v", remedy.ILSVRC)
		}
	case len(names) < n:
		return dataset.Labels{}, transport.Refuse(c.From, "names %d classes, but %s has the label %d: "+
			"it must have a line for each label from 0 on", len(names), s.Path, n-1)
	default:
		s.Note("the classes are named by %s", c.From)
	}
	return dataset.Labels{Classes: names, Numbered: numbered}, nil
}
