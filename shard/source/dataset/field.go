package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// Field is a value of each sample beside its label: its name in the set, and where it stands in the source.
type Field struct {
	shard.Field // Type may be empty: the source says it
	// Source is a column of a parquet file or a list, or a member of WebDataset's samples by its extension: "json", "json.KEY", "txt".
	Source   string
	Multihot bool // the source lists the positions of the ones in a vector: [2, 5] for 0 0 1 0 0 1
}

// FieldTypes lists the possible TYPEs for messages.
const FieldTypes = "int64, float32, int64[N], float32[N], multihot[N], text, json or bytes"

// ParseField reads NAME=SOURCE[:TYPE], as --field has it. A colon belongs to SOURCE unless a type follows it.
func ParseField(text string) (Field, error) {
	name, source, ok := strings.Cut(text, "=")
	f := Field{Field: shard.Field{Name: name}, Source: source}
	if i := strings.LastIndexByte(source, ':'); i >= 0 {
		if err := f.setType(source[i+1:]); err != nil {
			return f, fmt.Errorf("%q: %w", text, err)
		}
		f.Source = source[:i]
	}
	if !ok || f.Source == "" {
		return f, fmt.Errorf("%q: NAME=SOURCE[:TYPE] is wanted, as score=json.score:float32", text)
	}
	return f, (shard.Fields{{Name: name, Type: shard.Int64}}).Check()
}

func (f *Field) setType(text string) error {
	base, size, vector := strings.Cut(strings.TrimSuffix(text, "]"), "[")
	f.Type = shard.FieldType(base)
	if f.Multihot = base == "multihot"; f.Multihot {
		f.Type = shard.Float32
	}
	n, err := strconv.Atoi(size)
	switch {
	case vector != strings.HasSuffix(text, "]"), vector && err != nil, f.Multihot && !vector:
		return fmt.Errorf("the type %q is none of %s", text, FieldTypes)
	case vector && (n < 1 || n > shard.FieldSizeMax):
		return fmt.Errorf("a vector has 1 to %d numbers, not %d", shard.FieldSizeMax, n)
	}
	f.Size = n
	if (shard.Fields{{Name: "x", Type: f.Type, Size: n}}).Check() != nil {
		return fmt.Errorf("the type %q is none of %s", text, FieldTypes)
	}
	return nil
}

func (f *Field) Errorf(format string, args ...any) error {
	return fmt.Errorf("field %q: %s", f.Name, fmt.Sprintf(format, args...))
}

// Want says the type, for messages.
func (f *Field) Want() string {
	switch {
	case f.Multihot:
		return fmt.Sprintf("multihot[%d]", f.Size)
	case f.Size > 0:
		return fmt.Sprintf("%s[%d]", f.Type, f.Size)
	}
	return string(f.Type)
}

// fielded is a layout that can give fields.
type fielded interface {
	// BindFields completes the types of the fields, and refuses fields that the source lacks.
	BindFields(fields []Field) error
	// AppendFields appends the values for a key, in layouts that are not streamed.
	AppendFields(dst []byte, key string) ([]byte, error)
}

// bind asks the split's layout for the fields that the options name.
func (s *Split) bind() error {
	if len(s.Options.Fields) == 0 {
		return s.Fields().Check()
	}
	l, ok := s.Layout.(fielded)
	if !ok {
		return transport.Refuse(s.Path, "is %s, which has no fields: --field takes columns of parquet files and of lists, and members of "+
			"WebDataset's samples: list the images with their values in a file of CSV or JSON lines", s.Format)
	}
	s.Options.Fields = slices.Clone(s.Options.Fields)
	if err := l.BindFields(s.Options.Fields); err != nil {
		return err
	}
	return s.Fields().Check()
}

// Fields returns the fields of the options, with their types, and those of the targets.
func (s *Split) Fields() (fields shard.Fields) {
	for _, f := range s.Options.Fields {
		fields = append(fields, f.Field)
	}
	if s.Targets != nil {
		fields = append(fields, s.Targets.Fields()...)
	}
	return fields
}

// AppendFields appends the values of the fields for a key from Walk, whose file is image, if the split is not Streamed. The error may be
// that of Targets.Append. Many goroutines may call it.
func (s *Split) AppendFields(dst []byte, key string, image []byte) (_ []byte, err error) {
	if dst, err = s.appendNamed(dst, key); s.Targets != nil && err == nil {
		dst, err = s.Targets.Append(dst, key, image)
	}
	return dst, err
}

// appendNamed appends the values of the fields that the options name.
func (s *Split) appendNamed(dst []byte, key string) ([]byte, error) {
	if len(s.Options.Fields) == 0 {
		return dst, nil
	}
	return s.Layout.(fielded).AppendFields(dst, key)
}

