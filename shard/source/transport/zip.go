package transport

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/imgfeed/imgfeed/shard/source/remedy"
)

// zipRatioMax is how much deflate can pack: no honest member claims more, and memory must not be allocated for bytes that do not exist.
const zipRatioMax = 1032

// ZipTree is a zip, open as long as the splits in it are used. The lists of archive/zip take about 280 bytes a member.
type ZipTree struct {
	path   string
	reader *zip.Reader
}

// IsZip says that a file begins as a zip with members does.
func IsZip(name string) bool {
	f, err := FileSystem{}.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	io.ReadFull(f, head)
	return string(head) == "PK\x03\x04"
}

// Archive is the archive on this machine that a path is, or lies in; "" for one in folders.
func Archive(p string) string {
	for ; p != filepath.Dir(p); p = filepath.Dir(p) {
		if info, err := os.Stat(p); err == nil {
			if info.Mode().IsRegular() {
				return p
			}
			break
		}
	}
	return ""
}

// Unpack is how to unpack the archive that a path is, or lies in.
func Unpack(p string) []remedy.Remedy {
	file := Archive(p)
	switch {
	case file == "":
		return nil
	case IsZip(file):
		return []remedy.Remedy{remedy.Unzip.Of(file, Stem(file))}
	}
	return []remedy.Remedy{remedy.Untar.Of(file, Stem(file))}
}

// OpenZip reads the list of members at a zip's end.
func OpenZip(name string) (t *ZipTree, err error) {
	file, size, err := OpenLocal(name, "a zip")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	list, err := zip.NewReader(file, size)
	if err != nil {
		return nil, Refuse(name, "begins as a zip does, but the list of its members, which stands at the end, cannot be read: it is "+
			"damaged, or the download is incomplete").Because(err)
	}
	for _, f := range list.File {
		clean, err := checkZipMember(f, uint64(size))
		if err != nil {
			return nil, RefuseEntry(name, f.Name, "refused: %v", err)
		}
		if clean != "" && f.Mode().IsDir() {
			clean += "/"
		}
		f.Name, f.Comment, f.Extra, f.Modified = clean, "", nil, time.Time{}
	}
	list.File = slices.DeleteFunc(list.File, func(f *zip.File) bool { return f.Name == "" })
	return &ZipTree{name, list}, nil
}

// checkZipMember returns the clean name of a member, or the reason to refuse it. "" is the zip's own folder.
func checkZipMember(f *zip.File, size uint64) (name string, err error) {
	f.Name = strings.ReplaceAll(f.Name, "\\", "/") // written on Windows
	name, err = EntryPath(f.Name)
	packed, unpacked := f.CompressedSize64, f.UncompressedSize64
	switch {
	case err != nil:
		return "", err
	case strings.Count(name, "/") > folderDepthMax:
		return "", fmt.Errorf("more than %d folders deep", folderDepthMax)
	case name == "" || f.Mode().IsDir():
		return name, nil
	case f.Flags&1 != 0:
		return "", errors.New("it is encrypted: unpack it with its password")
	case f.Method == zip.Deflate && unpacked > zipRatioMax*(packed+1), f.Method == zip.Store && unpacked != packed:
		return "", fmt.Errorf("its %d bytes cannot unpack to the declared %d", packed, unpacked)
	case packed > size:
		return "", fmt.Errorf("it is said to have %d bytes, more than the zip", packed)
	}
	return name, nil
}

// key is a path's in the zip; "." is the zip's own.
func (t *ZipTree) key(name string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(name, t.path), "/"), ".")
}

func (t *ZipTree) Stat(name string) (fs.FileInfo, error) {
	f, err := t.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// List refuses names that occur twice, and files that others lie in.
func (t *ZipTree) List(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(t.reader, t.key(name))
	if err != nil {
		err = RefuseEntry(t.path, t.key(name), "cannot be listed").Because(err)
	}
	return entries, err
}

func (t *ZipTree) Open(name string) (io.ReadCloser, error) { return t.open(name) }

func (t *ZipTree) open(name string) (fs.File, error) {
	f, err := t.reader.Open(t.key(name))
	if err != nil {
		return nil, RefuseEntry(t.path, t.key(name), "cannot be unpacked here: pack it again by deflate").Because(err).Or(Unpack(t.path)...)
	}
	return f, nil
}
