package source

import (
	"fmt"
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
	Forms:  []string{"a folder with train/ and val/ (or valid/, validation/), each of any kind", "with ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar"},
	Labels: "those of each; val's classes are among train's and have their labels",
	open:   openSplitFolders,
}

// isSplitFolder says that a folder of this name holds a split by custom.
func isSplitFolder(name string) bool {
	switch name {
	case "train", "val", "valid", "validation", "test":
		return true
	}
	return false
}

// findSplits finds the names of the two splits in a folder. A folder "train" or "val" alone makes a split only where there is no other folder, since a
// class may be called so.
func (p *place) findSplits() (train, val string) {
	hasFolder := func(name string) bool { return slices.Contains(p.folders, name) }
	if hasFolder("train") {
		train = "train"
	}
	for _, name := range []string{"val", "valid", "validation"} {
		if val == "" && hasFolder(name) {
			val = name
		}
	}
	onlySplits := !slices.ContainsFunc(p.folders, func(name string) bool { return !isSplitFolder(name) })
	foldersSayIt := (train != "" && val != "") || (onlySplits && (train != "" || val != ""))
	if len(p.folders) > 0 && !foldersSayIt {
		return "", ""
	}
	if train == "" && slices.Contains(p.files, trainTarName) {
		train = trainTarName
	}
	if val == "" && slices.Contains(p.files, valTarName) {
		val = valTarName
	}
	return train, val
}

func openSplitFolders(p *place) ([]*Split, error) {
	train, val := p.findSplits()
	if p.part || train == "" && val == "" {
		return nil, nil
	}
	if p.opts.Split != "" && train != "" && val != "" {
		return nil, &FormatError{Path: p.path, Msg: fmt.Sprintf("holds two splits, %s and %s, which cannot both be called %q: build them one at a time", train, val, p.opts.Split)}
	}
	var splits []*Split
	taken := []string{train, val}
	for _, part := range []struct{ name, split string }{{train, "train"}, {val, "val"}} {
		if part.name == "" {
			continue
		}
		of, err := p.openPart(part.name, part.split)
		if err != nil {
			return nil, err
		}
		splits = append(splits, of...)
	}
	if p.opts.Split == "" && slices.Contains(p.folders, "test") {
		// Most have no labels, or are nothing that can be packed: that is no error.
		if of, err := p.openPart("test", "test"); err == nil && of[0].kind.testLabelled {
			splits, taken = append(splits, of...), append(taken, "test")
		}
	}
	for _, f := range p.folders {
		if !slices.Contains(taken, f) {
			splits[0].note("folder %s is left out; build it by itself if it is wanted", filepath.Join(p.path, f))
		}
	}
	return splits, nil
}

// openPart opens one split of several.
func (p *place) openPart(name, split string) ([]*Split, error) {
	q, err := p.in(name, split)
	if err != nil {
		return nil, err
	}
	defer q.close()
	return q.open()
}
