package source

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// evaluationSets are sets on which models of ILSVRC2012's 1,000 classes are evaluated, and which have fewer classes or other names for them.
// Labels are the places among the 1,000, so that they are those of such a model.
var evaluationSets = []struct {
	name    string // as --classes has it
	words   string
	images  int
	members string // a bit for each of the 1,000 wnids, in hexadecimal
}{
	{"imagenet-a", "ImageNet-A", 7_500, "40a8c248a0840402c09000460b5a02301480c1000000000000800000000c0040000020888824fcaed8c40108000a100404209708135260200063400148110100140005c" +
		"8202106b2082000c042000c000f000410209400200180000001244128611904211ca090808aa00448408001051208021070828ab40018301d00"},
	{"imagenet-r", "ImageNet-R", 30_000, "562bc0a480800080809010441b0a02241400db080f18040888880108800da44c982a30023b29f08c88c436090ae61100502282600052288201c2e01188000000080000" +
		"000448000488081600222220200000060000000020002010000000000841190800209010010280100004080882000800007983ba26a800b01000"},
}

// evaluationClasses are the wnids of an evaluation set, by its name; nil: there is none called so.
func evaluationClasses(name string) []string {
	for _, set := range evaluationSets {
		if set.name == name {
			bits, err := hex.DecodeString(set.members)
			if err != nil {
				panic(err)
			}
			var classes []string
			for i, wnid := range ilsvrcVal().classes {
				if bits[i/8]>>(i%8)&1 != 0 {
					classes = append(classes, wnid)
				}
			}
			return classes
		}
	}
	return nil
}

// evaluationLabels gives the classes of ILSVRC2012, and the labels of the classes here by their names, where these are those of an evaluation set in
// sorted order; nil for others.
func evaluationLabels(s *Split, classes []string) (of []string, index map[string]int32) {
	if s.opts.ForceClasses {
		return nil, nil
	}
	wnids := ilsvrcVal().classes
	for _, set := range evaluationSets {
		if slices.Equal(classes, evaluationClasses(set.name)) {
			s.note("the %d classes are those of %s, and have their labels among ILSVRC2012's 1,000; --classes %s gives them 0 to %d",
				len(classes), set.words, set.name, len(classes)-1)
			s.published = &knownSet{set.words, set.images}
			return wnids, classIndex(wnids)
		}
	}
	if !isV2(s.Path) || len(classes) != len(wnids) {
		return nil, nil
	}
	index = make(map[string]int32, len(wnids))
	for i := range wnids {
		name := fmt.Sprint(i)
		if !slices.Contains(classes, name) {
			return nil, nil
		}
		index[name] = int32(i)
	}
	s.note("the folders 0 to 999 are ImageNet-V2's, whose names are the labels: class 0 is %s", wnids[0])
	return wnids, index
}

// isV2 says that a path is called as ImageNet-V2 is, whose folders come as imagenetv2-matched-frequency-format-val and so on.
func isV2(path string) bool {
	base := strings.ToLower(filepath.Base(path))
	return strings.HasPrefix(base, "imagenetv2") || strings.HasPrefix(base, "imagenet-v2")
}

// isEvaluationSet says that a path is called as a set for evaluation is, which is then no training set.
func isEvaluationSet(path string) bool {
	base := strings.ReplaceAll(strings.ToLower(filepath.Base(stem(path))), "_", "-")
	return isV2(path) || slices.Contains([]string{"imagenet-a", "imagenet-r", "imagenet-c", "imagenet-sketch", "sketch"}, base)
}

// knownByPath is what is published of a set that its path names.
func (s *Split) knownByPath() *knownSet {
	switch base := strings.ToLower(filepath.Base(s.Path)); {
	case s.published != nil:
		return s.published
	case s.kind == &corruptions:
		return &knownSet{"each set of ImageNet-C", valImages}
	case isV2(s.Path):
		return &knownSet{"each variant of ImageNet-V2", 10_000}
	case strings.Contains(base, "sketch"):
		return &knownSet{"ImageNet-Sketch", 50_889}
	}
	return nil
}

// v2Variants is ImageNet-V2 (Recht et al., 2019) in its three variants, each of which is read as class folders are.
var v2Variants = Kind{
	Name:         "ImageNet-V2",
	Forms:        []string{"a folder with imagenetv2-matched-frequency-format-val/ and the like; one of these, or its tar.gz"},
	Labels:       "the folders' numbers, named by ILSVRC2012's wnids; each variant is a set",
	open:         openV2,
	testLabelled: true,
}

