package labelrule

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// ClassesFromMax bounds [Options.ClassesFrom].
const ClassesFromMax = 16

const (
	// foldersNotedMax is how many folders within a class are remembered: it takes two to see that they may be the classes.
	foldersNotedMax = 8
	// wnidsMissingMax bounds the missing classes of an incomplete copy of ILSVRC2012. If more are missing, it is a selection, such as
	// ImageNet-100.
	wnidsMissingMax = 99
)

// classCount counts the files of one class.
type classCount struct {
	label   int32 // the Item.Label of its files: the place of the class among those in the order of their first files
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
		c.wanted, err = FindClassNames(nil, o)
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
	c.add(class, rest)
	f.Label = c.counts[class].label
	return true, nil
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
func (c *classRule) add(class, rest string) {
	n := c.class(class)
	n.files++
	if path.Ext(rest) == transport.ParquetExtension {
		n.parquet++
	}
	if !transport.NamedImage(rest) {
		return
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
	case c.valImages >= 20 && 2*c.valDiffer > c.valImages && !s.Options.ForceClasses:
		return dataset.Labels{}, transport.Refuse(s.Path, "%d of its %d validation images of ILSVRC2012 lie in the folder of another "+
			"class than they have: sort them anew, or build the folder or tar of all of them, as the program knows their classes; "+
			"--force-classes takes the folders as they are", c.valDiffer, c.valImages)
	case c.valDiffer > 0:
		s.Note("%s of ILSVRC2012 in the folder of another class than is known of them", bytesize.Counted(c.valDiffer,
			"validation image lies", "validation images lie"))
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

// labelsOf are the labels by class folders.
func (c *classRule) labelsOf(classes []string) dataset.Labels {
	l, index := dataset.Labels{Classes: classes, Folders: true, Of: make([]int32, len(c.counts))}, dataset.ClassIndex(classes)
	for name, n := range c.counts {
		l.Of[n.label] = index[name]
	}
	return l
}

// notClasses are names of folders that hold classes or splits, and not images of one class.
var notClasses = []string{"data", "images", "image", "imgs", "img", "dataset", "imagenet", "ilsvrc", "cls-loc", "annotations", "imagesets"}

// NamedNoClass says that a folder has the name of a split or of a folder of images.
func NamedNoClass(name string) bool {
	return transport.FolderSplit(name) != "" || slices.Contains(notClasses, strings.ToLower(name))
}

// check refuses classes that look like a mistake.
func (c *classRule) check(s *dataset.Split, classes []string) error {
	for _, err := range []error{c.checkDepth(s, classes), checkClassNames(s, classes), checkWnids(s, classes), c.checkEmpty(s, classes)} {
		if err != nil {
			return err
		}
	}
	if len(classes) == 1 {
		return refuseClasses(s, classes, "holds one class only, %s: give the folder whose folders are the classes, "+
			"or pack its images without labels by --no-labels", classes[0])
	}
	return nil
}

// refuseClasses is the error for classes that look like a mistake; it names the flag that accepts them.
func refuseClasses(s *dataset.Split, classes []string, format string, args ...any) error {
	return transport.Refuse(s.Path, "%s. torchvision's ImageFolder would make %d of it (%s), and --force-classes does so",
		fmt.Sprintf(format, args...), len(classes), transport.SomeNames(classes))
}

// checkDepth finds class folders that hold the real class folders: no image lies in them, but two or more folders below have images.
func (c *classRule) checkDepth(s *dataset.Split, classes []string) error {
	if parents := slices.Sorted(maps.Keys(c.parents)); looksLikeSplits(parents) {
		return transport.Refuse(s.Path, "the folders above the classes look like splits (%s), and this would join them: "+
			"build each by itself, or join them by --force-classes", transport.SomeNames(parents))
	}
	for _, name := range classes {
		n := c.counts[name]
		switch {
		case n.parquet > 0 && n.parquet == n.files:
			return refuseClasses(s, classes, "%s holds parquet files and no images, as a configuration at Hugging Face does: "+
				"build its unpacked folder", name)
		case n.direct > 0, len(n.folders) == 0, len(n.folders) == 1 && !NamedNoClass(name):
			continue
		}
		slices.Sort(n.folders)
		how := fmt.Sprintf("--classes-from %d takes the folders there", c.level+1+strings.Count(n.folders[0], "/"))
		if c.level == 1 && s.InFolders() {
			how = "build " + filepath.Join(s.Path, name, filepath.Dir(n.folders[0])) + ", or " + how
		}
		how = "probably are the classes: " + how
		if looksLikeSplits(n.folders) || looksLikeSplits(classes) {
			how = "look like splits: build each by itself, or call them train, val and test"
		}
		return refuseClasses(s, classes, "%s holds no image itself, but folders that do (%s), which %s", name,
			transport.SomeNames(n.folders), how)
	}
	return nil
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
	if len(bad) == 0 {
		return nil
	}
	if len(bad) == 1 && len(classes) > 2 && strings.EqualFold(bad[0], "train") {
		s.Note("one of the %d classes is called %q", len(classes), bad[0])
		return nil
	}
	return refuseClasses(s, classes, "has folders that are not called as classes are (%s): build the folder that holds the classes, "+
		"or move these elsewhere", transport.SomeNames(bad))
}

// checkWnids finds classes that are not ImageNet's, and missing ones.
func checkWnids(s *dataset.Split, classes []string) error {
	others := slices.DeleteFunc(slices.Clone(classes), dataset.IsWnid)
	wnids := len(classes) - len(others)
	if len(others) > 0 && wnids >= 10*len(others) {
		return refuseClasses(s, classes, "has %d wnids and beside them %s, which is none: move it elsewhere", wnids,
			transport.SomeNames(others))
	}
	known := wordnet.Wnids()
	if len(others) > 0 || wnids >= len(known) || wnids < len(known)-wnidsMissingMax {
		return nil
	}
	missing := dataset.Without(known, dataset.ClassIndex(classes))
	if len(missing) != len(known)-wnids {
		return nil // not a part of ILSVRC2012
	}
	return refuseClasses(s, classes, "has %d of ILSVRC2012's 1,000 classes; without %s, "+
		"labels after these would be others than everywhere else: complete the copy", wnids, transport.SomeNames(missing))
}

// checkEmpty refuses classes without files, as ImageFolder does.
func (c *classRule) checkEmpty(s *dataset.Split, classes []string) error {
	empty := slices.DeleteFunc(slices.Clone(classes), func(name string) bool { return c.counts[name].files > 0 })
	if len(empty) == 0 {
		return nil
	}
	return transport.Refuse(s.Path, "%d of the %d classes have no files (%s): complete or remove them. torchvision's ImageFolder "+
		"refuses them too, unless told allow_empty=True, which --force-classes is "+
		"here", len(empty), len(classes), transport.SomeNames(empty))
}
