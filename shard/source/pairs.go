package source

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path"
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

// imagePairs is a folder of images beside one with a file of targets for each image: masks as PNGs, XML as PASCAL VOC has it, or YOLO's
// text. Both may be divided into splits:
//
//	images/training/….jpg   annotations/training/….png   as ADE20K has them
//	images/train/….jpg      labels/train/….txt           also masks/, Annotations/ and so on
//	train/images/….jpg      train/masks/….png
//	a.jpg   a.xml                                         in one folder
var imagePairs = dataset.Kind{
	Name: "images beside masks, XML or YOLO's text",
	Forms: []string{"images/ beside masks/, annotations/ or labels/ with a .png, .xml or .txt for each image, with or without splits " +
		"(images/train/ or train/images/), such as ADE20K", "a folder of images with an .xml beside each"},
	Labels:       "-1; --classes FILE names those of objects and masks, in their order. Without it, XML's names are sorted",
	Takes:        []string{"--classes", "--no-labels"},
	TestLabelled: true,
}

// findFolder returns the folder that is called by one of the names, in any case of letters; "" if there is none.
func (f *folder) findFolder(names []string) string {
	for _, name := range names {
		if i := slices.IndexFunc(f.folders, func(folder string) bool { return strings.EqualFold(folder, name) }); i >= 0 {
			return f.folders[i]
		}
	}
	return ""
}

func openPairs(c *candidate) ([]*dataset.Split, error) {
	if c.opts.ForceClasses {
		return nil, nil
	}
	images := c.findFolder(labelrule.ImageFolders)
	var beside []string // folders with targets
	for _, name := range c.folders {
		if images != "" && slices.Contains(labelrule.TargetFolders, strings.ToLower(name)) {
			beside = append(beside, name)
		}
	}
	if len(c.folders) == 0 && slices.ContainsFunc(c.files, func(name string) bool { return c.hasImageBeside(name, ".xml") }) {
		beside = append(beside, "") // files in the same folder
	}
	if len(beside) == 0 {
		return nil, nil
	}
	parts, others, err := folderSplits(c.tree, filepath.Join(c.path, images))
	if err != nil || len(others) > 0 && c.opts.NoLabels { // the images of the others are wanted too
		return nil, err
	}
	bare := make(map[*dataset.Split]bool) // splits without targets
	splits, err := eachSplit(c, parts, func(c *candidate, folder string) (*dataset.Split, error) {
		s, err := c.newPairs(images, folder, beside)
		if errors.Is(err, errNoPairs) {
			root := filepath.Join(c.path, images, folder)
			s, err = c.newTargets("images", c.tree, root, new(labelrule.Listed), new(targets.Values)), nil
			bare[s] = true
		}
		return s, err
	})
	if err == nil && len(bare) == len(splits) {
		return nil, c.noPairs(images, beside)
	}
	if err == nil {
		splits, err = c.withoutBare(splits, bare)
	}
	if err == nil {
		splits[0].NoteLeftOut(others, "folder of images beside those of the splits is", "folders of images beside those of the splits are")
	}
	return splits, err
}

// withoutBare leaves out test images without targets, and refuses other splits without.
func (c *candidate) withoutBare(splits []*dataset.Split, bare map[*dataset.Split]bool) ([]*dataset.Split, error) {
	if c.opts.NoLabels || c.opts.Targets.Take == dataset.TakeNone {
		return splits, nil
	}
	var kept []*dataset.Split
	left := false
	for _, s := range splits {
		switch {
		case !bare[s], s.Name == "test" && c.opts.Test:
			kept = append(kept, s)
		case s.Name == "test":
			left = true
		default:
			return nil, transport.Refuse(s.Path, "its images have no masks or boxes, and those of another split have: complete them").Or(
				remedy.OneSplit)
		}
	}
	if left {
		kept[0].Note("the test images have no masks or boxes and are left out; %v", remedy.Unlabelled)
	}
	return kept, nil
}

