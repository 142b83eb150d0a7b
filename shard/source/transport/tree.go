package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
)

const folderDepthMax = 32 // bounds how deep folders are followed

// devkitPrefix begins the name of ImageNet's development kit, packed or not, which often lies beside the images and is skipped.
const devkitPrefix = "ILSVRC2012_devkit"

// A Tree is the file system, or a zip as if it were a folder: zips can be read at any offset, and so need no layouts of their own as tars
// do.
type Tree interface {
	Stat(path string) (fs.FileInfo, error) // links are followed
	List(path string) ([]fs.DirEntry, error)
	Open(path string) (io.ReadCloser, error)
}

// TreeFiles is the transport of files below a folder.
type TreeFiles struct {
	FS   Tree
	Root string
}

// FileOf returns "" in a zip.
func (t *TreeFiles) FileOf(key string) string {
	if t.FS != Tree(FileSystem{}) {
		return ""
	}
	return filepath.Join(t.Root, filepath.FromSlash(key))
}

func (t *TreeFiles) Streamed() bool { return false }
func (t *TreeFiles) Bytes() int64   { return 0 }

func (t *TreeFiles) Inputs() []string { return nil }

func (t *TreeFiles) Files(w *Walk, fn func(*Item) error) error { return t.below(w, "", 0, fn) }

// below gives what lies below one folder, by its key.
func (t *TreeFiles) below(w *Walk, key string, depth int, fn func(*Item) error) error {
	if err := w.Ctx.Err(); err != nil {
		return err
	}
	dir := filepath.Join(t.Root, filepath.FromSlash(key))
	if depth > folderDepthMax {
		return Refuse(dir, "more than %d folders deep: a link may lead to a folder that it lies in", folderDepthMax)
	}
	return ReadFolder(t.FS, dir, key, w.Skipped, func(f *Item) error {
		err := fn(f)
		if err == nil && f.Folder {
			err = t.below(w, f.Key, depth+1, fn)
		}
		if err == fs.SkipDir {
			return nil
		}
		return err
	})
}

// Read returns a file's content. It never opens anything but a regular file: reading a pipe would wait for ever.
func (t *TreeFiles) Read(key string, buf []byte) ([]byte, error) {
	path := filepath.Join(t.Root, filepath.FromSlash(key))
	info, err := t.FS.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &RejectError{Reason: ReasonNotRegular}
	}
	if info.Size() > ImageBytesMax {
		return nil, &RejectError{Reason: ReasonTooLarge(info.Size())}
	}
	file, err := t.FS.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := readSized(file, path, info.Size(), buf)
	if _, zipped := t.FS.(*ZipTree); zipped && err != nil {
		err = Refuse(path, "%v: the zip is damaged there: get it again, or leave out the images that unzip -t names", err).
			Or(remedy.Exclude)
	}
	return data, err
}

// IsImage says that a file begins as an image.
func (t *TreeFiles) IsImage(key string) bool {
	is, _ := beginsAsImage(t.FS, filepath.Join(t.Root, filepath.FromSlash(key)))
	return is
}

// beginsAsImage says whether the file at a path is a regular one whose first bytes are an image's.
func beginsAsImage(t Tree, p string) (bool, error) {
	info, err := t.Stat(p)
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	f, err := t.Open(p)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return LooksLikeImage(f), nil
}

// LooksLikeImage tells by its first bytes that a file is an image.
func LooksLikeImage(r io.Reader) bool {
	head := make([]byte, imageHeadBytes)
	n, _ := io.ReadFull(r, head)
	return imagefile.Sniff(head[:n]) != imagefile.Unknown
}

const imageHeadBytes = 12 // how many bytes tell an image's format

// PeekImage says that a streamed file begins as an image, and leaves its content whole.
func (f *Item) PeekImage() bool {
	var head bytes.Buffer
	is := f.Data != nil && f.Reason == "" && LooksLikeImage(io.TeeReader(f.Data, &head))
	if f.Data != nil {
		f.Data = io.MultiReader(&head, f.Data)
	}
	return is
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
	ReasonNotRegular = "not a regular file"
	ReasonLink       = "a link in a tar or zip, which is not followed: unpack it, " +
		"or pack what the link points to (tar --dereference --hard-dereference, zip without -y)"
	ReasonDangling = "a link to a file that is not there"
)

