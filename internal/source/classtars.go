package source

import (
	"archive/tar"
	"bufio"
	"context"
	"path"
	"path/filepath"
	"strings"
)

// classTars is a folder with a tar for each class, or a tar of them, as ILSVRC2012_img_train.tar is:
//
//	train/n01440764.tar    n01440764_10026.JPEG …
var classTars = Kind{
	Name:   "class tars",
	Forms:  []string{"a folder of them, as train/n01440764.tar", "a tar of them, as ILSVRC2012_img_train.tar"},
	Labels: "the place of the class in sorted order",
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
	tars, err := newInTars(p.path)
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
		ok, err := sniffTar(file)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, &FormatError{Path: file, Msg: "called a tar, but it is none", Err: errNotTar}
		}
		paths = append(paths, file)
	}
	tars, err := newInTars(paths...)
	s := p.newSplit(&classTarsLayout{tars, false})
	if len(others) > 0 {
		s.note("%d files beside the class tars are left out (%s)", len(others), someNames(others))
	}
	return []*Split{s}, err
}

func (l *classTarsLayout) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	w := &classWalk{tarWalk: tarWalk{ctx: ctx, fn: fn}, classes: make(map[string]int)}
	buf := bufio.NewReaderSize(nil, readAheadBytes)
	err := l.each(s, func(t *tarReader) error {
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
			inner, err := t.within(h.Name, buf)
			if err != nil {
				return err
			}
			return w.class(inner, path.Base(stem(h.Name)))
		})
	})
	if err != nil {
		return labels{}, err
	}
	return w.labels(s), nil
}

// class walks over the tar of one class.
func (w *classWalk) class(t *tarReader, class string) error {
	if reason := nameReason(class); reason != "" {
		return t.errorf("", "a class cannot be used because %s: rename it", reason)
	}
	if _, twice := w.classes[class]; twice {
		return t.errorf("", "class %s occurs in two tars", class)
	}
	w.classes[class] = 0
	return w.files(t, func(h *tar.Header) error {
		// A class tar made of the folder holds "n01440764/x.JPEG"; its key is the same as that of "x.JPEG".
		return w.add(t, h, class, class+"/"+strings.TrimPrefix(h.Name, class+"/"))
	})
}