// noPairs refuses a folder of images beside one of targets with other names; nil if this is neither.
func (c *candidate) noPairs(images string, beside []string) error {
	keys, err := c.listImages(filepath.Join(c.path, images))
	if err != nil || len(keys) == 0 || beside[0] == "" || c.opts.NoLabels {
		return err
	}
	way := remedy.Folder.With("DIR", filepath.Join(c.path, images))
	if slices.ContainsFunc(keys, func(key string) bool { return path.Dir(key) == "." || yearlessSplit(path.Dir(key)) != "" }) {
		way.Flags = remedy.NoLabels.Flags
	}
	stem := strings.TrimSuffix(path.Base(keys[0]), path.Ext(keys[0]))
	return transport.Refuse(c.path, "%s/ has no file for %s in %s/: a mask is called %s.png, boxes are in %s.xml or %s.txt", beside[0],
		keys[0], images, stem, stem, stem).Or(way, remedy.ForceClasses)
}

// hasImageBeside says that a file with an extension has an image of the same name.
func (f *folder) hasImageBeside(name, extension string) bool {
	stem, is := strings.CutSuffix(name, extension)
	return is && slices.ContainsFunc(f.files, func(other string) bool {
		return other != name && strings.TrimSuffix(other, path.Ext(other)) == stem && transport.NamedImage(other)
	})
}

var errNoPairs = errors.New("no files of targets")

// newPairs is one split: the images of a folder, and their targets in the folders beside.
func (c *candidate) newPairs(images, part string, beside []string) (*dataset.Split, error) {
	root := filepath.Join(c.path, images, part)
	keys, err := c.listImages(root)
	if err != nil {
		return nil, err
	}
	v, format := new(targets.Values), "images"
	for _, folder := range beside {
		files, err := c.besideFiles(folder, part)
		if err != nil {
			return nil, err
		}
		names := []string{c.path, filepath.Join(c.path, folder), files.Root}
		if c.part {
			names = append(names, filepath.Dir(c.path))
		}
		classes, err := c.classNames(names...)
		if err != nil {
			return nil, err
		}
		ends := []string{".xml", ".png", "_mask.png", ".txt"}
		if folder == "" {
			ends = ends[:1]
		}
		switch end := endOf(files, keys, ends...); {
		case end == ".xml" && v.Objects == nil:
			if err := v.AddXML(files, classes, keys, c.opts.Targets); err != nil {
				return nil, err
			}
			format = "images with XML"
		case end == ".txt" && v.Objects == nil:
			v.AddYOLO(files, classes, c.opts.Targets)
			format = "images with YOLO's text"
		case strings.HasSuffix(end, ".png") && v.Masks == nil:
			v.AddMasks(files, c.maskClasses(classes), c.opts.Targets, end)
			format = "images with masks"
		}
	}
	if v.Objects == nil && v.Masks == nil {
		return nil, errNoPairs
	}
	return c.newTargets(format, c.tree, root, new(labelrule.Listed), v), nil
}

// besideFiles are the files of a folder beside the images', or of the split's folder in it.
func (c *candidate) besideFiles(folder, part string) (*transport.TreeFiles, error) {
	files := c.below(folder)
	if part == "" {
		return files, nil
	}
	parts, _, err := folderSplits(c.tree, files.Root)
	if name := parts[yearlessSplit(part)]; name != "" {
		files = c.below(path.Join(folder, name))
	}
	return files, err
}

const sniffedImagesMax = 64 // bounds the images whose targets are looked for

// endOf tells by the first images how their files of targets are called: the image's name with this end. It is "" if they have none.
func endOf(files *transport.TreeFiles, keys []string, ends ...string) string {
	for _, end := range ends {
		for _, key := range keys[:min(len(keys), sniffedImagesMax)] {
			name := strings.TrimSuffix(key, path.Ext(key)) + end
			info, err := files.FS.Stat(filepath.Join(files.Root, filepath.FromSlash(name)))
			if err == nil && info.Mode().IsRegular() {
				return end
			}
		}
	}
	return ""
}

const ade20kNames = "objectInfo150.txt" // ADE20K's list of classes: a header, and lines of a number, three counts and names

