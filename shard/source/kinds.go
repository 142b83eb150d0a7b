// Package source opens image classification datasets as people have them on disk, for packing. It detects the format by looking at what a
// path holds, and returns splits that give every sample's key, label and bytes.
//
// The formats are the list of [Kinds]. Each kind is asked whether a [candidate], which is a file or folder, belongs to it, and returns the
// splits there. A split's layout walks over its samples. Most layouts join a transport, which gives the files of a folder, a zip or tars
// one after the other, with a label rule, which finds the label of a file by its name. Parquet, lists, WebDataset and CIFAR have layouts of
// their own.
//
// A sample's key is its path below the split's root with forward slashes. It is the same in a folder and in a tar, so that equal datasets
// give equal sets. In WebDataset's tars the key is the __key__, which has no extension.
//
// Hidden files and folders (.DS_Store, ._x, .ipynb_checkpoints) and those of systems (Thumbs.db, desktop.ini, __MACOSX, @eaDir, lost+found)
// are skipped. Files beside the class folders are left out with a note, as torchvision's ImageFolder does. Every other file is an Item,
// even if it is not an image: the decoder decides.
package source

import (
	"errors"

	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// InPlace makes the remedies of an error about a dataset commands that index it, for a program that reads it at path and lacks the flags
// of imgshard.
func InPlace(err error, path string) error {
	if no, ok := errors.AsType[*transport.FormatError](err); ok {
		no.InPlace = path
	}
	return err
}

// opener is a kind with the forms of its candidates, and the function that opens their splits. The function returns no splits for a
// candidate of another kind.
type opener struct {
	*dataset.Kind
	of   form
	open func(c *candidate) ([]*dataset.Split, error)
}

var kinds []opener

// init and not an initial value, as kinds open candidates, which are of any kind.
func init() {
	kinds = []opener{
		{&cifar, aFolder | aTar, openCIFAR},
		{&parquetFiles, aFolder | someFiles | aFile, openParquetFiles},
		{&lists, aFolder | someFiles | aFile, openList},
		{&cocoObjects, aFolder | aFile, openCOCO},
		{&vocTree, aFolder, openVOC},
		{&cityscapes, aFolder, openCityscapes},
		{&pets, aFolder, openPets},
		{&yolo, aFolder, openYOLO},
		{&imagePairs, aFolder, openPairs},
		{&kaggle, aFolder, openKaggle},
		{&splitFolders, aFolder | someFiles, openSplitFolders},
		{&webDatasets, aFolder | someFiles | aTar, openWebDatasets},
		{&unlabelledImages, aFolder | someFiles | aTar, openUnlabelled},
		{&ilsvrcValidation, aFolder | aTar, openIlsvrcValidation},
		{&classTars, aFolder | someFiles | aTar, openClassTars},
		{&classFolders, aFolder | aTar, openClassFolders},
	}
}

// Kinds returns all kinds in the order in which they are tried; the first that recognises a candidate opens it. Special kinds come before
// general ones: class folders are last, since any folder of folders matches.
func Kinds() (all []*dataset.Kind) {
	for _, k := range kinds {
		all = append(all, k.Kind)
	}
	return all
}

// Open returns the splits that a path holds: one, or the training and the validation split, and sometimes a test split. Nothing is read yet
// but what is needed to tell the kind.
func Open(path string, opts dataset.Options) ([]*dataset.Split, error) {
	return OpenAll([]string{path}, opts)
}

// StandardInput is the path of a tar that comes by Options.Stdin.
const StandardInput = "-"

// OpenAll opens one path as [Open] does, or several files of one dataset: the tars of WebDataset or of classes, or parquet files.
// StandardInput alone is a tar from Options.Stdin, which can be walked over once.
func OpenAll(paths []string, opts dataset.Options) ([]*dataset.Split, error) {
	c, err := lookAt(paths, opts)
	if err != nil {
		return nil, err
	}
	defer c.close()
	splits, err := c.open()
	if err != nil {
		return nil, err
	}
	if err := targets.Align(splits); err != nil {
		return nil, err
	}
	return splits, dataset.Bind(c.path, splits, opts)
}
