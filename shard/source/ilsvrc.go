package source

import (
	"path"
	"path/filepath"
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

// ilsvrcValidation is ILSVRC2012's 50,000 validation images, which are published without folders, and their classes apart from them, in the
// development kit. Which image has which class is a fact that never changes, so the program knows it (labelrule.ByValName):
//
//	ILSVRC2012_img_val.tar    ILSVRC2012_val_00000001.JPEG …
var ilsvrcValidation = dataset.Kind{
	Name:   "ILSVRC2012's validation images",
	Forms:  []string{"ILSVRC2012_img_val.tar", "the folder of its images"},
	Labels: "as torchvision has them, without the development kit",
}

// loose returns the first image of a folder without subfolders, or of a tar with at most one; "" for any other layout.
func (c *candidate) loose() (name string, err error) {
	if c.form == aFolder {
		if tars, _ := c.tars(); len(c.folders) > 0 || len(tars) > 0 {
			return "", nil
		}
		i := slices.IndexFunc(c.files, transport.NamedImage)
		if i < 0 || len(c.zips()) > 0 && !transport.ImageExtension(c.files[i]) {
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

// kaggle is ILSVRC2012 from Kaggle's competition imagenet-object-localization-challenge: any of its folders down to CLS-LOC, or the
// downloaded zip, which need not be unpacked:
//
//	ILSVRC/Data/CLS-LOC/train/n01440764/n01440764_18.JPEG
//	ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG
//	ILSVRC/Data/CLS-LOC/test/ILSVRC2012_test_00000001.JPEG
//	ILSVRC/Annotations/CLS-LOC/train/n01440764/n01440764_18.xml   boxes, which a part of the training images has
//	LOC_val_solution.csv, …                                       not needed
var kaggle = dataset.Kind{
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
