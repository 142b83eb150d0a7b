package source

import (
	"archive/tar"
	"context"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// classFolders is a folder with a folder for each class, as torchvision's ImageFolder takes it, or a tar of that:
//
//	train/n01440764/n01440764_10026.JPEG
var classFolders = Kind{
	Name:   "class folders",
	Forms:  []string{"a folder of them, as train/n01440764/….JPEG", "a tar or a zip of it"},
	Labels: "the place of the class in sorted order, or in --classes FILE, which leaves out all others",
	takes:  []option{optionClasses},
	open:   openClassFolders,
}

func openClassFolders(p *place) ([]*Split, error) {
	switch {
	case p.tar != nil:
		return openTarOfFolders(p)
	case len(p.folders) == 0:
		return nil, nil
	}
	if err := p.noSets(); err != nil {
		return nil, err
	}
	if err := p.halfDone(); err != nil {
		return nil, err
	}
	return []*Split{p.newSplit(&classFoldersLayout{inFolder{root: p.path, tree: p.tree}})}, nil
}

// halfDone says that the files beside class folders should have been unpacked or sorted into them: leaving them out would lose much.
func (p *place) halfDone() error {
	tars, others := p.tars()
	for _, t := range tars {
		if !slices.Contains(p.folders, stem(t)) {
			return &FormatError{Path: p.path, Entry: t, Msg: "class folders and class tars in one place, and this tar has no folder: " +
				"unpack it too, or move the tars (or the folders) elsewhere"}
		}
	}
	for _, f := range others {
		if strings.HasPrefix(f, valNamePrefix) {
			return &FormatError{Path: p.path, Entry: f, Msg: "a validation image beside class folders: finish sorting them into the folders, or move the folders elsewhere"}
		}
	}
	return nil
}

// classFoldersLayout is class folders in the file system.
type classFoldersLayout struct{ inFolder }

func (l *classFoldersLayout) describe() string { return "a folder of class folders" }

// bindFields takes fields from files beside the images.
func (l *classFoldersLayout) bindFields(fields []Field) error { return l.sidecars.bindFields(fields) }

func (l *classFoldersLayout) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	classes, err := newClassCounts(s.opts)
	if err != nil {
		return labels{}, err
	}
	w := &classFoldersWalk{classFoldersLayout: l, ctx: ctx, fn: fn, classes: classes, skipped: make(skippedFolders)}
	if err := w.above("", 1, nil); err != nil {
		return labels{}, err
	}
	if len(w.beside) > 0 {
		s.note("%s left out (%s)", bytesize.Counted(len(w.beside), "file beside the class folders is", "files beside the class folders are"), someNames(w.beside))
	}
	w.skipped.note(s)
	return w.classes.labels(s)
}

// classFoldersWalk is the state of one walk.
type classFoldersWalk struct {
	*classFoldersLayout
	ctx     context.Context
	fn      func(Item) error
	classes classCounts
	beside  []string
	skipped skippedFolders
}

// above walks over the folders down to those that are the classes; key is the one to list, which lies level-1 folders deep.
func (w *classFoldersWalk) above(key string, level int, above []fs.FileInfo) error {
	dir := filepath.Join(w.root, filepath.FromSlash(key))
	entries, err := readFolder(w.tree, dir, key, w.skipped)
	if err != nil {
		return err
	}
	for _, e := range entries {
		below := path.Join(key, e.name)
		if level == 1 && strings.HasPrefix(e.name, devkitPrefix) {
			continue
		}
		if !e.dir {
			w.beside = append(w.beside, below)
			continue
		}
		if reason := nameReason(e.name); reason != "" {
			return &FormatError{Path: dir, Entry: e.name, Msg: "a class folder cannot be used because " + reason + ": rename it"}
		}
		chain := append(slices.Clip(above), e.info)
		if level < w.classes.level {
			err = w.above(below, level+1, chain)
		} else if w.classes.takes(e.name) {
			w.classes.class(e.name)
			err = w.walkBelow(w.ctx, below, chain, w.skipped, func(it Item) error {
				w.classes.add(e.name, it.Key[len(below)+1:])
				return w.fn(it)
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// folderTarLayout is a tar of class folders.
type folderTarLayout struct {
	inTars
	strip string // "train/": the folder that the class folders lie in
}

func (l *folderTarLayout) describe() string { return "a tar of class folders" }

func openTarOfFolders(p *place) ([]*Split, error) {
	m, err := p.first()
	if err != nil {
		return nil, err
	}
	l := &folderTarLayout{}
	if parts := strings.Split(m.name, "/"); len(parts) > 2 && (parts[0] == path.Base(stem(p.path)) || isSplitFolder(parts[0]) || isV2(parts[0])) {
		l.strip = parts[0] + "/"
		if isSplitFolder(parts[1]) {
			return nil, &FormatError{Path: p.path, Entry: m.name, Msg: "a tar that holds several splits: unpack it and build its folder"}
		}
	}
	l.inTars, err = p.inTars(p.path)
	return []*Split{p.newSplit(l)}, err
}

func (l *folderTarLayout) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	w, err := newClassWalk(ctx, s, fn)
	if err != nil {
		return labels{}, err
	}
	w.strip = l.strip
	err = l.each(s, w.folders)
	if err != nil {
		return labels{}, err
	}
	return w.labels(s)
}

// folders walks over a tar of class folders.
func (w *classWalk) folders(t *tarReader) error {
	for {
		h, err := w.entry(t)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = w.inFolder(t, h)
		}
		if err != nil {
			return err
		}
	}
}

func (w *classWalk) inFolder(t *tarReader, h *tar.Header) error {
	if h.Typeflag == tar.TypeDir {
		if class, rest, ok := keyClass(h.Name+"/", w.classes.level); ok && rest == "" && w.classes.takes(class) {
			w.classes.class(class)
		}
		return nil
	}
	class, rest, below := keyClass(h.Name, w.classes.level)
	if !below {
		w.beside = append(w.beside, h.Name)
		return t.noLabel(h.Name)
	}
	if !w.classes.takes(class) {
		return nil
	}
	if reason := nameReason(class); reason != "" {
		return t.errorf(h.Name, "a class folder cannot be used because %s: rename it", reason)
	}
	return w.add(t, h, class, rest, h.Name)
}
