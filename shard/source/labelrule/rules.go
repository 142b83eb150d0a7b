// Package labelrule gives labels to samples: by the folder or tar of an image, by its name, by ILSVRC2012's table, or by a column of a
// table. It refuses classes that look like a mistake.
package labelrule

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// A Rule tells the labels of files by their names.
type Rule interface {
	// Take says whether a file is a sample, and labels it, as Item has it. Folders are never samples; fs.SkipDir leaves out their files.
	Take(f *transport.Item) (bool, error)
	// Labels are those of the files that were taken; s has seen all of them.
	Labels(s *dataset.Split) (dataset.Labels, error)
}

// Files is the layout of a dataset in which each file is a sample.
type Files struct {
	transport.Transport
	Rule func(s *dataset.Split) (Rule, error)
}

func (l *Files) Walk(w *transport.Walk, s *dataset.Split, fn func(transport.Item) error) (dataset.Labels, error) {
	rule, err := l.Rule(s)
	if err != nil {
		return dataset.Labels{}, err
	}
	w.Skipped = make(transport.Skipped)
	err = l.Transport.Files(w, func(f *transport.Item) error {
		if take, err := rule.Take(f); err != nil || !take {
			return err
		}
		return fn(*f)
	})
	if err != nil {
		return dataset.Labels{}, err
	}
	if note := w.Skipped.Note(); note != "" {
		s.Note("%s", note)
	}
	return rule.Labels(s)
}

// MaskMembers are the extensions, from the first dot on, of masks beside images in a WebDataset.
var MaskMembers = []string{"mask.png", "seg.png", "segmentation.png"}

// Names of folders with images, and of folders beside them with masks or boxes.
var (
	ImageFolders  = []string{"images", "image", "imgs", "img", "jpegimages"}
	TargetFolders = []string{"annotations", "annotation", "masks", "mask", "labels", "label", "xmls", "xml", "segmentationclass", "annos",
		"segmentations", "segmentation", "groundtruth", "gt"}
)

type unlabelledRule struct {
	others  []string
	masks   []string
	folders map[string]bool // those of images
}

// WithoutLabels takes all images with the label -1.
func WithoutLabels(*dataset.Split) (Rule, error) {
	return &unlabelledRule{folders: make(map[string]bool)}, nil
}

func (r *unlabelledRule) Take(f *transport.Item) (bool, error) {
	if f.Folder {
		return false, nil
	}
	if !transport.NamedImage(f.Key) {
		r.others = append(r.others, f.Key)
		return false, nil
	}
	if _, member, _ := strings.Cut(path.Base(f.Key), "."); slices.Contains(MaskMembers, member) {
		r.masks = append(r.masks, f.Key)
		return false, nil
	}
	r.folders[path.Dir(f.Key)] = true
	f.Label, f.Labelled = NoLabel, true
	return true, nil
}

func (r *unlabelledRule) Labels(s *dataset.Split) (dataset.Labels, error) {
	if err := r.checkSplits(s); err != nil {
		return dataset.Labels{}, err
	}
	s.NoteLeftOut(r.others, "file without an image's extension is", "files without an image's extension are")
	s.NoteLeftOut(r.masks, "mask beside an image is", "masks beside images are")
	return dataset.Labels{Numbered: true}, nil
}

// checkSplits refuses to join the images of several splits, or images and their masks.
func (r *unlabelledRule) checkSplits(s *dataset.Split) error {
	inside := make(map[string]map[string]bool) // folders by the one that they lie in
	for folder := range r.folders {
		for ; folder != "." && !inside[path.Dir(folder)][folder]; folder = path.Dir(folder) {
			if inside[path.Dir(folder)] == nil {
				inside[path.Dir(folder)] = make(map[string]bool)
			}
			inside[path.Dir(folder)][folder] = true
		}
	}
	var names, masks []string
	var to, images []remedy.Remedy
	for _, parent := range slices.Sorted(maps.Keys(inside)) {
		image, mask := named(inside[parent], ImageFolders), named(inside[parent], TargetFolders)
		if image != "" && mask != "" {
			masks, images = append(masks, mask), append(images, ways(s, image)...)
		}
		switch folders := slices.Sorted(maps.Keys(inside[parent])); {
		case !transport.AreSplits(folders):
		case parent == ".":
			names, to = append(names, folders...), append(to, ways(s, folders...)...)
		default:
			names, to = append(names, folders...), append(to, ways(s, parent)...)
		}
	}
	no := transport.Refuse(s.Path, "holds folders of several splits (%s), and this would join them", transport.SomeNames(names))
	if len(masks) > 0 {
		no = transport.Refuse(s.Path, "holds masks beside images (%s), and this would join them", transport.SomeNames(masks))
		to = images
	}
	if len(names)+len(masks) == 0 || s.Options.ForceClasses {
		return nil
	}
	for i := range to {
		to[i].Flags = remedy.NoLabels.Flags
	}
	return no.Or(remedy.ForceClasses).Or(slices.Compact(to)...)
}

