package source

import (
	"archive/tar"
	"io"
	"path"
	"slices"
	"strings"

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
	takes := n.Targets.Take
	if slices.Contains(maskMembers, extension) && (takes == dataset.TakeMasks || takes == dataset.TakeBoth) ||
		extension == "json" && (takes == dataset.TakeObjects || takes == dataset.TakeBoth) {
		return true
	}
	return slices.ContainsFunc(n.Fields, func(f dataset.Field) bool { e, _ := fieldMember(&f); return e == extension })
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

// bindMember completes the type of a field from a member.
func bindMember(path string, f *dataset.Field) error {
	extension, _ := fieldMember(f)
	known, ok := map[string]shard.FieldType{"json": shard.JSON, "txt": shard.Text}[extension]
	switch {
	case f.Type == "" && ok:
		f.Type = known
	case f.Type == "":
		return transport.Refuse(path, "%v", f.Errorf("needs a type: %s", dataset.FieldTypes)).Or(
			remedy.FieldType.With("NAME", f.Name).With("SOURCE", f.Source))
	}
	return nil
}

// appendMember appends the value that a member's content has.
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
		if err := bindMember(d.Paths[0], &fields[i]); err != nil {
			return err
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
