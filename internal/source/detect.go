package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
)

const (
	trainTarName = "ILSVRC2012_img_train.tar"
	valTarName   = "ILSVRC2012_img_val.tar"
)

// isSplitFolder says that a folder of this name holds a split by custom.
func isSplitFolder(name string) bool {
	switch name {
	case "train", "val", "valid", "validation", "test":
		return true
	}
	return false
}

// Open looks at a path and returns the splits that it holds: one, or the training and the validation split. Nothing is read yet but what is
// needed to tell.
func Open(path string, opts Options) ([]*Split, error) {
	splits, err := detect(path, opts)
	if err != nil {
		return nil, err
	}
	labelled := opts.ValLabels == ""
	for _, s := range splits {
		if _, numbers := s.layout.(*webDataset); opts.Classes != "" && !numbers {
			return nil, &FormatError{Path: s.Path, Msg: "is " + s.Layout() + ", which names its classes itself: --classes is for WebDataset's tars, whose labels are numbers"}
		}
		labelled = labelled || s.readsValLabels()
	}
	if !labelled {
		return nil, &FormatError{Path: splits[0].Path, Msg: "is " + splits[0].Layout() + ", which has labels itself: --val-labels is for ILSVRC2012's validation images, which have none"}
	}
	return splits, nil
}

// detect is Open for a path that need not be absolute.
func detect(path string, opts Options) ([]*Split, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &FormatError{Path: path, Msg: "there is no such file or folder", Err: err}
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if files, err := sniffCIFAR(path); files != nil || err != nil {
			if err != nil {
				return nil, err
			}
			return openCIFAR(files, opts)
		}
		s, err := openTarSplit(path, splitName(path), opts)
		if err != nil {
			return nil, err
		}
		return []*Split{s}, nil
	}
	seen, err := look(path)
	if err != nil {
		return nil, err
	}
	if files, err := findCIFAR(seen); files != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return openCIFAR(files, opts)
	}
	if train, val, ok := seen.splits(); ok {
		return openSplits(path, seen, train, val, opts)
	}
	if tars, err := findWebDataset(seen); tars != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return openWebDatasets(seen, tars, opts)
	}
	s, err := openFolderSplit(path, splitName(path), seen, opts)
	if err != nil {
		return nil, err
	}
	return []*Split{s}, nil
}

// sight is what a folder holds at first sight.
type sight struct {
	path    string
	folders []string
	files   []string
	sets    []string // folders that are shard sets
}

// look lists a folder.
func look(path string) (sight, error) {
	seen := sight{path: path}
	entries, err := readTop(path)
	if err != nil {
		return seen, err
	}
	if isShardSet(path) {
		return seen, &FormatError{Path: path, Msg: "already a shard set: give the dataset that it was built from"}
	}
	for _, e := range entries {
		switch {
		case e.dir && isShardSet(filepath.Join(path, e.name)):
			seen.sets = append(seen.sets, e.name)
		case e.dir:
			seen.folders = append(seen.folders, e.name)
		default:
			seen.files = append(seen.files, e.name)
		}
	}
	return seen, nil
}

// isShardSet says that a folder is the output of a build, whole or damaged.
func isShardSet(path string) bool {
	_, err := shard.ReadManifest(path)
	var corrupt *shard.CorruptError
	var unsupported *shard.UnsupportedError
	return err == nil || errors.As(err, &corrupt) || errors.As(err, &unsupported)
}

// splits finds the names of the two splits in a folder. A folder "train" or "val" alone makes a split only where there is no other folder, since a
// class may be called so.
func (seen sight) splits() (train, val string, ok bool) {
	hasFolder := func(name string) bool { return slices.Contains(seen.folders, name) }
	if hasFolder("train") {
		train = "train"
	}
	for _, name := range []string{"val", "valid", "validation"} {
		if val == "" && hasFolder(name) {
			val = name
		}
	}
	onlySplits := len(seen.folders) > 0 && !slices.ContainsFunc(seen.folders, func(name string) bool {
		return !isSplitFolder(name)
	})
	foldersSayIt := (train != "" && val != "") || (onlySplits && (train != "" || val != ""))
	if len(seen.folders) > 0 && !foldersSayIt {
		return "", "", false
	}
	if train == "" && slices.Contains(seen.files, trainTarName) {
		train = trainTarName
	}
	if val == "" && slices.Contains(seen.files, valTarName) {
		val = valTarName
	}
	return train, val, train != "" || val != ""
}

