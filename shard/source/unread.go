package source

import (
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

const (
	writeImages = "write its images into class folders, WebDataset's tars or parquet"
	cifarBinary = "get the binary version, as cifar-10-binary.tar.gz, or pack torchvision's dataset by imgfeed.from_torch"
)

// unreadFormats are unsupported formats of images, by the names of their files, with what to do.
var unreadFormats = []struct {
	patterns, name, do string
	remedy             remedy.Remedy
}{
	{"cifar-*-python* cifar-10-batches-py", "CIFAR's version for Python", cifarBinary, remedy.Remedy{}},
	{"cifar-*-mat*", "CIFAR's version for MATLAB", cifarBinary, remedy.Remedy{}},
	{"*.tfrecord *.tfrecords *-of-[0-9][0-9][0-9][0-9][0-9]", "TFRecord", writeImages, remedy.Remedy{}},
	{"*.arrow", "an Arrow file, as save_to_disk of the package datasets writes it",
		`datasets.load_from_disk("FOLDER").to_parquet("train.parquet") makes a file that is read; of several splits, one of each`, remedy.Remedy{}},
	{"*.mdb", "LMDB", writeImages, remedy.Remedy{}},
	{"*-ubyte *-ubyte.gz", "idx, the format of MNIST", "imgfeed.from_torch packs torchvision's MNIST, FashionMNIST and the like", remedy.Remedy{}},
	{"*.np[yz]", "a file of numpy arrays", "save the images as files, or pack a torch dataset of them by imgfeed.from_torch", remedy.Remedy{}},
	{"*.h5 *.hdf5", "HDF5", writeImages, remedy.Remedy{}},
	{"*.rec", "MXNet's RecordIO", "unpack it by mxnet's recordio, and give the list of images", remedy.Remedy{}},
	{"*.lst", "MXNet's list", "", remedy.MXNetList},
	{"*.7z", "a 7z archive", "", remedy.Un7z},
	{"*.rar", "a RAR archive", "", remedy.Unrar},
	{"*.z01", "a part of a split zip", "", remedy.JoinZip},
	{"*.zst", "compressed by Zstandard", "", remedy.Zstd},
	{"*.bz2", "compressed by bzip2", "", remedy.Bzip2},
	{"*.xz", "compressed by xz", "", remedy.XZ},
	{"*.json", "JSON, of which lists have an object in each line", "", remedy.Remedy{}},
}

// unreadFile is the error for a file in an unsupported format; entry is its path in the folder at path. It is nil for any other file.
func unreadFile(path, entry string) error {
	file := filepath.Join(path, entry)
	name := strings.ToLower(filepath.Base(file))
	for _, u := range unreadFormats {
		if !slices.ContainsFunc(strings.Fields(u.patterns), func(p string) bool { is, _ := filepath.Match(p, name); return is }) {
			continue
		}
		no := &transport.FormatError{Path: path, Entry: entry, Msg: strings.TrimSuffix(u.name+", which is not read: "+u.do, ": "), Err: errors.ErrUnsupported}
		stem := strings.TrimSuffix(file, filepath.Ext(file))
		switch {
		case u.patterns == "*.json":
			no.Or(jsonLists(file, stem)...)
		case u.remedy != remedy.Remedy{}:
			no.Or(u.remedy.Of(file, transport.Stem(stem)))
		}
		return no
	}
	return nil
}

// A jsonForm has the commands that make a list of a JSON file which begins so.
type jsonForm struct {
	begins *regexp.Regexp
	ways   []remedy.Remedy
}

var jsonForms = []jsonForm{
	{regexp.MustCompile(`^\s*\[\s*\{`), []remedy.Remedy{remedy.JSONObjects}},
	{regexp.MustCompile(`^\s*\[\s*\[`), []remedy.Remedy{remedy.JSONPairs}},
	{regexp.MustCompile(`^\s*\[\s*"`), []remedy.Remedy{remedy.JSONPaths}},
	{regexp.MustCompile(`^\s*\{(?s:.*)"images"\s*:\s*\[`), []remedy.Remedy{remedy.COCOLabels, remedy.COCOImages}},
	{regexp.MustCompile(`^\s*\{\s*"[^"]*"\s*:\s*["\d-]`), []remedy.Remedy{remedy.JSONByPath}},
}

// jsonLists are the commands for a file.
func jsonLists(file, stem string) (ways []remedy.Remedy) {
	f, err := transport.FileSystem{}.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, 1<<16))
	i := slices.IndexFunc(jsonForms, func(form jsonForm) bool { return form.begins.Match(head) })
	for i >= 0 && len(ways) < len(jsonForms[i].ways) {
		ways = append(ways, jsonForms[i].ways[len(ways)].Of(file, stem))
	}
	return ways
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
