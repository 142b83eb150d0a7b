package source

import (
	"archive/tar"
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// stream is the part of a layout or transport whose files are read one after the other, and cannot be found by their keys.
type stream struct{ size int64 }

func (s *stream) streamed() bool { return true }
func (s *stream) bytes() int64   { return s.size }

func (s *stream) read(key string, _ []byte) ([]byte, error) {
	return nil, fmt.Errorf("source: %q lies in a tar or a table, and cannot be read by its key", key)
}

func (s *stream) appendFields(_ []byte, key string) ([]byte, error) { return s.read(key, nil) }

// tarFiles is the transport of files in tars.
type tarFiles struct {
	stream
	paths []string
	stdin *standardInput // in place of the path
	strip string         // "train/": the folder that all members lie in, no part of a key
}

// place implements placed: of keys nothing is known.
func (t *tarFiles) place(string) string {
	folder := filepath.Dir(t.paths[0])
	for _, p := range t.paths {
		for !below(p, folder) {
			folder = filepath.Dir(folder)
		}
	}
	return folder
}

// newTarFiles is the transport of the files in some tars.
func newTarFiles(paths []string) (*tarFiles, error) {
	t := &tarFiles{paths: paths}
	for _, p := range paths {
		info, err := fileSystem{}.stat(p)
		if err != nil {
			return nil, err
		}
		t.size += info.Size()
	}
	return t, nil
}

func (t *tarFiles) files(w *walk, fn func(*file) error) error {
	for _, path := range t.paths {
		if err := t.each(w, path, func(r *tarReader) error { return w.files(r, t.strip, fn) }); err != nil {
			return err
		}
	}
	return nil
}

// each opens one of the tars for fn, which reads it to its end.
func (t *tarFiles) each(w *walk, path string, fn func(*tarReader) error) error {
	r, err := t.open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := fn(r); err != nil {
		return err
	}
	w.checkEnd(r)
	return nil
}

func (t *tarFiles) open(path string) (*tarReader, error) {
	if t.stdin == nil {
		return openTar(path)
	}
	r, err := t.stdin.all()
	if err != nil {
		return nil, err
	}
	in, err := newTarReader(path, r)
	if err == nil {
		in.begins = -1 // it cannot be read again
	}
	return in, err
}

// checkEnd notes a tar that was read to its end and was cut off there.
func (w *walk) checkEnd(r *tarReader) {
	if r.endMarked() {
		return
	}
	name := r.path
	if r.inner != "" {
		name += ": " + r.inner
	}
	w.cut = append(w.cut, name)
}

// files gives the members of a tar.
func (w *walk) files(r *tarReader, strip string, fn func(*file) error) error {
	for {
		h, err := w.next(r, strip)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		f := &file{key: h.Name, folder: h.Typeflag == tar.TypeDir, reason: memberReason(h), size: h.Size, data: &memberReader{r, h.Name}, offset: r.offset(), name: h.Name, tar: r, kind: h.Typeflag}
		if _, sparse := h.PAXRecords["GNU.sparse.size"]; sparse || h.Typeflag == tar.TypeGNUSparse || h.PAXRecords["GNU.sparse.realsize"] != "" {
			f.offset = -1
		}
		if err := fn(f); err != nil && err != fs.SkipDir {
			return err
		}
	}
}

// next returns the next member that is no junk, its name cleaned.
func (w *walk) next(r *tarReader, strip string) (*tar.Header, error) {
	for {
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
		h, err := r.next()
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name, err := entryPath(h.Name)
		if err != nil {
			return nil, r.errorf(h.Name, "refused: %v", err)
		}
		if strip != "" {
			rest, ok := strings.CutPrefix(name+"/", strip)
			if !ok {
				return nil, r.errorf(h.Name, "lies beside %s, in which the first image lies: unpack the tar and build the folder that is meant", strip)
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

// memberReason says why a member cannot be read as an image, by its header; empty when it can.
func memberReason(h *tar.Header) string {
	switch {
	case h.Typeflag == tar.TypeLink || h.Typeflag == tar.TypeSymlink:
		return reasonLink
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse:
		return reasonNotRegular
	case h.Size > ImageBytesMax:
		return reasonTooLarge(h.Size)
	}
	return ""
}

// memberReader reads a member's content with errors that say where.
type memberReader struct {
	t    *tarReader
	name string
}

func (r *memberReader) Read(p []byte) (int, error) {
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

// classTarFiles is the transport of files in tars of which each stands for the folder of a class.
type classTarFiles struct {
	tarFiles
	whole bool // it is one tar of the tars
}

// newClassTarFiles is the transport of the files in some class tars, or in one tar of such.
func newClassTarFiles(t *tarFiles, whole bool) *classTarFiles { return &classTarFiles{*t, whole} }

func (t *classTarFiles) files(w *walk, fn func(*file) error) error {
	met := make(map[string]bool)
	// class gives the tar of one class, as a folder.
	class := func(f file, open func(func(*tarReader) error) error) error {
		f.key, f.folder = path.Base(stem(f.name)), true
		if err := fn(&f); err == fs.SkipDir {
			return nil
		} else if err != nil {
			return err
		}
		if met[f.key] {
			return f.errorf("class %s occurs in two tars", f.key)
		}
		met[f.key] = true
		return open(func(r *tarReader) error {
			return w.files(r, "", func(in *file) error {
				if in.folder {
					return nil
				}
				// A class tar made of the folder holds "n01440764/x.JPEG"; its key is the same as that of "x.JPEG".
				in.key = f.key + "/" + strings.TrimPrefix(in.key, f.key+"/")
				return fn(in)
			})
		})
	}
	if !t.whole {
		for _, p := range t.paths {
			err := class(file{dir: path.Dir(p), name: path.Base(p)}, func(read func(*tarReader) error) error { return t.each(w, p, read) })
			if err != nil {
				return err
			}
		}
		return nil
	}
	buf := bufio.NewReaderSize(nil, readAheadBytes)
	return t.each(w, t.paths[0], func(outer *tarReader) error {
		return w.files(outer, "", func(f *file) error {
			if f.folder {
				return nil
			}
			if f.kind != tar.TypeReg || !namedTar(f.name) {
				f.key = path.Base(f.key) // it lies beside the classes
				return fn(f)
			}
			return class(*f, func(read func(*tarReader) error) error {
				inner, err := outer.within(f.name, buf)
				if err != nil {
					return err
				}
				if err = read(inner); err == nil {
					w.checkEnd(inner)
				}
				return err
			})
		})
	})
}
