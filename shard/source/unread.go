package source

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard/source/table"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

const (
	writeImages = "write its images into class folders, WebDataset's tars or parquet"
	unpack      = "unpack it and build its folder"
	cifarBinary = "get the binary version, as cifar-10-binary.tar.gz, or pack torchvision's dataset by imgfeed.from_torch"
)

// unreadFormats are unsupported formats of images, by the names of their files, with the remedy.
var unreadFormats = []struct{ pattern, name, remedy string }{
	{"cifar-*-python*", "CIFAR's version for Python", cifarBinary},
	{"cifar-10-batches-py", "CIFAR's version for Python", cifarBinary},
	{"cifar-*-mat*", "CIFAR's version for MATLAB", cifarBinary},
	{"*.tfrecord", "TFRecord", writeImages},
	{"*.tfrecords", "TFRecord", writeImages},
	{"*-of-[0-9][0-9][0-9][0-9][0-9]", "TFRecord", writeImages},
	{"*.arrow", "an Arrow file, as save_to_disk of the package datasets writes it",
		`datasets.load_from_disk("FOLDER").to_parquet("train.parquet") makes a file that is read; of several splits, one of each`},
	{"*.mdb", "LMDB", writeImages},
	{"*-ubyte", "idx, the format of MNIST", "imgfeed.from_torch packs torchvision's MNIST, FashionMNIST and the like"},
	{"*-ubyte.gz", "idx, the format of MNIST", "imgfeed.from_torch packs torchvision's MNIST, FashionMNIST and the like"},
	{"*.np[yz]", "a file of numpy arrays", "save the images as files, or pack a torch dataset of them by imgfeed.from_torch"},
	{"*.h5", "HDF5", writeImages},
	{"*.hdf5", "HDF5", writeImages},
	{"*.rec", "MXNet's RecordIO", "unpack it by mxnet's recordio, and build the list of images"},
	{"*.lst", "MXNet's list", "(printf 'id\\tlabel\\tpath\\n'; cat x.lst) > x.tsv makes a list that is read"},
	{"*.7z", "a 7z archive", unpack},
	{"*.rar", "a RAR archive", unpack},
	{"*.z01", "a part of a split zip", "zip -s 0 FILE.zip --out WHOLE.zip joins the parts"},
	{"*.zst", "compressed by Zstandard", "zstd -dc FILE | imgshard build - -o OUT"},
	{"*.bz2", "compressed by bzip2", "bzip2 -dc FILE | imgshard build - -o OUT"},
	{"*.xz", "compressed by xz", "xz -dc FILE | imgshard build - -o OUT"},
	{"*.json", "JSON, of which lists have an object in each line", "jq -c '.[]' FILE > list.jsonl makes such lines of an array"},
}

// unreadFile is the error for a file in an unsupported format; entry is its place in the folder at path. It is nil for any other file.
func unreadFile(path, entry string) error {
	name := strings.ToLower(filepath.Base(filepath.Join(path, entry)))
	for _, u := range unreadFormats {
		if is, _ := filepath.Match(u.pattern, name); is {
			return &FormatError{Path: path, Entry: entry, Msg: u.name + ", which is not read: " + u.remedy, Err: errors.ErrUnsupported}
		}
	}
	return nil
}

// unread is the error for a folder of files in an unsupported format.
func (c *candidate) unread() error {
	if c.folder == nil || len(c.folders) > 0 || slices.ContainsFunc(c.files, func(name string) bool {
		return transport.NamedImage(name) && filepath.Ext(name) != "" || transport.FileKind(name) != "" || table.NamedList(name)
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
