package transform

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/transform/internal/affine"
)

// A kind of parameter defines how one is read, checked and written. A kind without read and parse consists of numbers.
type kind struct {
	name string
	want string // accepted values, where the name does not say it
	// read sets a field, which is zero, to a value in JSON.
	read func(d *parameter, raw json.RawMessage, p *parameters, field reflect.Value) error
	// parse returns the field's value of a text. Printing the value gives the text again.
	parse func(d *parameter, text string) (any, error)
	// check returns the error in a field's value, or normalises it for running.
	check func(d *parameter, field reflect.Value) error
	// write returns the value to marshal; nil marshals the field itself.
	write func(value any) any

	of        string  // type of numbers in JSON
	counts    []int   // accepted lengths of a list of numbers; nil takes a single number
	listed    bool    // a single number must be in a list
	repeated  bool    // fewer numbers than the field has are repeated
	symmetric bool    // a single number n means from -n to n, or of a factor from 1 - n to 1 + n
	ordered   bool    // pairs with the lower number first
	odd       bool    // odd numbers only
	rounded   bool    // on tensors fractions are rounded, a half to an even number; everywhere else they are cut off
	low, high float64 // bounds where the parameter declares no range
}

func (k *kind) whole() bool { return strings.Contains(k.of, "whole") }

// kindOf returns the kind of a field: the one its tag names, or the one of its type.
func kindOf(field reflect.StructField) kind {
	name, ok := field.Tag.Lookup("is")
	if !ok {
		name = kindsOfTypes[field.Type]
	}
	i := slices.IndexFunc(kinds(), func(k kind) bool { return k.name == name })
	if i < 0 {
		panic(fmt.Sprintf("transform: parameter %s has no kind %q", field.Name, name))
	}
	return kinds()[i]
}

// kindsOfTypes are the kinds of fields without a tag is.
var kindsOfTypes = map[reflect.Type]string{
	reflect.TypeFor[float64]():       "number",
	reflect.TypeFor[int]():           "integer",
	reflect.TypeFor[bool]():          "boolean",
	reflect.TypeFor[string]():        "text",
	reflect.TypeFor[Size]():          "size",
	reflect.TypeFor[[2]int]():        "kernel",
	reflect.TypeFor[[4]int]():        "padding",
	reflect.TypeFor[Fill]():          "fill",
	reflect.TypeFor[PaddingMode]():   "padding_mode",
	reflect.TypeFor[Interpolation](): "filter",
	reflect.TypeFor[Resampler]():     "resampler",
	reflect.TypeFor[[2]float64]():    "interval",
	reflect.TypeFor[*[2]float64]():   "point",
	reflect.TypeFor[[]Op]():          "operations",
	reflect.TypeFor[[]float64]():     "weights",
	reflect.TypeFor[three]():         "three",
}

// kinds lists the kinds of parameters. It is a function because readOps, which it names, needs it in turn.
func kinds() []kind {
	const lowHigh, either, number, whole = "[low, high]", "n or [low, high]", "a number or a list of numbers", "whole numbers"
	return []kind{
		{name: "number", of: "a number"},
		{name: "integer", of: "a whole number"},
		{name: "size", want: "n or [h, w]", of: whole, counts: []int{1, 2}, repeated: true, low: 1, high: SizeMax},
		{name: "sides", want: "n or [h, w]", of: whole, counts: []int{1, 2}, low: 1, high: SizeMax, check: checkSides},
		{name: "kernel", want: "n or [width, height]", of: whole, counts: []int{1, 2}, repeated: true, odd: true},
		{
			name: "padding", want: "n, [x, y] or [left, top, right, bottom]", of: whole, counts: []int{1, 2, 4}, repeated: true,
			low: 0, high: SizeMax,
		},
		{name: "fill", of: "a number or [red, green, blue]", counts: []int{1, 3}, repeated: true},
		{name: "map fill", of: "a number or [red, green, blue]", counts: []int{1, 3}, repeated: true, rounded: true},
		{name: "interval", want: lowHigh, of: "two numbers", counts: []int{2}, listed: true, ordered: true},
		{name: "shares", want: "[x, y]", of: "two numbers", counts: []int{2}, listed: true},
		{name: "point", want: "[x, y]", of: "two numbers", counts: []int{2}, listed: true},
		{name: "range", want: either, of: number, counts: []int{1, 2}, repeated: true, ordered: true},
		{name: "angle", want: either, of: number, counts: []int{2}, symmetric: true, ordered: true},
		{
			name: "shear", want: "n, [low, high] or [x low, x high, y low, y high]", of: number, counts: []int{2, 4},
			symmetric: true, ordered: true,
		},
		{name: "factor", want: "x or [low, high]", of: number, counts: []int{2}, symmetric: true, ordered: true, write: writeFactor},
		{name: "three", of: "a whole number", low: 3, high: 3, write: func(any) any { return 3 }},
		{name: "weights", want: "a list of numbers", read: readValue("a list of numbers"), check: unchecked},
		{name: "antialias", read: readAntialias, check: unchecked, write: func(value any) any { return !value.(bool) }},
		{name: "resize filter", parse: parseResizeFilter},
		{name: "boolean", read: readValue("true or false"), check: unchecked},
		{name: "text", parse: parseWord},
		{name: "padding_mode", parse: parsePaddingMode},
		{name: "filter", parse: parseFilter},
		{name: "map", parse: parseMap},
		{name: "resampler", read: readResampler, parse: parseResampler},
		{name: "operations", want: "a list of operations", read: readOps, check: checkOps, write: writeOps},
	}
}

