package source

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// classFolders is a folder with a folder for each class, as torchvision's ImageFolder takes it, or a tar of that:
//
//	train/n01440764/n01440764_10026.JPEG
var classFolders = dataset.Kind{
	Name:   "class folders",
	Forms:  []string{"a folder of them, such as train/n01440764/….JPEG", "a tar or a zip of it"},
	Labels: "the class's index in sorted order, or in --classes FILE, which leaves out all others",
	Takes:  []string{"--classes"},
}

func openClassFolders(c *candidate) ([]*dataset.Split, error) {
	switch {
	case c.form == aTar:
		if err := c.enterTarFolder(); err != nil {
			return nil, err
		}
	case len(c.folders) == 0:
		return nil, nil
	default:
		if err := c.halfDone(); err != nil {
			return nil, err
		}
	}
	return c.images("class folders", labelrule.ByFolder)
}

// img2datasetFiles are the names of files that img2dataset writes beside its folders and tars, which are numbered.
var img2datasetFiles = regexp.MustCompile(`^\d{5,}(_stats)?\.(json|parquet)$`)

// halfDone refuses class tars beside class folders, which leaving them out would lose, and folders that img2dataset wrote.
func (c *candidate) halfDone() error {
	tars, others := c.filter(transport.NamedTar)
	for _, t := range tars {
		if _, unpacked := slices.BinarySearch(c.folders, transport.Stem(t)); !unpacked {
			return transport.RefuseEntry(c.path, t, "class folders and class tars lie together, and this tar has no folder: "+
				"unpack it too, or move the tars (or the folders) elsewhere")
		}
	}
	for _, f := range others {
		if img2datasetFiles.MatchString(f) && c.besideImages(f) {
			return transport.RefuseEntry(c.path, f, "lies beside folders that img2dataset wrote, which are not classes").Or(remedy.NoLabels)
		}
	}
	return nil
}

// enterTarFolder makes the class folders of a tar begin in its outermost folder, if the folder has the name of the tar or of a split.
func (c *candidate) enterTarFolder() error {
	m, err := c.first()
	if err != nil {
		return err
	}
	parts := strings.Split(m.name, "/")
	if len(parts) <= 2 || parts[0] != path.Base(transport.Stem(c.path)) && transport.FolderSplit(parts[0]) == "" {
		return nil
	}
	c.strip = parts[0] + "/"
	if transport.FolderSplit(parts[1]) != "" {
		return transport.RefuseEntry(c.path, m.name, "a tar that holds several splits").Or(transport.Unpack(c.path)...)
	}
	return nil
}

// classTars is a folder with a tar for each class, or a tar of them, such as ILSVRC2012_img_train.tar is:
//
//	train/n01440764.tar    n01440764_10026.JPEG …
var classTars = dataset.Kind{
	Name:   "class tars",
	Forms:  []string{"a folder of them, such as train/n01440764.tar", "a tar of them, such as ILSVRC2012_img_train.tar"},
	Labels: "the class's index in sorted order, or in --classes FILE, which leaves out all others",
	Takes:  []string{"--classes"},
}

func openClassTars(c *candidate) ([]*dataset.Split, error) {
	what, names, others := "a tar of class tars", []string(nil), []string(nil)
	if c.listed() {
		what = "a folder of class tars"
		if names, others = c.filter(transport.NamedTar); len(c.folders) > 0 || len(names) == 0 {
			return nil, nil
		}
		if err := c.noSets(); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(names, func(name string) bool { return transport.NamedSplit(name) == "" }) {
			no := transport.RefuseEntry(c.path, names[0], "named for a split and not for a class, as are all tars here: "+
				"build each by itself, val with the labels of train's set")
			for _, name := range names[:min(len(names), 3)] {
				no.Or(remedy.Archive.With("FILE", filepath.Join(c.path, name)))
			}
			return nil, no
		}
	} else if m, err := c.first(); err != nil || !transport.NamedTar(m.name) {
		return nil, err
	}
	t, err := c.inTars(names...)
	if err != nil {
		return nil, err
	}
	splits := c.newFiles(what, &transport.ClassTarFiles{TarFiles: *t, Whole: c.form == aTar}, labelrule.ByTar)
	splits[0].NoteLeftOut(others, "file beside the class tars is", "files beside the class tars are")
	return splits, nil
}

