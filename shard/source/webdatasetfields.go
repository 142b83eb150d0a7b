package source

import (
	"archive/tar"
	"bytes"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
)

// memberBytesMax bounds a member that fields are made of.
const memberBytesMax = 16 << 20

// fieldMember is the extension of the member that a field's values come from, and the key in it, if it is JSON: "json", "score" of json.score.
func fieldMember(f *Field) (extension, key string) {
	if key, ok := strings.CutPrefix(f.Source, jsonLabelPrefix); ok {
		return "json", key
	}
	return f.Source, ""
}

// bindMember completes the type of a field from a member.
func bindMember(f *Field) error {
	extension, _ := fieldMember(f)
	known, ok := map[string]shard.FieldType{"json": shard.JSON, "txt": shard.Text}[extension]
	switch {
	case f.Type == "" && ok:
		f.Type = known
	case f.Type == "":
		return f.errorf("--field %s=%s:TYPE needs the type (%s)", f.Name, f.Source, fieldTypes)
	}
	return nil
}

// appendMember appends the value that a member's content has.
func appendMember(f *Field, dst, content []byte) ([]byte, error) {
	extension, key := fieldMember(f)
	switch {
	case key != "":
		value, err := jsonAt(content, key)
		if err != nil {
			return dst, f.errorf("%v", err)
		}
		return f.appendJSON(dst, value)
	case f.Type == shard.Bytes:
		return shard.AppendBytes(dst, content), nil
	case extension == "json":
		return f.appendJSON(dst, content)
	}
	text := string(content)
	if f.Type == shard.Text {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r") // that of the last line is no part of a caption
	}
	return f.appendText(dst, text)
}

// bindFields takes fields from the members beside the images.
func (d *webDataset) bindFields(fields []Field) error {
	for i := range fields {
		if err := bindMember(&fields[i]); err != nil {
			return err
		}
	}
	d.fields = fields
	return nil
}

// keptMembers keeps the members of a sample from which its label and fields are read.
type keptMembers struct {
	fields   []Field
	contents map[string]*keptMember // by extension
	encoded  []byte                 // the last sample's fields
}

type keptMember struct {
	name    string // in the tar; "": the sample has none so far
	content bytes.Buffer
}

// read keeps a member, and returns its content.
func (m *keptMembers) read(f *file, extension string, label bool) ([]byte, error) {
	limit, what := int64(memberBytesMax), "fields are taken from regular files of at most %d bytes"
	if label && extension == labelExtension {
		limit, what = labelBytesMax, "a label must be a regular file of at most %d bytes with a number in it"
	} else if label {
		limit, what = jsonBytesMax, "the JSON of a sample must be a regular file of at most %d bytes"
	}
	if m.contents == nil {
		m.contents = make(map[string]*keptMember)
	}
	one := m.contents[extension]
	if one == nil {
		one = new(keptMember)
		m.contents[extension] = one
	}
	switch {
	case one.name != "":
		return nil, f.errorf("a second .%s for one image", extension)
	case f.kind != tar.TypeReg || f.size > limit:
		return nil, f.errorf(what, limit)
	}
	one.name = f.name
	_, err := one.content.ReadFrom(f.data)
	return one.content.Bytes(), err
}

// values are those of the sample that has been read, valid until the next.
func (m *keptMembers) values() ([]byte, error) {
	m.encoded = m.encoded[:0]
	for i := range m.fields {
		f := &m.fields[i]
		extension, _ := fieldMember(f)
		one := m.contents[extension]
		if one == nil || one.name == "" {
			return nil, f.errorf("there is no .%s beside the image", extension)
		}
		var err error
		if m.encoded, err = appendMember(f, m.encoded, one.content.Bytes()); err != nil {
			return nil, err
		}
	}
	return m.encoded, nil
}

// reset begins the next sample.
func (m *keptMembers) reset() {
	for _, one := range m.contents {
		one.name = ""
		one.content.Reset()
	}
}
