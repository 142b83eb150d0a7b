package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source"
)

// fieldFlags is the flag --field, which may be given several times.
type fieldFlags struct{ fields *[]source.Field }

func (f fieldFlags) String() string {
	var texts []string
	for _, one := range *f.fields {
		texts = append(texts, one.Name+"="+one.Source)
	}
	return strings.Join(texts, " ")
}

func (f fieldFlags) Set(text string) error {
	one, err := source.ParseField(text)
	if err == nil {
		*f.fields = append(*f.fields, one)
	}
	return err
}

func (f fieldFlags) Type() string { return "NAME=SOURCE[:TYPE]" }

// printFields names the fields of a set.
func printFields(w io.Writer, fields shard.Fields) {
	for i, f := range fields {
		title := ""
		if i == 0 {
			title = "fields"
		}
		fmt.Fprintf(w, "  %-9s %s\n", title, f)
	}
}

// fieldsJSON is an object of a sample's fields and their values.
func fieldsJSON(set *shard.Set, i int) (*json.RawMessage, error) {
	record, _, err := set.Read(i, nil)
	if err != nil {
		return nil, err
	}
	fields := set.Manifest().Fields
	values, err := fields.Split(record.Fields, nil)
	if err != nil {
		return nil, set.Corrupt(i, err)
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for k, v := range values {
		if k > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", fields[k].Name, fields[k].JSON(v))
	}
	b.WriteByte('}')
	raw := json.RawMessage(b.Bytes())
	return &raw, nil
}

// fieldContent is what cat writes of a sample's field.
func fieldContent(set *shard.Set, i int, record *shard.Record, name string) ([]byte, error) {
	fields := set.Manifest().Fields
	k := fields.Index(name)
	if k < 0 {
		if len(fields) == 0 {
			return nil, fmt.Errorf("no field %q: samples of the set have a label alone", name)
		}
		return nil, fmt.Errorf("no field %q: the set has %v", name, fields)
	}
	values, err := fields.Split(record.Fields, nil)
	if err != nil {
		return nil, set.Corrupt(i, err)
	}
	if !fields[k].Numeric() {
		return values[k], nil
	}
	return append(fields[k].JSON(values[k]), '\n'), nil
}