// maskClasses are the names of the labels of masks: ADE20K's, or these.
func (c *candidate) maskClasses(classes []string) []string {
	text, err := transport.ReadLines(c.tree, filepath.Join(c.path, ade20kNames), "classes")
	if err != nil || len(classes) > 0 || c.opts.Targets.Map != nil {
		return classes
	}
	if !c.opts.Targets.ReduceZero {
		classes = append(classes, "other")
	}
	for _, line := range strings.Split(text, "\n")[1:] {
		cells := strings.Split(strings.TrimRight(line, "\r"), "\t")
		classes = append(classes, strings.TrimSpace(cells[len(cells)-1]))
	}
	return classes
}

// yolo is a dataset with YOLO's data.yaml, which names the classes and the folders of images. Labels lie in folders that are called labels
// instead of images:
//
//	data.yaml   train/images/….jpg   train/labels/….txt   valid/…     also images/train/ and labels/train/
var yolo = dataset.Kind{
	Name:         "YOLO's dataset",
	Forms:        []string{"a folder with data.yaml, and labels/ with .txt files beside images/"},
	Labels:       "-1; an object's is its index among the names in data.yaml",
	Takes:        []string{"--classes", "--no-labels"},
	TestLabelled: true,
}

func openYOLO(c *candidate) ([]*dataset.Split, error) {
	for _, name := range c.files {
		if extension := path.Ext(name); extension != ".yaml" && extension != ".yml" {
			continue
		}
		d, err := targets.ReadYOLOData(c.tree, filepath.Join(c.path, name))
		if err != nil {
			return nil, err
		}
		if d != nil {
			if err := c.checkYOLO(name, d); err != nil {
				return nil, err
			}
			return eachSplit(c, d.Splits, func(c *candidate, images string) (*dataset.Split, error) { return c.newYOLO(d, images) })
		}
	}
	return nil, nil
}

// yoloLabels is the folder of the labels of a folder of images.
func yoloLabels(images string) string {
	if at := strings.LastIndex(images+"/", "/images/"); at >= 0 {
		images = strings.TrimSuffix(images[:at]+"/labels/"+strings.TrimPrefix(images[at:], "/images"), "/")
	}
	return filepath.Clean(images)
}

// checkYOLO refuses a dataset without any label, as when they lie in another folder. Images without objects need none.
func (c *candidate) checkYOLO(file string, d *targets.YOLOData) error {
	if c.opts.NoLabels || c.opts.Targets.Take == dataset.TakeNone {
		return nil
	}
	folders := make(map[string]bool)
	for _, images := range d.Splits {
		keys, err := c.listImages(images)
		if err != nil {
			return err
		}
		labels := &transport.TreeFiles{FS: c.tree, Root: yoloLabels(images)}
		folders[labels.Root] = true
		for some := range slices.Chunk(keys, sniffedImagesMax) {
			if endOf(labels, some, ".txt") != "" {
				return nil
			}
		}
	}
	return transport.RefuseEntry(c.path, file, "no image has labels in a .txt of its name in %s: put them there, or correct the paths",
		strings.Join(slices.Sorted(maps.Keys(folders)), " or ")).Or(remedy.NoLabels)
}

func (c *candidate) newYOLO(d *targets.YOLOData, images string) (*dataset.Split, error) {
	classes, err := c.classNames()
	if err != nil {
		return nil, err
	}
	if len(classes) == 0 {
		classes = d.Names
	}
	v := new(targets.Values)
	v.AddYOLO(&transport.TreeFiles{FS: c.tree, Root: yoloLabels(images)}, classes, c.opts.Targets)
	return c.newTargets("images with YOLO's text", c.tree, images, new(labelrule.Listed), v), nil
}

var splitOrder = []string{"train", "trainval", "val", "test", ""} // the order of splits: classes of the first are those of the others

