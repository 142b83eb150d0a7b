package source

import (
	"archive/tar"
	"bytes"
	"io"
)

// bindFields takes fields from the members beside the images.
func (d *webDataset) bindFields(fields []Field) error {
	for i := range fields {
		if err := fields[i].bindSidecar(); err != nil {
			return err
		}
	}
	d.fields = fields
	return nil
}

// appendFields is for layouts whose walk gives no Data.
func (d *webDataset) appendFields(dst []byte, key string) ([]byte, error) {
	_, err := d.read(key, nil)
	return dst, err
}

// fieldMembers keeps the members of a sample that fields are made of.
type fieldMembers struct {
	fields   []Field
	contents map[string]*fieldMember // by extension
	encoded  []byte                  // the last sample's
}

type fieldMember struct {
	name    string // in the tar; "": the sample has none so far
	content bytes.Buffer
}

// wants says that fields are made of the members with an extension.
func (m *fieldMembers) wants(extension string) bool {
	for i := range m.fields {
		if e, _ := m.fields[i].sidecar(); e == extension {
			return true
		}
	}
	return false
}

// read keeps a member.
func (m *fieldMembers) read(f *file, extension string) error {
	if m.contents == nil {
		m.contents = make(map[string]*fieldMember)
	}
	one := m.contents[extension]
	if one == nil {
		one = new(fieldMember)
		m.contents[extension] = one
	}
	switch {
	case one.name != "":
		return f.errorf("a second .%s for one image", extension)
	case f.kind != tar.TypeReg || f.size > sidecarBytesMax:
		return f.errorf("fields are taken from regular files of at most %d bytes", sidecarBytesMax)
	}
	one.name = f.name
	_, err := one.content.ReadFrom(f.data)
	return err
}

// text is a member's content: the one that was kept, or what is read now.
func (m *fieldMembers) text(f *file) ([]byte, error) {
	for _, one := range m.contents {
		if one.name == f.name {
			return one.content.Bytes(), nil
		}
	}
	return io.ReadAll(f.data)
}

// values are those of the sample that has been read, valid until the next.
func (m *fieldMembers) values() ([]byte, error) {
	m.encoded = m.encoded[:0]
	for i := range m.fields {
		f := &m.fields[i]
		extension, _ := f.sidecar()
		one := m.contents[extension]
		if one == nil || one.name == "" {
			return nil, f.errorf("there is no .%s beside the image", extension)
		}
		var err error
		if m.encoded, err = f.appendSidecar(m.encoded, one.content.Bytes()); err != nil {
			return nil, err
		}
	}
	return m.encoded, nil
}

// reset begins the next sample.
func (m *fieldMembers) reset() {
	for _, one := range m.contents {
		one.name = ""
		one.content.Reset()
	}
}
