package source

import (
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"io/fs"
	"path"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// unlabelledRule takes all images.
type unlabelledRule struct{ others []string }

func withoutLabels(*Split) (labelRule, error) { return &unlabelledRule{}, nil }

func (r *unlabelledRule) take(f *file) (bool, error) {
	if f.folder {
		return false, nil
	}
	if !namedImage(f.key) {
		r.others = append(r.others, f.key)
		return false, nil
	}
	f.label, f.labelled = noLabel, true
	return true, nil
}

func (r *unlabelledRule) labels(s *Split) (labels, error) {
	if len(r.others) > 0 {
		s.note("%s not called as images are, and left out (%s)", bytesize.Counted(len(r.others), "file is", "files are"), someNames(r.others))
	}
	return noLabels(), nil
}

// noLabels are the labels of a split without any.
func noLabels() labels {
	return labels{numbered: true, of: func(string) (int32, bool) { return noLabel, true }}
}

// testNamePrefix begins the names of the test images of ILSVRC2012.
const testNamePrefix = "ILSVRC2012_test_"

// testRule gives the test images of ILSVRC2012 the label -1.
type testRule struct{}

func byNothing(*Split) (labelRule, error) { return testRule{}, nil }

func (testRule) take(f *file) (bool, error) {
	if f.folder && f.tar != nil {
		return false, nil
	}
	f.key, f.label, f.labelled = path.Base(f.key), noLabel, true
	if !strings.HasPrefix(f.key, testNamePrefix) {
		return false, f.errorf("is none of the test images, which are called %s00000001.JPEG and so on: move it elsewhere", testNamePrefix)
	}
	if f.folder {
		return false, fs.SkipDir
	}
	return true, nil
}

func (testRule) labels(s *Split) (labels, error) {
	s.note("the test images have no labels: all have -1")
	l := noLabels()
	l.classes, l.numbered = wordnet.Wnids(), false
	return l, nil
}

// suffixRule labels files by the wnid at the end of their names, as n01440764_10026_n01440764.JPEG.
type suffixRule struct {
	index  map[string]int32 // wnid → label
	differ int              // validation images of another class than is known
}

func bySuffix(*Split) (labelRule, error) {
	return &suffixRule{index: classIndex(wordnet.Wnids())}, nil
}

// suffixClass is the wnid that a name ends in before its extension; "" if there is none.
func suffixClass(name string) string {
	base := strings.TrimSuffix(name, path.Ext(name))
	class := base[strings.LastIndexByte(base, '_')+1:]
	if class == base || !isWnid(class) || strings.Contains(name, "/") {
		return ""
	}
	return class
}

// label is the label that a key says.
func (r *suffixRule) label(key string) (int32, bool) {
	if strings.HasPrefix(key, testNamePrefix) {
		return noLabel, true
	}
	label, ok := r.index[suffixClass(key)]
	return label, ok
}

func (r *suffixRule) take(f *file) (bool, error) {
	if f.folder {
		return false, nil
	}
	if f.label, f.labelled = r.label(f.key); !f.labelled {
		return false, f.errorf("the name does not end in one of ILSVRC2012's wnids, as those of other images do: move it elsewhere")
	}
	name := f.key[:max(strings.LastIndexByte(f.key, '_'), 0)] + valNameSuffix
	if n, ok := valNumber(name); ok && ilsvrcVal().labels[n-1] != f.label {
		r.differ++
	}
	return true, nil
}

func (r *suffixRule) labels(s *Split) (labels, error) {
	if r.differ > 0 {
		s.note("%s validation images have another class in their names than is known of them", bytesize.Grouped(r.differ))
	}
	return labels{classes: wordnet.Wnids(), of: r.label}, nil
}