// unlabelledImages are images anywhere, without labels. Other files beside them, as img2dataset writes them, are left out:
//
//	images/0001.jpg …
//	laion/00000/000000000.jpg, 000000000.txt, 000000000.json …
var unlabelledImages = dataset.Kind{
	Name:   "images without labels",
	Forms:  []string{"with --no-labels a folder, a zip or a tar that has images anywhere in it", "a folder of such tars"},
	Labels: "-1",
	Takes:  []string{"--no-labels"},
}

func openUnlabelled(c *candidate) ([]*dataset.Split, error) {
	if !c.opts.NoLabels && !c.unlabelledTest() {
		return nil, nil
	}
	if c.listed() {
		names, others := c.filter(transport.NamedTar)
		if len(names) > 0 && len(c.folders)+len(c.sets) == 0 && !slices.ContainsFunc(others, transport.NamedImage) {
			return c.bySplit(names, func(c *candidate, files []string) (*dataset.Split, error) {
				t, err := c.inTars(files...)
				return c.newFiles(fmt.Sprintf("%d tars of images without labels", len(files)), t, labelrule.WithoutLabels)[0], err
			})
		}
	}
	return c.images("images without labels", labelrule.WithoutLabels)
}

// unlabelledTest says that a folder holds test images without class folders, and that the options take them.
func (c *candidate) unlabelledTest() bool {
	if !c.opts.Test || c.split != "test" || !c.listed() || len(c.folders) > 1 {
		return false
	}
	return !slices.ContainsFunc(c.files, func(name string) bool { return transport.FileKind(name) != "" })
}

// besideImages says that a file is img2dataset's description of a tar or folder of images beside it.
func (f *folder) besideImages(name string) bool {
	of := strings.TrimSuffix(strings.TrimSuffix(name, path.Ext(name)), "_stats")
	_, folder := slices.BinarySearch(f.folders, of)
	_, tar := slices.BinarySearch(f.files, of+".tar")
	return of != name && (folder || tar)
}

const (
	trainTarName = "ILSVRC2012_img_train.tar"
	valTarName   = "ILSVRC2012_img_val.tar"
)

// splitFolders is a folder with a folder or tar of any kind for each split:
//
//	imagenet/train/… and imagenet/val/…              also valid/ or validation/; test/ where its images have labels
//	imagenet/ILSVRC2012_img_train.tar and ….val.tar
var splitFolders = dataset.Kind{
	Name: "both splits",
	Forms: []string{"a folder with train/ and val/ (or Training/, valid/, validation/), each of any kind",
		"with ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar"},
	Labels: "those of each; val's classes are among train's and have their labels",
}

// findSplits finds the names of the splits in a folder. "train" or "val" alone is a split only if there is no other folder, since a class
// may be called so. Names with the word of a split in them, as cars_train, are splits if most folders have such names.
func (c *candidate) findSplits() (map[string]string, error) {
	names := make(map[string]string) // keyed by split, "" for another folder
	for _, name := range slices.Backward(c.folders) {
		names[transport.FolderSplit(name)] = name
	}
	train, val := names["train"] != "", names["val"] != ""
	if len(c.folders) > 0 && !(train && val) && (names[""] != "" || !train && !val) {
		return c.findNamedSplits()
	}
	delete(names, "")
	if !train && slices.Contains(c.files, trainTarName) {
		names["train"] = trainTarName
	}
	if !val && slices.Contains(c.files, valTarName) {
		names["val"] = valTarName
	}
	return names, nil
}

// findNamedSplits finds splits by words in the names of folders.
func (c *candidate) findNamedSplits() (map[string]string, error) {
	alone := len(c.folders) == 1 && transport.NamedSplit(c.folders[0]) != "" && transport.FolderSplit(c.folders[0]) == ""
	if c.opts.ClassesFrom > 1 || c.opts.ForceClasses || !alone && !transport.AreSplits(c.folders) {
		return nil, nil
	}
	names := make(map[string]string)
	for _, name := range c.folders {
		split := transport.NamedSplit(name)
		if other := names[split]; split != "" && other != "" && transport.FolderSplit(other) == "" && transport.FolderSplit(name) == "" {
			return nil, transport.Refuse(c.path, "%s and %s are both named for the split %s", other, name, split).Or(
				remedy.Folder.With("DIR", filepath.Join(c.path, other)), remedy.Folder.With("DIR", filepath.Join(c.path, name)))
		}
		if transport.FolderSplit(names[split]) == "" {
			names[split] = name
		}
	}
	delete(names, "")
	return names, nil
}

