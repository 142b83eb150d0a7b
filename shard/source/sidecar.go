package source

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
)

// sidecarBytesMax bounds a file beside an image.
const sidecarBytesMax = 16 << 20

// sidecar is the extension of the file that a field's values come from, and the key in it, if it is JSON: "json", "score" of json.score.
func (f *Field) sidecar() (extension, key string) {
	if extension, key, ok := strings.Cut(f.Source, "."); ok && extension == "json" {
		return extension, key
	}
	return f.Source, ""
}

// bindSidecar completes the type of a field from a sidecar.
func (f *Field) bindSidecar() error {
	extension, _ := f.sidecar()
	known, ok := map[string]shard.FieldType{"json": shard.JSON, "txt": shard.Text}[extension]
	switch {
	case f.Type == "" && ok:
		f.Type = known
	case f.Type == "":
		return f.errorf("--field %s=%s:TYPE needs the type (%s)", f.Name, f.Source, fieldTypes)
	case extension == "npy" && !f.Numeric() && f.Type != shard.Bytes:
		return f.errorf("a file of numpy is no %s", f.want())
	}
	return nil
}

// appendSidecar appends the value that a sidecar's content has.
func (f *Field) appendSidecar(dst, content []byte) ([]byte, error) {
	extension, key := f.sidecar()
	switch {
	case extension == "json" && key != "":
		value, err := jsonAt(content, key)
		if err != nil {
			return dst, f.errorf("%v", err)
		}
		return f.appendJSON(dst, value)
	case f.Type == shard.Bytes:
		return shard.AppendBytes(dst, content), nil
	case extension == "json":
		return f.appendJSON(dst, content)
	case extension == "npy":
		return f.appendNPY(dst, content)
	}
	text := string(content)
	if f.Type == shard.Text {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r") // that of the last line is no part of a caption
	}
	return f.appendText(dst, text)
}

// jsonAt finds a key of a JSON object, or the value at its parts: "a.b" is a key of its own, or b in a.
func jsonAt(object []byte, key string) (json.RawMessage, error) {
	var values map[string]json.RawMessage
	if json.Unmarshal(object, &values) != nil {
		return nil, errors.New("the JSON is no object")
	}
	if v, ok := values[key]; ok {
		return v, nil
	}
	if first, rest, ok := strings.Cut(key, "."); ok && values[first] != nil {
		return jsonAt(values[first], rest)
	}
	return nil, errors.New("the JSON has no key " + key)
}

// sidecars are the fields of images in folders, whose values lie in files beside them, under the image's name up to its last dot:
// a.JPEG, a.json, a.txt.
type sidecars struct{ fields []Field }

// is says that a file is a sidecar that fields are taken from, and no sample.
func (c *sidecars) is(name string) bool {
	for i := range c.fields {
		if extension, _ := c.fields[i].sidecar(); !c.fields[i].other() && strings.HasSuffix(name, "."+extension) {
			return true
		}
	}
	return false
}

// appendFields appends the values for an image.
func (t *treeFiles) appendFields(dst []byte, key string) ([]byte, error) {
	last, content := "", []byte(nil)
	for i := range t.sidecars.fields {
		field := &t.sidecars.fields[i]
		if field.other() {
			var err error
			if dst, err = field.appendOther(dst, key); err != nil {
				return dst, &FormatError{Path: t.root, Msg: err.Error()}
			}
			continue
		}
		extension, _ := field.sidecar()
		name := strings.TrimSuffix(key, path.Ext(key)) + "." + extension
		file := filepath.Join(t.root, filepath.FromSlash(name))
		var err error
		if name != last {
			if content, err = t.readSidecar(file); errors.Is(err, fs.ErrNotExist) {
				err = &FormatError{Path: file, Msg: field.errorf("there is no such file beside %s", path.Base(key)).Error(), Err: err}
			}
			last = name
		}
		if err != nil {
			return dst, err
		}
		if dst, err = field.appendSidecar(dst, content); err != nil {
			return dst, &FormatError{Path: file, Msg: err.Error()}
		}
	}
	return dst, nil
}

// readSidecar reads a small file. It never opens what is no regular file.
func (t *treeFiles) readSidecar(name string) ([]byte, error) {
	info, err := t.fs.stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > sidecarBytesMax {
		return nil, &FormatError{Path: name, Msg: "is no regular file, or a larger one than fields are taken from"}
	}
	file, err := t.fs.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, sidecarBytesMax))
}
