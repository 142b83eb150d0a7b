package source

import (
	"path/filepath"
	"slices"
)

const (
	trainTarName = "ILSVRC2012_img_train.tar"
	valTarName   = "ILSVRC2012_img_val.tar"
)

// splitFolders is a folder with a folder or tar for each split, which may be of any kind:
//
//	imagenet/train/… and imagenet/val/…              also valid/ or validation/; test/ where its images have labels
//	imagenet/ILSVRC2012_img_train.tar and ….val.tar
var splitFolders = Kind{
	Name:   "both splits",
	Forms:  []string{"a folder with train/ and val/ (or Training/, valid/, validation/), each of any kind", "with ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar"},
	Labels: "those of each; val's classes are among train's and have their labels",
}

// findSplits finds the names of the two splits in a folder. A folder "train" or "val" alone makes a split only where there is no other folder,
// since a class may be called so.
func (f *folder) findSplits() (train, val string) {
	train, val = splitFolder(f.folders, "train"), splitFolder(f.folders, "val")
	onlySplits := !slices.ContainsFunc(f.folders, func(name string) bool { return !isSplitFolder(name) })
	foldersSayIt := (train != "" && val != "") || (onlySplits && (train != "" || val != ""))
	if len(f.folders) > 0 && !foldersSayIt {
		return "", ""
	}
	if train == "" && slices.Contains(f.files, trainTarName) {
		train = trainTarName
	}
	if val == "" && slices.Contains(f.files, valTarName) {
		val = valTarName
	}
	return train, val
}

func openSplitFolders(c *candidate) ([]*Split, error) {
	if c.folder == nil || c.part {
		return nil, nil
	}
	train, val := c.findSplits()
	if train == "" && val == "" {
		return nil, nil
	}
	for _, part := range []struct{ name, split string }{{train, "train"}, {val, "val"}, {splitFolder(c.folders, "test"), "test"}} {
		if part.name != "" && c.opts.Split == part.split && train != "" && val != "" {
			return c.openPart(part.name, part.split)
		}
	}
	if c.opts.Split != "" && train != "" && val != "" {
		return nil, refuse(c.path, "holds two splits, %s and %s, which cannot both be called %q: build them one at a time", train, val, c.opts.Split)
	}
	var splits []*Split
	taken := []string{train, val}
	for _, part := range []struct{ name, split string }{{train, "train"}, {val, "val"}} {
		if part.name == "" {
			continue
		}
		of, err := c.openPart(part.name, part.split)
		if err != nil {
			return nil, err
		}
		splits = append(splits, of...)
	}
	if test := splitFolder(c.folders, "test"); c.opts.Split == "" && test != "" {
		// Most have no labels, or are nothing that can be packed: that is no error, unless they are asked for.
		of, err := c.openPart(test, "test")
		if err != nil && c.opts.Test {
			return nil, err
		}
		if err == nil && (of[0].kind.testLabelled || c.opts.Test) {
			splits, taken = append(splits, of...), append(taken, test)
		}
	}
	for _, f := range c.folders {
		if !slices.Contains(taken, f) {
			hint := "build it by itself if it is wanted"
			if isSplitFolder(f) {
				hint += ", or --test takes it too"
			}
			splits[0].note("folder %s is left out; %s", filepath.Join(c.path, f), hint)
		}
	}
	return splits, nil
}

// openPart opens one split of several.
func (c *candidate) openPart(name, split string) ([]*Split, error) {
	q, err := c.in(name, split)
	if err != nil {
		return nil, err
	}
	defer q.close()
	return q.open()
}