// openInner opens the only folder in that of a split, if it is named for the same split: seg_train/seg_train.
func (c *candidate) openInner() ([]*dataset.Split, error) {
	if len(c.folders) != 1 || len(c.files) > 0 || transport.NamedSplit(c.folders[0]) != c.split {
		return nil, nil
	}
	q, err := c.child(c.folders[0], c.split)
	if err != nil {
		return nil, err
	}
	q.output = cmp.Or(c.output, c.path)
	return q.open()
}

// openOuter opens the only folder of a folder, if it holds splits, as an archive unpacks to.
func (c *candidate) openOuter() ([]*dataset.Split, error) {
	if len(c.folders) != 1 || slices.ContainsFunc(c.files, func(f string) bool {
		return transport.ImageExtension(f) || transport.FileKind(f) != ""
	}) {
		return nil, nil
	}
	q, err := c.child(c.folders[0], "")
	if err != nil {
		return nil, err
	}
	if names, err := q.findSplits(); err != nil || len(names) < 2 {
		return nil, err
	}
	return openSplitFolders(q)
}

func openSplitFolders(c *candidate) ([]*dataset.Split, error) {
	if c.part {
		return c.openInner()
	}
	names, err := c.findSplits()
	if err != nil {
		return nil, err
	}
	train, val := names["train"], names["val"]
	if train == "" && val == "" {
		return c.openOuter()
	}
	both := train != "" && val != ""
	if name := names[c.opts.Split]; both && name != "" {
		return c.openPart(name, c.opts.Split)
	}
	if c.opts.Split != "" && both {
		return nil, transport.Refuse(c.path, "holds two splits, %s and %s, which cannot both be called %q",
			train, val, c.opts.Split).Or(remedy.Folder.With("DIR", filepath.Join(c.path, train)),
			remedy.Folder.With("DIR", filepath.Join(c.path, val)))
	}
	var splits []*dataset.Split
	var taken []string
	for _, split := range []string{"train", "val", "test"} {
		name := names[split]
		if name == "" || split == "test" && c.opts.Split != "" {
			continue
		}
		parts, err := c.openPart(name, split)
		if split == "test" && !c.opts.Test && (err != nil || !parts[0].Kind.TestLabelled) {
			continue // most test folders have no labels, or cannot be packed
		}
		if err != nil {
			return nil, err
		}
		splits, taken = append(splits, parts...), append(taken, name)
	}
	for _, f := range c.folders {
		if !slices.Contains(taken, f) {
			note := fmt.Sprintf("folder %s is left out; build it by itself if it is wanted", filepath.Join(c.path, f))
			if transport.NamedSplit(f) != "" {
				note += "; " + remedy.Unlabelled.String()
			}
			splits[0].Note("%s", note)
		}
	}
	loose, _ := c.filter(transport.ImageExtension)
	splits[0].NoteLeftOut(loose, "image beside the folders of splits is", "images beside the folders of splits are")
	return splits, nil
}

func (c *candidate) openPart(name, split string) ([]*dataset.Split, error) {
	q, err := c.child(name, split)
	if err != nil {
		return nil, err
	}
	defer q.close()
	return q.open()
}

// ilsvrcValidation is ILSVRC2012's 50,000 validation images, which are published without folders, and their classes apart from them, in the
// development kit. Which image has which class is a fact that never changes, so the program knows it (labelrule.ByValName):
//
//	ILSVRC2012_img_val.tar    ILSVRC2012_val_00000001.JPEG …
var ilsvrcValidation = dataset.Kind{
	Name:   "ILSVRC2012's validation images",
	Forms:  []string{"ILSVRC2012_img_val.tar", "the folder of its images"},
	Labels: "as in torchvision; the development kit is not needed",
}

// loose returns the first image of a folder without subfolders, or of a tar with at most one; "" for any other layout.
func (c *candidate) loose() (name string, err error) {
	if c.form == aFolder {
		if tars, _ := c.filter(transport.NamedTar); len(c.folders) > 0 || len(tars) > 0 {
			return "", nil
		}
		i := slices.IndexFunc(c.files, transport.NamedImage)
		if i < 0 || slices.ContainsFunc(c.files, namedZip) && !transport.ImageExtension(c.files[i]) {
			return "", nil
		}
		return c.files[i], nil
	}
	m, err := c.first()
	if err != nil || transport.NamedTar(m.name) || strings.Count(m.name, "/") > 1 {
		return "", err
	}
	return m.name, nil
}

