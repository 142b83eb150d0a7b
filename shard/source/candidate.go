package source

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

const tarMembersMax = 1 << 16 // bounds the members of a tar that are read to detect its format

const sniffedMembersMax = 8 // how many files of a tar, from its front, tell whether it is of WebDataset

// A candidate is a file or folder that may hold a dataset: what listing the folder tells, or the first members of the tar.
type candidate struct {
	path   string
	form   form
	opts   dataset.Options
	split  string // the names of files and folders say it
	part   bool   // it is one split of the folder around it
	output string // what the names of sets begin with; "": the path
	folder        // a folder, or some files
	*front        // a tar's front; it ends at once for anything else
}

type form byte

const (
	aFile form = 1 << iota // anything except a tar or a zip
	aTar
	aFolder   // a folder or a zip
	someFiles // the given files of a folder, which may have more
)

// listed says that the candidate is a folder, or some files of one.
func (c *candidate) listed() bool { return c.form&(aFolder|someFiles) != 0 }

func newCandidate(path string, form form, opts dataset.Options) *candidate {
	return &candidate{path: path, form: form, opts: opts, split: transport.SplitName(path), front: &front{end: io.EOF}}
}

// folder lists a folder without files that are not part of a dataset. Each list is sorted.
type folder struct {
	tree    transport.Tree
	folders []string
	files   []string
	sets    []string // shard sets
}

// front is a tar and its first members.
type front struct {
	tar     *transport.TarReader
	stdin   *transport.Stdin // the tar comes from it, and not from a file
	strip   string           // the dataset begins in this folder of the tar, "train/"
	members []tarMember
	end     error // io.EOF after the last member, or the fault
}

type tarMember struct {
	name  string // cleaned
	kind  byte   // tar.TypeReg and so on
	image bool   // its first bytes are an image's
}

func lookAt(paths []string, opts dataset.Options) (*candidate, error) {
	switch {
	case slices.Contains(paths, ""):
		return nil, transport.Refuse(`""`, "the path is empty, as an unset variable is: name a file or folder (. is this one)")
	case len(paths) > 1:
		return newFiles(paths, opts)
	case paths[0] == StandardInput:
		return newStdin(opts)
	}
	path, err := transport.Absolute(paths[0])
	if err != nil {
		return nil, err
	}
	return look(path, opts, transport.FileSystem{})
}

// newFiles is the candidate of several files, as if the folder around them held no others.
func newFiles(paths []string, opts dataset.Options) (*candidate, error) {
	var files []string
	for _, path := range paths {
		abs, err := transport.Absolute(path)
		if err != nil {
			return nil, err
		}
		info, err := (transport.FileSystem{}).Stat(abs)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, transport.Refuse(abs, "there is no such file, of the %d that are given", len(paths)).Because(err)
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular(), len(files) > 0 && transport.FileKind(abs) != transport.FileKind(files[0]):
			return nil, transport.Refuse(abs, "several paths must be files of one dataset and of one format, and this is not: "+
				"build them one at a time, or the folder that holds them")
		}
		files = append(files, abs)
	}
	slices.Sort(files)
	prefix := transport.CommonPrefix(files)
	c := newCandidate(filepath.Dir(prefix), someFiles, opts)
	c.tree = transport.FileSystem{}
	for _, file := range files {
		c.files = append(c.files, strings.TrimPrefix(strings.TrimPrefix(file, c.path), string(filepath.Separator)))
	}
	c.split, c.output = transport.SplitName(prefix), strings.TrimRight(prefix, "-_.0123456789")
	if strings.HasSuffix(c.output, string(filepath.Separator)) {
		c.output = c.path
	}
	return c, nil
}

