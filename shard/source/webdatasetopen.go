package source

import (
	"archive/tar"
	"cmp"
	"errors"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// labelMember is the extension of the member that holds a sample's label, by --label.
func labelMember(label string) string {
	if strings.HasPrefix(label, jsonLabelPrefix) {
		return "json"
	}
	return labelExtension
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

// memberNames finds the members of samples by their names.
type memberNames struct {
	imageKey string // the extension of the image; "": of any format that is read
	fields   []Field
}

// split returns the key of a member's sample, and its extension. whole says that the key goes up to the first dot.
func (n memberNames) split(name string) (key, extension string, whole bool) {
	key, extension = splitMember(name)
	last := strings.LastIndexByte(extension, '.')
	if last < 0 || n.imageKey != "" || n.wanted(extension) {
		return key, extension, true
	}
	return name[:strings.LastIndexByte(name, '.')], extension[last+1:], false
}

// wanted says that fields are made of the members with an extension.
func (n memberNames) wanted(extension string) bool {
	return slices.ContainsFunc(n.fields, func(f Field) bool { e, _ := f.member(); return e == extension })
}

func (n memberNames) isImage(extension string) bool {
	if n.imageKey != "" {
		return extension == n.imageKey
	}
	return imagefile.HasExtension(extension)
}

// sniffWebDataset says whether one of a tar's first samples has an image and a label. empty says that it has no file at all, as the last tar that is
// written may.
func sniffWebDataset(c *candidate) (is, empty bool, err error) {
	names, member, n := memberNames{strings.ToLower(c.opts.ImageKey), c.opts.Fields}, labelMember(c.opts.Label), 0
	images, labels, beside := make(map[string]string), make(map[string]bool), make(map[string]bool) // by key
	for i := 0; n < sniffedMembersMax; i++ {
		m, err := c.member(i)
		if err == io.EOF && n > 0 {
			break
		}
		if err == io.EOF {
			return false, true, nil
		}
		if err != nil {
			return false, false, err
		}
		if m.kind == tar.TypeDir {
			continue
		}
		if namedTar(m.name) { // of a class, and to skip it takes reading it
			return false, false, nil
		}
		n++
		key, extension, _ := names.split(m.name)
		switch {
		case key == "":
		case names.isImage(extension):
			images[key] = m.name
		case extension == member:
			labels[key] = true
		case extension == "json" || extension == "txt":
			beside[key] = true
		}
		if images[key] != "" && (labels[key] || c.opts.NoLabels && beside[key]) {
			return true, false, nil
		}
	}
	for _, key := range slices.Sorted(maps.Keys(images)) {
		name := images[key]
		switch group, extension := splitMember(name); {
		case labels[group]:
			return false, false, c.tar.errorf(name, "an image beside the label %s.%s under another name: --image-key %s takes the images with this extension",
				path.Base(group), member, extension)
		case beside[key] && !strings.Contains(key, "/"):
			return false, false, c.tar.errorf(name, "an image with JSON or text beside it as WebDataset has them, without a label .%s: "+
				"--label json.KEY says which key of the JSON is the label, --no-labels takes the images without", labelExtension)
		}
	}
	return false, false, nil
}

func openWebDatasets(c *candidate) ([]*Split, error) {
	if c.folder == nil {
		return openWebDatasetTar(c)
	}
	tars, others := c.tars()
	if is, err := holdsWebDataset(c, tars); !is || err != nil {
		return nil, err
	}
	nameFolders := []string{c.path}
	if c.part {
		nameFolders = append(nameFolders, filepath.Dir(c.path))
	}
	return c.bySplit(tars, func(split string, files []string) (*Split, error) {
		return newWebDataset(c, files, others, nameFolders, cmp.Or(split, c.split))
	})
}

// holdsWebDataset says that a folder holds nothing but WebDataset's tars. The first tar with a file in it says so for all.
func holdsWebDataset(c *candidate, tars []string) (bool, error) {
	if len(c.folders) > 0 {
		return false, nil
	}
	for _, name := range tars {
		q, err := c.in(name, "")
		if errors.Is(err, errNotTar) {
			return false, nil // classTars says so
		}
		if err != nil {
			return false, err
		}
		is, empty, err := sniffWebDataset(q)
		q.close()
		if is || err != nil || !empty {
			return is, err
		}
	}
	return false, nil
}

// openWebDatasetTar opens one tar.
func openWebDatasetTar(c *candidate) ([]*Split, error) {
	if is, _, err := sniffWebDataset(c); !is || err != nil {
		return nil, err
	}
	var nameFolders []string
	if c.stdin == nil {
		nameFolders = []string{filepath.Dir(c.path)}
	}
	s, err := newWebDataset(c, nil, nil, nameFolders, c.split)
	return []*Split{s}, err
}

// newWebDataset makes the split of some tars in a folder, beside which others lie, or of the candidate itself. The files that name the classes,
// and timm's that says what a split has, are looked for in nameFolders.
func newWebDataset(c *candidate, tars, others, nameFolders []string, split string) (*Split, error) {
	if c.opts.Label != "" && labelMember(c.opts.Label) == labelExtension {
		return nil, refuse(c.path, "--label %s: in WebDataset's tars it is json.KEY, as json.label", c.opts.Label)
	}
	names, err := findClassNames(nameFolders, c.opts)
	if err != nil {
		return nil, err
	}
	in, err := c.inTars(tars...)
	if err != nil {
		return nil, err
	}
	d := &webDataset{tarFiles: *in, names: names, label: c.opts.Label}
	s := c.newSplit(d)
	if d.info, err = findInfo(nameFolders, split); err != nil {
		return nil, err
	}
	if d.info != nil {
		d.label = cmp.Or(d.label, d.info.label())
		d.samples, err = d.info.check(in.paths, c.folder != nil && !c.given && !c.opts.AllowTruncated)
		others = slices.DeleteFunc(slices.Clone(others), func(f string) bool { return slices.Contains(infoNames, f) })
	}
	others = slices.DeleteFunc(slices.Clone(others), func(f string) bool { return filepath.Join(c.path, f) == names.from })
	if len(others) > 0 {
		s.note("%s left out (%s)", bytesize.Counted(len(others), "file beside the tars is", "files beside the tars are"), someNames(others))
	}
	return s, err
}