func openIlsvrcValidation(c *candidate) ([]*dataset.Split, error) {
	first, err := c.loose()
	folder, name := path.Split(first)
	if first == "" || err != nil || folder != "" && !strings.HasPrefix(name, labelrule.ValNamePrefix) {
		return nil, err
	}
	if c.form == aTar {
		c.strip = folder // it was packed with its name
	}
	ofVal := func(name string) bool { return strings.HasPrefix(name, labelrule.ValNamePrefix) }
	if !ofVal(name) && (c.form == aTar || !slices.ContainsFunc(c.files, ofVal)) {
		return nil, transport.RefuseEntry(c.path, first, "an image without a class folder, whose label is unknown: sort the images into a "+
			"folder for each class, or list them in a file of CSV that begins with path,label").Or(remedy.NoLabels)
	}
	if _, err := labelrule.ValLabel(name); err != nil {
		return nil, transport.RefuseEntry(c.path, first, "%v", err).Or(remedy.NoLabels)
	}
	return c.images("ILSVRC2012's validation images", labelrule.ByValName)
}

// kaggleImageNet is ILSVRC2012 from Kaggle's competition imagenet-object-localization-challenge: any of its folders down to CLS-LOC, or the
// downloaded zip, which need not be unpacked:
//
//	ILSVRC/Data/CLS-LOC/train/n01440764/n01440764_18.JPEG
//	ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG
//	ILSVRC/Data/CLS-LOC/test/ILSVRC2012_test_00000001.JPEG
//	ILSVRC/Annotations/CLS-LOC/train/n01440764/n01440764_18.xml   boxes, which a part of the training images has
//	LOC_val_solution.csv, …                                       not needed
var kaggleImageNet = dataset.Kind{
	Name: "Kaggle's ImageNet",
	Forms: []string{"the folder with LOC_val_solution.csv and ILSVRC/, or any on the way to CLS-LOC",
		"imagenet-object-localization-challenge.zip"},
	Labels: "those of ILSVRC2012, for boxes too, which --targets none leaves out; --test adds the test images, which have the label -1",
}

func openKaggle(c *candidate) ([]*dataset.Split, error) {
	if c.part {
		return nil, nil
	}
	for _, below := range []string{"ILSVRC/Data/CLS-LOC", "Data/CLS-LOC", "CLS-LOC"} {
		if info, err := c.tree.Stat(filepath.Join(c.path, below)); err == nil && info.IsDir() {
			q, err := c.child(below, "")
			if err != nil {
				return nil, err
			}
			splits, err := openSplitFolders(q)
			if err == nil && strings.HasSuffix(below, "Data/CLS-LOC") {
				err = q.addBoxes(splits, filepath.Join(c.path, below, "../../Annotations/CLS-LOC"))
			}
			return splits, err
		}
	}
	return nil, nil // CLS-LOC itself is a folder of both splits
}

// addBoxes adds the boxes that ImageNet's XML has for the splits of CLS-LOC, if it is there. Objects have the labels of the classes.
func (c *candidate) addBoxes(splits []*dataset.Split, root string) error {
	if !c.opts.Targets.Takes(shard.Objects, true, false) || c.opts.NoLabels {
		return nil
	}
	classes, err := c.classNames()
	if err != nil {
		return err
	}
	if train, err := listFolder(c.tree, filepath.Join(c.path, "train")); err == nil && len(classes) == 0 {
		classes = train.folders
	}
	if len(classes) == 0 {
		classes = wordnet.Wnids()
	}
	if !slices.ContainsFunc(splits, func(s *dataset.Split) bool {
		info, err := c.tree.Stat(filepath.Join(root, s.Name))
		return err == nil && info.IsDir()
	}) {
		return nil
	}
	for _, s := range splits {
		v := new(targets.Values)
		if err := v.AddXML(&transport.TreeFiles{FS: c.tree, Root: filepath.Join(root, s.Name)}, classes, nil, c.opts.Targets); err != nil {
			return err
		}
		s.Targets, s.Format = v, s.Format+" with boxes in XML"
	}
	return nil
}
