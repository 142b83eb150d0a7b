package transport

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sort"
	"strings"
	"time"
)

// zipRatioMax is how much deflate can pack: no honest member claims more, and memory must not be allocated for bytes that do not exist.
const zipRatioMax = 1032

// ZipTree is a zip. It stays open as long as the splits in it are used. Folders are what members' names say, whether they have members of
// their own or not. The list of members is archive/zip's and takes about 230 bytes a member. A list of our own took 32 bytes and the name:
// packing 2,000,000 tiny images had a peak of 954 MB with it, and has one of 1,699 MB with this.
type ZipTree struct {
	path    string
	file    *os.File
	members []*zip.File // sorted by name, as EntryPath cleans it
}

// IsZip says that a file begins as a zip with members does.
func IsZip(name string) bool { return bytes.HasPrefix(Head(name), []byte("PK\x03\x04")) }

// OpenZip reads the list of members at a zip's end.
func OpenZip(name string) (t *ZipTree, err error) {
	if err := NoRemote(name, "a zip"); err != nil {
		return nil, err
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	list, err := zip.NewReader(file, info.Size())
	if err != nil {
		return nil, &FormatError{Path: name, Err: err,
			Msg: "begins as a zip does, but the list of its members, which stands at the end, cannot be read: it is damaged, " +
				"or the download is incomplete"}
	}
	t = &ZipTree{path: name, file: file, members: list.File}
	list.File = nil // the members hold the reader, and it should not hold them in turn
	for _, f := range t.members {
		clean, err := checkZipMember(f, uint64(info.Size()))
		if err != nil {
			return nil, RefuseEntry(name, f.Name, "refused: %v", err)
		}
		if clean != "" && f.Mode().IsDir() {
			clean += "/"
		}
		f.Name, f.Comment, f.Extra, f.Modified = clean, "", nil, time.Time{}
	}
	return t, t.sort()
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
		return "", fmt.Errorf("its %d bytes are said to unpack to %d, which cannot be", packed, unpacked)
	case packed > size:
		return "", fmt.Errorf("it is said to have %d bytes, more than the zip", packed)
	}
	return name, nil
}

// sort sorts the members, and refuses names that occur twice and files that others lie in.
func (t *ZipTree) sort() error {
	twice := func(name string) error {
		return RefuseEntry(t.path, name, "refused: the name occurs twice")
	}
	t.members = slices.DeleteFunc(t.members, func(f *zip.File) bool { return f.Name == "" })
	slices.SortFunc(t.members, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
	folder := ""
	for i, f := range t.members {
		if i > 0 && f.Name == t.members[i-1].Name && !strings.HasSuffix(f.Name, "/") {
			return twice(f.Name)
		}
		of := path.Dir(f.Name)
		if of == folder {
			continue
		}
		for folder = of; of != "."; of = path.Dir(of) {
			if at := t.search(of); at < len(t.members) && t.members[at].Name == of {
				return twice(of)
			}
		}
	}
	return nil
}

// search returns the index of the first member with this name or a later one.
func (t *ZipTree) search(name string) int {
	return sort.Search(len(t.members), func(i int) bool { return t.members[i].Name >= name })
}

// zipFolder is a folder that has no member of its own.
func zipFolder(name string) *zip.File { return &zip.File{FileHeader: zip.FileHeader{Name: name + "/"}} }

// find returns the member at a path, or a folder that members lie in.
func (t *ZipTree) find(op, name string) (*zip.File, error) {
	key := t.key(name)
	if i := t.search(key); key != "" && i < len(t.members) && t.members[i].Name == key {
		return t.members[i], nil
	}
	if i := t.search(key + "/"); key == "" || i < len(t.members) && strings.HasPrefix(t.members[i].Name, key+"/") {
		return zipFolder(path.Base(name)), nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// key is a path's in the zip; "" is the zip's own.
func (t *ZipTree) key(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, t.path), "/")
}

func (t *ZipTree) Stat(name string) (fs.FileInfo, error) {
	f, err := t.find("stat", name)
	if err != nil {
		return nil, err
	}
	return f.FileInfo(), nil
}

func (t *ZipTree) List(name string) ([]fs.DirEntry, error) {
	if f, err := t.find("list", name); err != nil || !f.Mode().IsDir() {
		return nil, &fs.PathError{Op: "list", Path: name, Err: fs.ErrNotExist}
	}
	prefix := t.key(name)
	if prefix != "" {
		prefix += "/"
	}
	var entries []fs.DirEntry
	for i := t.search(prefix); i < len(t.members) && strings.HasPrefix(t.members[i].Name, prefix); {
		f := t.members[i]
		base, _, deep := strings.Cut(f.Name[len(prefix):], "/")
		if i++; deep {
			f, i = zipFolder(base), t.search(prefix+base+"0") // "0" follows "/"
		}
		if base != "" { // else it is the folder's own member
			entries = append(entries, fs.FileInfoToDirEntry(f.FileInfo()))
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

func (t *ZipTree) Open(name string) (io.ReadCloser, error) {
	f, err := t.find("open", name)
	switch {
	case err != nil:
		return nil, err
	case !f.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("is no file")}
	}
	r, err := f.Open()
	if errors.Is(err, zip.ErrAlgorithm) {
		err = fmt.Errorf("it is packed by method %d, of which only 0 (stored) and 8 (deflate) are read: pack it again, or unpack it",
			f.Method)
	}
	if err != nil {
		return nil, &FormatError{Path: t.path, Entry: f.Name, Msg: "cannot be unpacked", Err: err}
	}
	return r, nil
}
