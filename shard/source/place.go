package source

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard"
)

// membersMax bounds how many members of a tar are read to tell what it is.
const membersMax = 1 << 16

// place is a file or folder that may hold a dataset: what can be told of it by listing the folder, or by the first members of the tar.
type place struct {
	path   string
	split  string // what the split there is called, as far as names tell
	part   bool   // one of the splits of the folder around it
	output string // where sets stand is called after this; "": after path
	opts   Options
	kinds  []*Kind
	tree   fileTree

	// Of a folder: what is in it, but for what is no part of any dataset.
	folder  bool
	given   bool // it is but those files of a folder that were given
	folders []string
	files   []string
	sets    []string // folders that are shard sets

	stdin *standardInput // what the tar is read from, if from no file

	// Of a file: the tar that it is, and its first members.
	tar     *tarReader // nil: it is none
	members []member
	ended   error // io.EOF, or what is wrong after the members, or with a file that is no tar
}

// member is one entry of a tar.
type member struct {
	name  string // cleaned
	kind  byte   // tar.TypeReg and so on
	image bool   // by its first bytes
}

// newPlace lists a folder, or opens a file.
func newPlace(path string, opts Options, kinds []*Kind, t fileTree) (*place, error) {
	p := &place{path: path, split: splitName(path), opts: opts, kinds: kinds, tree: t}
	info, err := t.stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &FormatError{Path: path, Msg: "there is no such file or folder", Err: err}
	case err != nil:
		return nil, err
	case info.IsDir():
		return p, p.list()
	case t != fileSystem{}:
		return nil, &FormatError{Path: path, Msg: "a file in a zip, of which only folders of images are read: unpack the zip"}
	case info.Mode().IsRegular() && isZip(path):
		return p, p.openZip()
	}
	p.tar, p.ended = openTar(path)
	if p.ended == nil {
		p.tar.peeking = true
	} else if !errors.Is(p.ended, errNotTar) {
		return nil, p.ended
	}
	return p, nil
}

func (p *place) close() {
	if p.tar != nil {
		p.tar.Close()
	}
}

// openZip makes the place the folder that a zip holds: that of its only folder, if there is nothing beside it.
func (p *place) openZip() error {
	z, err := openZip(p.path)
	if err != nil {
		return err
	}
	p.tree = z
	zipPath := p.path
	for {
		if err := p.list(); err != nil {
			return err
		}
		if len(p.folders) != 1 || len(p.files)+len(p.sets) > 0 || isSplitFolder(p.folders[0]) || namedNoClass(p.folders[0]) && p.folders[0] != "data" {
			break
		}
		only := filepath.Join(p.path, p.folders[0])
		if inside, err := readFolder(p.tree, only, "", nil); err != nil || !slices.ContainsFunc(inside, func(e folderEntry) bool { return e.dir }) {
			break // it is a class
		}
		p.path, p.folders = only, nil
	}
	p.split, p.output = splitName(zipPath), stem(zipPath)
	return nil
}

// list lists a folder.
func (p *place) list() error {
	p.folder = true
	entries, err := readTop(p.tree, p.path)
	if err != nil {
		return err
	}
	if isShardSet(p.path) {
		return &FormatError{Path: p.path, Msg: "already a shard set: give the dataset that it was built from"}
	}
	for _, e := range entries {
		switch {
		case e.dir && isShardSet(filepath.Join(p.path, e.name)):
			p.sets = append(p.sets, e.name)
		case e.dir:
			p.folders = append(p.folders, e.name)
		default:
			p.files = append(p.files, e.name)
		}
	}
	return nil
}

// isShardSet says that a folder is the output of a build, whole or damaged.
func isShardSet(path string) bool {
	_, err := shard.ReadManifest(path)
	var corrupt *shard.CorruptError
	var unsupported *shard.UnsupportedError
	return err == nil || errors.As(err, &corrupt) || errors.As(err, &unsupported)
}

