package source

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// classTars is a folder with a tar for each class, or a tar of them, as ILSVRC2012_img_train.tar is:
//
//	train/n01440764.tar    n01440764_10026.JPEG …
var classTars = Kind{
	Name:   "class tars",
	Forms:  []string{"a folder of them, as train/n01440764.tar", "a tar of them, as ILSVRC2012_img_train.tar"},
	Labels: "the place of the class in sorted order, or in --classes FILE, which leaves out all others",
	takes:  []option{optionClasses},
	open:   openClassTars,
}

type classTarsLayout struct {
	inTars
	whole bool // it is one tar, of the tars
}

func (l *classTarsLayout) describe() string {
	if l.whole {
		return "a tar of class tars"
	}
	return "a folder of class tars"
}

func openClassTars(p *place) ([]*Split, error) {
	if p.folder {
		return openFolderOfTars(p)
	}
	if p.tar == nil {
		return nil, nil
	}
	m, err := p.first()
	if err != nil || !namedTar(m.name) {
		return nil, err
	}
	tars, err := p.inTars(p.path)
	return []*Split{p.newSplit(&classTarsLayout{tars, true})}, err
}

func openFolderOfTars(p *place) ([]*Split, error) {
	names, others := p.tars()
	if len(p.folders) > 0 || len(names) == 0 {
		return nil, nil
	}
	if err := p.noSets(); err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range names {
		file := filepath.Join(p.path, name)
		if err := checkClassTar(p, name); err != nil {
			return nil, err
		}
		paths = append(paths, file)
	}
	tars, err := p.inTars(paths...)
	s := p.newSplit(&classTarsLayout{tars, false})
	if len(others) > 0 {
		s.note("%s left out (%s)", bytesize.Counted(len(others), "file beside the class tars is", "files beside the class tars are"), someNames(others))
	}
	return []*Split{s}, err
}

// checkClassTar checks that a file is a tar of images, as far as its first members say.
func checkClassTar(p *place, name string) error {
	q, err := p.in(name, "")
	if err != nil {
		if errors.Is(err, gzip.ErrHeader) {
			err = &FormatError{Path: filepath.Join(p.path, name), Msg: "called a tar, but it is none", Err: errNotTar}
		}
		return err
	}
	defer q.close()
	if q.tar == nil {
		return &FormatError{Path: q.path, Msg: "called a tar, but it is none", Err: errNotTar}
	}
	for i := range 3 {
		m, err := q.member(i)
		if err != nil {
			return nil // an empty tar, or one whose damage the walk names
		}
		if namedTar(m.name) {
			return &FormatError{Path: q.path, Entry: m.name, Msg: "a tar of tars among those of classes, as when it was unpacked beside itself: " +
				"build it alone, or move it out of the folder"}
		}
	}
	return nil
}

func (l *classTarsLayout) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	w, err := newClassWalk(ctx, s, fn)
	if err != nil {
		return labels{}, err
	}
	w.classes.level = 1 // a tar is the class
	buf := bufio.NewReaderSize(nil, readAheadBytes)
	wanted := *l
	if !l.whole {
		wanted.paths = slices.DeleteFunc(slices.Clone(l.paths), func(p string) bool { return !w.classes.takes(path.Base(stem(p))) })
	}
	err = wanted.each(s, func(t *tarReader) error {
		if !l.whole {
			return w.class(t, path.Base(stem(t.path)))
		}
		return w.files(t, func(h *tar.Header) error {
			if err := t.noLabel(h.Name); err != nil {
				return err
			}
			if h.Typeflag != tar.TypeReg || !namedTar(h.Name) {
				w.beside = append(w.beside, h.Name)
				return nil
			}
			if !w.classes.takes(path.Base(stem(h.Name))) {
				return nil
			}
			inner, err := t.within(h.Name, buf)
			if err != nil {
				return err
			}
			err = w.class(inner, path.Base(stem(h.Name)))
			if err == nil && !inner.endMarked() {
				s.cut = append(s.cut, inner.path+": "+inner.inner)
			}
			return err
		})
	})
	if err != nil {
		return labels{}, err
	}
	return w.labels(s)
}

// class walks over the tar of one class.
func (w *classWalk) class(t *tarReader, class string) error {
	if reason := nameReason(class); reason != "" {
		return t.errorf("", "a class cannot be used because %s: rename it", reason)
	}
	if _, twice := w.classes.counts[class]; twice {
		return t.errorf("", "class %s occurs in two tars", class)
	}
	w.classes.class(class)
	return w.files(t, func(h *tar.Header) error {
		// A class tar made of the folder holds "n01440764/x.JPEG"; its key is the same as that of "x.JPEG".
		rest := strings.TrimPrefix(h.Name, class+"/")
		return w.add(t, h, class, rest, class+"/"+rest)
	})
}
