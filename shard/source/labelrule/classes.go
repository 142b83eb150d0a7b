package labelrule

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// ClassesFromMax bounds [Options.ClassesFrom].
const ClassesFromMax = 16

const (
	foldersNotedMax = 8   // how many folders within a class are remembered: it takes two to see that they may be the classes
	filesSniffedMax = 100 // bounds the files that are looked into before a class is taken to have no image
	// wnidsMissingMax bounds the missing classes of an incomplete ILSVRC2012. With more missing it is a selection, such as ImageNet-100.
	wnidsMissingMax = 99
)

// classCount counts the files of one class.
type classCount struct {
	label   int32    // the Item.Label of its files: the position of the class among those in the order of their first files
	images  bool     // an image is in it, by a name or by content
	others  []string // the first keys that are not called as images are, while images is false
	files   int
	parquet int      // files of this name
	direct  int      // images in the class's own folder, by their names
	folders []string // the first few folders in it that hold images, by their paths in it
}

// classRule labels files by their folders, or by tars that stand for such. A class is the level-th folder of a key, counted from 1.
type classRule struct {
	level                int
	counts               map[string]*classCount
	wanted               ClassNames // if it has names, only these are taken, in this order
	index                map[string]int32
	leftOut              map[string]bool // classes outside wanted
	beside               []string        // files above all classes
	parents              map[string]bool // the folders that the classes lie in, if those are not the source itself
	depths               [2]int          // the fewest and the most folders above an image; 0: there is none
	inner                string          // the name of the innermost folder of all images; "/": there are several
	above                []string        // images above all classes
	metadata             string          // a list in a tar that has other labels, if there is one
	valImages, valDiffer int             // images named as ILSVRC2012's validation images; those in the folder of a wrong class
}

// ByFolder is the classRule of a split.
func ByFolder(s *dataset.Split) (Rule, error) {
	return newClassRule(s.Options, max(1, s.Options.ClassesFrom))
}

// ByTar is the classRule of a split in which each tar is a class.
func ByTar(s *dataset.Split) (Rule, error) { return newClassRule(s.Options, 1) }

func newClassRule(o dataset.Options, level int) (c *classRule, err error) {
	c = &classRule{level: level, counts: make(map[string]*classCount), leftOut: make(map[string]bool), parents: make(map[string]bool)}
	if o.Classes != "" {
		c.wanted, err = FindClassNames(nil, nil, o)
		c.index = dataset.ClassIndex(c.wanted.Names)
	}
	return c, err
}

func (c *classRule) Take(f *transport.Item) (bool, error) {
	class, rest, below := transport.KeyClass(f.Key, c.level)
	if f.Folder {
		if below && rest != "" {
			return false, nil // a folder within a class
		}
		return false, c.takeFolder(f)
	}
	if f.Tar != nil {
		if err := f.Tar.NoLabel(f.Name); err != nil && (!below || c.takes(class)) {
			return false, err
		}
		if below && transport.NamedTar(rest) {
			return false, f.Errorf("a tar of tars among those of classes, as one unpacked beside itself: build it alone, or move it")
		}
	}
	switch {
	case !below:
		c.beside = append(c.beside, f.Key)
		if f.Data != nil && slices.Contains(MetadataFiles, path.Base(f.Key)) && listsLabels(f.Data) {
			c.metadata = f.Key
		}
		if c.level > 1 && transport.ImageExtension(f.Key) {
			c.above = append(c.above, f.Key)
		}
		return false, nil
	case !c.takes(class):
		return false, nil
	case transport.NameReason(class) != "":
		return false, f.Errorf("a class folder cannot be used because %s: rename it", transport.NameReason(class))
	}
	if c.level > 1 {
		parent, _, _ := transport.KeyClass(f.Key, c.level-1)
		c.parents[parent] = true
	}
	c.add(f, class, rest)
	f.Label = c.counts[class].label
	return true, nil
}

// MetadataFiles are the lists of Hugging Face's imagefolder, which name the images of a folder and below.
var MetadataFiles = []string{"metadata.csv", "metadata.jsonl"}

var labelName = regexp.MustCompile(`(^|[,;\t"])label([,;\t"]|$)`)

// listsLabels says that a list's first line has labels, as a column or as a key.
func listsLabels(r io.Reader) bool {
	lines := bufio.NewScanner(r)
	return lines.Scan() && labelName.Match(lines.Bytes())
}