// decode reads JSON into a variable.
func (d *parameter) decode(raw json.RawMessage, to any, want string) error {
	if json.Unmarshal(raw, to) != nil || holdsNull(raw) {
		return fmt.Errorf("%s is %.100s, want %s", d.name, raw, want)
	}
	return nil
}

// holdsNull reports whether a value is a list with a null in it, which decoding would turn into a zero.
func holdsNull(raw json.RawMessage) bool {
	var list []json.RawMessage
	return json.Unmarshal(raw, &list) == nil && slices.ContainsFunc(list, func(one json.RawMessage) bool { return string(one) == "null" })
}

// readValue returns the reader of a kind that has a type in JSON.
func readValue(want string) func(d *parameter, raw json.RawMessage, p *parameters, field reflect.Value) error {
	return func(d *parameter, raw json.RawMessage, _ *parameters, field reflect.Value) error {
		return d.decode(raw, field.Addr().Interface(), want)
	}
}

func unchecked(*parameter, reflect.Value) error { return nil }

func (d *parameter) readNumbers(raw json.RawMessage, tensor bool, field reflect.Value) error {
	k := &d.kind
	list, single := make([]float64, 1), !bytes.HasPrefix(raw, []byte("["))
	to := any(&list)
	if single {
		to = &list[0]
	}
	if err := d.decode(raw, to, k.of); err != nil {
		return err
	}
	if tensor && k.rounded {
		for i, v := range list {
			list[i] = math.RoundToEven(v)
		}
	}
	if single && k.listed || !single && !slices.Contains(k.counts, len(list)) {
		return fmt.Errorf("%s has %s, want %s", d.name, bytesize.Counted(len(list), "number", "numbers"), cmp.Or(k.want, k.of))
	}
	if k.whole() && slices.ContainsFunc(list, func(v float64) bool { return v != math.Trunc(v) || math.Abs(v) > 1<<53 }) {
		return fmt.Errorf("%s is %.100s, want %s", d.name, raw, k.of)
	}
	middle := 0.0
	if k.name == "factor" && d.low == 0 {
		middle = 1
	}
	if single && k.symmetric {
		if list[0] < 0 {
			return fmt.Errorf("%s is %v: a single number must be positive", d.name, list[0])
		}
		list = []float64{max(middle-list[0], d.low), middle + list[0]}
	}
	// A factor that changes nothing leaves its field nil.
	if k.name != "factor" || list[0] != middle || list[1] != middle {
		setNumbers(field, list, k.repeated)
	}
	return d.checkNumbers(list)
}

// setNumbers sets a field, or a part of one, to the first numbers of a list. As torchvision and Pillow do, it cuts off the
// fraction of a byte and limits it to 255.
func setNumbers(field reflect.Value, list []float64, repeated bool) {
	switch field.Kind() {
	case reflect.Float64:
		field.SetFloat(list[0])
	case reflect.Int:
		field.SetInt(int64(list[0]))
	case reflect.Uint8:
		field.SetUint(uint64(min(max(list[0], 0), 255)))
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		setNumbers(field.Elem(), list, repeated)
	case reflect.Array:
		for i := range field.Len() {
			if i < len(list) || repeated {
				setNumbers(field.Index(i), list[i%len(list):], false)
			}
		}
	}
}

func numbersOf(field reflect.Value) (list []float64) {
	switch field.Kind() {
	case reflect.Float64:
		return []float64{field.Float()}
	case reflect.Int:
		return []float64{float64(field.Int())}
	case reflect.Pointer:
		return numbersOf(field.Elem())
	case reflect.Array:
		for i := range field.Len() {
			list = append(list, numbersOf(field.Index(i))...)
		}
	}
	return list
}