// look lists a folder, or opens a file.
func look(path string, opts dataset.Options, t transport.Tree) (*candidate, error) {
	c := newCandidate(path, aFile, opts)
	info, err := t.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, transport.Refuse(path, "there is no such file or folder").Because(err)
	case err != nil:
		return nil, err
	case info.IsDir():
		c.form = aFolder
		c.folder, err = listFolder(t, path)
		return c, err
	case t != transport.FileSystem{}:
		return nil, transport.Refuse(path, "a file in a zip, of which only folders of images are read").Or(transport.Unpack(path)...)
	}
	if err := unreadFile(path, ""); err != nil && !targets.IsCOCO(t, path) {
		return nil, err
	}
	if info.Mode().IsRegular() && transport.IsZip(path) {
		return c, c.openZip()
	}
	r, err := transport.OpenTar(path)
	if errors.Is(err, transport.ErrNotTar) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	r.Peeking = true
	c.form, c.front = aTar, &front{tar: r}
	return c, nil
}

func (c *candidate) close() {
	if c.form == aTar {
		c.tar.Close()
	}
}

// openZip makes the candidate the folder that a zip holds: that of its only folder, if there is nothing beside it.
func (c *candidate) openZip() error {
	z, err := transport.OpenZip(c.path)
	if err != nil {
		return err
	}
	c.form, c.output = aFolder, transport.Stem(c.path)
	c.folder, err = listFolder(z, c.path)
	for err == nil && len(c.folders) == 1 && len(c.files)+len(c.sets) == 0 {
		name := c.folders[0]
		inside, err := listFolder(z, filepath.Join(c.path, name))
		if err != nil || len(inside.folders) == 0 || labelrule.NamedNoClass(name) && name != "data" {
			return nil // it is a class or a split
		}
		c.path, c.folder = filepath.Join(c.path, name), inside
	}
	return err
}

func listFolder(t transport.Tree, path string) (folder, error) {
	f := folder{tree: t}
	if isShardSet(path) {
		return f, transport.Refuse(path, "already a shard set: give the dataset that it was built from")
	}
	err := transport.ReadFolder(t, path, "", nil, func(it *transport.Item) error {
		switch {
		case it.Folder && isShardSet(filepath.Join(path, it.Name)):
			f.sets = append(f.sets, it.Name)
		case it.Folder:
			f.folders = append(f.folders, it.Name)
		default:
			f.files = append(f.files, it.Name)
		}
		return nil
	})
	return f, err
}

// isShardSet says that a folder is the output of a build, whole or damaged.
func isShardSet(path string) bool {
	_, err := shard.ReadManifest(path)
	var corrupt *shard.CorruptError
	var unsupported *shard.UnsupportedError
	return err == nil || errors.As(err, &corrupt) || errors.As(err, &unsupported)
}

// filter splits the files into those that a condition on their names takes, and the others.
func (f *folder) filter(takes func(name string) bool) (these, others []string) {
	for _, name := range f.files {
		if takes(name) {
			these = append(these, name)
		} else {
			others = append(others, name)
		}
	}
	return these, others
}

func namedZip(name string) bool { return strings.EqualFold(filepath.Ext(name), ".zip") }

// child is a candidate in the folder; it is a split of the folder if split is not empty.
func (c *candidate) child(name, split string) (*candidate, error) {
	q, err := look(filepath.Join(c.path, name), c.opts, c.tree)
	if err == nil && split != "" {
		q.split, q.part = split, true
	}
	if err == nil && c.output != "" {
		if q.output = c.output; split != "" {
			q.output += "-" + split
		}
	}
	return q, err
}

// open finds the kind of a candidate, and returns its splits.
func (c *candidate) open() ([]*dataset.Split, error) {
	if err := c.unread(); err != nil {
		return nil, err
	}
	for _, k := range kinds() {
		if c.form&k.of == 0 {
			continue
		}
		splits, err := k.open(c)
		if err != nil {
			return nil, err
		}
		for _, s := range splits {
			if s.Kind == nil {
				s.Kind = k.Kind
			}
		}
		if len(splits) > 0 {
			return splits, nil
		}
	}
	return nil, c.unknown()
}