// takeFolder records a class folder, or a folder above the classes.
func (c *classRule) takeFolder(f *transport.Item) error {
	name := path.Base(f.Key)
	if reason := transport.NameReason(name); reason != "" {
		return f.Errorf("a class folder cannot be used because %s: rename it", reason)
	}
	if strings.Count(f.Key, "/")+1 < c.level {
		return nil
	}
	if !c.takes(name) {
		return fs.SkipDir
	}
	c.class(name)
	return nil
}

// takes says whether the options take a class, and records the others.
func (c *classRule) takes(class string) bool {
	if c.index == nil {
		return true
	}
	_, ok := c.index[class]
	if !ok {
		c.leftOut[class] = true
	}
	return ok
}

// selected gives the classes of the list, in its order.
func (c *classRule) selected(s *dataset.Split, found []string) (dataset.Labels, error) {
	l := c.labelsOf(c.wanted.Names)
	note, err := c.wanted.chosen(s.Path, len(found), slices.Sorted(maps.Keys(c.leftOut)))
	if err == nil && !s.Options.ForceClasses {
		err = c.checkDepth(s, found)
	}
	if err == nil {
		s.Note("%s", note)
	}
	return l, err
}

// class notes a class, which may be empty.
func (c *classRule) class(name string) *classCount {
	n := c.counts[name]
	if n == nil {
		n = &classCount{label: int32(len(c.counts))}
		c.counts[name] = n
	}
	return n
}

// add notes a file: rest is its path in the class's folder.
func (c *classRule) add(f *transport.Item, class, rest string) {
	n := c.class(class)
	n.files++
	switch {
	case n.images:
	case transport.ImageExtension(rest), f.PeekImage():
		n.images, n.others = true, nil
	case len(n.others) < filesSniffedMax:
		n.others = append(n.others, f.Key)
	}
	if path.Ext(rest) == transport.ParquetExtension {
		n.parquet++
	}
	if !transport.NamedImage(rest) {
		return
	}
	if depth := strings.Count(f.Key, "/"); transport.ImageExtension(rest) {
		if name := path.Base(path.Dir(f.Key)); cmp.Or(c.inner, name) != name {
			c.inner = "/"
		} else {
			c.inner = name
		}
		c.depths[0], c.depths[1] = min(cmp.Or(c.depths[0], depth), depth), max(c.depths[1], depth)
	}
	if name := path.Base(rest); strings.HasPrefix(name, ValNamePrefix) {
		if label, err := ValLabel(name); err == nil {
			c.valImages++
			if wordnet.Words(class) != "" && wordnet.Wnids()[label] != class {
				c.valDiffer++
			}
		}
	}
	folder := path.Dir(rest)
	switch {
	case folder == ".":
		n.direct++
	case len(n.folders) < foldersNotedMax && !slices.Contains(n.folders, folder):
		n.folders = append(n.folders, folder)
	}
}

// Labels gives the classes their order, and refuses likely mistakes.
func (c *classRule) Labels(s *dataset.Split) (dataset.Labels, error) {
	s.NoteLeftOut(c.beside, "file beside the classes is", "files beside the classes are")
	switch {
	case c.metadata != "" && !s.Options.ForceClasses:
		return dataset.Labels{}, transport.RefuseEntry(s.Path, c.metadata, "has labels of the images beside it, and is not "+
			"read from a tar").Or(transport.Unpack(s.Path)...).Or(remedy.ForceClasses)
	case c.valImages >= 20 && 2*c.valDiffer > c.valImages && !s.Options.ForceClasses:
		return dataset.Labels{}, transport.Refuse(s.Path, "%d of its %d validation images of ILSVRC2012 lie in the folder of another "+
			"class than they have: sort them anew, or give the folder or tar of all of them, as the program knows their classes",
			c.valDiffer, c.valImages).Or(remedy.ForceClasses)
	case c.valDiffer > 0:
		s.Note("%s in the folder of a class that is not theirs", bytesize.Counted(c.valDiffer,
			"validation image of ILSVRC2012 is", "validation images of ILSVRC2012 are"))
	}
	classes := slices.Sorted(maps.Keys(c.counts))
	if c.index != nil {
		return c.selected(s, classes)
	}
	if !s.Options.ForceClasses {
		if err := c.check(s, classes); err != nil {
			return dataset.Labels{}, err
		}
	}
	classes = dataset.OrderClasses(s, classes)
	return c.labelsOf(classes), nil
}

func (c *classRule) labelsOf(classes []string) dataset.Labels {
	l, index := dataset.Labels{Classes: classes, Folders: true, Of: make([]int32, len(c.counts))}, dataset.ClassIndex(classes)
	for name, n := range c.counts {
		l.Of[n.label] = index[name]
	}
	return l
}

