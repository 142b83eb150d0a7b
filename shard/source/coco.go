package source

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// cocoObjects is a dataset with COCO's JSON, as COCO lays it out, or as CVAT, Label Studio and Roboflow export it:
//
//	annotations/instances_train2017.json   train2017/000000000009.jpg …   val2017/…
//	annotations/instances_default.json     images/…
//	train/_annotations.coco.json           train/….jpg
var cocoObjects = dataset.Kind{
	Name: "COCO's JSON",
	Forms: []string{"a folder with annotations/instances_train2017.json, train2017/ and so on", "images with _annotations.coco.json",
		"a JSON file with its images beside or below it"},
	Labels: "-1; an object's is the index of its category's id in sorted order",
	Takes:  []string{"--images", "--no-labels"},

	TestLabelled: true,
}

func openCOCO(c *candidate) ([]*dataset.Split, error) {
	if c.form == aFile {
		if !targets.IsCOCO(transport.FileSystem{}, c.path) {
			return nil, nil
		}
		c.split = cmp.Or(cocoSplit(filepath.Base(c.path)), c.split)
		s, err := c.newCOCO(transport.FileSystem{}, filepath.Dir(c.path), c.path)
		if no, refused := errors.AsType[*transport.FormatError](err); refused {
			stem := strings.TrimSuffix(c.path, filepath.Ext(c.path))
			return nil, no.Or(remedy.COCOLabels.Of(c.path, stem), remedy.COCOImages.Of(c.path, stem))
		}
		return []*dataset.Split{s}, err
	}
	files, err := c.cocoFiles()
	if err != nil || len(files) == 0 {
		return nil, err
	}
	return eachSplit(c, files, func(c *candidate, file string) (*dataset.Split, error) {
		return c.newCOCO(c.tree, c.path, filepath.Join(c.path, file))
	})
}

// cocoFiles finds the JSON files in a folder, by split.
func (c *candidate) cocoFiles() (map[string]string, error) {
	var names []string
	for _, folder := range []string{"annotations", ""} {
		listed := c.folder
		if folder != "" {
			if !slices.Contains(c.folders, folder) {
				continue
			}
			var err error
			if listed, err = listFolder(c.tree, filepath.Join(c.path, folder)); err != nil {
				return nil, err
			}
		}
		for _, name := range listed.files {
			if strings.EqualFold(filepath.Ext(name), ".json") {
				names = append(names, filepath.Join(folder, name))
			}
		}
		if len(names) > 0 {
			break
		}
	}
	if instances := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !strings.HasPrefix(filepath.Base(name), "instances_")
	}); len(instances) > 0 {
		names = instances // captions_ and person_keypoints_ can be there too
	}
	files := make(map[string]string)
	for _, name := range names {
		if !targets.IsCOCO(c.tree, filepath.Join(c.path, name)) {
			continue
		}
		split := cocoSplit(filepath.Base(name))
		if c.part || split == "" {
			split = c.split
		}
		if files[split] != "" {
			return nil, transport.RefuseEntry(c.path, name, "a second file of COCO's JSON for the split %s, beside %s", split,
				files[split]).Or(remedy.COCOFile.With("FILE", filepath.Join(c.path, name)))
		}
		files[split] = name
	}
	return files, nil
}

// cocoSplit is the split that a file of COCO's JSON is of by its name, as instances_val2017.json; "": it does not say.
func cocoSplit(name string) string {
	stem := strings.TrimSuffix(name, filepath.Ext(name))
	for _, word := range strings.FieldsFunc(stem, func(r rune) bool { return strings.ContainsRune("_-.", r) }) {
		if split := yearlessSplit(word); split != "" {
			return split
		}
	}
	return ""
}

// newCOCO is the split of a file of COCO's JSON, whose images lie below root.
func (c *candidate) newCOCO(t transport.Tree, root, file string) (*dataset.Split, error) {
	coco, err := targets.ReadCOCO(t, file)
	if err != nil {
		return nil, err
	}
	if len(coco.Images) == 0 {
		return nil, transport.Refuse(file, "lists no images")
	}
	images, err := c.cocoImages(t, root, file, coco.Images[0].FileName)
	if err != nil {
		return nil, err
	}
	if c.form == aFile {
		c.output = strings.TrimSuffix(c.path, filepath.Ext(c.path))
	}
	s := c.newTargets("images with COCO's JSON", t, images, coco.Listed(), coco.Values(c.opts.Targets))
	if t == transport.Tree(transport.FileSystem{}) {
		s.LabelFiles = []string{file}
	}
	return s, nil
}

// cocoImages finds the folder where the file names of a JSON begin.
func (c *candidate) cocoImages(t transport.Tree, root, file, first string) (string, error) {
	if c.opts.Images != "" {
		return transport.Absolute(c.opts.Images)
	}
	stem := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	_, name, _ := strings.Cut(stem, "_") // train2017
	roots := []string{root}
	if filepath.Base(root) == "annotations" {
		roots = append(roots, filepath.Dir(root)) // the given file's own folder counts too
	}
	for _, root := range roots {
		for _, folder := range []string{name, "images/" + name, cocoSplit(stem), "images/" + cocoSplit(stem), stem, "images", ""} {
			if folder == "" && root != roots[0] {
				continue
			}
			at := filepath.Join(root, filepath.FromSlash(folder))
			if info, err := t.Stat(filepath.Join(at, filepath.FromSlash(first))); err == nil && info.Mode().IsRegular() {
				return at, nil
			}
		}
	}
	return "", transport.Refuse(file, "names the image %s, which is not in %s, in %s/ or in images/ there",
		first, root, name).Or(remedy.Images)
}
