package source

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/imagefile"
)

// shape is what the entries of a tar are.
type shape uint8

const (
	shapeClassTars    shape = iota // each entry is the tar of one class
	shapeClassFolders              // the names have the class as their first folder
	shapeFlat                      // images without folders, as ILSVRC2012's validation images are
)

// stream reads tars from front to end.
type stream struct {
	paths   []string   // one tar; or the tars of the classes
	perFile bool       // each of the paths is the tar of one class
	shape   shape      // of the one tar
	strip   string     // "train/": the folder that all entries of the one tar lie in, no part of a key
	val     *valLabels // of flat images
	size    int64
}

func (st *stream) describe() string {
	switch {
	case st.perFile:
		return "a folder of class tars"
	case st.shape == shapeClassTars:
		return "a tar of class tars"
	case st.shape == shapeClassFolders:
		return "a tar of class folders"
	}
	return "a tar of ILSVRC2012's validation images"
}

func (st *stream) streamed() bool { return true }
func (st *stream) bytes() int64   { return st.size }

func (st *stream) read(key string, _ []byte) ([]byte, error) {
	return nil, fmt.Errorf("source: %q lies in a tar and cannot be read by its key", key)
}

// walker is the state of one walk over tars.
type walker struct {
	ctx     context.Context
	st      *stream
	fn      func(Item) error
	classes map[string]int // class → number of files
	val     *valWalk       // of flat images
	beside  []string
}

func (st *stream) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	w := &walker{ctx: ctx, st: st, fn: fn, classes: make(map[string]int)}
	if st.val != nil {
		w.val = st.val.walk()
	}
	for _, p := range st.paths {
		if err := w.file(s, p); err != nil {
			return labels{}, err
		}
	}
	if len(w.beside) > 0 {
		s.note("%d files beside the classes are left out (%s)", len(w.beside), someNames(w.beside))
	}
	if w.val != nil {
		return w.val.labels(s), nil
	}
	var classes []string
	for c, n := range w.classes {
		classes = append(classes, c)
		if n == 0 {
			s.note("class %s has no files", c)
		}
	}
	slices.Sort(classes)
	slices.Sort(s.notes)
	return newLabels(classes), nil
}

// file walks over one tar file.
func (w *walker) file(s *Split, p string) error {
	t, err := openTar(p)
	if err != nil {
		return err
	}
	defer t.Close()
	if w.st.perFile {
		err = w.class(t, path.Base(stem(p)))
	} else {
		err = w.entries(t)
	}
	if err == nil && !t.endMarked() {
		s.note("%s does not end as a tar should: it may be incomplete", p)
	}
	return err
}

// entries walks over the entries of the one tar.
func (w *walker) entries(t *tarReader) error {
	buf := bufio.NewReaderSize(nil, readAheadBytes)
	for {
		h, err := w.next(t)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch w.st.shape {
		case shapeClassTars:
			err = w.innerTar(t, h, buf)
		case shapeClassFolders:
			err = w.inFolder(t, h)
		case shapeFlat:
			err = w.flatImage(t, h)
		}
		if err != nil {
			return err
		}
	}
}

// next is entry for tars in which names stand for classes: a label shows that this is none.
func (w *walker) next(t *tarReader) (*tar.Header, error) {
	h, err := w.entry(t)
	if err != nil {
		return nil, err
	}
	if _, label := cutSuffixFold(h.Name, "."+labelExtension); label {
		return nil, t.errorf(h.Name, "a label as WebDataset has it, but the tars begin otherwise: there each image stands next to its label, "+
			"as 0000.jpg and 0000.%s do, and no other tars beside them", labelExtension)
	}
	return h, nil
}

// entry returns the next entry that is no junk, its name cleaned.
func (w *walker) entry(t *tarReader) (*tar.Header, error) {
	for {
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
		h, err := t.next()
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name, err := entryPath(h.Name)
		if err != nil {
			return nil, t.errorf(h.Name, "refused: %v", err)
		}
		if w.st.strip != "" && t.inner == "" {
			rest, ok := strings.CutPrefix(name+"/", w.st.strip)
			if !ok {
				return nil, t.errorf(h.Name, "lies beside %s, in which the first image lies: unpack the tar and build the folder that is meant", w.st.strip)
			}
			name = strings.TrimSuffix(rest, "/")
		}
		if name == "" || junkPath(name) {
			continue
		}
		h.Name = name
		return h, nil
	}
}

// innerTar walks over the tar of one class within the tar.
func (w *walker) innerTar(t *tarReader, h *tar.Header, buf *bufio.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return nil
	}
	if h.Typeflag != tar.TypeReg || !namedTar(h.Name) {
		w.beside = append(w.beside, h.Name)
		return nil
	}
	inner, err := t.within(h.Name, buf)
	if err != nil {
		return err
	}
	return w.class(inner, path.Base(stem(h.Name)))
}