// named returns one of the folders that has one of the names, in any case of letters; "" if none has.
func named(folders map[string]bool, names []string) string {
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if slices.Contains(names, strings.ToLower(path.Base(folder))) {
			return folder
		}
	}
	return ""
}

const (
	valImages     = 50_000
	ValNamePrefix = "ILSVRC2012_val_"
	valNameSuffix = ".JPEG"
)

// valLabels has the label of each validation image as a uint16, little-endian. Labels are, as anywhere in PyTorch, the positions of the
// wnids in sorted order.
//
//go:embed ilsvrc2012-val.labels
var valLabels []byte

// ValLabel returns the label of a validation image of ILSVRC2012 by its name; its error says what is wrong with the name.
func ValLabel(name string) (int32, error) {
	digits, prefixed := strings.CutPrefix(name, ValNamePrefix)
	digits, suffixed := strings.CutSuffix(digits, valNameSuffix)
	n, err := strconv.ParseUint(digits, 10, 32)
	if !prefixed || !suffixed || len(digits) != 8 || err != nil || n < 1 || n > valImages {
		return NoLabel, fmt.Errorf("an image without a class folder, whose label is unknown: the validation images of ILSVRC2012 are "+
			"called %s00000001%s to %[1]s00050000%[2]s", ValNamePrefix, valNameSuffix)
	}
	return int32(binary.LittleEndian.Uint16(valLabels[2*(n-1):])), nil
}

type valRule struct{ s *dataset.Split }

// AllFiles says that each file is a sample whose content is an image, whatever its name.
func (l *Files) AllFiles() {}

// ByValName labels the validation images of ILSVRC2012 by their numbers.
func ByValName(s *dataset.Split) (Rule, error) { return &valRule{s}, nil }

func (r *valRule) Take(f *transport.Item) (bool, error) {
	if f.Folder {
		if f.Tar == nil {
			r.s.Note("folder %s among the images is left out", f.Name)
		}
		return false, fs.SkipDir
	}
	label, err := ValLabel(f.Key)
	if err != nil {
		return false, f.Errorf("%v", err).Or(remedy.NoLabels)
	}
	f.Label, f.Labelled = label, true
	return true, nil
}

func (r *valRule) Labels(*dataset.Split) (dataset.Labels, error) {
	return dataset.Labels{Classes: wordnet.Wnids()}, nil
}

// Listed takes the files that a list names, and leaves out the others.
type Listed struct {
	Path    string           // the list
	Labels  map[string]int32 // keyed by sample; nil takes all images, without labels
	Classes []string
}

// Rule is the rule of a split.
func (l *Listed) Rule(*dataset.Split) (Rule, error) {
	return &listedRule{l, make(map[string]bool)}, nil
}

type listedRule struct {
	*Listed
	found map[string]bool
}

func (r *listedRule) Take(f *transport.Item) (bool, error) {
	label, listed := r.Listed.Labels[f.Key]
	if f.Folder || !listed && r.Listed.Labels != nil || !listed && !transport.NamedImage(f.Key) {
		return false, nil
	}
	if f.Label, f.Labelled = NoLabel, true; listed {
		f.Label, r.found[f.Key] = label, true
	}
	return true, nil
}

func (r *listedRule) Labels(s *dataset.Split) (dataset.Labels, error) {
	if missing := len(r.Listed.Labels) - len(r.found); missing > 0 {
		first := ""
		for _, key := range slices.Sorted(maps.Keys(r.Listed.Labels)) {
			if !r.found[key] {
				first = key
				break
			}
		}
		no := transport.Refuse(r.Path, "names %s, of which %s not in %s (%s is the first): complete the images",
			bytesize.Counted(len(r.Listed.Labels), "image", "images"), bytesize.Counted(missing, "is", "are"), s.Path, first)
		if slices.ContainsFunc(s.Kind.Takes, func(flag string) bool { return strings.HasPrefix(remedy.Images.Flags, flag) }) {
			no.Or(remedy.Images)
		}
		return dataset.Labels{}, no
	}
	return dataset.Labels{Classes: r.Classes, Numbered: len(r.Classes) == 0}, nil
}