// notClasses are names of folders that hold classes or splits, and not images of one class.
var notClasses = []string{"data", "images", "image", "imgs", "img", "dataset", "imagenet", "ilsvrc", "cls-loc", "annotations", "imagesets"}

// NamedNoClass says that a folder has the name of a split or of a folder of images, or one made of both, as train_images.
func NamedNoClass(name string) bool {
	if name = strings.ToLower(name); transport.FolderSplit(name) != "" || slices.Contains(notClasses, name) {
		return true
	}
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == ' ' })
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(notClasses, word) }) &&
		!slices.ContainsFunc(words, func(word string) bool {
			return transport.FolderSplit(word) == "" && !slices.Contains(notClasses, word)
		})
}

// check refuses classes that look like a mistake.
func (c *classRule) check(s *dataset.Split, classes []string) error {
	for _, err := range []error{c.checkDepth(s, classes), checkClassNames(s, classes), checkWnids(s, classes), c.checkImages(s, classes)} {
		if err != nil {
			return err
		}
	}
	if len(classes) == 1 {
		return refuseClasses(s, classes, nil, "holds one class only, %s: give the folder whose folders are the classes",
			classes[0]).Or(remedy.NoLabels, remedy.ForceClasses)
	}
	return nil
}

// refuseClasses is the error for classes that look like a mistake.
func refuseClasses(s *dataset.Split, classes []string, ways []remedy.Remedy, format string, args ...any) *transport.FormatError {
	return transport.Refuse(s.Path, "%s. torchvision's ImageFolder would make %d of it (%s)",
		fmt.Sprintf(format, args...), len(classes), transport.SomeNames(classes)).Or(ways...)
}

// checkDepth finds class folders that hold the real class folders: no image lies in them, but two or more folders below have images. It
// refuses to leave out images above the level of the classes.
func (c *classRule) checkDepth(s *dataset.Split, classes []string) error {
	if parents := slices.Sorted(maps.Keys(c.parents)); transport.AreSplits(parents) {
		return transport.Refuse(s.Path, "the folders above the classes look like splits (%s), and this would join them",
			transport.SomeNames(parents)).Or(ways(s, parents...)...).Or(remedy.ForceClasses)
	}
	if len(c.above) > 0 {
		return transport.Refuse(s.Path, "%s above the folders of level %d and would be left out (%s)", bytesize.Counted(len(c.above),
			"image lies", "images lie"), c.level, transport.SomeNames(c.above)).Or(c.levels(s)...).Or(remedy.ForceClasses)
	}
	for _, name := range classes {
		n := c.counts[name]
		switch {
		case n.parquet > 0 && n.parquet == n.files:
			return refuseClasses(s, classes, ways(s, name), "%s holds parquet files and no images, as a configuration at Hugging Face does",
				name).Or(remedy.ForceClasses)
		case n.direct > 0, len(n.folders) == 0, len(n.folders) == 1 && !NamedNoClass(name):
			continue
		}
		slices.Sort(n.folders)
		how, to := "probably are the classes", c.levels(s)
		switch first, _, _ := strings.Cut(n.folders[0], "/"); {
		case looksLikeSplits(n.folders):
			how, to = "look like splits", ways(s, path.Join(name, path.Dir(n.folders[0])))
			if transport.NamedSplit(first) != "" {
				to = ways(s, name)
			}
		case transport.AreSplits(classes):
			how, to = "look like splits", ways(s, classes...)
		case c.deepest() > 1 && c.level == 1 && !slices.ContainsFunc(classes, func(other string) bool {
			return other != name && c.counts[other].images
		}):
			folders := strings.Split(name+"/"+n.folders[0], "/")
			to = append(ways(s, strings.Join(folders[:c.deepest()-1], "/")), to...)
		}
		return refuseClasses(s, classes, to, "%s holds no image itself, but folders that do (%s), which %s", name,
			transport.SomeNames(n.folders), how).Or(remedy.ForceClasses)
	}
	return nil
}

// ways gives folders below a split instead, or unpacks the archive that holds them.
func ways(s *dataset.Split, folders ...string) (to []remedy.Remedy) {
	if !s.InFolders() {
		return transport.Unpack(s.Path)
	}
	for _, name := range folders[:min(len(folders), 4)] {
		to = append(to, remedy.Folder.With("DIR", s.Path+"/"+name))
	}
	return to
}

// deepest is the level of the classes if all images lie in folders of one level, else 0. Folders of images in each class are none.
func (c *classRule) deepest() int {
	switch {
	case c.depths[0] != c.depths[1]:
		return 0
	case NamedNoClass(c.inner):
		return c.depths[0] - 1
	}
	return c.depths[0]
}

