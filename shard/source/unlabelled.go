package source

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// unlabelledImages is images whose labels are unknown or not wanted, wherever they lie. img2dataset's files and others beside the images are left out:
//
//	images/0001.jpg …
//	laion/00000/000000000.jpg, 000000000.txt, 000000000.json …
var unlabelledImages = Kind{
	Name:   "images without labels",
	Forms:  []string{"with --no-labels a folder, a zip or a tar that has images anywhere in it", "a folder of such tars"},
	Labels: "-1",
	open:   openUnlabelled,
	takes:  []*option{optionNoLabels},
}

func openUnlabelled(c *candidate) ([]*Split, error) {
	switch {
	case !c.opts.NoLabels && !c.unlabelledTest():
		return nil, nil
	case c.front != nil:
		t, err := c.inTars()
		return c.newFiles("a tar of images without labels", t, withoutLabels), err
	case c.folder == nil:
		return nil, nil
	}
	if err := c.noSets(); err != nil {
		return nil, err
	}
	names, others := c.tars()
	if len(names) == 0 || len(c.folders) > 0 || slices.ContainsFunc(others, namedImage) {
		return c.newFiles("a folder of images without labels", c.inFolder(), withoutLabels), nil
	}
	return c.bySplit(names, func(_ string, files []string) (*Split, error) {
		for i, f := range files {
			files[i] = filepath.Join(c.path, f)
		}
		t, err := c.inTars(files...)
		return c.newFiles(fmt.Sprintf("%d tars of images without labels", len(files)), t, withoutLabels)[0], err
	})
}

// unlabelledTest says that a folder holds test images in no class folders, and that they are wanted. ILSVRC2012's have classes.
func (c *candidate) unlabelledTest() bool {
	return c.opts.Test && c.split == "test" && c.folder != nil && len(c.folders) <= 1 && !slices.ContainsFunc(c.files, func(name string) bool {
		return strings.HasPrefix(name, testNamePrefix) || fileKind(name) != ""
	})
}

// besideImages says that a file is what img2dataset says of a tar or folder of images that lies beside it.
func (f *folder) besideImages(name string) bool {
	of := strings.TrimSuffix(strings.TrimSuffix(name, path.Ext(name)), "_stats")
	_, folder := slices.BinarySearch(f.folders, of)
	_, tar := slices.BinarySearch(f.files, of+".tar")
	return of != name && (folder || tar)
}

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
