package source

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// WebDataset (https://github.com/webdataset/webdataset) keeps the files of a sample next to each other in a tar, under one name with an extension
// for each:
//
//	imagenet-train-000000.tar   n01440764_10026.cls   "0", the label in decimal
//	                            n01440764_10026.jpg   the image
//	                            n01440764_10026.json  anything else, which is left out here
//	                            n01440764_10027.cls   …
//
// The name up to the first dot behind the last slash is the sample's key, what is behind it the extension, in any case of letters. A sample ends
// where another key begins. Its __key__ is the key here too; it must be unique in all tars of a split.
const (
	labelExtension = "cls"
	// labelBytesMax bounds the file of a label.
	labelBytesMax = 64
	// numberedClassesMax bounds the labels, and so the list of classes that one hostile label can ask for.
	numberedClassesMax = 1 << 20
	// sniffedMembersMax is in how many files of a tar, from its front, a sample must begin for the tar to be WebDataset's.
	sniffedMembersMax = 8
	// extensionsShownMax is how many kinds of members that are left out are told apart.
	extensionsShownMax = 8
)

// imageExtensions are those of an image. What it is, is told by its content, as anywhere.
var imageExtensions = []string{"jpg", "jpeg", "png", "webp", "gif", "bmp"}

// webDataset is the tars of one split.
type webDataset struct {
	paths []string
	size  int64
	names classNames
}

func (d *webDataset) describe() string {
	if len(d.paths) == 1 {
		return "a tar of WebDataset"
	}
	return fmt.Sprintf("%d tars of WebDataset", len(d.paths))
}

func (d *webDataset) streamed() bool { return true }
func (d *webDataset) bytes() int64   { return d.size }

func (d *webDataset) read(key string, _ []byte) ([]byte, error) {
	return nil, fmt.Errorf("source: %q lies in a tar and cannot be read by its key", key)
}

// splitMember returns the key and the extension, in lower case, of a member by its cleaned name; both are empty for one that belongs to no sample.
func splitMember(name string) (key, extension string) {
	folder, file := path.Split(name)
	base, extension, ok := strings.Cut(file, ".")
	first, _, _ := strings.Cut(name, "/")
	meta := len(first) > 3 && strings.HasPrefix(first, "__") && strings.HasSuffix(first, "__") // __meta__, of the tar and not of a sample
	if !ok || base == "" || meta {
		return "", ""
	}
	return folder + base, strings.ToLower(extension)
}