// levels takes the deeper folders for the classes: by their level, or by a list.
func (c *classRule) levels(s *dataset.Split) []remedy.Remedy {
	switch level := c.deepest(); {
	case level > 0 && level != c.level:
		return []remedy.Remedy{remedy.ClassesFrom.With("LEVEL", strconv.Itoa(level))}
	case s.InFolders() && !storage.IsRemote(s.Path):
		return []remedy.Remedy{remedy.FolderList.With("DIR", s.Path).With("OUT", remedy.Beside(s.Path))}
	}
	unpacked := transport.Unpack(s.Path)
	for i, r := range unpacked {
		folder := remedy.Beside(transport.Stem(transport.Archive(s.Path))) + "-unpacked"
		unpacked[i] = remedy.FolderList.With("DIR", folder).With("OUT", folder)
		unpacked[i].Shell = r.Shell + " && " + unpacked[i].Shell
	}
	return unpacked
}

// looksLikeSplits says that folders on these paths are called as two splits are, such as training_set and test_set.
func looksLikeSplits(paths []string) bool {
	splits := make(map[string]bool)
	for _, p := range paths {
		for name := range strings.SplitSeq(p, "/") {
			splits[transport.NamedSplit(name)] = true
		}
	}
	delete(splits, "")
	return len(splits) > 1
}

// checkClassNames refuses classes with names of splits or of folders of images. One class "train" among others is the vehicle.
func checkClassNames(s *dataset.Split, classes []string) error {
	bad := slices.DeleteFunc(slices.Clone(classes), func(name string) bool { return !NamedNoClass(name) })
	to := []remedy.Remedy{remedy.NoLabels}
	if transport.AreSplits(classes) {
		bad = slices.DeleteFunc(slices.Clone(classes), func(name string) bool { return transport.NamedSplit(name) == "" })
		to = ways(s, bad...)
		for i := range to {
			to[i].Flags = remedy.NoLabels.Flags // their images lie in no class folders
		}
	}
	if len(bad) == 0 {
		return nil
	}
	if len(bad) == 1 && len(classes) > 2 && strings.EqualFold(bad[0], "train") {
		s.Note("one of the %d classes is called %q", len(classes), bad[0])
		return nil
	}
	return refuseClasses(s, classes, to, "has folders that are not called as classes are (%s): give the folder that holds the classes, "+
		"or move these elsewhere", transport.SomeNames(bad)).Or(remedy.ForceClasses)
}

// checkWnids finds classes that are not ImageNet's, and missing ones.
func checkWnids(s *dataset.Split, classes []string) error {
	others := slices.DeleteFunc(slices.Clone(classes), dataset.IsWnid)
	wnids := len(classes) - len(others)
	if len(others) > 0 && wnids >= 10*len(others) {
		return refuseClasses(s, classes, nil, "has %d wnids and beside them %s, which is none: move it elsewhere", wnids,
			transport.SomeNames(others)).Or(remedy.ForceClasses)
	}
	known := wordnet.Wnids()
	if len(others) > 0 || wnids >= len(known) || wnids < len(known)-wnidsMissingMax {
		return nil
	}
	missing := dataset.Without(known, dataset.ClassIndex(classes))
	if len(missing) != len(known)-wnids {
		return nil // not a part of ILSVRC2012
	}
	return refuseClasses(s, classes, nil, "has %d of ILSVRC2012's 1,000 classes; without %s, labels after these would be others than "+
		"everywhere else: complete the copy", wnids, transport.SomeNames(missing)).Or(remedy.ForceClasses)
}

// checkImages refuses folders without an image among the classes, as ImageFolder does. Content decides where no name does.
func (c *classRule) checkImages(s *dataset.Split, classes []string) error {
	files, _ := s.Layout.(*Files)
	var tree *transport.TreeFiles
	if files != nil {
		tree, _ = files.Transport.(*transport.TreeFiles)
	}
	empty := slices.DeleteFunc(slices.Clone(classes), func(name string) bool {
		n := c.counts[name]
		return n.images || tree != nil && slices.ContainsFunc(n.others, tree.IsImage)
	})
	if len(empty) == 0 {
		return nil
	}
	return transport.Refuse(s.Path, "%s no image (%s): move or complete it. torchvision's ImageFolder refuses it too, unless told "+
		"allow_empty=True", bytesize.Counted(len(empty), "folder among the classes holds", "folders among the classes hold"),
		transport.SomeNames(empty)).Or(remedy.NameClasses, remedy.ForceClasses)
}
