package transport

import (
	"archive/tar"
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/imgfeed/imgfeed/internal/termsafe"
)

// Stream is the common part of layouts and transports that read files one after the other. They cannot find a file by its key.
type Stream struct{ Size int64 }

func (s *Stream) Streamed() bool { return true }
func (s *Stream) Bytes() int64   { return s.Size }

func (s *Stream) FileOf(string) string { return "" }

func (s *Stream) Inputs() []string { return nil }

func (s *Stream) Read(key string, _ []byte) ([]byte, error) {
	return nil, fmt.Errorf("source: %q lies in a tar or a table, and cannot be read by its key", key)
}

func (s *Stream) AppendFields(_ []byte, key string) ([]byte, error) { return s.Read(key, nil) }

// TarFiles is the transport of files in tars.
type TarFiles struct {
	Stream
	Paths []string
	Stdin *Stdin // read instead of the path
	Strip string // "train/": the folder that all members lie in, no part of a key
}

// FileOf returns the folder of all tars; the tar of a key is unknown.
func (t *TarFiles) FileOf(string) string { return filepath.Dir(CommonPrefix(t.Paths)) }

func (t *TarFiles) Inputs() []string { return t.Paths }

// NewTarFiles is the transport of the files in some tars.
func NewTarFiles(paths []string) (*TarFiles, error) {
	t := &TarFiles{Paths: paths}
	for _, p := range paths {
		info, err := FileSystem{}.Stat(p)
		if err != nil {
			return nil, err
		}
		t.Size += info.Size()
	}
	return t, nil
}

func (t *TarFiles) Files(w *Walk, fn func(*Item) error) error {
	for _, path := range t.Paths {
		if err := t.Each(w, path, func(r *TarReader) error { return w.Files(r, t.Strip, fn) }); err != nil {
			return err
		}
	}
	return nil
}

// Each opens one of the tars for fn, which reads it to its end.
func (t *TarFiles) Each(w *Walk, path string, fn func(*TarReader) error) error {
	r, err := t.open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	return w.read(r, fn)
}

// read calls fn, which reads a tar to its end, and notes a tar that was cut off there.
func (w *Walk) read(r *TarReader, fn func(*TarReader) error) error {
	err := fn(r)
	if err == nil && !r.endMarked() {
		w.Cut = append(w.Cut, strings.TrimSuffix(r.Path+": "+r.inner, ": "))
	}
	return err
}

func (t *TarFiles) open(path string) (*TarReader, error) {
	if t.Stdin == nil {
		return OpenTar(path)
	}
	r, err := t.Stdin.all()
	if err != nil {
		return nil, err
	}
	in, err := NewTarReader(path, r)
	if err == nil {
		in.begins = -1 // it cannot be read again
	}
	return in, err
}

// Files gives the members of a tar.
func (w *Walk) Files(r *TarReader, strip string, fn func(*Item) error) error {
	for {
		h, err := w.Next(r, strip)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		f := &Item{Key: h.Name, Folder: h.Typeflag == tar.TypeDir, Reason: memberReason(h), Size: h.Size, Data: r,
			Offset: r.offset(), Name: h.Name, Tar: r, Kind: h.Typeflag}
		if _, sparse := h.PAXRecords["GNU.sparse.size"]; sparse || h.Typeflag == tar.TypeGNUSparse ||
			h.PAXRecords["GNU.sparse.realsize"] != "" {
			f.Offset = -1
		}
		if err := fn(f); err != nil && err != fs.SkipDir {
			return err
		}
	}
}

// Next returns the next member that is not junk, with a clean name.
func (w *Walk) Next(r *TarReader, strip string) (*tar.Header, error) {
	for {
		if err := w.Ctx.Err(); err != nil {
			return nil, err
		}
		h, err := r.next()
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name, err := EntryPath(h.Name)
		if err != nil {
			return nil, r.Errorf(h.Name, "refused: %v", err)
		}
		if strip != "" {
			rest, ok := strings.CutPrefix(name+"/", strip)
			if !ok {
				ways := Unpack(r.Path)
				if folder := strings.TrimSuffix(strip, "/"); ways != nil && FolderSplit(folder) == "" {
					ways[0].Source += "/" + termsafe.Shell(folder)
				}
				return nil, r.Errorf(h.Name, "lies beside %s, in which the first image lies", strip).Or(ways...)
			}
			name = strings.TrimSuffix(rest, "/")
		}
		if name == "" {
			continue
		}
		if junkPath(name) {
			w.Skipped.add(name, h.Typeflag == tar.TypeDir)
			continue
		}
		h.Name, r.member = name, name
		return h, nil
	}
}

// memberReason says why a member cannot be read as an image, by its header; empty when it can.
func memberReason(h *tar.Header) string {
	switch {
	case h.Typeflag == tar.TypeLink || h.Typeflag == tar.TypeSymlink:
		return ReasonLink
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse:
		return ReasonNotRegular
	case h.Size > ImageBytesMax:
		return ReasonTooLarge(h.Size)
	}
	return ""
}

// NoLabel refuses a label where names stand for classes.
func (t *TarReader) NoLabel(name string) error {
	if _, label := cutSuffixFold(name, "."+LabelExtension); !label {
		return nil
	}
	return t.Errorf(name, "a label as WebDataset has it, but the tars begin otherwise: there each image stands next to its label, "+
		"as 0000.jpg and 0000.%s do, and no other tars beside them", LabelExtension)
}

// ClassTarFiles is the transport of files in tars, where each tar stands for the folder of a class.
type ClassTarFiles struct {
	TarFiles
	Whole bool // it is one tar of the tars
}

func (t *ClassTarFiles) Files(w *Walk, fn func(*Item) error) error {
	seen := make(map[string]bool)
	// class gives the tar of one class, as a folder.
	class := func(f Item, open func(func(*TarReader) error) error) error {
		f.Key, f.Folder = path.Base(Stem(f.Name)), true
		if err := fn(&f); err == fs.SkipDir {
			return nil
		} else if err != nil {
			return err
		}
		if seen[f.Key] {
			return f.Errorf("class %s occurs in two tars", f.Key)
		}
		seen[f.Key] = true
		return open(func(r *TarReader) error {
			return w.Files(r, "", func(in *Item) error {
				if in.Folder {
					return nil
				}
				// A class tar made of the folder holds "n01440764/x.JPEG"; its key is the same as that of "x.JPEG".
				in.Key = f.Key + "/" + strings.TrimPrefix(in.Key, f.Key+"/")
				return fn(in)
			})
		})
	}
	if !t.Whole {
		for _, p := range t.Paths {
			err := class(Item{dir: path.Dir(p), Name: path.Base(p)}, func(read func(*TarReader) error) error { return t.Each(w, p, read) })
			if err != nil {
				return err
			}
		}
		return nil
	}
	buf := bufio.NewReaderSize(nil, readAheadBytes)
	return t.Each(w, t.Paths[0], func(outer *TarReader) error {
		return w.Files(outer, "", func(f *Item) error {
			if f.Folder {
				return nil
			}
			if f.Kind != tar.TypeReg || !NamedTar(f.Name) {
				f.Key = path.Base(f.Key) // it lies beside the classes
				return fn(f)
			}
			return class(*f, func(read func(*TarReader) error) error {
				inner, err := outer.within(f.Name, buf)
				if err != nil {
					return err
				}
				return w.read(inner, read)
			})
		})
	})
}