// unknown says that a candidate is of no kind, and what is wanted.
func (c *candidate) unknown() error {
	msg := "not laid out as any dataset that is read"
	switch {
	case c.form == aTar:
	case c.form == aFile:
		no := transport.Refuse(c.path, "neither a tar nor a tar.gz, a zip or a parquet file. Of a single image give the folder. "+
			"A list of images is called .csv, .tsv or .jsonl and begins with path,label").Because(transport.ErrNotTar)
		if strings.EqualFold(filepath.Ext(c.path), ".txt") {
			return no.Or(remedy.CaffeList.Of(c.path, strings.TrimSuffix(c.path, filepath.Ext(c.path))))
		}
		if slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(c.path)) {
			return no.Or(remedy.Folder.With("DIR", filepath.Dir(c.path))) // YOLO's programs take the file
		}
		return no
	case len(c.sets) > 0:
		msg = "the folder holds only shard sets (" + strings.Join(c.sets, ", ") + ")"
	case len(c.folders)+len(c.files) == 0:
		msg = "the folder is empty"
	}
	var names []string
	for _, k := range kinds() {
		names = append(names, k.Name)
	}
	no := transport.Refuse(c.path, "%s; wanted: %s", msg, strings.Join(names, ", ")).Because(errors.ErrUnsupported)
	zips, _ := c.filter(namedZip)
	for _, name := range zips {
		no.Or(remedy.Archive.With("FILE", filepath.Join(c.path, name)))
	}
	return no
}

// newSplit makes the only split of a candidate. v are its targets, or nil.
func (c *candidate) newSplit(format string, l dataset.Layout, v *targets.Values) *dataset.Split {
	s := &dataset.Split{Name: cmp.Or(c.opts.Split, c.split), Path: c.path, Output: cmp.Or(c.output, transport.Stem(c.path)) + "-shards",
		Format: format, Layout: l, Options: c.opts}
	if v != nil {
		s.Targets = v
	}
	return s
}

// images makes the split of a folder or tar in which each file is a sample. things names the samples in messages.
func (c *candidate) images(things string, rule func(*dataset.Split) (labelrule.Rule, error)) ([]*dataset.Split, error) {
	if err := c.noSets(); err != nil {
		return nil, err
	}
	if c.listed() {
		return c.newFiles("a folder of "+things, &transport.TreeFiles{FS: c.tree, Root: c.path}, rule), nil
	}
	t, err := c.inTars()
	return c.newFiles("a tar of "+things, t, rule), err
}

// paths are those of files in a folder; without any, it is the candidate's own.
func (c *candidate) paths(names []string) (paths []string) {
	for _, name := range names {
		paths = append(paths, filepath.Join(c.path, name))
	}
	if len(names) == 0 {
		paths = []string{c.path}
	}
	return paths
}

// inTars is the transport of the files in the named tars of a folder, or in the candidate itself. The size of standard input is unknown: 0.
func (c *candidate) inTars(names ...string) (*transport.TarFiles, error) {
	t := &transport.TarFiles{Paths: c.paths(names), Stdin: c.stdin, Strip: c.strip}
	for _, path := range t.Paths {
		if c.stdin != nil {
			break
		}
		info, err := transport.FileSystem{}.Stat(path)
		if err != nil {
			return nil, err
		}
		t.Size += info.Size()
	}
	return t, nil
}

// newFiles makes the split of a candidate in which each file is a sample.
func (c *candidate) newFiles(format string, t transport.Transport, rule func(*dataset.Split) (labelrule.Rule, error)) []*dataset.Split {
	return []*dataset.Split{c.newSplit(format, &labelrule.Files{Transport: t, Rule: rule}, nil)}
}

// one returns the candidate for one of several splits at the same path, and c for "".
func (c *candidate) one(split string) *candidate {
	if split == "" {
		return c
	}
	q := *c
	q.split, q.output = split, cmp.Or(c.output, transport.Stem(c.path))+"-"+split
	return &q
}

