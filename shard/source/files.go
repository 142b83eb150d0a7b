package source

import (
	"context"
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

// folderDepthMax bounds how deep folders are followed below a class.
const folderDepthMax = 32

// devkitPrefix begins the name of ImageNet's development kit, whether packed or not.
const devkitPrefix = "ILSVRC2012_devkit"

// inFolder is the part of a layout that all have whose samples are files below a folder.
type inFolder struct {
	root     string
	tree     fileTree
	sidecars sidecars
}

func (f *inFolder) streamed() bool { return false }
func (f *inFolder) bytes() int64   { return 0 }

// walkBelow gives the files of one class, also those in folders below it; above are the folders on the way there, against links in circles.
func (f *inFolder) walkBelow(ctx context.Context, key string, above []fs.FileInfo, skipped skippedFolders, fn func(Item) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	path := filepath.Join(f.root, filepath.FromSlash(key))
	if len(above) > folderDepthMax {
		return &FormatError{Path: path, Msg: fmt.Sprintf("more than %d folders deep", folderDepthMax)}
	}
	entries, err := readFolder(f.tree, path, key, skipped)
	if err != nil {
		return err
	}
	for _, e := range entries {
		below := key + "/" + e.name
		if !e.dir && f.sidecars.is(e.name) {
			continue
		}
		if !e.dir {
			if err := fn(Item{Key: below, Reason: e.rejectReason()}); err != nil {
				return err
			}
			continue
		}
		if slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, e.info) }) {
			return &FormatError{Path: filepath.Join(path, e.name), Msg: "a link to a folder that it lies in: remove it"}
		}
		if err := f.walkBelow(ctx, below, append(slices.Clip(above), e.info), skipped, fn); err != nil {
			return err
		}
	}
	return nil
}

// read returns a file's content. It never opens what is no regular file: reading a pipe would wait for ever.
func (f *inFolder) read(key string, buf []byte) ([]byte, error) {
	path := filepath.Join(f.root, filepath.FromSlash(key))
	info, err := f.tree.stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &RejectError{Reason: reasonNotRegular}
	}
	if info.Size() > ImageBytesMax {
		return nil, &RejectError{Reason: reasonTooLarge(info.Size())}
	}
	file, err := f.tree.open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readSized(file, path, info.Size(), buf)
}

// readSized reads exactly size bytes and makes sure that there are no more.
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
	reasonTarLink    = "a link in a tar, which is not followed: unpack the tar, or make it with --hard-dereference --dereference"
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
	info     fs.FileInfo // of folders only
}

func (e folderEntry) rejectReason() string {
	switch {
	case e.dangling:
		return reasonDangling
	case !e.regular:
		return reasonNotRegular
	}
	return nameReason(e.name)
}

// readTop is readFolder of a dataset's uppermost folder: ImageNet's development kit, which lies there with many, is no part of a dataset.
func readTop(t fileTree, path string) ([]folderEntry, error) {
	entries, err := readFolder(t, path, "", nil)
	return slices.DeleteFunc(entries, func(e folderEntry) bool { return strings.HasPrefix(e.name, devkitPrefix) }), err
}

// readFolder lists a folder without junk, in sorted order. Folders that are junk and hold images are noted in skipped, if that is not nil; key is the
// folder's path in the dataset.
func readFolder(t fileTree, path, key string, skipped skippedFolders) ([]folderEntry, error) {
	names, err := t.list(path)
	if err != nil {
		return nil, err
	}
	entries := make([]folderEntry, 0, len(names))
	for _, d := range names {
		if junk(d.Name()) {
			if skipped != nil && d.IsDir() {
				skipped.look(t, joinKey(key, d.Name()), filepath.Join(path, d.Name()))
			}
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
				e.dir, e.regular, e.info = info.IsDir(), info.Mode().IsRegular(), info
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
