package source

import (
	"path/filepath"
	"slices"
)

// kaggle is ILSVRC2012 as Kaggle's competition imagenet-object-localization-challenge gives it, from any of its folders down to CLS-LOC, and as the
// zip that is downloaded, which is read where it lies:
//
//	LOC_val_solution.csv                                  ImageId,PredictionString: the label and boxes of each validation image
//	ILSVRC/Data/CLS-LOC/train/n01440764/n01440764_18.JPEG
//	ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG
//	ILSVRC/Data/CLS-LOC/test/ILSVRC2012_test_00000001.JPEG
//	ILSVRC/Annotations/…, ILSVRC/ImageSets/…              which say nothing of classes that the folders do not
var kaggle = Kind{
	Name:   "Kaggle's ImageNet",
	Forms:  []string{"the folder with LOC_val_solution.csv and ILSVRC/, or any on the way to CLS-LOC", "imagenet-object-localization-challenge.zip"},
	Labels: "those of ILSVRC2012; val's are compared with LOC_val_solution.csv; --test adds the test images, which have the label -1",
	open:   openKaggle,
	takes:  []*option{optionValLabels},
}

const kaggleSolution = "LOC_val_solution.csv"

func openKaggle(c *candidate) ([]*Split, error) {
	if c.folder == nil || c.part || c.given {
		return nil, nil
	}
	for _, below := range []string{"ILSVRC/Data/CLS-LOC", "Data/CLS-LOC", "CLS-LOC", "."} {
		if below == "." && filepath.Base(c.path) != "CLS-LOC" {
			continue
		}
		if info, err := c.tree.stat(filepath.Join(c.path, below)); err != nil || !info.IsDir() {
			continue
		}
		q, err := c.in(below, "")
		if err != nil {
			return nil, err
		}
		if !slices.Contains(q.folders, "train") && !slices.Contains(q.folders, "val") {
			continue
		}
		if err := q.findSolution(); err != nil {
			return nil, err
		}
		return openSplitFolders(q)
	}
	return nil, nil
}

// findSolution takes the file of val's labels, which lies three folders above it, in place of the program's own table: should the two differ,
// it is said.
func (c *candidate) findSolution() error {
	if c.opts.ValLabels != "" {
		return nil
	}
	dir := c.path
	for range 4 {
		file := filepath.Join(dir, kaggleSolution)
		if info, err := c.tree.stat(file); err == nil && info.Mode().IsRegular() {
			text, err := readLines(c.tree, file, "labels of the validation images")
			c.opts.valText, c.opts.valFrom = text, file
			return err
		}
		dir = filepath.Dir(dir)
	}
	return nil
}
