package source

import (
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// vocTree is PASCAL VOC, or a dataset laid out as it. Lists name the images of each split:
//
//	VOCdevkit/VOC2012/JPEGImages/2007_000027.jpg …   Annotations/2007_000027.xml …        ImageSets/Main/train.txt …
//	                                                 SegmentationClass/2007_000032.png …  ImageSets/Segmentation/train.txt …
var vocTree = dataset.Kind{
	Name:         "PASCAL VOC",
	Forms:        []string{"VOCdevkit/ or VOC2012/ in it; --split trainval takes that list"},
	Labels:       "-1; an object's is the index of its name in sorted order, or in --classes FILE; --targets masks takes the masks",
	Takes:        []string{"--classes", "--no-labels"},
	TestLabelled: true,
}

const (
	vocImages = "JPEGImages"
	vocMasks  = "SegmentationClass"
	vocXML    = "Annotations"
	vocLists  = "ImageSets"
)

func openVOC(c *candidate) ([]*dataset.Split, error) {
	if !slices.Contains(c.folders, vocImages) {
		return c.openVOCBelow()
	}
	objects, masks := slices.Contains(c.folders, vocXML), slices.Contains(c.folders, vocMasks)
	if !slices.Contains(c.folders, vocLists) || !objects && !masks {
		return nil, nil
	}
	kind := "Main"
	if !objects || c.opts.Targets.Asks(dataset.TakeMasks) {
		kind = "Segmentation"
	}
	lists, err := listFolder(c.tree, filepath.Join(c.path, vocLists, kind))
	if err != nil {
		return nil, err
	}
	parts := make(map[string]string)
	for _, name := range lists.files {
		stem := strings.TrimSuffix(name, ".txt")
		if slices.Contains(splitOrder[:4], stem) && stem != "trainval" || c.opts.Split == stem {
			parts[stem] = path.Join(vocLists, kind, name)
		}
	}
	if len(parts) == 0 {
		return nil, transport.Refuse(filepath.Join(c.path, vocLists, kind), "has no train.txt or val.txt").Or(remedy.OneSplit)
	}
	return eachSplit(c, parts, func(c *candidate, list string) (*dataset.Split, error) { return c.newVOC(list, objects, masks) })
}

// openVOCBelow opens the folder of a year in VOCdevkit, or in the folder around it.
func (c *candidate) openVOCBelow() ([]*dataset.Split, error) {
	var years []string
	for _, name := range c.folders {
		if strings.HasPrefix(name, "VOC") {
			years = append(years, name)
		}
	}
	switch {
	case len(years) == 0:
		return nil, nil
	case len(years) > 1:
		return nil, transport.Refuse(c.path, "holds several datasets (%s): build one of them, as %s", strings.Join(years, ", "),
			filepath.Join(c.path, years[len(years)-1]))
	}
	q, err := c.child(years[0], "")
	if err != nil || q.form != aFolder {
		return nil, err
	}
	return openVOC(q)
}

// listedStems reads the first word of each line of a list of images, and calls fn with the key of the image and all words.
func (c *candidate) listedStems(list, images string, fn func(key string, words []string) error) error {
	text, err := transport.ReadLines(c.tree, filepath.Join(c.path, list), "images")
	if err != nil {
		return err
	}
	keys, err := c.listImages(filepath.Join(c.path, images))
	if err != nil {
		return err
	}
	byStem := make(map[string]string, len(keys))
	for _, key := range keys {
		byStem[strings.TrimSuffix(key, path.Ext(key))] = key
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		key := byStem[words[0]]
		if key == "" {
			key = words[0] + ".jpg" // the walk will report it as missing
		}
		if err := fn(key, words); err != nil {
			return err
		}
	}
	return nil
}

// newVOC is the split of a list.
func (c *candidate) newVOC(list string, objects, masks bool) (*dataset.Split, error) {
	l, keys := &labelrule.Listed{Path: filepath.Join(c.path, list), Labels: make(map[string]int32)}, []string(nil)
	if err := c.listedStems(list, vocImages, func(key string, _ []string) error {
		keys = append(keys, key)
		l.Labels[key] = labelrule.NoLabel
		return nil
	}); err != nil {
		return nil, err
	}
	classes, err := c.classNames(c.path)
	if err != nil {
		return nil, err
	}
	v := new(targets.Values)
	if c.opts.Targets.Takes(shard.Objects, objects, masks) {
		if err := v.AddXML(c.below(vocXML), classes, keys, c.opts.Targets); err != nil {
			return nil, err
		}
	}
	if masks {
		v.AddMasks(c.below(vocMasks), classes, c.opts.Targets, ".png")
	}
	return c.newTargets("PASCAL VOC", c.tree, filepath.Join(c.path, vocImages), l, v), nil
}

// pets is Oxford-IIIT Pet: trimaps (1 is the pet, 2 the background, 3 between them), and boxes of heads for a part of the images.
//
//	images/Abyssinian_1.jpg …   annotations/trimaps/Abyssinian_1.png …   annotations/trainval.txt, annotations/test.txt
var pets = dataset.Kind{
	Name:         "Oxford-IIIT Pet",
	Forms:        []string{"the folder with images/ and annotations/trimaps/"},
	Labels:       "the breed, as in torchvision; --targets objects takes the boxes of heads instead of the trimaps",
	Takes:        []string{"--no-labels"},
	TestLabelled: true,
}

func openPets(c *candidate) ([]*dataset.Split, error) {
	if !slices.Contains(c.folders, "images") || !slices.Contains(c.folders, "annotations") {
		return nil, nil
	}
	lists, err := listFolder(c.tree, filepath.Join(c.path, "annotations"))
	if err != nil || !slices.Contains(lists.folders, "trimaps") || !slices.Contains(lists.files, "trainval.txt") {
		return nil, err
	}
	parts := map[string]string{"train": "annotations/trainval.txt"}
	if slices.Contains(lists.files, "test.txt") {
		parts["test"] = "annotations/test.txt"
	}
	classes, labels := make([]string, 37), make(map[string]map[string]int32) // the labels by list
	for _, list := range parts {
		labels[list] = make(map[string]int32)
		if err := c.listedStems(list, "images", func(key string, words []string) error {
			n := 0
			if len(words) > 1 {
				n, _ = strconv.Atoi(words[1])
			}
			if n < 1 || n > len(classes) {
				return transport.Refuse(filepath.Join(c.path, list), "%.60q: NAME CLASS was expected, with classes from 1 to %d",
					strings.Join(words, " "), len(classes))
			}
			classes[n-1], labels[list][key] = strings.TrimRight(words[0], "_0123456789"), int32(n-1)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	for i, name := range classes {
		if name == "" {
			classes[i] = strconv.Itoa(i + 1)
		}
	}
	return eachSplit(c, parts, func(c *candidate, list string) (*dataset.Split, error) {
		v := new(targets.Values)
		if c.opts.Targets.Asks(dataset.TakeObjects) {
			if err := v.AddXML(c.below("annotations/xmls"), []string{"cat", "dog"}, nil, c.opts.Targets); err != nil {
				return nil, err
			}
		}
		v.AddMasks(c.below("annotations/trimaps"), nil, c.opts.Targets, ".png")
		l := &labelrule.Listed{Path: filepath.Join(c.path, list), Labels: labels[list], Classes: classes}
		return c.newTargets("Oxford-IIIT Pet", c.tree, filepath.Join(c.path, "images"), l, v), nil
	})
}

// cityscapes is Cityscapes' fine annotations. The labels are the trainIds 0 to 18 of the 19 classes that are evaluated, and 255:
//
//	leftImg8bit/train/aachen/aachen_000000_000019_leftImg8bit.png   gtFine/train/aachen/aachen_000000_000019_gtFine_labelIds.png
var cityscapes = dataset.Kind{
	Name:  "Cityscapes",
	Forms: []string{"the folder with leftImg8bit/ and gtFine/"},
	Labels: "-1; masks have the trainIds and 255, or those of --map-labels FILE; --test adds the test images, whose masks are not " +
		"published",
	Takes: []string{"--no-labels"},
}

var (
	cityscapesNames = []string{"road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign", "vegetation",
		"terrain", "sky", "person", "rider", "car", "truck", "bus", "train", "motorcycle", "bicycle"}
	cityscapesTrainIDs = dataset.MapOf(255, 7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
)

func openCityscapes(c *candidate) ([]*dataset.Split, error) {
	const images, masks = "leftImg8bit", "gtFine"
	if !slices.Contains(c.folders, images) || !slices.Contains(c.folders, masks) {
		return nil, nil
	}
	parts, _, err := folderSplits(c.tree, filepath.Join(c.path, images))
	if err != nil {
		return nil, err
	}
	classes := []string(nil)
	if c.opts.Targets.Map == nil && !c.opts.Targets.ReduceZero {
		c.opts.Targets.Map, classes = cityscapesTrainIDs, cityscapesNames
	}
	if len(parts) > 1 && c.opts.Split == "" && !c.opts.Test {
		delete(parts, "test") // its masks are not published
	}
	return eachSplit(c, parts, func(c *candidate, folder string) (*dataset.Split, error) {
		v := new(targets.Values)
		v.AddMasks(c.below(path.Join(masks, folder)), classes, c.opts.Targets, "_gtFine_labelIds.png")
		v.MaskOf.Drop = "_" + images
		return c.newTargets("Cityscapes", c.tree, filepath.Join(c.path, images, folder), new(labelrule.Listed), v), nil
	})
}
