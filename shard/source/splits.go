package source

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
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
	open:   openSplitFolders,
}

// splitFolderNames are what the folders of a split are called by custom, in any case of letters; the first that is there is taken.
var splitFolderNames = []struct {
	split string
	names []string
}{
	{"train", []string{"train", "training", "imagenet21k_train"}}, // the last is of ImageNet-21K-P
	{"val", []string{"val", "valid", "validation", "imagenet21k_val"}},
	{"test", []string{"test", "testing"}},
}

// isSplitFolder says that a folder of this name holds a split by custom.
func isSplitFolder(name string) bool {
	for _, s := range splitFolderNames {
		if slices.Contains(s.names, strings.ToLower(name)) {
			return true
		}
	}
	return false
}

// splitFolder returns the folder of a split, "" if there is none.
func (p *place) splitFolder(split string) string {
	for _, s := range splitFolderNames {
		for _, name := range s.names {
			if s.split != split {
				continue
			}
			if i := slices.IndexFunc(p.folders, func(f string) bool { return strings.EqualFold(f, name) }); i >= 0 {
				return p.folders[i]
			}
		}
	}
	return ""
}

// findSplits finds the names of the two splits in a folder. A folder "train" or "val" alone makes a split only where there is no other folder,
// since a class may be called so.
func (p *place) findSplits() (train, val string) {
	train, val = p.splitFolder("train"), p.splitFolder("val")
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
	if test := p.splitFolder("test"); p.opts.Split == "" && test != "" {
		// Most have no labels, or are nothing that can be packed: that is no error, unless they are asked for.
		of, err := p.openPart(test, "test")
		if err != nil && p.opts.Test {
			return nil, err
		}
		if err == nil && (of[0].kind.testLabelled || p.opts.Test) {
			splits, taken = append(splits, of...), append(taken, test)
		}
	}
	for _, f := range p.folders {
		if !slices.Contains(taken, f) {
			hint := "build it by itself if it is wanted"
			if isSplitFolder(f) {
				hint += ", or --test takes it too"
			}
			splits[0].note("folder %s is left out; %s", filepath.Join(p.path, f), hint)
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
