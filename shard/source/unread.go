package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard/source/table"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// An unreadFormat is an unsupported format of images, with the remedy.
type unreadFormat struct {
	name       string
	extensions []string
	begins     string // "": the extension tells it
	instead    string
}

const unpackTo = "unpack it, or pipe the tar in it: %s FILE | imgshard build - -o OUT"

var unreadFormats = []unreadFormat{
	{"TFRecord", []string{".tfrecord", ".tfrecords"}, "", "write its images into class folders, WebDataset's tars or parquet"},
	{"an Arrow file, as save_to_disk of the package datasets writes it", []string{".arrow"}, "ARROW1",
		`datasets.load_from_disk("FOLDER").to_parquet("train.parquet") makes a file that is read; of several splits, one of each`},
	{"LMDB", []string{".mdb", ".lmdb"}, "", "write its images into class folders, WebDataset's tars or parquet"},
	{"idx, the format of MNIST", []string{"-ubyte", "-ubyte.gz"}, "", "imgfeed.from_torch packs torchvision's MNIST, " +
		"FashionMNIST and the like"},
	{"a file of numpy arrays", []string{".npy", ".npz"}, "\x93NUMPY", "save the images as files, " +
		"or pack a torch dataset of them by imgfeed.from_torch"},
	{"HDF5", []string{".h5", ".hdf5"}, "\x89HDF\r\n\x1a\n", "write its images into class folders, WebDataset's tars or parquet"},
	{"MXNet's RecordIO", []string{".rec"}, "\x0a\x23\xd7\xce", "unpack it by mxnet's im2rec or recordio, " +
		"and build the list of images (.lst)"},
	{"a 7z archive", []string{".7z"}, "7z\xbc\xaf\x27\x1c", "unpack it and build its folder"},
	{"a part of a split zip", []string{".z01"}, "PK\x07\x08", "zip -s 0 FILE.zip --out WHOLE.zip joins the parts"},
	{"a RAR archive", []string{".rar"}, "Rar!", "unpack it and build its folder"},
	{"compressed by Zstandard", []string{".zst"}, "\x28\xb5\x2f\xfd", fmt.Sprintf(unpackTo, "zstd -dc")},
	{"compressed by bzip2", []string{".bz2", ".tbz2"}, "BZh", fmt.Sprintf(unpackTo, "bzip2 -dc")},
	{"compressed by xz", []string{".xz", ".txz"}, "\xfd7zXZ\x00", fmt.Sprintf(unpackTo, "xz -dc")},
	{"JSON, of which lists have an object in each line", []string{".json"}, "", "jq -c '.[]' FILE > list.jsonl makes such lines of an " +
		"array"},
}

// has says that a file is of the format, by its name or how it begins.
func (u *unreadFormat) has(name string, head []byte) bool {
	name = strings.ToLower(name)
	named := slices.ContainsFunc(u.extensions, func(e string) bool { return strings.HasSuffix(name, e) })
	return named || u.begins != "" && bytes.HasPrefix(head, []byte(u.begins)) || u.name == "TFRecord" && isTFRecord(head)
}

// isTFRecord says that a file begins with a length and its masked CRC-32C, as records of TensorFlow do.
func isTFRecord(head []byte) bool {
	if len(head) < 12 {
		return false
	}
	crc := crc32.Checksum(head[:8], crc32.MakeTable(crc32.Castagnoli))
	return binary.LittleEndian.Uint32(head[8:]) == crc>>15|crc<<17+0xa282ead8
}

// errorOf is the error for such a file.
func (u *unreadFormat) errorOf(path, entry string) error {
	return &FormatError{Path: path, Entry: entry, Msg: u.name + ", which is not read: " + u.instead, Err: errors.ErrUnsupported}
}

// unreadFile is the error for a file that no kind reads; it names the format.
func unreadFile(path string) error {
	head := transport.Head(path)
	for i := range unreadFormats {
		if unreadFormats[i].has(filepath.Base(path), head) {
			return unreadFormats[i].errorOf(path, "")
		}
	}
	text := bytes.TrimSpace(head)
	line, _, _ := bytes.Cut(text, []byte("\n"))
	switch {
	case transport.NamedTar(path):
	case strings.EqualFold(filepath.Ext(path), ".zip"):
		return &FormatError{Path: path, Err: transport.ErrNotTar, Msg: "does not begin as a zip does: the last part of a split zip " +
			"(zip -s 0 FILE.zip --out WHOLE.zip joins them), or damaged"}
	case len(text) == 0:
		return &FormatError{Path: path, Msg: "the file is empty", Err: transport.ErrNotTar}
	case imagefile.Sniff(head) != imagefile.Unknown:
		return &FormatError{Path: path, Msg: "a single image: give the folder that has the class folders, " +
			"or a list of images and their labels", Err: transport.ErrNotTar}
	case utf8.Valid(line) && !bytes.ContainsRune(text, 0):
		return &FormatError{Path: path, Msg: fmt.Sprintf("a text file that begins with %.60q: a list of images is called .csv, "+
			".tsv or .jsonl and begins with path,label. Of lines such as a.jpg 3 in val.txt, (echo path,label; tr ' ' , "+
			"< val.txt) > val.csv makes one", line), Err: transport.ErrNotTar}
	}
	return &FormatError{Path: path, Msg: "neither a tar nor a tar.gz", Err: transport.ErrNotTar}
}

// unread is the error for a folder in an unsupported format: it holds only files of such a format, or images with boxes as labels.
func (c *candidate) unread() error {
	if c.folder == nil || c.tree != transport.Tree(transport.FileSystem{}) {
		return nil
	}
	boxes := func(what, images string) error {
		return &FormatError{Path: c.path, Err: errors.ErrUnsupported, Msg: fmt.Sprintf("%s, "+
			"whose images have boxes and not a class each: imgshard build %s --no-labels packs the images",
			what, filepath.Join(c.path, images))}
	}
	if !c.opts.NoLabels && slices.Contains(c.folders, "labels") && slices.Contains(c.folders, "images") {
		return boxes("laid out as YOLO's datasets", "images")
	}
	if annotations, _ := filepath.Glob(filepath.Join(c.path, "annotations", "instances_*.json")); !c.opts.NoLabels && len(annotations) > 0 {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(annotations[0]), "instances_"), ".json")
		return boxes("laid out as COCO", name)
	}
	readable := func(name string) bool {
		return transport.NamedImage(name) && filepath.Ext(name) != "" || transport.FileKind(name) != "" || table.NamedList(name)
	}
	if len(c.folders) > 0 || slices.ContainsFunc(c.files, readable) {
		return nil
	}
	for _, name := range c.files {
		for i := range unreadFormats {
			if u := &unreadFormats[i]; u.has(name, transport.Head(filepath.Join(c.path, name))) && !strings.HasSuffix(name, ".json") {
				return u.errorOf(c.path, name)
			}
		}
	}
	return nil
}
