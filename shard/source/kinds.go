package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// opener is a kind, and how the splits of a candidate of it are opened. No splits say that the candidate is of another kind.
type opener struct {
	*Kind
	open func(c *candidate) ([]*Split, error)
}

var kinds []opener

// init and not an initial value, as kinds open candidates, which are of any kind.
func init() {
	kinds = []opener{
		{&cifar, openCIFAR},
		{&parquetFiles, openParquetFiles},
		{&lists, openList},
		{&kaggle, openKaggle},
		{&splitFolders, openSplitFolders},
		{&webDatasets, openWebDatasets},
		{&unlabelledImages, openUnlabelled},
		{&suffixTars, openSuffixTars},
		{&ilsvrcTest, openIlsvrcTest},
		{&ilsvrcValidation, openIlsvrcValidation},
		{&classTars, openClassTars},
		{&classFolders, openClassFolders},
	}
}

// Kinds returns all kinds, in the order in which they are tried: the first that recognises a candidate has it. The more special stand before the more
// general: class folders are last, since any folder of folders is that.
func Kinds() (all []*Kind) {
	for _, k := range kinds {
		all = append(all, k.Kind)
	}
	return all
}

var (
	optionClasses   = &option{"--classes", "for sources whose labels are numbers, as WebDataset's tars, and for class folders and tars", func(o Options) bool { return o.Classes != "" }}
	optionLabel     = &option{"--label", "for sources with several labels, in columns or under keys", func(o Options) bool { return o.Label != "" }}
	optionImageKey  = &option{"--image-key", "for WebDataset's tars, whose samples have files of several extensions", func(o Options) bool { return o.ImageKey != "" }}
	optionImages    = &option{"--images", "for lists of images, whose paths begin there", func(o Options) bool { return o.Images != "" }}
	optionValLabels = &option{"--val-labels", "for ILSVRC2012's validation images, which have none", func(o Options) bool { return o.ValLabels != "" }}
	optionNoLabels  = &option{"--no-labels", "for images in folders, tars, parquet files and lists", func(o Options) bool { return o.NoLabels }}
)

// Open returns the splits that a path holds: one, or the training and the validation split, and sometimes a test split. Nothing is read yet but what
// is needed to tell the kind.
func Open(path string, opts Options) ([]*Split, error) { return OpenAll([]string{path}, opts) }

// StandardInput is the path of a tar that comes by Options.Stdin.
const StandardInput = "-"

// OpenAll is [Open] of one path, or of several files that are one dataset: the tars of WebDataset or of classes, parquet files, or the lists of
// several splits. StandardInput alone is a tar that comes by Options.Stdin: it can be walked over once, and its Output is not beside it.
func OpenAll(paths []string, opts Options) ([]*Split, error) {
	c, err := newCandidate(paths, opts)
	if err != nil {
		return nil, err
	}
	defer c.close()
	splits, err := c.open()
	if err != nil {
		return nil, err
	}
	if err := bindSplits(splits); err != nil {
		return nil, err
	}
	for _, o := range []*option{optionClasses, optionLabel, optionImageKey, optionImages, optionValLabels, optionNoLabels} {
		taken := slices.ContainsFunc(splits, func(s *Split) bool { return slices.Contains(s.kind.takes, o) })
		if o.given(opts) && !taken {
			return nil, refuse(c.path, "is %s, which has labels and class names itself: %s is %s", splits[0].Layout(), o.flag, o.of)
		}
	}
	return splits, nil
}

// newCandidate looks at what the paths hold.
func newCandidate(paths []string, opts Options) (*candidate, error) {
	for _, path := range paths {
		if _, err := os.Lstat(path); err != nil && strings.Contains(path, "{") {
			return nil, &FormatError{Path: path, Msg: "there is no such file: the shell expands braces where they stand without quotes", Err: err}
		}
	}
	switch {
	case len(paths) > 1:
		return newFiles(paths, opts)
	case paths[0] == "":
		return nil, refuse(`""`, "the path is empty, as an unset variable is: name a file or folder (. is this one)")
	case paths[0] == StandardInput:
		return newStdin(opts)
	}
	path, err := absolute(paths[0])
	if err != nil {
		return nil, err
	}
	return look(path, opts, fileSystem{})
}

// newFiles is the candidate of several files: as if they alone lay in the folder that holds them all.
func newFiles(paths []string, opts Options) (*candidate, error) {
	folder := &folder{tree: fileSystem{}, given: true}
	c := &candidate{opts: opts, folder: folder}
	for i, path := range paths {
		abs, err := absolute(path)
		if err != nil || path == "" {
			return nil, &FormatError{Path: fmt.Sprintf("%q", path), Msg: "the path is empty, as an unset variable is", Err: err}
		}
		info, err := (fileSystem{}).stat(abs)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, &FormatError{Path: abs, Msg: fmt.Sprintf("there is no such file, of the %d that are given", len(paths)), Err: err}
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return nil, refuse(abs, "several paths must be files of one dataset, and this is none: build folders one at a time, or the folder that holds them")
		}
		folder.files = append(folder.files, abs)
		if i == 0 {
			c.path = filepath.Dir(abs)
		}
		for !below(abs, c.path) {
			c.path = filepath.Dir(c.path)
		}
	}
	slices.Sort(folder.files)
	prefix, last, kind := folder.files[0], "", fileKind(folder.files[0])
	for i, file := range folder.files {
		if file == last {
			return nil, refuse(file, "is given twice")
		}
		if last = file; fileKind(file) != kind {
			return nil, refuse(file, "several paths must be files of one dataset, and this is not of the sort of others: build them one at a time")
		}
		for !strings.HasPrefix(file, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
		folder.files[i] = strings.TrimPrefix(strings.TrimPrefix(file, c.path), string(filepath.Separator))
	}
	c.split, c.output = splitName(prefix), strings.TrimRight(prefix, "-_.0123456789")
	if below(c.path, c.output) || strings.HasSuffix(c.output, string(filepath.Separator)) {
		c.output = c.path
	}
	return c, nil
}