// AppendText appends a value given as text: a cell of a table, or the content of a file.
func (f *Field) AppendText(dst []byte, text string) ([]byte, error) {
	switch {
	case f.Type == shard.Text && !utf8.ValidString(text):
		return dst, f.Errorf("%.40q is not UTF-8", text)
	case f.Type == shard.JSON:
		return f.AppendJSON(dst, []byte(text))
	case !f.Numeric():
		return shard.AppendBytes(dst, []byte(text)), nil
	}
	list := strings.TrimSpace(text)
	if f.Size > 0 {
		list = strings.TrimSuffix(strings.TrimPrefix(list, "["), "]")
	} else if list == "" {
		return dst, f.Errorf("has no value, and %s is wanted", f.Want())
	}
	w := numbers{field: f, dst: dst, start: len(dst)}
	if f.Multihot {
		w.dst = append(w.dst, make([]byte, f.Width())...)
	}
	for number := range strings.FieldsFuncSeq(list, func(r rune) bool { return f.Size > 0 && strings.ContainsRune(" ,;\t\n\r", r) }) {
		if err := w.text(number); err != nil {
			return dst, err
		}
	}
	if w.count != max(f.Size, 1) && !f.Multihot {
		return dst, f.Errorf("has %d numbers, and %s is wanted", w.count, f.Want())
	}
	return w.dst, nil
}

// AppendJSON appends a value that JSON has.
func (f *Field) AppendJSON(dst, raw []byte) ([]byte, error) {
	raw = bytes.TrimSpace(raw)
	wrong := func() error { return f.Errorf("is %.60s, and %s is wanted", raw, f.Want()) }
	switch {
	case len(raw) == 0 || !json.Valid(raw):
		return dst, f.Errorf("%.60q is not JSON", raw)
	case f.Type == shard.JSON:
		var b bytes.Buffer
		json.Compact(&b, raw) // it is valid
		return shard.AppendBytes(dst, b.Bytes()), nil
	case !f.Numeric():
		var text string
		if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
			return dst, wrong()
		}
		return shard.AppendBytes(dst, []byte(text)), nil
	}
	if (f.Size > 0) != (raw[0] == '[') {
		return dst, wrong()
	}
	return f.AppendText(dst, string(raw))
}

// numbers builds a value from its numbers, one by one.
type numbers struct {
	field *Field
	dst   []byte
	start int // the value begins here in dst
	count int
}

// text takes a number in decimal, or true or false for 1 or 0.
func (w *numbers) text(text string) error {
	switch text {
	case "true":
		return w.int(1)
	case "false":
		return w.int(0)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return w.int(n)
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return w.field.Errorf("%.40q is not a number, and %s is wanted", text, w.field.Want())
	}
	return w.float(x)
}

func (w *numbers) int(n int64) error {
	f := w.field
	w.count++
	switch {
	case f.Multihot:
		if n < 0 || n >= int64(f.Size) {
			return f.Errorf("the position %d is not from 0 to %d", n, f.Size-1)
		}
		shard.AppendFloats(w.dst[:w.start+4*int(n)], 1)
	case f.Type == shard.Int64:
		w.dst = shard.AppendInts(w.dst, n)
	case int64(float32(n)) != n:
		return f.Errorf("%d is not exact in float32: ask for int64", n)
	default:
		w.dst = shard.AppendFloats(w.dst, float32(n))
	}
	return nil
}

func (w *numbers) float(x float64) error {
	f := w.field
	if f.Multihot || f.Type == shard.Int64 {
		if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
			return f.Errorf("%v is not a whole number, and %s is wanted", x, f.Want())
		}
		return w.int(int64(x))
	}
	if y := float32(x); math.IsInf(float64(y), 0) && !math.IsInf(x, 0) {
		return f.Errorf("%v is too large for float32", x)
	}
	w.count++
	w.dst = shard.AppendFloats(w.dst, float32(x))
	return nil
}

// JSONPrefix begins a source of labels or fields in JSON; the key follows.
const JSONPrefix = "json."

// JSONAt finds a key of a JSON object, or the value at its parts: "a.b" is a key of its own, or b in a.
func JSONAt(object []byte, key string) (json.RawMessage, error) {
	var values map[string]json.RawMessage
	if json.Unmarshal(object, &values) != nil {
		return nil, errors.New("the JSON is not an object")
	}
	if v, ok := values[key]; ok {
		return v, nil
	}
	if first, rest, ok := strings.Cut(key, "."); ok && values[first] != nil {
		return JSONAt(values[first], rest)
	}
	return nil, errors.New("the JSON has no key " + key)
}