// in is a place in the folder, one of its splits if that has a name.
func (p *place) in(name, split string) (*place, error) {
	q, err := newPlace(filepath.Join(p.path, name), p.opts, p.kinds, p.tree)
	if err == nil && split != "" {
		q.split, q.part = split, true
	}
	if err == nil && p.output != "" {
		if q.output = p.output; split != "" {
			q.output += "-" + split
		}
	}
	return q, err
}

// open finds the kind of a place.
func (p *place) open() ([]*Split, error) {
	for _, k := range p.kinds {
		splits, err := k.open(p)
		if err != nil {
			return nil, err
		}
		for _, s := range splits {
			if s.kind == nil {
				s.kind = k
			}
		}
		if len(splits) > 0 {
			return splits, nil
		}
	}
	return nil, p.unknown()
}

// unknown says that a place is of no kind, and what is wanted.
func (p *place) unknown() error {
	if !p.folder && p.tar == nil {
		return p.ended
	}
	msg := "not laid out as any dataset that is read"
	switch {
	case len(p.sets) > 0:
		msg = "the folder holds only shard sets (" + strings.Join(p.sets, ", ") + ")"
	case p.folder && len(p.folders)+len(p.files) == 0:
		msg = "the folder is empty"
	}
	var names []string
	for _, k := range p.kinds {
		names = append(names, k.Name)
	}
	return &FormatError{Path: p.path, Msg: msg + "; wanted: " + strings.Join(names, ", "), Err: errors.ErrUnsupported}
}

// tars are the files that are called tars, and others the rest.
func (p *place) tars() (tars, others []string) {
	for _, f := range p.files {
		if namedTar(f) {
			tars = append(tars, f)
		} else {
			others = append(others, f)
		}
	}
	return tars, others
}

// newSplit is the one split of a place.
func (p *place) newSplit(l layout) *Split {
	name := p.split
	if p.opts.Split != "" {
		name = p.opts.Split
	}
	return &Split{Name: name, Path: p.path, Output: cmp.Or(p.output, stem(p.path)) + "-shards", layout: l, opts: p.opts}
}

// noSets refuses shard sets among the classes.
func (p *place) noSets() error {
	if len(p.sets) == 0 {
		return nil
	}
	return &FormatError{Path: p.path, Entry: p.sets[0], Msg: "a shard set within the dataset: move it out, or it would be taken for a class"}
}

// member returns the i-th member of a tar; io.EOF says that there are fewer, as of a file that is no tar. No more is read than that.
func (p *place) member(i int) (member, error) {
	if p.tar == nil {
		return member{}, io.EOF
	}
	walk := tarWalk{ctx: context.Background()}
	for len(p.members) <= i {
		if p.ended == nil && len(p.members) == membersMax {
			p.ended = &FormatError{Path: p.path, Msg: fmt.Sprintf("the first %d members do not tell what it is: unpack it and build its folder", membersMax)}
		}
		if p.ended != nil {
			return member{}, p.ended
		}
		h, err := walk.entry(p.tar)
		if err != nil {
			p.ended = err
			continue
		}
		p.members = append(p.members, member{h.Name, h.Typeflag, h.Typeflag == tar.TypeReg && looksLikeImage(p.tar.tar)})
	}
	return p.members[i], nil
}

// first returns the first member that tells what a tar is: no folder, and no file like a README.
func (p *place) first() (member, error) {
	for i := 0; ; i++ {
		m, err := p.member(i)
		if err == io.EOF {
			err = &FormatError{Path: p.path, Msg: "the tar has no files"}
		}
		if err == nil {
			err = p.tar.noLabel(m.name)
		}
		beside := !strings.Contains(m.name, "/") && !m.image && !namedTar(m.name)
		if err != nil || m.kind != tar.TypeDir && !beside {
			return m, err
		}
	}
}

// looksLikeImage tells by its first bytes that a file is an image.
func looksLikeImage(r io.Reader) bool {
	head := make([]byte, 12)
	n, _ := io.ReadFull(r, head)
	return imagefile.Sniff(head[:n]) != imagefile.Unknown
}