// openSplits opens the splits of a folder that holds several.
func openSplits(path string, seen sight, train, val string, opts Options) ([]*Split, error) {
	if opts.Split != "" && train != "" && val != "" {
		return nil, &FormatError{Path: path, Msg: fmt.Sprintf("holds two splits, %s and %s, which cannot both be called %q: build them one at a time", train, val, opts.Split)}
	}
	test := ""
	if opts.Split == "" && slices.Contains(seen.folders, "test") && (isSmallSplit(filepath.Join(path, "test")) || isWebDatasetFolder(filepath.Join(path, "test"))) {
		test = "test"
	}
	var splits []*Split
	for _, name := range []struct{ entry, split string }{{train, "train"}, {val, "val"}, {test, "test"}} {
		if name.entry == "" {
			continue
		}
		p := filepath.Join(path, name.entry)
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		var s *Split
		if info.IsDir() {
			below, err := look(p)
			if err != nil {
				return nil, err
			}
			if s, err = openFolderSplit(p, name.split, below, opts); err != nil {
				return nil, err
			}
		} else if s, err = openTarSplit(p, name.split, opts); err != nil {
			return nil, err
		}
		splits = append(splits, s)
	}
	for _, f := range seen.folders {
		if f != train && f != val && f != test {
			splits[0].note("folder %s is left out; build it by itself if it is wanted", filepath.Join(path, f))
		}
	}
	return splits, nil
}

// newSplit names a split and its output.
func newSplit(path, name string, l layout, opts Options) *Split {
	if opts.Split != "" {
		name = opts.Split
	}
	return &Split{Name: name, Path: path, Output: stem(path) + "-shards", layout: l}
}

func openTarSplit(path, name string, opts Options) (*Split, error) {
	if is, _, err := sniffWebDataset(path); is || err != nil {
		if err != nil {
			return nil, err
		}
		return openWebDatasetTar(path, name, opts)
	}
	st, err := newStream(path, opts)
	if err != nil {
		return nil, err
	}
	return newSplit(path, name, st, opts), nil
}

// openFolderSplit tells what a folder that is one split holds.
func openFolderSplit(path, name string, seen sight, opts Options) (*Split, error) {
	var tars, others []string
	for _, f := range seen.files {
		switch {
		case namedTar(f):
			tars = append(tars, f)
		default:
			others = append(others, f)
		}
	}
	var s *Split
	switch {
	case len(seen.folders) > 0:
		if err := halfDone(path, seen.folders, tars, others); err != nil {
			return nil, err
		}
		s = newSplit(path, name, &folder{root: path}, opts)
		s.decoded = isSmallFolder(path, seen.folders)
	case len(tars) > 0:
		of, err := findWebDataset(seen)
		if err != nil {
			return nil, err
		}
		if of != nil {
			return openWebDatasetFolder(seen, name, of, opts)
		}
		st, err := classTars(path, tars)
		if err != nil {
			return nil, err
		}
		s = newSplit(path, name, st, opts)
		if len(others) > 0 {
			s.note("%d files beside the class tars are left out (%s)", len(others), someNames(others))
		}
	case len(others) > 0:
		val, err := openValLabels(opts)
		if err != nil {
			return nil, err
		}
		if err := val.walk().add(others[0]); err != nil {
			return nil, &FormatError{Path: path, Entry: others[0], Msg: err.Error()}
		}
		s = newSplit(path, name, &folder{root: path, val: val}, opts)
	default:
		return nil, emptyError(path, seen)
	}
	for _, set := range seen.sets {
		return nil, &FormatError{Path: path, Entry: set, Msg: "a shard set within the dataset: move it out, or it would be taken for a class"}
	}
	return s, nil
}

// halfDone says that the files beside class folders should have been unpacked or sorted into them: leaving them out would lose much.
func halfDone(path string, folders, tars, others []string) error {
	for _, t := range tars {
		if !slices.Contains(folders, stem(t)) {
			return &FormatError{Path: path, Entry: t, Msg: "class folders and class tars in one place, and this tar has no folder: " +
				"unpack it too, or move the tars (or the folders) elsewhere"}
		}
	}
	for _, f := range others {
		if strings.HasPrefix(f, valNamePrefix) {
			return &FormatError{Path: path, Entry: f, Msg: "a validation image beside class folders: finish sorting them into the folders, or move the folders elsewhere"}
		}
	}
	return nil
}

// classTars checks that the files of a folder are tars.
func classTars(path string, names []string) (*stream, error) {
	var paths []string
	for _, name := range names {
		p := filepath.Join(path, name)
		ok, err := sniffTar(p)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, &FormatError{Path: p, Msg: "called a tar, but it is none", Err: errNotTar}
		}
		paths = append(paths, p)
	}
	return newClassTars(paths)
}

func emptyError(path string, seen sight) error {
	msg := "the folder is empty"
	if len(seen.sets) > 0 {
		msg = "the folder holds only shard sets (" + strings.Join(seen.sets, ", ") + ")"
	}
	return &FormatError{Path: path, Msg: msg + "; wanted: class folders, class tars, WebDataset's tars, train/ and val/, the images of ILSVRC2012's validation split, or CIFAR-10", Err: errors.ErrUnsupported}
}
