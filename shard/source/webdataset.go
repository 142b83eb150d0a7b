package source

import (
	"archive/tar"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// webDatasets is the tars of WebDataset (https://github.com/webdataset/webdataset), which keeps the files of a sample next to each other in
// a tar, under one name with an extension for each:
//
//	imagenet-train-000000.tar   n01440764_10026.cls   "0", the label in decimal.
//	                            n01440764_10026.jpg   the image.
//	                            n01440764_10026.json  anything else, which is left out here.
//	                            n01440764_10027.cls   …
//
// The name up to the first dot after the last slash is the sample's key, what is after it the extension, in any case of letters. A sample
// ends where another key begins. Its __key__ is the key here too; it must be unique in all tars of a split. An extension with a dot in it,
// as that of img_12.5.jpg, is only its last part, and the rest belongs to the key, unless --image-key or --field asks for it.
var webDatasets = dataset.Kind{
	Name: "WebDataset",
	Forms: []string{"a tar with x.jpg next to x.cls", "a folder of such tars, whose names may tell splits apart, " +
		"as imagenet-train-000000.tar", "x.jpg next to x.mask.png, x.seg.png, or x.json with boxes"},
	Labels: "the number in x.cls, or with --label json.KEY that of a key in x.json; --classes names them. --targets objects " +
		"takes boxes in JSON",
	Takes:        []string{"--classes", "--label", "--no-labels", "--image-key"},
	TestLabelled: true,
}

// sniffWebDataset says whether one of a tar's first samples has an image and a label, or the tar is empty, as a writer's last may be.
func sniffWebDataset(c *candidate) (is, empty bool, err error) {
	names, member, n := wdsNames(c.opts), labelMember(c.opts.Label), 0
	images, labels, beside := make(map[string]string), make(map[string]bool), make(map[string]bool) // keyed by sample
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
		if transport.NamedTar(m.name) { // a class tar, which would have to be read to skip it
			return false, false, nil
		}
		n++
		key, extension, _ := names.splitMember(m.name)
		switch {
		case key == "":
		case names.isImage(extension):
			images[key] = m.name
		case extension == member:
			labels[key] = true
		case extension == "json" || extension == "txt":
			beside[key] = true
		}
		objects := beside[key] && c.opts.Targets.Takes(shard.Objects, c.opts.Targets.Take != "", false)
		if c.findMask(m.name) && images[maskKey(m.name)] != "" || images[key] != "" &&
			(labels[key] || objects || c.opts.NoLabels && beside[key]) {
			for j := i + 1; ; j++ { // the mask may follow
				next, err := c.member(j)
				if nextKey, _, _ := names.splitMember(next.name); err != nil || c.findMask(next.name) || nextKey != key {
					return true, false, nil
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(images)) {
		if len(labels) > 0 || beside[key] && !strings.Contains(key, "/") {
			return false, false, c.tar.Errorf(images[key], "an image without a label .%s under its name", member).Or(remedy.JSONLabel,
				remedy.ImageKey, remedy.NoLabels)
		}
	}
	return false, false, nil
}

// findMask says that a member is the mask of a sample. The options then take masks, unless they say what they take.
func (c *candidate) findMask(member string) bool {
	if maskKey(member) == "" || c.opts.NoLabels || c.opts.ImageKey != "" || len(c.opts.Fields) > 0 && c.opts.Targets.Take == "" {
		return false
	}
	c.opts.Targets.Take = cmp.Or(c.opts.Targets.Take, dataset.TakeMasks)
	return c.opts.Targets.Take != dataset.TakeNone
}

func openWebDatasets(c *candidate) ([]*dataset.Split, error) {
	if c.form == aTar {
		if is, _, err := sniffWebDataset(c); !is || err != nil {
			return nil, err
		}
		s, err := newWebDatasetSplit(c, nil, nil)
		return []*dataset.Split{s}, err
	}
	tars, others := c.filter(transport.NamedTar)
	if is, err := holdsWebDataset(c, tars); !is || err != nil {
		return nil, err
	}
	return c.bySplit(tars, func(c *candidate, files []string) (*dataset.Split, error) {
		return newWebDatasetSplit(c, files, others)
	})
}

// holdsWebDataset says that a folder holds nothing but WebDataset's tars. The first tar with a file in it says so for all.
func holdsWebDataset(c *candidate, tars []string) (bool, error) {
	if len(c.folders) > 0 {
		return false, nil
	}
	for _, name := range tars {
		q, err := c.child(name, "")
		if errors.Is(err, transport.ErrNotTar) {
			return false, nil // classTars says so
		}
		if err != nil {
			return false, err
		}
		is, empty, err := sniffWebDataset(q)
		c.opts.Targets.Take = q.opts.Targets.Take
		q.close()
		if is || err != nil || !empty {
			return is, err
		}
	}
	return false, nil
}

// newWebDatasetSplit is the split of some tars in a folder, beside which others lie, or of the candidate itself.
func newWebDatasetSplit(c *candidate, tars, others []string) (*dataset.Split, error) {
	in, err := c.inTars(tars...)
	if err != nil {
		return nil, err
	}
	var nameFolders []string
	if c.listed() {
		nameFolders = []string{c.path}
	}
	if c.form == aTar && c.stdin == nil || c.part {
		nameFolders = append(nameFolders, filepath.Dir(c.path))
	}
	if c.opts.Label != "" && labelMember(c.opts.Label) == transport.LabelExtension {
		return nil, transport.Refuse(in.Paths[0], "--label %s: in WebDataset's tars it is json.KEY, as json.label", c.opts.Label)
	}
	names, err := labelrule.FindClassNames(transport.FileSystem{}, nameFolders, c.opts)
	if err != nil {
		return nil, err
	}
	d := &wdsLayout{TarFiles: *in, names: names, label: c.opts.Label, targets: wdsTargets(names.Names, c.opts.Targets)}
	var files []string
	if names.From != "" && c.opts.Classes == "" {
		files = append(files, names.From)
	}
	if d.info, err = findInfo(nameFolders, c.split); d.info != nil {
		files, d.label = append(files, d.info.from), cmp.Or(d.label, d.info.label())
		d.samples, err = d.info.check(in.Paths, c.form == aFolder && !c.opts.AllowTruncated)
	}
	if err != nil {
		return nil, err
	}
	s := c.newSplit(bytesize.Counted(len(in.Paths), "tar of WebDataset", "tars of WebDataset"), d, d.targets)
	s.LabelFiles = files
	others = slices.DeleteFunc(slices.Clone(others), func(f string) bool {
		return slices.Contains(append(files, names.From), filepath.Join(c.path, f))
	})
	s.NoteLeftOut(others, "file beside the tars is", "files beside the tars are")
	return s, nil
}

// wdsTargets are the targets that the options ask for: the objects in each sample's JSON, and masks.
func wdsTargets(classes []string, o dataset.TargetOptions) *targets.Values {
	v := new(targets.Values)
	if o.Asks(dataset.TakeObjects) {
		v = targets.NewRecords(classes, false, o)
	}
	if o.Asks(dataset.TakeMasks) {
		v.Masks = targets.NewMasks(classes, o)
	}
	if v.Objects == nil && v.Masks == nil {
		return nil
	}
	return v
}

// addTargets appends a sample's targets to its fields. dropped says that the options leave it out.
func (d *wdsLayout) addTargets(sm *wdsSample, it *transport.Item) (dropped bool, err error) {
	var of targets.Sample
	if d.targets.Objects != nil {
		if of.Objects, err = d.objects(sm.members["json"]); err != nil {
			return false, err
		}
	}
	for _, extension := range labelrule.MaskMembers {
		if file, ok := sm.members[extension]; ok && of.Mask == nil {
			of.Mask = file
		}
	}
	if d.targets.Masks != nil && of.Mask == nil {
		it.Reason = "there is no mask for it"
		return false, nil
	}
	values, err := d.targets.AppendSample(it.Fields, sm.key, sm.content.Bytes(), of)
	if rejected, is := errors.AsType[*transport.RejectError](err); is {
		it.Reason, err = rejected.Reason, nil
	}
	it.Fields = values
	return errors.Is(err, dataset.ErrDropped), err
}

// objects are those under the key objects or annotations of a sample's JSON, or at its top. Without JSON there are none.
func (d *wdsLayout) objects(content []byte) ([]targets.Object, error) {
	if content == nil {
		return nil, nil
	}
	raw := json.RawMessage(content)
	for _, key := range []string{targets.RecordsName, "annotations"} {
		if inner, err := dataset.JSONAt(content, key); err == nil {
			raw = inner
			break
		}
	}
	return d.targets.Objects.FromJSON(raw)
}

// infoNames are the names of the file beside timm's tars of WebDataset that describes each split:
//
//	{"splits": {"train": {"name": "train", "filenames": ["imagenet1k-train-0000.tar", …], "shard_lengths": [1252, …],
//	  "num_samples": 1281167}, "validation": {…, "alt_label": "alt_label"}}}
var infoNames = []string{"_info.json", "info.json"}

type wdsInfo struct {
	from         string
	Filenames    []string `json:"filenames"`
	ShardLengths []int    `json:"shard_lengths"`
	NumSamples   int      `json:"num_samples"`
	AltLabel     string   `json:"alt_label"` // the key in a sample's JSON that holds the label
}

// findInfo reads the description of a split from the file in one of the folders; nil if there is none.
func findInfo(folders []string, split string) (*wdsInfo, error) {
	for _, folder := range folders {
		for _, name := range infoNames {
			file := filepath.Join(folder, name)
			text, err := transport.ReadLines(transport.FileSystem{}, file, "numbers of samples")
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			var all struct {
				Splits map[string]*wdsInfo `json:"splits"`
			}
			if err := json.Unmarshal([]byte(text), &all); err != nil {
				if name == infoNames[0] {
					return nil, transport.Refuse(file, "cannot be read as timm's description of the tars: correct or remove it").
						Because(err)
				}
				continue
			}
			for key, info := range all.Splits {
				if info != nil && transport.NamedSplit(key) == split {
					info.from = file
					return info, nil
				}
			}
		}
	}
	return nil, nil
}

// check compares the tars with those in the file, and returns the number of their samples; 0 if the file does not say.
func (i *wdsInfo) check(tars []string, whole bool) (samples int, err error) {
	if len(i.Filenames) != len(i.ShardLengths) {
		return 0, transport.Refuse(i.from, "names %d tars and the samples of %d: correct or remove it", len(i.Filenames),
			len(i.ShardLengths))
	}
	if len(i.Filenames) == 0 {
		return i.NumSamples, nil
	}
	lengths := make(map[string]int, len(i.Filenames)) // keyed by name; in the end only the missing tars are left
	for k, name := range i.Filenames {
		lengths[filepath.Base(name)] = i.ShardLengths[k]
	}
	for _, tar := range tars {
		n, ok := lengths[filepath.Base(tar)]
		if !ok {
			return 0, nil // the tars were written anew
		}
		samples += n
		delete(lengths, filepath.Base(tar))
	}
	missing := slices.Sorted(maps.Keys(lengths))
	if whole && len(missing) > 0 {
		return samples, transport.Refuse(i.from, "names %d tars, of which %d are not here (%s): get them, or give the tars that are meant",
			len(i.Filenames), len(missing), transport.SomeNames(missing)).Or(remedy.Truncated)
	}
	return samples, nil
}

// noteSamples compares the number of samples with what the file says.
func (i *wdsInfo) noteSamples(s *dataset.Split, want, got int) {
	switch {
	case want == 0:
		s.Note("%s says nothing of these tars", i.from)
	case want == got:
		s.Note("there are %s samples, as %s says", bytesize.Grouped(got), filepath.Base(i.from))
	default:
		s.Note("%s says %s samples, and here are %s", i.from, bytesize.Grouped(want), bytesize.Grouped(got))
	}
}

// label says where the labels are, in the form of --label, if it is not .cls.
func (i *wdsInfo) label() string {
	if i.AltLabel == "" {
		return ""
	}
	return dataset.JSONPrefix + strings.TrimPrefix(i.AltLabel, dataset.JSONPrefix)
}
