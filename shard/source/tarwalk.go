package source

import (
	"archive/tar"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// inTars is the part of a layout that all have whose samples lie in tars.
type inTars struct {
	paths []string
	size  int64
	stdin *standardInput // in place of the path
}

func (t *inTars) streamed() bool { return true }
func (t *inTars) bytes() int64   { return t.size }

func (t *inTars) read(key string, _ []byte) ([]byte, error) {
	return nil, fmt.Errorf("source: %q lies in a tar and cannot be read by its key", key)
}

// inTars notes tars and their sizes; a size of 0 is that of standard input, which nobody knows.
func (p *place) inTars(paths ...string) (inTars, error) {
	t := inTars{paths: paths, stdin: p.stdin}
	if p.stdin != nil {
		return t, nil
	}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return t, err
		}
		t.size += info.Size()
	}
	return t, nil
}

// open opens one of the tars.
func (t *inTars) open(path string) (*tarReader, error) {
	if t.stdin == nil {
		return openTar(path)
	}
	r, err := t.stdin.all()
	if err != nil {
		return nil, err
	}
	return newTarReader(path, r)
}

// each opens the tars, one after the other.
func (t *inTars) each(s *Split, fn func(t *tarReader) error) error {
	for _, p := range t.paths {
		r, err := t.open(p)
		if err != nil {
			return err
		}
		err = fn(r)
		if err == nil && !r.endMarked() {
			s.cut = append(s.cut, p)
		}
		r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// tarWalk is the state of one walk over tars.
type tarWalk struct {
	ctx     context.Context
	fn      func(Item) error
	strip   string // "train/": the folder that all entries lie in, no part of a key
	skipped skippedFolders
}

// files calls fn for every entry of a tar but folders.
func (w *tarWalk) files(t *tarReader, fn func(h *tar.Header) error) error {
	for {
		h, err := w.entry(t)
		if err == io.EOF {
			return nil
		}
		if err == nil && h.Typeflag != tar.TypeDir {
			err = fn(h)
		}
		if err != nil {
			return err
		}
	}
}

// entry returns the next entry that is no junk, its name cleaned.
func (w *tarWalk) entry(t *tarReader) (*tar.Header, error) {
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
		if w.strip != "" && t.inner == "" {
			rest, ok := strings.CutPrefix(name+"/", w.strip)
			if !ok {
				return nil, t.errorf(h.Name, "lies beside %s, in which the first image lies: unpack the tar and build the folder that is meant", w.strip)
			}
			name = strings.TrimSuffix(rest, "/")
		}
		if name == "" {
			continue
		}
		if junkPath(name) {
			if w.skipped != nil && h.Typeflag != tar.TypeDir {
				w.skipped.add(name)
			}
			continue
		}
		h.Name = name
		return h, nil
	}
}

// item hands one file on, whose label may be known already.
func (w *tarWalk) item(t *tarReader, h *tar.Header, key string, label ...int32) error {
	it := Item{Key: key, Reason: cmp.Or(imageReason(h), nameReason(key))}
	if len(label) > 0 {
		it.Label, it.Labelled = label[0], true
	}
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

// noLabel refuses a label where names stand for classes.
func (t *tarReader) noLabel(name string) error {
	if _, label := cutSuffixFold(name, "."+labelExtension); !label {
		return nil
	}
	return t.errorf(name, "a label as WebDataset has it, but the tars begin otherwise: there each image stands next to its label, "+
		"as 0000.jpg and 0000.%s do, and no other tars beside them", labelExtension)
}

// classWalk is a tarWalk over tars in which names stand for classes.
type classWalk struct {
	tarWalk
	classes classCounts
	beside  []string
}

func newClassWalk(ctx context.Context, s *Split, fn func(Item) error) (*classWalk, error) {
	classes, err := newClassCounts(s.opts)
	return &classWalk{tarWalk: tarWalk{ctx: ctx, fn: fn, skipped: make(skippedFolders)}, classes: classes}, err
}

// add takes a file of a class, whose path in the class is rest.
func (w *classWalk) add(t *tarReader, h *tar.Header, class, rest, key string) error {
	if err := t.noLabel(h.Name); err != nil {
		return err
	}
	w.classes.add(class, rest)
	return w.item(t, h, key)
}

// labels are those of the classes that were met.
func (w *classWalk) labels(s *Split) (labels, error) {
	if len(w.beside) > 0 {
		s.note("%s left out (%s)", bytesize.Counted(len(w.beside), "file beside the classes is", "files beside the classes are"), someNames(w.beside))
	}
	w.skipped.note(s)
	return w.classes.labels(s)
}