// sniffWebDataset says whether one of a tar's first samples has an image and a label. empty says that it has no file at all, as the last tar that is
// written may.
func sniffWebDataset(p string) (is, empty bool, err error) {
	t, err := openTar(p)
	if err != nil {
		return false, false, err
	}
	defer t.Close()
	t.peeking = true
	w := &walker{ctx: context.Background(), st: &stream{}}
	last, image, label := "", false, false
	for n := 0; n < sniffedMembersMax; {
		h, err := w.entry(t)
		if err == io.EOF {
			return false, n == 0, nil
		}
		if err != nil {
			return false, false, err
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if namedTar(h.Name) { // of a class, and to skip it takes reading it
			return false, false, nil
		}
		n++
		key, extension := splitMember(h.Name)
		if key != last {
			last, image, label = key, false, false
		}
		image = image || key != "" && slices.Contains(imageExtensions, extension)
		label = label || key != "" && extension == labelExtension
		if image && label {
			return true, false, nil
		}
	}
	return false, false, nil
}

// findWebDataset returns the names of the tars in a folder that holds nothing but WebDataset's; nil: it does not. The first tar with a file in it
// says so for all.
func findWebDataset(seen sight) ([]string, error) {
	if len(seen.folders) > 0 {
		return nil, nil
	}
	var tars []string
	for _, f := range seen.files {
		if namedTar(f) {
			tars = append(tars, f)
		}
	}
	for _, name := range tars {
		is, empty, err := sniffWebDataset(filepath.Join(seen.path, name))
		if errors.Is(err, errNotTar) {
			return nil, nil // classTars says so
		}
		if err != nil {
			return nil, err
		}
		if is {
			return tars, nil
		}
		if !empty {
			break
		}
	}
	return nil, nil
}

// isWebDatasetFolder is findWebDataset of a folder that has not been looked at.
func isWebDatasetFolder(p string) bool {
	seen, err := look(p)
	if err != nil {
		return false
	}
	tars, err := findWebDataset(seen)
	return err == nil && tars != nil
}

// openWebDatasets opens the splits of a folder of tars: one, or those that the tars' names tell apart, such as imagenet-train-000000.tar and
// imagenet-val-000000.tar.
func openWebDatasets(seen sight, tars []string, opts Options) ([]*Split, error) {
	groups := make(map[string][]string)
	for _, name := range tars {
		groups[namedSplit(name)] = append(groups[namedSplit(name)], name)
	}
	if unnamed := groups[""]; unnamed != nil && len(groups) > 1 {
		return nil, &FormatError{Path: seen.path, Entry: unnamed[0], Msg: "other tars here are named for a split, and this one is not: " +
			"rename it, or sort the tars into folders train/ and val/"}
	}
	if opts.Split != "" && len(groups) > 1 {
		return nil, &FormatError{Path: seen.path, Msg: fmt.Sprintf("holds tars of several splits (%s), which cannot all be called %q",
			strings.Join(slices.Sorted(maps.Keys(groups)), ", "), opts.Split)}
	}
	var splits []*Split
	for _, name := range []string{"train", "val", "test", ""} {
		if groups[name] == nil {
			continue
		}
		s, err := newWebDataset(seen, cmp.Or(name, splitName(seen.path)), groups[name], []string{seen.path}, opts)
		if err != nil {
			return nil, err
		}
		if len(groups) > 1 {
			s.Output = seen.path + "-" + name + "-shards"
		}
		splits = append(splits, s)
	}
	return splits, nil
}

// openWebDatasetFolder opens a folder that is one split of several.
func openWebDatasetFolder(seen sight, name string, tars []string, opts Options) (*Split, error) {
	for _, t := range tars {
		if other := namedSplit(t); other != "" && other != name {
			return nil, &FormatError{Path: seen.path, Entry: t, Msg: fmt.Sprintf("a tar that is named for the split %s among those of %s: move it elsewhere", other, name)}
		}
	}
	return newWebDataset(seen, name, tars, []string{seen.path, filepath.Dir(seen.path)}, opts)
}

// openWebDatasetTar opens one tar.
func openWebDatasetTar(p, name string, opts Options) (*Split, error) {
	dir, file := filepath.Split(p)
	s, err := newWebDataset(sight{path: filepath.Clean(dir)}, name, []string{file}, []string{filepath.Clean(dir)}, opts)
	if err != nil {
		return nil, err
	}
	s.Path, s.Output = p, stem(p)+"-shards"
	return s, nil
}

// newWebDataset makes the split of some tars in a folder. The files that name the classes are looked for in nameFolders.
func newWebDataset(seen sight, name string, tars, nameFolders []string, opts Options) (*Split, error) {
	names, err := findClassNames(nameFolders, opts)
	if err != nil {
		return nil, err
	}
	d := &webDataset{names: names}
	for _, t := range tars {
		p := filepath.Join(seen.path, t)
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		d.paths, d.size = append(d.paths, p), d.size+info.Size()
	}
	s := newSplit(seen.path, name, d, opts)
	others := slices.DeleteFunc(slices.Clone(seen.files), func(f string) bool {
		return namedTar(f) || filepath.Join(seen.path, f) == names.from
	})
	if len(others) > 0 {
		s.note("%d files beside the tars are left out (%s)", len(others), someNames(others))
	}
	return s, nil
}

// sample is what has been read of the sample that stands at the place that is being read.
type sample struct {
	key    string
	image  string // the member's name; "": none yet
	reason string // why the image cannot be read
	label  int32  // -1: none yet
}

// webDatasetWalker is the state of one walk.
type webDatasetWalker struct {
	walker
	sample     sample
	content    bytes.Buffer // of the image, which may stand before its label
	byKey      map[string]int32
	incomplete map[string]struct{} // keys of samples that lack image or label
	counts     []int               // samples of each label
	leftOut    map[string]int      // members that are neither image nor label, by extension
	complete   int                 // samples of this tar
	members    int                 // of this tar
}

func (d *webDataset) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	w := &webDatasetWalker{walker: walker{ctx: ctx, st: &stream{}, fn: fn}, sample: sample{label: -1}, byKey: make(map[string]int32),
		incomplete: make(map[string]struct{}), leftOut: make(map[string]int)}
	for _, p := range d.paths {
		if err := w.file(s, p); err != nil {
			return labels{}, err
		}
	}
	l, err := d.names.labels(s, w.counts)
	if err != nil {
		return labels{}, err
	}
	l.byKey = w.byKey
	w.noteLeftOut(s)
	return l, nil
}

// file walks over one tar.
func (w *webDatasetWalker) file(s *Split, p string) error {
	t, err := openTar(p)
	if err != nil {
		return err
	}
	defer t.Close()
	w.complete, w.members = 0, 0
	for {
		h, err := w.entry(t)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if err := w.member(t, h); err != nil {
			return err
		}
	}
	if err := w.flush(t); err != nil {
		return err
	}
	switch {
	case w.members == 0:
		s.note("%s has no files", p)
	case w.complete == 0:
		return t.errorf("", "no sample of WebDataset in it, which is an image and its label .%s one behind the other: move it elsewhere", labelExtension)
	case !t.endMarked():
		s.note("%s does not end as a tar should: it may be incomplete", p)
	}
	return nil
}

