package source

import (
	"path"
	"strings"
)

// ilsvrcValidation is ILSVRC2012's 50,000 validation images, which are published without folders, and their classes apart from them, in the
// development kit. Which image has which class is a fact that never changes, so the program knows it (vallabels.go):
//
//	ILSVRC2012_img_val.tar    ILSVRC2012_val_00000001.JPEG …
var ilsvrcValidation = Kind{
	Name:   "ILSVRC2012's validation images",
	Forms:  []string{"ILSVRC2012_img_val.tar", "the folder of its images"},
	Labels: "as torchvision has them, without the development kit; --val-labels gives others",
	open:   openIlsvrcValidation,
	takes:  []*option{optionValLabels},
}

func openIlsvrcValidation(c *candidate) ([]*Split, error) {
	if c.folder != nil {
		return openValFolder(c)
	}
	if c.front == nil {
		return nil, nil
	}
	m, err := c.first()
	if err != nil {
		return nil, err
	}
	folder, name := path.Split(m.name)
	if namedTar(name) || strings.Count(folder, "/") > 1 || folder != "" && !strings.HasPrefix(name, valNamePrefix) {
		return nil, nil
	}
	if _, err := ilsvrcVal().find(name); err != nil {
		return nil, c.tar.errorf(m.name, "%v", err)
	}
	t, err := c.inTars()
	if err != nil {
		return nil, err
	}
	t.strip = folder // it was packed with its name
	val, err := openValLabels(c.opts)
	if err != nil {
		return nil, err
	}
	return c.newFiles("a tar of ILSVRC2012's validation images", t, val.rule), nil
}

func openValFolder(c *candidate) ([]*Split, error) {
	if _, others := c.tars(); c.given || len(c.folders) > 0 || len(others) == 0 || len(others) < len(c.files) {
		return nil, nil
	}
	if err := c.noSets(); err != nil {
		return nil, err
	}
	val, err := openValLabels(c.opts)
	if err != nil {
		return nil, err
	}
	if _, err := val.find(c.files[0]); err != nil {
		return nil, &FormatError{Path: c.path, Entry: c.files[0], Msg: err.Error()}
	}
	return c.newFiles("a folder of ILSVRC2012's validation images", c.inFolder(), val.rule), nil
}

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

func openIlsvrcTest(c *candidate) ([]*Split, error) {
	if c.folder != nil {
		if c.given || len(c.folders) > 0 || len(c.files) == 0 || !strings.HasPrefix(c.files[0], testNamePrefix) {
			return nil, nil
		}
		return c.newFiles("a folder of ILSVRC2012's test images", c.inFolder(), byNothing), nil
	}
	if c.front == nil {
		return nil, nil
	}
	m, err := c.first()
	if err != nil || !strings.HasPrefix(path.Base(m.name), testNamePrefix) || strings.Count(m.name, "/") > 1 {
		return nil, err
	}
	t, err := c.inTars()
	return c.newFiles("a tar of ILSVRC2012's test images", t, byNothing), err
}

// testRule gives the test images the label -1.
type testRule struct{}

func byNothing(*Split) (labelRule, error) { return testRule{}, nil }

func (testRule) take(f *file) (bool, error) {
	if f.folder && f.tar != nil {
		return false, nil
	}
	f.key, f.label, f.labelled = path.Base(f.key), -1, true
	if !strings.HasPrefix(f.key, testNamePrefix) {
		return false, f.errorf("is none of the test images, which are called %s00000001.JPEG and so on: move it elsewhere", testNamePrefix)
	}
	return !f.folder, skipFolder(f)
}

func (testRule) labels(s *Split) (labels, error) {
	s.note("the test images have no labels: all have -1")
	return labels{classes: ilsvrcVal().classes, of: func(string) (int32, bool) { return -1, true }}, nil
}