// chosen are the splits of a source that the options choose: all, or one of several.
func chosen[T any](c *candidate, splits map[string]T) (map[string]T, error) {
	one, here := splits[c.opts.Split]
	switch {
	case c.opts.Split == "" || len(splits) < 2:
		return splits, nil
	case !here:
		return nil, transport.Refuse(c.path, "has no split %q, but %s", c.opts.Split, strings.Join(slices.Sorted(maps.Keys(splits)), ", "))
	}
	return map[string]T{c.opts.Split: one}, nil
}

// eachSplit opens splits: all, or the one that the options choose. Test images without labels are left out, unless the options take them.
func eachSplit[T any](c *candidate, parts map[string]T, open func(c *candidate, part T) (*dataset.Split, error)) (
	splits []*dataset.Split, err error) {
	if parts, err = chosen(c, parts); err != nil {
		return nil, err
	}
	for _, split := range slices.SortedFunc(maps.Keys(parts), func(a, b string) int {
		return cmp.Compare(slices.Index(splitOrder, a), slices.Index(splitOrder, b))
	}) {
		q := *c
		if len(parts) > 1 {
			q = *c.one(split)
		}
		q.split = cmp.Or(split, c.split)
		s, err := open(&q, parts[split])
		if err != nil {
			return nil, err
		}
		if split == "test" && len(splits) > 0 && !c.opts.Test && s.Unlabelled() {
			splits[0].Note("the test images have no labels and are left out; %v", remedy.Unlabelled)
			continue
		}
		splits = append(splits, s)
	}
	return splits, nil
}

// newTargets is the split of the images of a list below a folder, with what is taken of its targets.
func (c *candidate) newTargets(format string, t transport.Tree, images string, l *labelrule.Listed, v *targets.Values) *dataset.Split {
	objects, masks := v.Objects != nil, v.Masks != nil
	o := c.opts.Targets
	if c.opts.NoLabels {
		o.Take = dataset.TakeNone
	}
	if !o.Takes(shard.Objects, objects, masks) {
		v.Objects, v.IDs = nil, nil
	}
	if !o.Takes(shard.Mask, objects, masks) {
		v.Masks = nil
	}
	if v.Objects == nil && v.Masks == nil {
		v = nil
	}
	s := c.newSplit(format, &labelrule.Files{Transport: &transport.TreeFiles{FS: t, Root: images}, Rule: l.Rule}, v)
	s.Path = images
	return s
}

// yearlessSplit is the split that a name says, with or without a year, as train2017.
func yearlessSplit(name string) string {
	return transport.FolderSplit(strings.TrimRight(name, "0123456789"))
}

// folderSplits finds the folders of splits in a folder, with a year or without, and the others. Without any, "" is the folder itself.
func folderSplits(t transport.Tree, path string) (parts map[string]string, others []string, err error) {
	f, err := listFolder(t, path)
	if err != nil {
		return nil, nil, err
	}
	parts = make(map[string]string)
	for _, name := range f.folders {
		if split := yearlessSplit(name); split != "" {
			parts[split] = name
		} else {
			others = append(others, name)
		}
	}
	if len(parts) == 0 {
		return map[string]string{"": ""}, nil, nil
	}
	return parts, others, nil
}

func (c *candidate) listImages(root string) (keys []string, err error) {
	t := transport.TreeFiles{FS: c.tree, Root: root}
	err = t.Files(&transport.Walk{Ctx: context.Background()}, func(f *transport.Item) error {
		if !f.Folder && transport.NamedImage(f.Key) && filepath.Ext(f.Key) != "" {
			keys = append(keys, f.Key)
		}
		return nil
	})
	return keys, err
}

// classNames are the names of objects' or masks' labels: those of --classes, or of a file in one of the folders.
func (c *candidate) classNames(folders ...string) ([]string, error) {
	names, err := labelrule.FindClassNames(c.tree, folders, c.opts)
	return names.Names, err
}

// below is the transport of the files below a folder of the candidate.
func (c *candidate) below(folder string) *transport.TreeFiles {
	return &transport.TreeFiles{FS: c.tree, Root: filepath.Join(c.path, filepath.FromSlash(folder))}
}
