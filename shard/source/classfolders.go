package source

import (
	"cmp"
	"compress/gzip"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// classFolders is a folder with a folder for each class, as torchvision's ImageFolder takes it, or a tar of that:
//
//	train/n01440764/n01440764_10026.JPEG
var classFolders = Kind{
	Name:   "class folders",
	Forms:  []string{"a folder of them, as train/n01440764/….JPEG", "a tar or a zip of it"},
	Labels: "the place of the class in sorted order, or in --classes FILE, which leaves out all others",
	takes:  []*option{optionClasses},
	open:   openClassFolders,
}

func openClassFolders(c *candidate) ([]*Split, error) {
	if c.front != nil {
		return openTarOfFolders(c)
	}
	if c.folder == nil || len(c.folders) == 0 {
		return nil, nil
	}
	if err := cmp.Or(c.noSets(), c.halfDone()); err != nil {
		return nil, err
	}
	return c.newFiles("a folder of class folders", c.inFolder(), byFolder), nil
}

// halfDone says that the files beside class folders should have been unpacked or sorted into them: leaving them out would lose much.
func (c *candidate) halfDone() error {
	tars, others := c.tars()
	for _, t := range tars {
		if _, unpacked := slices.BinarySearch(c.folders, stem(t)); !unpacked {
			return &FormatError{Path: c.path, Entry: t, Msg: "class folders and class tars in one place, and this tar has no folder: " +
				"unpack it too, or move the tars (or the folders) elsewhere"}
		}
	}
	for _, f := range others {
		if c.besideImages(f) {
			return &FormatError{Path: c.path, Entry: f, Msg: "lies beside folders that img2dataset wrote, which are no classes: --no-labels packs their images without labels"}
		}
		if strings.HasPrefix(f, valNamePrefix) {
			return &FormatError{Path: c.path, Entry: f, Msg: "a validation image beside class folders: finish sorting them into the folders, or move the folders elsewhere"}
		}
	}
	return nil
}

func openTarOfFolders(c *candidate) ([]*Split, error) {
	m, err := c.first()
	if err != nil {
		return nil, err
	}
	t, err := c.inTars()
	if err != nil {
		return nil, err
	}
	if parts := strings.Split(m.name, "/"); len(parts) > 2 && (parts[0] == path.Base(stem(c.path)) || isSplitFolder(parts[0])) {
		t.strip = parts[0] + "/"
		if isSplitFolder(parts[1]) {
			return nil, &FormatError{Path: c.path, Entry: m.name, Msg: "a tar that holds several splits: unpack it and build its folder"}
		}
	}
	return c.newFiles("a tar of class folders", t, byFolder), nil
}

// classTars is a folder with a tar for each class, or a tar of them, as ILSVRC2012_img_train.tar is:
//
//	train/n01440764.tar    n01440764_10026.JPEG …
var classTars = Kind{
	Name:   "class tars",
	Forms:  []string{"a folder of them, as train/n01440764.tar", "a tar of them, as ILSVRC2012_img_train.tar"},
	Labels: "the place of the class in sorted order, or in --classes FILE, which leaves out all others",
	takes:  []*option{optionClasses},
	open:   openClassTars,
}

func openClassTars(c *candidate) ([]*Split, error) {
	if c.folder != nil {
		return openFolderOfTars(c)
	}
	if c.front == nil {
		return nil, nil
	}
	m, err := c.first()
	if err != nil || !namedTar(m.name) {
		return nil, err
	}
	t, err := c.inTars()
	if err != nil {
		return nil, err
	}
	return c.newFiles("a tar of class tars", &classTarFiles{*t, true}, byTar), nil
}

func openFolderOfTars(c *candidate) ([]*Split, error) {
	names, others := c.tars()
	if len(c.folders) > 0 || len(names) == 0 {
		return nil, nil
	}
	if err := c.noSets(); err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range names {
		if err := checkClassTar(c, name); err != nil {
			return nil, err
		}
		paths = append(paths, filepath.Join(c.path, name))
	}
	t, err := c.inTars(paths...)
	if err != nil {
		return nil, err
	}
	splits := c.newFiles("a folder of class tars", &classTarFiles{*t, false}, byTar)
	if len(others) > 0 {
		splits[0].note("%s left out (%s)", bytesize.Counted(len(others), "file beside the class tars is", "files beside the class tars are"), someNames(others))
	}
	return splits, nil
}

// checkClassTar checks that a file is a tar of images, as far as its first members say.
func checkClassTar(c *candidate, name string) error {
	q, err := c.in(name, "")
	if errors.Is(err, gzip.ErrHeader) || err == nil && q.front == nil {
		return &FormatError{Path: filepath.Join(c.path, name), Msg: "called a tar, but it is none", Err: errNotTar}
	}
	if err != nil {
		return err
	}
	defer q.close()
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
