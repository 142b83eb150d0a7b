package transform

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/internal/suggest"
)

// Operations declare their parameters by the tags of their fields:
//
//	Scale [2]float64 `param:"scale" default:"[0.08, 1]" range:"0 1"`
//
// param is the name in JSON, which is torchvision's. default is the value of an absent parameter, as JSON or as a bare word; null leaves
// the field at its zero value, and a parameter without a default is required. range bounds every number of it. oneof lists the accepted
// words of a text. is names the kind of parameter (kinds.go) where the field's type does not imply it. After the name, "omitempty" leaves a
// zero value out of the JSON and unchecked, and "nonzero" refuses zeros in JSON because in Go they stand for the default.
//
// Reading, checking and writing of parameters, the table in docs/transforms.md, and the names that servers give to clients
// all follow from these tags.

// A parameter is the declaration of an operation's parameter.
type parameter struct {
	name               string
	kind               kind
	field              int // index in the operation's struct
	required           bool
	fallback           json.RawMessage // default value
	bounded            bool            // a range is declared
	low, high          float64
	words              []string
	omitEmpty, nonZero bool
}

// declared returns the parameters that an operation's type declares, in order.
func declared(t reflect.Type) []parameter {
	var all []parameter
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		names, ok := tag.Lookup("param")
		if !ok {
			continue
		}
		name, options, _ := strings.Cut(names, ",")
		d := parameter{
			name: name, field: i, kind: kindOf(t.Field(i)), words: strings.Fields(tag.Get("oneof")),
			omitEmpty: strings.Contains(options, "omitempty"), nonZero: strings.Contains(options, "nonzero"),
		}
		fallback, ok := tag.Lookup("default")
		if d.required = !ok; ok {
			if d.fallback = json.RawMessage(fallback); !json.Valid(d.fallback) {
				d.fallback = strconv.AppendQuote(nil, fallback)
			}
		}
		if d.low, d.high = d.kind.low, d.kind.high; d.low == d.high && d.high == 0 {
			d.low, d.high = math.Inf(-1), math.Inf(1)
		}
		if bounds, ok := tag.Lookup("range"); ok {
			if _, err := fmt.Sscan(bounds, &d.low, &d.high); err != nil {
				panic("transform: a range is " + bounds)
			}
			d.bounded = true
		}
		all = append(all, d)
	}
	return all
}

// format is the verb for the parameter's numbers.
func (d *parameter) format() string {
	if d.kind.whole() {
		return "%.0f"
	}
	return "%g"
}

// interval writes the range of a parameter.
func (d *parameter) interval() string {
	if math.IsInf(d.low, -1) {
		return fmt.Sprintf("up to "+d.format(), d.high)
	}
	return fmt.Sprintf(d.format()+" to "+d.format(), d.low, d.high)
}

// parameters are the members of an operation's JSON object.
type parameters struct {
	values    map[string]json.RawMessage
	resampler Resampler // default of operations that resize
	nesting   int       // number of operations around this one
	tensor    bool      // the image is a tensor
}

// isNull reports whether a value is missing or null, which counts as missing.
func isNull(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }

// read returns an operation of known's type with the given parameters. It refuses undeclared ones.
func (p *parameters) read(known Op) (Op, error) {
	v := reflect.New(reflect.TypeOf(known)).Elem()
	var first error // an undeclared parameter is reported before a wrong value
	var names []string
	for _, d := range declared(v.Type()) {
		names = append(names, d.name)
		if err := d.read(p, v.Field(d.field)); err != nil && first == nil {
			first = err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("no parameter %q%s, want one of %s", name, suggest.Hint(name, names), strings.Join(names, ", "))
		}
	}
	return v.Interface().(Op), first
}

// read sets a field to the given value, or to the default.
func (d *parameter) read(p *parameters, field reflect.Value) error {
	raw, explicit := p.values[d.name], true
	if isNull(raw) {
		raw, explicit = d.fallback, false
	}
	if isNull(raw) && d.required {
		if d.kind.want == "" {
			return fmt.Errorf("%s is missing", d.name)
		}
		return fmt.Errorf("%s is missing, want %s", d.name, d.kind.want)
	}
	var err error
	switch k := &d.kind; {
	case k.read != nil:
		err = k.read(d, raw, p, field)
	case isNull(raw):
	case k.parse != nil:
		err = d.readText(raw, field)
	default:
		err = d.readNumbers(raw, p.tensor, field)
	}
	if err == nil && explicit && d.nonZero && field.IsZero() {
		err = fmt.Errorf("%s is [0, 0], want a high above 0", d.name)
	}
	return err
}

// prepared returns an operation ready to run: checked, with its tables computed.
func prepared(op Op) (Op, error) {
	v := reflect.New(reflect.TypeOf(op)).Elem()
	v.Set(reflect.ValueOf(op))
	for _, d := range declared(v.Type()) {
		field := v.Field(d.field)
		if field.IsZero() && d.nonZero && !isNull(d.fallback) {
			if err := d.readNumbers(d.fallback, false, field); err != nil {
				return nil, err
			}
		}
		if err := d.check(field); err != nil {
			return nil, err
		}
	}
	op = v.Interface().(Op)
	if has, ok := op.(preparer); ok {
		return has.prepare()
	}
	return op, nil
}

// TextOf returns an operation as a JSON object with every parameter, as [Parse] reads it.
func TextOf(op Op) string {
	var pairs []any
	v := reflect.ValueOf(op)
	for _, d := range declared(v.Type()) {
		field := v.Field(d.field)
		if d.omitEmpty && field.IsZero() {
			continue
		}
		value := field.Interface()
		if d.kind.write != nil {
			value = d.kind.write(value)
		}
		pairs = append(pairs, d.name, value)
	}
	return named(NameOf(op), pairs...)
}

// A Schema names the parameters of an operation, for programs that make transforms.
type Schema struct {
	Op         string   `json:"op"`
	Parameters []string `json:"parameters"`
}

// Schemas returns the declarations of all operations, in the order of docs/transforms.md.
func Schemas() []Schema {
	var all []Schema
	for _, listed := range operations() {
		s := Schema{Op: NameOf(listed.op), Parameters: []string{}} // not nil, which JSON would write as null
		for _, d := range declared(reflect.TypeOf(listed.op)) {
			s.Parameters = append(s.Parameters, d.name)
		}
		all = append(all, s)
	}
	return all
}