// ReasonTooLarge is the reason for a file above ImageBytesMax.
func ReasonTooLarge(size int64) string {
	return fmt.Sprintf("%d bytes, more than %d: too large for an image", size, ImageBytesMax)
}

// follow says of a file whether it is a folder, and why it cannot be a sample. Links are followed.
func (f *Item) follow(t Tree, kind fs.FileMode) error {
	if kind&fs.ModeSymlink != 0 {
		info, err := t.Stat(filepath.Join(f.dir, f.Name))
		if errors.Is(err, fs.ErrNotExist) {
			f.Reason = ReasonDangling
			return nil
		}
		if err != nil {
			return err
		}
		kind = info.Mode().Type()
	}
	switch {
	case kind.IsDir():
		f.Folder = true
	case kind&fs.ModeSymlink != 0: // zips can hold links
		f.Reason = ReasonLink
	case !kind.IsRegular():
		f.Reason = ReasonNotRegular
	default:
		f.Reason = NameReason(f.Name)
	}
	return nil
}

// ReadFolder calls fn for what lies in a folder except junk, in sorted order. Junk is recorded in skipped, if it is not nil; key is the
// folder's path in the dataset, "" for the root.
func ReadFolder(t Tree, folder, key string, skipped Skipped, fn func(*Item) error) error {
	names, err := t.List(folder)
	if err != nil {
		return err
	}
	for _, d := range names {
		if Junk(d.Name()) {
			skipped.add(path.Join(key, d.Name()), d.IsDir())
			continue
		}
		if key == "" && strings.HasPrefix(d.Name(), devkitPrefix) {
			continue
		}
		f := &Item{Key: path.Join(key, d.Name()), dir: folder, Name: d.Name(), tree: t, entry: d}
		if err := f.follow(t, d.Type()); err != nil {
			return err
		}
		if err := fn(f); err != nil {
			return err
		}
	}
	return nil
}

// TextReader returns a reader of a text without the byte order mark that some programs begin one with.
func TextReader(r io.Reader) *bufio.Reader {
	const mark = "\ufeff"
	b := bufio.NewReaderSize(r, 64<<10)
	if begin, _ := b.Peek(len(mark)); string(begin) == mark {
		b.Discard(len(mark))
	}
	return b
}

const linesBytesMax = 64 << 20 // bounds a file of lines

// ReadLines reads a file of lines, named what in errors, without a byte order mark and without empty lines at its end.
func ReadLines(t Tree, p, what string) (string, error) {
	f, err := t.Open(p)
	if errors.Is(err, fs.ErrNotExist) {
		return "", Refuse(p, "there is no such file of %s", what).Because(err)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(TextReader(f), linesBytesMax+1))
	if errors.Is(err, syscall.EISDIR) {
		err = Refuse(p, "a folder: %s stand in a file, a line for each", what).Because(err)
	}
	if len(data) > linesBytesMax {
		err = Refuse(p, "more than %d bytes: %s stand in a file, a line for each", linesBytesMax, what)
	}
	return strings.TrimRight(string(data), " \t\r\n"), err
}

const skippedMax = 1000 // bounds the skipped files and folders in memory

// Skipped holds the paths of hidden images, and of folders that are hidden or a system's. ImageFolder takes such folders as classes.
type Skipped map[string]bool

// add records a path with a part that is junk.
func (k Skipped) add(name string, folder bool) {
	parts := strings.Split(name, "/")
	first := slices.IndexFunc(parts, Junk)
	base := parts[first]
	switch {
	case k == nil || len(k) == skippedMax:
	case folder || first < len(parts)-1:
		k[path.Join(parts[:first+1]...)] = true
	case !strings.HasPrefix(base, "._") && path.Ext(base[1:]) != "" && NamedImage(base):
		k[name] = true // macOS makes a file ._x.jpg beside x.jpg, which is not an image
	}
}

// Note names them; "" if there are none.
func (k Skipped) Note() string {
	if len(k) == 0 {
		return ""
	}
	return fmt.Sprintf("%s skipped, as hidden or a system's (%s); torchvision's ImageFolder would read them: rename or remove them",
		bytesize.Counted(len(k), "file or folder is", "files or folders are"), SomeNames(slices.Sorted(maps.Keys(k))))
}
