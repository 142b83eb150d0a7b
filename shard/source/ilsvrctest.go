package source

import (
	"archive/tar"
	"context"
	"errors"
	"path"
	"strings"
)

// ilsvrcTest is ILSVRC2012's 100,000 test images, whose labels were never published.
var ilsvrcTest = Kind{
	Name:   "ILSVRC2012's test images",
	Forms:  []string{"ILSVRC2012_img_test_v10102019.tar", "the folder of its images"},
	Labels: "-1: they have none; the classes are those of ILSVRC2012",
	open:   openIlsvrcTest,
}

const (
	testImages     = 100_000
	testNamePrefix = "ILSVRC2012_test_"
)

func openIlsvrcTest(p *place) ([]*Split, error) {
	if p.given {
		return nil, nil
	}
	if p.folder {
		if len(p.folders) > 0 || len(p.files) == 0 || !strings.HasPrefix(p.files[0], testNamePrefix) {
			return nil, nil
		}
		return []*Split{p.newSplit(&testFolder{inFolder{root: p.path, tree: p.tree}})}, nil
	}
	if p.tar == nil {
		return nil, nil
	}
	m, err := p.first()
	if err != nil || !strings.HasPrefix(path.Base(m.name), testNamePrefix) || strings.Count(m.name, "/") > 1 {
		return nil, err
	}
	in, err := p.inTars(p.path)
	return []*Split{p.newSplit(&testTar{in})}, err
}

// unlabelled are the labels of test images.
type unlabelled map[string]int32

func (u unlabelled) add(name string) error {
	if !strings.HasPrefix(name, testNamePrefix) {
		return errors.New("is none of the test images, which are called " + testNamePrefix + "00000001.JPEG and so on: move it elsewhere")
	}
	u[name] = -1
	return nil
}

func (u unlabelled) labels(s *Split) labels {
	s.note("the test images have no labels: all have -1")
	l := newLabels(ilsvrcVal().classes)
	l.byKey = u
	return l
}

// testFolder is the images in a folder.
type testFolder struct{ inFolder }

func (l *testFolder) describe() string { return "a folder of ILSVRC2012's test images" }

func (l *testFolder) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	entries, err := readTop(l.tree, l.root)
	if err != nil {
		return labels{}, err
	}
	u := make(unlabelled)
	for _, e := range entries {
		if err := u.add(e.name); err != nil {
			return labels{}, &FormatError{Path: l.root, Entry: e.name, Msg: err.Error()}
		}
		if err := errors.Join(ctx.Err(), fn(Item{Key: e.name, Reason: e.rejectReason()})); err != nil {
			return labels{}, err
		}
	}
	return u.labels(s), nil
}

// testTar is the images in a tar.
type testTar struct{ inTars }

func (l *testTar) describe() string { return "a tar of ILSVRC2012's test images" }

func (l *testTar) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	w, u := &tarWalk{ctx: ctx, fn: fn}, make(unlabelled)
	err := l.each(s, func(t *tarReader) error {
		return w.files(t, func(h *tar.Header) error {
			name := path.Base(h.Name)
			if err := u.add(name); err != nil {
				return t.errorf(h.Name, "%v", err)
			}
			return w.item(t, h, name, -1)
		})
	})
	if err != nil {
		return labels{}, err
	}
	return u.labels(s), nil
}