// bySplit makes one split of the files, or several if their names tell splits apart. open makes one of these from its files.
func (c *candidate) bySplit(names []string, open func(c *candidate, files []string) (*dataset.Split, error)) ([]*dataset.Split, error) {
	groups := make(map[string][]string)
	for _, name := range names {
		split := transport.NamedSplit(name)
		if c.part && split != "" && split != c.split {
			return nil, transport.RefuseEntry(c.path, name, "is named for the split %s and lies among the files of %s: move it elsewhere",
				split, c.split)
		}
		if c.part {
			split = ""
		}
		groups[split] = append(groups[split], name)
	}
	if unnamed := groups[""]; unnamed != nil && len(groups) > 1 {
		return nil, transport.RefuseEntry(c.path, unnamed[0], "other files here are named for a split, and this one is not: rename it, "+
			"or move it elsewhere")
	}
	if len(groups) > 1 {
		c = c.one(c.opts.Split)
	}
	return eachSplit(c, groups, open)
}

// noSets refuses shard sets among the classes.
func (c *candidate) noSets() error {
	if len(c.sets) == 0 {
		return nil
	}
	return transport.RefuseEntry(c.path, c.sets[0], "a shard set within the dataset: move it out, or it would be taken for a class")
}

// member returns the i-th member of a tar and reads no further. The error is io.EOF if the tar has fewer, or the file is not a tar.
func (c *candidate) member(i int) (tarMember, error) {
	f, w := c.front, transport.Walk{Ctx: context.Background()}
	for len(f.members) <= i {
		if f.end == nil && len(f.members) == tarMembersMax {
			f.end = transport.Refuse(c.path, "the first %d members do not show its format", tarMembersMax).Or(transport.Unpack(c.path)...)
		}
		if f.end != nil {
			return tarMember{}, f.end
		}
		h, err := w.Next(f.tar, "")
		if err != nil {
			f.end = err
			continue
		}
		f.members = append(f.members, tarMember{h.Name, h.Typeflag, h.Typeflag == tar.TypeReg && transport.LooksLikeImage(f.tar)})
	}
	return f.members[i], nil
}

// first returns the first member that can tell the format of a tar: an image or a tar anywhere, or else the first file in a folder.
func (c *candidate) first() (tarMember, error) {
	var other tarMember
	for i := 0; ; i++ {
		m, err := c.member(i)
		switch {
		case err != nil && other.name != "" && c.stdin == nil:
			return other, nil
		case err == io.EOF:
			return m, transport.Refuse(c.path, "the tar has no files")
		case err == nil:
			err = c.tar.NoLabel(m.name)
		}
		if err != nil || m.kind != tar.TypeDir && (m.image || transport.NamedTar(m.name)) {
			return m, err
		}
		if other.name == "" && m.kind != tar.TypeDir && strings.Contains(m.name, "/") {
			other = m
		}
	}
}

// newStdin is the candidate on standard input: a tar.
func newStdin(opts dataset.Options) (*candidate, error) {
	if opts.Stdin == nil {
		return nil, transport.Refuse(transport.StdinName, "is not read here: save it as a file")
	}
	in := transport.NewStdin(opts.Stdin)
	t, err := transport.NewTarReader(transport.StdinName, in.Peek())
	if errors.Is(err, transport.ErrNotTar) {
		err = transport.Refuse(transport.StdinName, "neither a tar nor a tar.gz, which alone are read from it: save anything else as a "+
			"file, and decompress the tar by zstd -dc, bzip2 -dc or xz -dc first").Because(err)
	}
	if err != nil {
		return nil, err
	}
	t.Peeking = true
	c := newCandidate(transport.StdinName, aTar, opts)
	c.front = &front{tar: t, stdin: in}
	return c, nil
}