// checkNumbers returns the error in the numbers of a parameter. The last ones come first: of a range that a single number
// stands for, the message shows that number.
func (d *parameter) checkNumbers(list []float64) error {
	for i, v := range slices.Backward(list) {
		switch {
		case !(d.low <= v && v <= d.high):
			return fmt.Errorf("%s is "+d.format()+", want %s", d.name, v, d.interval())
		case d.kind.odd && math.Mod(v, 2) == 0:
			return fmt.Errorf("%s is %v, want an odd number from %s", d.name, v, d.interval())
		case d.kind.ordered && i%2 == 1 && !(list[i-1] <= v):
			return fmt.Errorf("%s is %v, want the lower first", d.name, list[i-1:i+1])
		}
	}
	return nil
}

// check returns the error in a field's value; it may also normalise the value.
func (d *parameter) check(field reflect.Value) error {
	switch k := &d.kind; {
	case field.IsZero() && d.omitEmpty:
		return nil
	case k.check != nil:
		return k.check(d, field)
	case k.parse != nil:
		value, err := k.parse(d, fmt.Sprint(field.Interface()))
		if err == nil {
			field.Set(reflect.ValueOf(value))
		}
		return err
	}
	list := numbersOf(field)
	if d.kind.whole() && len(list) == 2 && list[1] == 0 { // a square
		list[1] = list[0]
		setNumbers(field, list, false)
	}
	return d.checkNumbers(list)
}

// checkSides checks a length of the shorter side, or of both.
func checkSides(d *parameter, field reflect.Value) error {
	list := numbersOf(field)
	if list[1] == 0 {
		list = list[:1]
	}
	return d.checkNumbers(list)
}

// readText sets the field of a kind that has parse.
func (d *parameter) readText(raw json.RawMessage, field reflect.Value) error {
	var text string
	if err := d.decode(raw, &text, "a string"); err != nil {
		return err
	}
	value, err := d.kind.parse(d, text)
	if err == nil {
		field.Set(reflect.ValueOf(value))
	}
	return err
}

// parseWord takes a text, or one of several words in any case.
func parseWord(d *parameter, text string) (any, error) {
	if len(d.words) == 0 {
		return text, nil
	}
	word := strings.ToLower(text)
	if !slices.Contains(d.words, word) {
		return nil, fmt.Errorf("%s is %q, want one of %s", d.name, text, strings.Join(d.words, ", "))
	}
	return word, nil
}

func parsePaddingMode(d *parameter, name string) (any, error) {
	i := slices.Index(paddingModes, name)
	if i < 0 {
		return nil, fmt.Errorf("%s is %q, want one of %q", d.name, name, paddingModes)
	}
	return PaddingMode(i), nil
}

func parseFilter(_ *parameter, name string) (any, error) {
	return resample.ParseFilter(strings.ToLower(name))
}

// parseResizeFilter takes a resize's interpolation. That of tensors has one more name, which on an image of Pillow is nearest.
func parseResizeFilter(d *parameter, name string) (any, error) {
	if strings.ToLower(name) == resample.NearestExact.String() {
		return resample.NearestExact, nil
	}
	return parseFilter(d, name)
}

// readAntialias sets a field that says the opposite.
func readAntialias(d *parameter, raw json.RawMessage, _ *parameters, field reflect.Value) error {
	var antialias bool
	err := d.decode(raw, &antialias, "true or false")
	field.SetBool(!antialias)
	return err
}

// parseMap takes the interpolation of an operation that maps points.
func parseMap(d *parameter, name string) (any, error) {
	f, err := resample.ParseFilter(strings.ToLower(name))
	if err == nil && !affine.Interpolates(f) {
		err = fmt.Errorf("%s is %v, want nearest, bilinear or bicubic", d.name, f)
	}
	return f, err
}

func parseResampler(_ *parameter, name string) (any, error) { return resample.ParseAlgorithm(name) }

func readResampler(d *parameter, raw json.RawMessage, p *parameters, field reflect.Value) error {
	if isNull(raw) {
		field.Set(reflect.ValueOf(p.resampler))
		return nil
	}
	return d.readText(raw, field)
}

// writeFactor writes 0 for the factor that changes nothing.
func writeFactor(value any) any {
	if r := value.(*[2]float64); r != nil {
		return *r
	}
	return 0
}

// three is the number of channels of every result.
type three struct{}
