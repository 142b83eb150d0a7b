package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
)

// folderDepthMax bounds how deep folders are followed.
const folderDepthMax = 32

// devkitPrefix begins the name of ImageNet's development kit, packed or not, which lies beside the images with many and is no part of a dataset.
const devkitPrefix = "ILSVRC2012_devkit"

// A fileTree is where folders and files are: the file system, or a zip, whose members have the paths that they would have if the zip were a
// folder. A zip can be read at any place, so it needs no layouts of its own as tars do.
type fileTree interface {
	stat(path string) (fs.FileInfo, error) // links are followed
	list(path string) ([]fs.DirEntry, error)
	open(path string) (io.ReadCloser, error)
}

// treeFiles is the transport of files below a folder.
type treeFiles struct {
	fs   fileTree
	root string
}

// place implements placed.
func (t *treeFiles) place(key string) string {
	if t.fs != fileTree(fileSystem{}) {
		return ""
	}
	return filepath.Join(t.root, filepath.FromSlash(key))
}

func (t *treeFiles) streamed() bool { return false }
func (t *treeFiles) bytes() int64   { return 0 }

func (t *treeFiles) files(w *walk, fn func(*file) error) error { return t.below(w, "", nil, fn) }

// below gives what lies below one folder, by its key; above are the folders on the way there, against links in circles.
func (t *treeFiles) below(w *walk, key string, above []fs.FileInfo, fn func(*file) error) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	dir := filepath.Join(t.root, filepath.FromSlash(key))
	if len(above) > folderDepthMax {
		return refuse(dir, "more than %d folders deep", folderDepthMax)
	}
	entries, err := readFolder(t.fs, dir, key, w.skipped)
	if err != nil {
		return err
	}
	for _, e := range entries {
		f := &file{key: joinKey(key, e.name), folder: e.dir, reason: e.rejectReason(), dir: dir, name: e.name}
		if err := fn(f); err == fs.SkipDir {
			continue
		} else if err != nil {
			return err
		}
		if !e.dir {
			continue
		}
		if slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, e.info) }) {
			return refuse(filepath.Join(dir, e.name), "a link to a folder that it lies in: remove it")
		}
		if err := t.below(w, f.key, append(slices.Clip(above), e.info), fn); err != nil {
			return err
		}
	}
	return nil
}

// read returns a file's content. It never opens what is no regular file: reading a pipe would wait for ever.
func (t *treeFiles) read(key string, buf []byte) ([]byte, error) {
	path := filepath.Join(t.root, filepath.FromSlash(key))
	info, err := t.fs.stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &RejectError{Reason: reasonNotRegular}
	}
	if info.Size() > ImageBytesMax {
		return nil, &RejectError{Reason: reasonTooLarge(info.Size())}
	}
	file, err := t.fs.open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := readSized(file, path, info.Size(), buf)
	if _, zipped := t.fs.(*zipTree); zipped && err != nil {
		err = fmt.Errorf("%w: the zip is damaged there: get it again, or leave out by --exclude the images that unzip -t names", err)
	}
	return data, err
}

// readSized reads exactly size bytes, and refuses a file that has more.
func readSized(r io.Reader, path string, size int64, buf []byte) ([]byte, error) {
	if int64(cap(buf)) < size+shard.SlackBytes {
		buf = make([]byte, size+size/4+shard.SlackBytes)
	}
	buf = buf[:size+1]
	n, err := io.ReadFull(r, buf)
	if err == nil || int64(n) != size {
		return nil, fmt.Errorf("%s: the file changed while it was read", path)
	}
	if err != io.ErrUnexpectedEOF && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return buf[:size], nil
}

const (
	reasonNotRegular = "not a regular file"
	reasonLink       = "a link in a tar or zip, which is not followed: unpack it, or pack what the link points to (tar --dereference --hard-dereference, zip without -y)"
	reasonDangling   = "a link to a file that is not there"
)

func reasonTooLarge(size int64) string {
	return fmt.Sprintf("%d bytes, more than %d: too large for an image", size, ImageBytesMax)
}

// folderEntry is one name in a folder, links followed.
type folderEntry struct {
	name     string
	dir      bool
	regular  bool
	dangling bool
	link     bool        // in a zip
	info     fs.FileInfo // of folders only
}

func (e folderEntry) rejectReason() string {
	switch {
	case e.dangling:
		return reasonDangling
	case e.link:
		return reasonLink
	case !e.regular:
		return reasonNotRegular
	}
	return nameReason(e.name)
}

// readFolder lists a folder without junk, in sorted order. Folders that are junk and hold images are noted in skipped, if that is not nil; key is the
// folder's path in the dataset, "" of the uppermost.
func readFolder(t fileTree, path, key string, skipped skippedFolders) ([]folderEntry, error) {
	names, err := t.list(path)
	if err != nil {
		return nil, err
	}
	entries := make([]folderEntry, 0, len(names))
	for _, d := range names {
		if junk(d.Name()) {
			switch {
			case skipped == nil:
			case d.IsDir():
				skipped.look(t, joinKey(key, d.Name()), filepath.Join(path, d.Name()))
			default:
				skipped.add(joinKey(key, d.Name()))
			}
			continue
		}
		if key == "" && strings.HasPrefix(d.Name(), devkitPrefix) {
			continue
		}
		e := folderEntry{name: d.Name(), dir: d.IsDir(), regular: d.Type().IsRegular()}
		if e.dir || d.Type()&fs.ModeSymlink != 0 {
			info, err := t.stat(filepath.Join(path, d.Name()))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				e.dangling = true
			case err != nil:
				return nil, err
			default:
				e.dir, e.regular, e.link, e.info = info.IsDir(), info.Mode().IsRegular(), info.Mode()&fs.ModeSymlink != 0, info
			}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// joinKey is the key of a name in a folder; "" is the dataset's own.
func joinKey(folder, name string) string {
	if folder == "" {
		return name
	}
	return folder + "/" + name
}
