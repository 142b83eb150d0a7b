package source

import (
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

// zipTree is a zip. It stays open as long as the splits in it are used. Folders are what members' names say, whether they have members of their
// own or not.
type zipTree struct {
	path string
	*zipList
}

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
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	list, err := readZipList(file, name)
	if err != nil {
		file.Close()
		return nil, err
	}
	return &zipTree{name, list}, nil
}

// zipEntry is a member, or a folder that members lie in, as a folder lists it and as it is asked for.
type zipEntry struct {
	name   string
	mode   fs.FileMode
	member zipMember
}

func (e zipEntry) Name() string               { return e.name }
func (e zipEntry) IsDir() bool                { return e.mode.IsDir() }
func (e zipEntry) Type() fs.FileMode          { return e.mode.Type() }
func (e zipEntry) Info() (fs.FileInfo, error) { return e, nil }
func (e zipEntry) Size() int64                { return int64(e.member.size) }
func (e zipEntry) Mode() fs.FileMode          { return e.mode }
func (e zipEntry) ModTime() time.Time         { return time.Time{} }
func (e zipEntry) Sys() any                   { return nil }

// zipModes are the modes of the sorts of members.
var zipModes = [...]fs.FileMode{zipRegular: 0o644, zipFolder: fs.ModeDir | 0o755, zipOther: fs.ModeIrregular}

// key is a path's in the zip; "" is the zip's own.
func (t *zipTree) key(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, t.path), "/")
}

// find returns what has a key.
func (t *zipTree) find(key string) (zipEntry, bool) {
	base := path.Base(key)
	if key == "" {
		return zipEntry{name: path.Base(t.path), mode: zipModes[zipFolder]}, true
	}
	if i := t.search(key); i < len(t.members) && t.name(i) == key {
		return zipEntry{base, zipModes[t.members[i].sort], t.members[i]}, true
	}
	if i := t.search(key + "/"); i < len(t.members) && strings.HasPrefix(t.name(i), key+"/") {
		return zipEntry{name: base, mode: zipModes[zipFolder]}, true
	}
	return zipEntry{}, false
}

func (t *zipTree) stat(name string) (fs.FileInfo, error) {
	if e, ok := t.find(t.key(name)); ok {
		return e, nil
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

func (t *zipTree) list(name string) ([]fs.DirEntry, error) {
	prefix := t.key(name)
	if e, ok := t.find(prefix); !ok || !e.IsDir() {
		return nil, &fs.PathError{Op: "list", Path: name, Err: fs.ErrNotExist}
	}
	if prefix != "" {
		prefix += "/"
	}
	var entries []fs.DirEntry
	for i := t.search(prefix); i < len(t.members) && strings.HasPrefix(t.name(i), prefix); {
		rest := t.name(i)[len(prefix):]
		folder, _, deep := strings.Cut(rest, "/")
		if deep {
			entries = append(entries, zipEntry{name: folder, mode: zipModes[zipFolder]})
			i = t.search(prefix + folder + "0") // what follows "/"
			continue
		}
		entries = append(entries, zipEntry{rest, zipModes[t.members[i].sort], t.members[i]})
		i++
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return slices.CompactFunc(entries, func(a, b fs.DirEntry) bool { return a.Name() == b.Name() }), nil // a folder with a member of its own
}

func (t *zipTree) open(name string) (io.ReadCloser, error) {
	key := t.key(name)
	e, ok := t.find(key)
	switch {
	case !ok:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case !e.mode.IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("is no file")}
	}
	r, err := e.member.open(t.file)
	if err != nil {
		return nil, &FormatError{Path: t.path, Entry: key, Msg: "cannot be unpacked", Err: err}
	}
	return r, nil
}

// search is the place of the first member whose name is not before a name.
func (l *zipList) search(name string) int {
	return sort.Search(len(l.members), func(i int) bool { return string(l.nameOf(l.members[i])) >= name })
}

// check sorts the members, and refuses names that occur twice and files that others lie in.
func (l *zipList) check(path string) error {
	slices.SortFunc(l.members, func(a, b zipMember) int { return bytes.Compare(l.nameOf(a), l.nameOf(b)) })
	twice := func(name string) error {
		return &FormatError{Path: path, Entry: name, Msg: "refused: the name occurs twice"}
	}
	n, folder := 0, ""
	for i, m := range l.members {
		if n > 0 && bytes.Equal(l.nameOf(m), l.nameOf(l.members[n-1])) {
			if m.sort != zipFolder || l.members[n-1].sort != zipFolder {
				return twice(l.name(i))
			}
			continue
		}
		l.members[n] = l.members[i]
		n++
	}
	l.members = l.members[:n]
	for i := range l.members {
		of, _, _ := cutLast(l.name(i), "/")
		if of == folder || of == l.name(i) {
			continue
		}
		for folder = of; ; {
			if at := l.search(of); at < len(l.members) && l.name(at) == of && l.members[at].sort != zipFolder {
				return twice(of)
			}
			above, _, deep := cutLast(of, "/")
			if !deep {
				break
			}
			of = above
		}
	}
	return nil
}

// zipNameError says why a member cannot be taken by its name.
func zipNameError(raw string) (name string, err error) {
	name, err = entryPath(raw)
	switch {
	case err != nil:
		return "", err
	case strings.Contains(raw, "\\"):
		return "", errors.New("name with a backslash")
	case strings.Count(name, "/") > folderDepthMax:
		return "", fmt.Errorf("more than %d folders deep", folderDepthMax)
	}
	return name, nil
}