// class walks over the tar of one class.
func (w *walker) class(t *tarReader, class string) error {
	if reason := nameReason(class); reason != "" {
		return t.errorf("", "a class cannot be used because %s: rename it", reason)
	}
	if _, twice := w.classes[class]; twice {
		return t.errorf("", "class %s occurs in two tars", class)
	}
	w.classes[class] = 0
	for {
		h, err := w.next(t)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		// A class tar made of the folder holds "n01440764/x.JPEG"; its key is the same as that of "x.JPEG".
		key := class + "/" + strings.TrimPrefix(h.Name, class+"/")
		w.classes[class]++
		if err := w.item(t, h, key); err != nil {
			return err
		}
	}
}

// inFolder takes an entry of a tar of class folders.
func (w *walker) inFolder(t *tarReader, h *tar.Header) error {
	class, _, below := strings.Cut(h.Name, "/")
	if h.Typeflag == tar.TypeDir {
		if _, ok := w.classes[class]; !ok {
			w.classes[class] = 0
		}
		return nil
	}
	if !below {
		w.beside = append(w.beside, h.Name)
		return nil
	}
	if reason := nameReason(class); reason != "" {
		return t.errorf(h.Name, "a class folder cannot be used because %s: rename it", reason)
	}
	w.classes[class]++
	return w.item(t, h, h.Name)
}

// flatImage takes an entry of a tar of images without folders.
func (w *walker) flatImage(t *tarReader, h *tar.Header) error {
	if h.Typeflag == tar.TypeDir {
		return nil
	}
	if err := w.val.add(h.Name); err != nil {
		return t.errorf(h.Name, "%v", err)
	}
	return w.item(t, h, h.Name)
}

// item hands one file on.
func (w *walker) item(t *tarReader, h *tar.Header, key string) error {
	it := Item{Key: key, Reason: cmp.Or(imageReason(h), nameReason(key))}
	if it.Reason == "" {
		it.Size, it.Data = h.Size, &entryReader{t: t, name: h.Name}
	}
	return w.fn(it)
}

// imageReason says why an entry cannot be read as an image, by its header; empty when it can.
func imageReason(h *tar.Header) string {
	switch {
	case h.Typeflag == tar.TypeLink || h.Typeflag == tar.TypeSymlink:
		return reasonTarLink
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse:
		return reasonNotRegular
	case h.Size > ImageBytesMax:
		return reasonTooLarge(h.Size)
	}
	return ""
}

// entryReader reads an entry's content with errors that say where.
type entryReader struct {
	t    *tarReader
	name string
}

func (r *entryReader) Read(p []byte) (int, error) {
	n, err := r.t.tar.Read(p)
	if err != nil && err != io.EOF {
		err = r.t.wrap(r.name, err)
	}
	return n, err
}

// newStream looks into a tar and says how to read it.
func newStream(p string, opts Options) (*stream, error) {
	info, err := os.Stat(p)
	if err != nil {
		return nil, err
	}
	t, err := openTar(p)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	st := &stream{paths: []string{p}, size: info.Size()}
	w := &walker{ctx: context.Background(), st: st}
	for {
		h, err := w.next(t)
		if err == io.EOF {
			return nil, &FormatError{Path: p, Msg: "the tar has no files"}
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if namedTar(h.Name) {
			st.shape = shapeClassTars
			return st, nil
		}
		switch parts := strings.Split(h.Name, "/"); {
		case len(parts) == 1 && !looksLikeImage(t.tar):
			continue // a README beside class folders
		case len(parts) == 1 || len(parts) == 2 && strings.HasPrefix(parts[1], valNamePrefix):
			if len(parts) == 2 { // the folder was packed with its name
				st.strip = parts[0] + "/"
			}
			st.shape = shapeFlat
			if _, ok := valNumber(path.Base(h.Name)); !ok {
				return nil, t.errorf(h.Name, "%v", ilsvrcVal().walk().add(h.Name))
			}
			st.val, err = openValLabels(opts)
			return st, err
		case len(parts) > 2 && (parts[0] == path.Base(stem(p)) || isSplitFolder(parts[0])):
			st.shape, st.strip = shapeClassFolders, parts[0]+"/"
			if isSplitFolder(parts[1]) {
				return nil, &FormatError{Path: p, Entry: h.Name, Msg: "a tar that holds several splits: unpack it and build its folder"}
			}
		default:
			st.shape = shapeClassFolders
		}
		return st, nil
	}
}

// newClassTars makes the stream of a folder of class tars.
func newClassTars(paths []string) (*stream, error) {
	st := &stream{paths: paths, perFile: true}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		st.size += info.Size()
	}
	return st, nil
}

// looksLikeImage tells by its first bytes that a file is an image.
func looksLikeImage(r io.Reader) bool {
	head := make([]byte, 12)
	n, _ := io.ReadFull(r, head)
	return imagefile.Sniff(head[:n]) != imagefile.Unknown
}
