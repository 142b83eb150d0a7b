package source

import (
	"archive/tar"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// labelMember is the extension of the member that holds a sample's label, by --label.
func labelMember(label string) string {
	if strings.HasPrefix(label, dataset.JSONPrefix) {
		return "json"
	}
	return transport.LabelExtension
}

// splitMember returns the key and the extension, in lower case, of a member by its cleaned name; both are empty for one that belongs to no
// sample.
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

// wdsNames finds the members of samples by their names, as the options ask for them.
type wdsNames dataset.Options

// splitMember returns the key of a member's sample, and its extension. whole says that the key goes up to the first dot.
func (n wdsNames) splitMember(name string) (key, extension string, whole bool) {
	key, extension = splitMember(name)
	last := strings.LastIndexByte(extension, '.')
	if last < 0 || n.ImageKey != "" || n.wanted(extension) {
		return key, extension, true
	}
	return name[:strings.LastIndexByte(name, '.')], extension[last+1:], false
}

// wanted says that fields are made of the members with an extension.
func (n wdsNames) wanted(extension string) bool {
	return slices.Contains(maskMembers, extension) && n.Targets.Asks(dataset.TakeMasks) ||
		extension == "json" && n.Targets.Asks(dataset.TakeObjects) ||
		slices.ContainsFunc(n.Fields, func(f dataset.Field) bool { e, _ := fieldMember(&f); return e == extension })
}

// maskMembers are the extensions of masks beside images, from the first dot on.
var maskMembers = []string{"mask.png", "seg.png", "segmentation.png"}

// maskKey is the key of the sample that a member is the mask of; "" for another member.
func maskKey(name string) string {
	key, extension := splitMember(name)
	if !slices.Contains(maskMembers, extension) {
		return ""
	}
	return key
}

// isImage says that members with an extension are images.
func (n wdsNames) isImage(extension string) bool {
	if n.ImageKey != "" {
		return strings.EqualFold(extension, n.ImageKey)
	}
	return imagefile.HasExtension(extension)
}

// memberBytesMax bounds a member that fields are made of.
const memberBytesMax = 16 << 20

// fieldMember is the extension of the member that a field's values come from, and the key in it, if it is JSON: "json", "score" of
// json.score.
func fieldMember(f *dataset.Field) (extension, key string) {
	if key, ok := strings.CutPrefix(f.Source, dataset.JSONPrefix); ok {
		return "json", key
	}
	return f.Source, ""
}

func appendMember(f *dataset.Field, dst, content []byte) ([]byte, error) {
	extension, key := fieldMember(f)
	switch {
	case key != "":
		value, err := dataset.JSONAt(content, key)
		if err != nil {
			return dst, f.Errorf("%v", err)
		}
		return f.AppendJSON(dst, value)
	case f.Type == shard.Bytes:
		return shard.AppendBytes(dst, content), nil
	case extension == "json":
		return f.AppendJSON(dst, content)
	}
	text := string(content)
	if f.Type == shard.Text {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r") // the last newline is not part of a caption
	}
	return f.AppendText(dst, text)
}

// BindFields takes fields from the members beside the images.
func (d *wdsLayout) BindFields(fields []dataset.Field) error {
	for i := range fields {
		f := &fields[i]
		extension, _ := fieldMember(f)
		if f.Type = cmp.Or(f.Type, map[string]shard.FieldType{"json": shard.JSON, "txt": shard.Text}[extension]); f.Type == "" {
			return transport.Refuse(d.Paths[0], "%v", f.Errorf("needs a type: %s", dataset.FieldTypes)).Or(
				remedy.FieldType.With("NAME", f.Name).With("SOURCE", f.Source))
		}
	}
	return nil
}

// readMember keeps the content of a member with the sample's label or a field, and returns it.
func (sm *wdsSample) readMember(f *transport.Item, extension string, label bool) ([]byte, error) {
	limit := int64(memberBytesMax)
	if label && extension == transport.LabelExtension {
		limit = labelBytesMax
	}
	if _, twice := sm.members[extension]; twice {
		return nil, f.Errorf("a second .%s for one image", extension)
	}
	if f.Kind != tar.TypeReg || f.Size > limit {
		return nil, f.Errorf("labels and fields are taken from regular files, of at most %d bytes for a .%s", limit, extension)
	}
	content := make([]byte, f.Size)
	sm.members[extension] = content
	_, err := io.ReadFull(f.Data, content)
	return content, err
}

// fieldValues are those of a sample that has been read, valid until the next.
func (w *wdsWalker) fieldValues(sm *wdsSample) (_ []byte, err error) {
	w.values = w.values[:0]
	for i := range w.split.Options.Fields {
		f := &w.split.Options.Fields[i]
		extension, _ := fieldMember(f)
		content, ok := sm.members[extension]
		if !ok {
			return nil, f.Errorf("there is no .%s beside the image", extension)
		}
		if w.values, err = appendMember(f, w.values, content); err != nil {
			return nil, err
		}
	}
	return w.values, nil
}

// infoNames are the names of the file beside timm's tars of WebDataset that describes each split:
//
// {"splits": {"train": {"name": "train", "filenames": ["imagenet1k-train-0000.tar", …], "shard_lengths": [1252, …],
// "num_samples": 1281167},
//
//	"validation": {…, "alt_label": "alt_label"}}}
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
					return nil, transport.Refuse(file, "cannot be read as timm's description of the tars: correct or remove it").Because(err)
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
