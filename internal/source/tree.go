package source

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// A fileTree is where folders and files are: the file system, or a zip, whose members have the paths that they would have if the zip were a folder. A zip
// can be read at any place, so it needs no layouts of its own as tars do.
type fileTree interface {
	stat(path string) (fs.FileInfo, error) // links are followed
	list(path string) ([]fs.DirEntry, error)
	open(path string) (io.ReadCloser, error)
}

// fileSystem is the machine's own tree.
type fileSystem struct{}

func (fileSystem) stat(path string) (fs.FileInfo, error)   { return os.Stat(path) }
func (fileSystem) list(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (fileSystem) open(path string) (io.ReadCloser, error) { return os.Open(path) }

// zipTree is a zip. It stays open as long as the splits in it are used.
type zipTree struct {
	path    string
	members map[string]fs.DirEntry // by cleaned path; "" is the root
	names   map[string][]fs.DirEntry
}

// zipDir is a folder in a zip, whether it has an entry of its own or not.
type zipDir struct{ name string }

func (d zipDir) Name() string               { return d.name }
func (d zipDir) IsDir() bool                { return true }
func (d zipDir) Type() fs.FileMode          { return fs.ModeDir }
func (d zipDir) Info() (fs.FileInfo, error) { return zipDirInfo{&zip.FileHeader{Name: d.name}}, nil }

type zipDirInfo struct{ *zip.FileHeader }

func (i zipDirInfo) Name() string       { return i.FileHeader.Name }
func (i zipDirInfo) Size() int64        { return 0 }
func (i zipDirInfo) IsDir() bool        { return true }
func (i zipDirInfo) Mode() fs.FileMode  { return fs.ModeDir | 0o755 }
func (i zipDirInfo) Sys() any           { return nil }
func (i zipDirInfo) ModTime() time.Time { return i.Modified }

// zipFile is a file in a zip.
type zipFile struct{ *zip.File }

func (f zipFile) Name() string               { return path.Base(f.File.Name) }
func (f zipFile) IsDir() bool                { return false }
func (f zipFile) Type() fs.FileMode          { return f.Mode().Type() }
func (f zipFile) Info() (fs.FileInfo, error) { return f.FileInfo(), nil }

// isZip says that a file begins as zips do that are not empty.
func isZip(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == "PK\x03\x04"
}

// openZip reads the list at a zip's end.
func openZip(name string) (*zipTree, error) {
	r, err := zip.OpenReader(name)
	if errors.Is(err, zip.ErrFormat) {
		return nil, &FormatError{Path: name, Msg: "begins as a zip does, but the list of its members, which stands at the end, cannot be read: the download is incomplete", Err: err}
	}
	if err != nil {
		return nil, err
	}
	t := &zipTree{path: name, members: make(map[string]fs.DirEntry, len(r.File)), names: make(map[string][]fs.DirEntry)}
	t.members[""] = zipDir{path.Base(name)}
	for _, f := range r.File {
		if err := t.add(f); err != nil {
			r.Close()
			return nil, err
		}
	}
	for _, entries := range t.names {
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return t, nil
}

// add takes a member, and the folders that it lies in.
func (t *zipTree) add(f *zip.File) error {
	bad := func(why string) error { return &FormatError{Path: t.path, Entry: f.Name, Msg: "refused: " + why} }
	name, err := entryPath(f.Name)
	switch {
	case err != nil:
		return bad(err.Error())
	case strings.Contains(f.Name, "\\"):
		return bad("name with a backslash")
	case strings.Count(name, "/") > folderDepthMax:
		return bad(fmt.Sprintf("more than %d folders deep", folderDepthMax))
	case name == "":
		return nil
	}
	var e fs.DirEntry = zipFile{f}
	if strings.HasSuffix(f.Name, "/") {
		e = zipDir{path.Base(name)}
	} else if f.Flags&1 != 0 {
		return bad("it is encrypted: unpack it with its password")
	}
	for {
		there, ok := t.members[name]
		if ok && !(there.IsDir() && e.IsDir()) {
			return bad("the name occurs twice")
		}
		if ok {
			return nil
		}
		folder := path.Dir(name)
		if folder == "." {
			folder = ""
		}
		t.members[name] = e
		t.names[folder] = append(t.names[folder], e)
		if folder == "" {
			return nil
		}
		name, e = folder, zipDir{path.Base(folder)}
	}
}

// member finds what has a path.
func (t *zipTree) member(op, name string) (fs.DirEntry, string, error) {
	key := strings.TrimPrefix(strings.TrimPrefix(name, t.path), "/")
	if e, ok := t.members[key]; ok {
		return e, key, nil
	}
	return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

func (t *zipTree) stat(name string) (fs.FileInfo, error) {
	e, _, err := t.member("stat", name)
	if err != nil {
		return nil, err
	}
	return e.Info()
}

func (t *zipTree) list(name string) ([]fs.DirEntry, error) {
	_, key, err := t.member("list", name)
	return t.names[key], err
}

func (t *zipTree) open(name string) (io.ReadCloser, error) {
	e, key, err := t.member("open", name)
	if err != nil {
		return nil, err
	}
	f, ok := e.(zipFile)
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("is a folder")}
	}
	r, err := f.Open()
	if err != nil {
		return nil, &FormatError{Path: t.path, Entry: key, Msg: "cannot be unpacked", Err: err}
	}
	return r, nil
}
