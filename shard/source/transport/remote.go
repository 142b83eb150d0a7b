package transport

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// Paths behind a network are URLs as package filepath cleans them, such as s3:/bucket/data. Errors show the URLs.

// Absolute is filepath.Abs of a path or URL.
func Absolute(p string) (string, error) {
	if storage.IsRemote(p) {
		if _, err := storage.At(p); err != nil {
			return "", err
		}
		return filepath.Clean(p), nil
	}
	return filepath.Abs(p)
}

// ShownPath returns a path as people write it: that of a file behind a network is its URL.
func ShownPath(p string) string {
	if scheme, rest, found := strings.Cut(p, ":/"); found && scheme != "" && !strings.ContainsAny(scheme, "/.") {
		return scheme + "://" + strings.TrimPrefix(rest, "/")
	}
	return p
}

func isRemote(p string) bool { return storage.IsRemote(ShownPath(p)) }

// OpenLocal opens a file of a format that needs random access, which is refused behind a network. It returns the size too.
func OpenLocal(p, format string) (f *os.File, size int64, err error) {
	if isRemote(p) {
		return nil, 0, Refuse(p, "%s in a bucket or on a web server is not read: download it", format)
	}
	if f, err = os.Open(p); err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

var remotes sync.Map // the open storages, by their roots

// remote returns the storage that a path behind a network lies in, and its name there.
func remote(p string) (storage.Storage, string, error) {
	root, name := storage.Root(ShownPath(p))
	if s, ok := remotes.Load(root); ok {
		return s.(storage.Storage), name, nil
	}
	s, err := storage.At(root)
	if err != nil {
		return nil, "", err
	}
	kept, _ := remotes.LoadOrStore(root, s)
	return kept.(storage.Storage), name, nil
}

var pins sync.Map // the identity of the tars that were opened behind a network, by path, since a tar is opened several times

// pin returns what pins a file behind a network, of that storage and name.
func pin(p string, s storage.Storage, name string) (storage.Object, error) {
	if o, ok := pins.Load(p); ok {
		return o.(storage.Object), nil
	}
	o, err := s.Stat(name)
	if err == nil && NamedTar(p) {
		pins.Store(p, o)
	}
	return o, err
}

// FileSystem is the machine's own tree, and the storages behind a network.
type FileSystem struct{}

func (FileSystem) Stat(p string) (fs.FileInfo, error) {
	if !isRemote(p) {
		return os.Stat(p)
	}
	s, name, err := remote(p)
	if err != nil {
		return nil, err
	}
	if name != "" {
		object, err := pin(p, s, name)
		if !errors.Is(err, fs.ErrNotExist) {
			return remoteInfo{path.Base(name), object}, err
		}
	}
	names, err := s.Names(name)
	if err == nil && len(names) == 0 || errors.Is(err, errors.ErrUnsupported) {
		err = &fs.PathError{Op: "stat", Path: ShownPath(p), Err: fs.ErrNotExist}
	}
	return remoteInfo{path.Base(name), storage.Object{Bytes: -1}}, err
}

func (FileSystem) List(p string) ([]fs.DirEntry, error) {
	if !isRemote(p) {
		return os.ReadDir(p)
	}
	s, name, err := remote(p)
	if err != nil {
		return nil, err
	}
	names, err := s.(storage.Lister).List(name) // all remote storages are listers
	if err == errors.ErrUnsupported {
		err = Refuse(p, "a web server does not list its files: name a tar, or download the images").Because(err)
	}
	entries := make([]fs.DirEntry, len(names))
	for i, n := range names {
		bare, folder := strings.CutSuffix(n.Name, "/")
		if folder {
			n.Bytes = -1
		}
		entries[i] = fs.FileInfoToDirEntry(remoteInfo{bare, n.Object})
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

func (FileSystem) Open(p string) (io.ReadCloser, error) {
	if !isRemote(p) {
		return os.Open(p)
	}
	s, name, err := remote(p)
	if err != nil {
		return nil, err
	}
	object, err := pin(p, s, name)
	if err != nil {
		return nil, err
	}
	f, err := s.OpenObject(name, object)
	return storage.NewReader(f), err
}

// Pinned is Item.Pin of a file by its path.
func Pinned(p string) (size int64, version string, err error) { return pinned(FileSystem{}.Stat(p)) }

// pinned returns the size of a file, and its date or ETag.
func pinned(info fs.FileInfo, err error) (size int64, version string, _ error) {
	if err != nil {
		return 0, "", err
	}
	if o, remote := info.Sys().(storage.Object); remote {
		return info.Size(), o.Version, nil
	}
	return info.Size(), strconv.FormatInt(info.ModTime().UnixNano(), 10), nil
}

// remoteInfo describes a name behind a network. A folder's size is -1.
type remoteInfo struct {
	name string
	storage.Object
}

func (i remoteInfo) Name() string       { return i.name }
func (i remoteInfo) Size() int64        { return i.Bytes }
func (i remoteInfo) ModTime() time.Time { return time.Time{} }
func (i remoteInfo) IsDir() bool        { return i.Bytes < 0 }
func (i remoteInfo) Sys() any           { return i.Object }
func (i remoteInfo) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir
	}
	return 0
}