// member takes one file of a tar.
func (w *webDatasetWalker) member(t *tarReader, h *tar.Header) error {
	w.members++
	key, extension := splitMember(h.Name)
	if key != "" && key != w.sample.key {
		if err := w.flush(t); err != nil {
			return err
		}
		w.sample.key = key
	}
	switch {
	case key != "" && extension == labelExtension:
		return w.readLabel(t, h)
	case key != "" && slices.Contains(imageExtensions, extension):
		return w.readImage(t, h)
	}
	if _, known := w.leftOut[extension]; !known && len(w.leftOut) >= extensionsShownMax {
		extension = ""
	}
	w.leftOut[extension]++
	return nil
}

// readLabel reads the number in the member of a label.
func (w *webDatasetWalker) readLabel(t *tarReader, h *tar.Header) error {
	if w.sample.label >= 0 {
		return t.errorf(h.Name, "a second label for %q", w.sample.key)
	}
	if h.Typeflag != tar.TypeReg || h.Size > labelBytesMax {
		return t.errorf(h.Name, "a label must be a regular file of at most %d bytes with a number in it", labelBytesMax)
	}
	text, err := io.ReadAll(&entryReader{t: t, name: h.Name})
	if err != nil {
		return err
	}
	label, err := strconv.Atoi(strings.TrimSpace(string(text)))
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && label >= numberedClassesMax:
		return t.errorf(h.Name, "the label %.40q is more than %d, the largest that is read", text, numberedClassesMax-1)
	case err != nil:
		return t.errorf(h.Name, "the label %.40q is no whole number", text)
	case label < 0:
		return t.errorf(h.Name, "the label %d is negative: leave out images without a class", label)
	}
	w.sample.label = int32(label)
	return nil
}

// readImage keeps the image until its sample ends.
func (w *webDatasetWalker) readImage(t *tarReader, h *tar.Header) error {
	sm := &w.sample
	if sm.image != "" {
		return t.errorf(h.Name, "a second image for %q, behind %s: a sample has one", sm.key, path.Base(sm.image))
	}
	sm.image, sm.reason = h.Name, imageReason(h)
	if sm.reason != "" {
		return nil
	}
	w.content.Reset()
	_, err := w.content.ReadFrom(&entryReader{t: t, name: h.Name})
	return err
}

// flush hands on the sample that has ended. One with neither image nor label is none, but some file like a README.
func (w *webDatasetWalker) flush(t *tarReader) error {
	sm := w.sample
	w.sample = sample{label: -1}
	if sm.image == "" && sm.label < 0 {
		return nil
	}
	if err := w.checkKey(t, sm); err != nil {
		return err
	}
	it := Item{Key: sm.key, Reason: cmp.Or(nameReason(sm.key), sm.reason)}
	switch {
	case sm.image == "":
		it.Reason = fmt.Sprintf("no image beside %s.%s in %s", path.Base(sm.key), labelExtension, filepath.Base(t.path))
	case sm.label < 0:
		it.Reason = fmt.Sprintf("no label: there is no %s.%s beside %s in %s", path.Base(sm.key), labelExtension, path.Base(sm.image), filepath.Base(t.path))
	default:
		w.complete++
	}
	if sm.image == "" || sm.label < 0 {
		w.incomplete[sm.key] = struct{}{}
	}
	w.byKey[sm.key] = max(sm.label, 0) // what is left out needs no label
	if sm.label >= 0 {
		w.counts = append(w.counts, make([]int, max(0, int(sm.label)+1-len(w.counts)))...)
		w.counts[sm.label]++
	}
	if it.Reason == "" {
		it.Size, it.Data = int64(w.content.Len()), bytes.NewReader(w.content.Bytes())
	}
	return w.fn(it)
}

// checkKey refuses a key that has occurred before.
func (w *webDatasetWalker) checkKey(t *tarReader, sm sample) error {
	if _, twice := w.byKey[sm.key]; !twice {
		return nil
	}
	member := cmp.Or(sm.image, sm.key+"."+labelExtension)
	if _, ok := w.incomplete[sm.key]; ok || sm.image == "" || sm.label < 0 {
		return t.errorf(member, "the image and the label of %q do not stand one behind the other: write the tar again, in the order of names (tar --sort=name)", sm.key)
	}
	return t.errorf(member, "the key %q occurs twice: a key must name one image in all tars, so write them again with keys that differ", sm.key)
}

// noteLeftOut says what members were left out.
func (w *webDatasetWalker) noteLeftOut(s *Split) {
	total := 0
	var kinds []string
	for _, extension := range slices.Sorted(maps.Keys(w.leftOut)) {
		n := w.leftOut[extension]
		total += n
		if extension != "" {
			kinds = append(kinds, fmt.Sprintf("%d .%.40s", n, extension))
		}
	}
	if n := w.leftOut[""]; n > 0 {
		kinds = append(kinds, fmt.Sprintf("%d others", n))
	}
	if total > 0 {
		s.note("%d files in the tars that are neither image nor label are left out (%s)", total, strings.Join(kinds, ", "))
	}
}
