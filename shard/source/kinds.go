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
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// InPlace makes the remedies of an error commands that index the dataset at path, for a program that lacks imgshard's flags.
func InPlace(err error, path string) error {
	if no, ok := errors.AsType[*transport.FormatError](err); ok {
		no.InPlace = path
	} else if err != nil && strings.Contains(err.Error(), "imgshard's command") { // It is in the reason of a rejected file.
		err = errors.New(remedy.InPlace(err.Error(), path))
	}
	return err
}

// opener is a kind, the forms of its candidates, and what opens their splits; it returns none for a candidate of another kind.
type opener struct {
	*dataset.Kind
	of   form
	open func(c *candidate) ([]*dataset.Split, error)
}

// kinds are all in the order in which they are tried: a function and not a variable, as kinds open candidates, which are of any kind.
func kinds() []opener {
	return []opener{
		{&cifar, aFolder | aTar, openCIFAR},
		{&parquetFiles, aFolder | someFiles | aFile, openParquetFiles},
		{&lists, aFolder | someFiles | aFile, openList},
		{&cocoObjects, aFolder | aFile, openCOCO},
		{&vocTree, aFolder, openVOC},
		{&cityscapes, aFolder, openCityscapes},
		{&pets, aFolder, openPets},
		{&yolo, aFolder, openYOLO},
		{&imagePairs, aFolder, openPairs},
		{&kaggleImageNet, aFolder, openKaggle},
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
	for _, k := range kinds() {
		all = append(all, k.Kind)
	}
	return all
}

// Open returns the splits that a path holds: one, or train and val, and sometimes test. It reads only what tells the kind.
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

const (
	writeImages = "write its images into class folders, WebDataset's tars or parquet"
	cifarBinary = "get the binary version, as cifar-10-binary.tar.gz, or pack torchvision's dataset by imgfeed.from_torch"
)

// unreadFormats are unsupported formats of images, by the names of their files, with what to do.
var unreadFormats = []struct {
	patterns, name, do string
	remedies           []remedy.Remedy
}{
	{"cifar-*-python* cifar-10-batches-py", "CIFAR's version for Python", cifarBinary, nil},
	{"cifar-*-mat*", "CIFAR's version for MATLAB", cifarBinary, nil},
	{"*.tfrecord *.tfrecords *-of-[0-9][0-9][0-9][0-9][0-9]", "TFRecord", writeImages, nil},
	{"*.arrow", "an Arrow file, as save_to_disk of the package datasets writes it",
		`datasets.load_from_disk("FOLDER").to_parquet("train.parquet") makes a file that is read; of several splits, one of each`, nil},
	{"*.mdb", "LMDB", writeImages, nil},
	{"*-ubyte *-ubyte.gz", "idx, the format of MNIST", "imgfeed.from_torch packs torchvision's MNIST, FashionMNIST and the like", nil},
	{"*.np[yz]", "a file of numpy arrays", "save the images as files, or pack a torch dataset of them by imgfeed.from_torch", nil},
	{"*.h5 *.hdf5", "HDF5", writeImages, nil},
	{"*.rec", "MXNet's RecordIO", "unpack it by mxnet's recordio, and give the list of images", nil},
	{"*.lst", "MXNet's list", "", []remedy.Remedy{remedy.MXNetList}},
	{"*.7z", "a 7z archive", "", []remedy.Remedy{remedy.Un7z}},
	{"*.rar", "a RAR archive", "", []remedy.Remedy{remedy.Unrar}},
	{"*.z01", "a part of a split zip", "", []remedy.Remedy{remedy.JoinZip}},
	{"*.zst", "compressed by Zstandard", "", []remedy.Remedy{remedy.Zstd}},
	{"*.bz2", "compressed by bzip2", "", []remedy.Remedy{remedy.Bzip2}},
	{"*.xz", "compressed by xz", "", []remedy.Remedy{remedy.XZ}},
	{"*.json", "JSON, of which lists have an object in each line", "", nil},
}

// unreadFile is the error for a file in an unsupported format; entry is its path in the folder at path. It is nil for any other file.
func unreadFile(path, entry string) error {
	file := filepath.Join(path, entry)
	name := strings.ToLower(filepath.Base(file))
	for _, u := range unreadFormats {
		if !slices.ContainsFunc(strings.Fields(u.patterns), func(p string) bool { is, _ := filepath.Match(p, name); return is }) {
			continue
		}
		no := transport.RefuseEntry(path, entry, "%s", strings.TrimSuffix(u.name+", which is not read: "+u.do, ": "))
		if u.patterns == "*.json" {
			u.remedies = jsonLists(file)
		}
		for _, r := range u.remedies {
			no.Or(r.Of(file, transport.Stem(strings.TrimSuffix(file, filepath.Ext(file)))))
		}
		return no.Because(errors.ErrUnsupported)
	}
	return nil
}

// jsonForms have the commands that make a list of a JSON file which begins so.
var jsonForms = []struct {
	begins   *regexp.Regexp
	remedies []remedy.Remedy
}{
	{regexp.MustCompile(`^\s*\[\s*\{`), []remedy.Remedy{remedy.JSONObjects}},
	{regexp.MustCompile(`^\s*\[\s*\[`), []remedy.Remedy{remedy.JSONPairs}},
	{regexp.MustCompile(`^\s*\[\s*"`), []remedy.Remedy{remedy.JSONPaths}},
	{regexp.MustCompile(`^\s*\{\s*"[^"]*"\s*:\s*["\d-]`), []remedy.Remedy{remedy.JSONByPath}},
}

// jsonLists are the commands for a file.
func jsonLists(file string) []remedy.Remedy {
	f, err := transport.FileSystem{}.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, 1<<16))
	for _, form := range jsonForms {
		if form.begins.Match(head) {
			return form.remedies
		}
	}
	return nil
}

// unread is the error for a folder of files in an unsupported format.
func (c *candidate) unread() error {
	if !c.listed() || len(c.folders) > 0 || slices.ContainsFunc(c.files, func(name string) bool {
		return transport.NamedImage(name) && filepath.Ext(name) != "" || transport.FileKind(name) != "" || namedList(name)
	}) {
		return nil
	}
	if err := unreadFile(c.path, ""); err != nil {
		return err
	}
	for _, name := range c.files {
		if err := unreadFile(c.path, name); err != nil && filepath.Ext(name) != ".json" {
			return err
		}
	}
	return nil
}