func openV2(c *candidate) ([]*Split, error) {
	if c.folder == nil || c.given || len(c.folders) == 0 || slices.ContainsFunc(c.folders, func(f string) bool { return !isV2(f) }) {
		return nil, nil
	}
	var splits []*Split
	for _, name := range c.folders {
		q, err := c.in(name, "")
		if err != nil {
			return nil, err
		}
		of, err := openClassFolders(q)
		if err != nil || of == nil {
			return nil, err
		}
		short := strings.TrimSuffix(strings.ToLower(name), "-format-val")
		of[0].Name = strings.TrimPrefix(strings.TrimPrefix(short, "imagenet-v2-"), "imagenetv2-")
		splits = append(splits, of...)
	}
	return c.chosen(splits)
}

// corruptions is ImageNet-C (Hendrycks and Dietterich, 2019), or a part of it: ILSVRC2012's validation images, spoilt in one of 19 ways with
// one of five strengths, which makes a set each:
//
//	imagenet-c/gaussian_noise/1/n01440764/ILSVRC2012_val_00000293.JPEG    the split gaussian_noise-1
//	imagenet-c/noise/gaussian_noise/1/…                                   the same, as its tars unpack
//
// It is read as any class folders are.
var corruptions = Kind{
	Name:         "ImageNet-C",
	Forms:        []string{"a folder with gaussian_noise/1/n01440764/… and so on, or with noise/, blur/, weather/, digital/ and extra/", "one of these"},
	Labels:       "as for class folders; each corruption and severity is a set, and --split gaussian_noise-1 takes one",
	open:         openCorruptions,
	testLabelled: true,
}

var (
	corruptionGroups = []string{"blur", "digital", "extra", "noise", "weather"}
	corruptionNames  = []string{"brightness", "contrast", "defocus_blur", "elastic_transform", "fog", "frost", "gaussian_blur", "gaussian_noise", "glass_blur",
		"impulse_noise", "jpeg_compression", "motion_blur", "pixelate", "saturate", "shot_noise", "snow", "spatter", "speckle_noise", "zoom_blur"}
	corruptionSeverities = []string{"1", "2", "3", "4", "5"}
)

func openCorruptions(c *candidate) ([]*Split, error) {
	if c.folder == nil || c.given || c.opts.ClassesFrom > 1 || c.opts.ForceClasses || len(c.folders) == 0 {
		return nil, nil
	}
	output := strings.TrimSuffix(c.path, "/")
	if c.output != "" {
		output = c.output
	}
	var splits []*Split
	var err error
	switch only := func(names []string) bool {
		return !slices.ContainsFunc(c.folders, func(f string) bool { return !slices.Contains(names, f) })
	}; {
	case only(corruptionGroups):
		for _, group := range c.folders {
			q, err := c.in(group, "")
			if err != nil {
				return nil, err
			}
			for _, f := range q.folders {
				if !slices.Contains(corruptionNames, f) {
					return nil, nil
				}
			}
			of, err := q.corrupted(output)
			if err != nil {
				return nil, err
			}
			splits = append(splits, of...)
		}
	case only(corruptionNames):
		splits, err = c.corrupted(output)
	case only(corruptionSeverities) && slices.Contains(corruptionNames, filepath.Base(c.path)):
		splits, err = c.severities(filepath.Base(c.path), filepath.Dir(output))
	}
	if err != nil || len(splits) == 0 {
		return nil, err
	}
	return c.chosen(splits)
}

// corrupted opens the sets of the corruptions in a folder.
func (c *candidate) corrupted(output string) ([]*Split, error) {
	var splits []*Split
	for _, name := range c.folders {
		q, err := c.in(name, "")
		if err != nil {
			return nil, err
		}
		for _, f := range q.folders {
			if !slices.Contains(corruptionSeverities, f) {
				return nil, &FormatError{Path: q.path, Entry: f, Msg: "is none of the severities 1 to 5 that ImageNet-C has here: move it elsewhere"}
			}
		}
		of, err := q.severities(name, output)
		if err != nil {
			return nil, err
		}
		splits = append(splits, of...)
	}
	return splits, nil
}

// severities opens the sets of one corruption.
func (c *candidate) severities(name, output string) ([]*Split, error) {
	var splits []*Split
	for _, severity := range c.folders {
		q, err := c.in(severity, "")
		if err != nil {
			return nil, err
		}
		of, err := openClassFolders(q)
		if err != nil {
			return nil, err
		}
		if of == nil {
			return nil, &FormatError{Path: q.path, Msg: "has no class folders, as each severity of ImageNet-C has"}
		}
		of[0].Name = name + "-" + severity
		of[0].Output = output + "-" + of[0].Name + "-shards"
		splits = append(splits, of...)
	}
	return splits, nil
}
