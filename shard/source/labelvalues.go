package source

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

const (
	// noLabel is that of a sample without a class.
	noLabel = -1
	// leftOutLabel is that of a sample whose class is not among those of --classes.
	leftOutLabel = -2
	// numberedClassesMax bounds the labels, and so the list of classes that one hostile label can ask for.
	numberedClassesMax = 1 << 20
)

// wholeNumber reads a label that is a number: 3, or 3.0 as MXNet and pandas write it. number says that the text is a number, whole or not.
func wholeNumber(text string) (n int32, whole, number bool) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x != math.Trunc(x) {
		return 0, false, err == nil
	}
	return int32(min(max(x, noLabel-1), numberedClassesMax)), true, true // beyond both, any label is refused
}

// labelValues are the labels of a column. If all are whole numbers they are the labels, else they are the names of classes.
type labelValues struct {
	values []string
	places []place // where each stood first
	index  map[string]int32
}

// A place is a line or a row: it makes errors that name it.
type place func(format string, args ...any) error

// add returns the place of a label among those that differ.
func (v *labelValues) add(label string, at place) (int32, error) {
	i, ok := v.index[label]
	if ok {
		return i, nil
	}
	if len(v.values) == numberedClassesMax {
		return 0, at("more than %d labels that differ: name the column of the labels by --label", numberedClassesMax)
	}
	if v.index == nil {
		v.index = make(map[string]int32)
	}
	label = strings.Clone(label) // of a line, which need not be kept
	i = int32(len(v.values))
	v.index[label] = i
	v.values, v.places = append(v.values, label), append(v.places, at)
	return i, nil
}

// resolvedLabels are the labels of the values that were added.
type resolvedLabels struct {
	labels   []int32
	numbered bool     // the values are the labels
	classes  []string // else the values are among these, in the order of their labels
	note     string
}

// of gives the labels of a split: all of them, and each by its key.
func (r *resolvedLabels) of(s *Split, names classNames, label func(key string) (int32, bool), all iter.Seq[int32]) (l labels, err error) {
	n, unlabelled := 0, 0
	for label := range all {
		if n = max(n, int(label)+1); label == noLabel {
			unlabelled++
		}
	}
	if unlabelled > 0 {
		s.note("%s no label: -1 stands for it", bytesize.Counted(unlabelled, "image has", "images have"))
	}
	if r.numbered {
		l, err = names.labels(s, n)
	} else {
		l = labels{classes: r.classes, texts: names.names == nil}
		if l.texts && !s.opts.ForceClasses {
			err = checkWnids(s, r.classes)
		}
	}
	l.of = label
	return l, err
}

// resolve tells the labels of all values. names are those of --classes or of a file beside the data, if there is one; path is the source's.
func (v *labelValues) resolve(path string, names classNames, opts Options) (r resolvedLabels, err error) {
	r.labels = make([]int32, len(v.values))
	firstNumber, firstFraction, firstName := -1, -1, -1
	for i, value := range v.values {
		n, whole, number := wholeNumber(value)
		first := &firstName
		switch {
		case whole && (n < noLabel || n >= numberedClassesMax):
			return r, v.places[i]("the label %.40s is not from 0 to %d", value, numberedClassesMax-1)
		case whole:
			r.labels[i], first = n, &firstNumber
		case number:
			first = &firstFraction
		}
		if *first < 0 {
			*first = i
		}
	}
	switch {
	case firstFraction >= 0 && firstName < 0:
		return r, v.places[firstFraction]("the label %s is no whole number: name another column by --label", v.values[firstFraction])
	case firstName < 0:
		r.numbered = true
		return r, nil
	case max(firstNumber, firstFraction) >= 0 && !opts.ForceClasses:
		return r, v.places[firstName]("the label %.60q is a name, and others are numbers (%s): correct it, name another column by --label, "+
			"or take all of them for names by --force-classes", v.values[firstName], v.values[max(firstNumber, firstFraction)])
	}
	return v.resolveNames(r, path, names)
}

// resolveNames gives each value that is a class's name its label.
func (v *labelValues) resolveNames(r resolvedLabels, path string, names classNames) (resolvedLabels, error) {
	for i, value := range v.values {
		if reason := nameReason(value); reason != "" {
			return r, v.places[i]("the class %.60q cannot be used because %s", value, reason)
		}
	}
	r.classes = slices.Sorted(slices.Values(v.values))
	if names.names != nil {
		r.classes = names.names
	}
	index := classIndex(r.classes)
	var others []string
	for i, value := range v.values {
		label, ok := index[value]
		if !ok {
			label, others = leftOutLabel, append(others, value)
		}
		r.labels[i] = label
	}
	switch {
	case names.names == nil:
	case len(others) == len(v.values):
		return r, refuse(path, "none of its classes (%s) is among the %d of %s", someNames(slices.Sorted(slices.Values(others))), len(r.classes), names.from)
	default:
		r.note = fmt.Sprintf("the labels are those of %s: of its %d classes %d are here, and %d others are left out",
			names.from, len(r.classes), len(v.values)-len(others), len(others))
	}
	return r, nil
}
