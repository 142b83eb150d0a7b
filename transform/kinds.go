package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/transform/internal/affine"
)

// A kind of parameter defines how one is read, checked and written.
type kind struct {
	name string
	want string // accepted values, where the name does not say it
	// read converts JSON to the field's value; nil leaves the field as it is.
	read func(d *parameter, raw json.RawMessage, p *parameters) (any, error)
	// check returns the error in a field's value, or normalises it for running. nil accepts everything.
	check func(d *parameter, field reflect.Value) error
	// write returns the value to marshal; nil marshals the field itself.
	write func(value any) any
	// ignored is a second parameter, accepted for compatibility with torchvision.
	ignored string
	// nullIsZero makes null the field's zero value instead of the default.
	nullIsZero bool
}

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
	const lowHigh, either = "[low, high]", "n or [low, high]"
	return []kind{
		{name: "number", read: value[float64]("a number"), check: checkNumbers},
		{name: "integer", read: value[int]("a whole number"), check: checkInteger},
		{name: "bits", read: readBits, check: checkInteger},
		{name: "boolean", read: value[bool]("true or false")},
		{name: "text", read: value[string]("a string"), check: checkText},
		{name: "word", read: readWord, check: checkText},
		{name: "size", want: "n or [h, w]", read: readSize, check: checkSize},
		{name: "sides", want: "n or [h, w]", read: readSize},
		{name: "kernel", want: "n or [width, height]", read: several(kernelOf, 1, 2), check: checkKernel},
		{name: "padding", want: "n, [x, y] or [left, top, right, bottom]", read: several(paddingOf, 1, 2, 4), check: checkPadding},
		{name: "fill", read: readFill, nullIsZero: true},
		{name: "padding_mode", read: readPaddingMode, check: checkPaddingMode},
		{name: "filter", read: readFilter, check: checkFilter, write: writeFilter, ignored: "antialias"},
		{name: "map", read: readMap, check: checkMap, write: writeFilter},
		{name: "resampler", read: readResampler, check: checkResampler},
		{name: "interval", want: lowHigh, read: readInterval, check: checkIntervals},
		{name: "shares", want: "[x, y]", read: readInterval, check: checkNumbers},
		{name: "range", want: either, read: several(rangeOf, 1, 2), check: checkIntervals},
		{name: "angle", want: either, read: readAngle, check: checkIntervals},
		{name: "shear", want: "n, [low, high] or [x low, x high, y low, y high]", read: readShear, check: checkIntervals},
		{name: "point", want: "[x, y]", read: several(pointOf, 2), check: checkPoint},
		{name: "factor", want: "x or [low, high]", read: readFactor, check: checkFactor, write: writeFactor},
		{name: "operations", want: "a list of operations", read: readOps, check: checkOps, write: writeOps},
		{name: "weights", want: "a list of numbers", read: value[[]float64]("a list of numbers")},
		{name: "three", read: readThree, write: func(any) any { return 3 }},
	}
}

// decode reads JSON into a value; null leaves it at zero.
func decode[T any](d *parameter, raw json.RawMessage, want string) (v T, err error) {
	if !isNull(raw) && (json.Unmarshal(raw, &v) != nil || holdsNull(raw)) {
		err = fmt.Errorf("%s is %.100s, want %s", d.name, raw, want)
	}
	return v, err
}

// holdsNull reports whether a value is a list with a null in it, which decoding would turn into a zero.
func holdsNull(raw json.RawMessage) bool {
	var list []json.RawMessage
	return json.Unmarshal(raw, &list) == nil && slices.ContainsFunc(list, func(one json.RawMessage) bool { return string(one) == "null" })
}

// value returns the reader of a kind that has a type in JSON.
func value[T any](want string) func(d *parameter, raw json.RawMessage, p *parameters) (any, error) {
	return func(d *parameter, raw json.RawMessage, _ *parameters) (any, error) { return decode[T](d, raw, want) }
}

// oneOrMore are numbers that JSON gives as a single one or as a list. Like torchvision it refuses an empty list.
type oneOrMore[T any] []T

func (n *oneOrMore[T]) UnmarshalJSON(raw []byte) error {
	var one T
	if json.Unmarshal(raw, &one) == nil {
		*n = oneOrMore[T]{one}
		return nil
	}
	err := json.Unmarshal(raw, (*[]T)(n))
	if err == nil && *n != nil && len(*n) == 0 {
		return errors.New("the list is empty")
	}
	return err
}

// wants describes oneOrMore of a type in messages.
func wants[T int | float64]() string {
	if reflect.TypeFor[T]().Kind() == reflect.Int {
		return "whole numbers"
	}
	return "a number or a list of numbers"
}

// several returns the reader of a kind that takes one number or a list of one of the given lengths. build makes the field's value of it.
func several[T int | float64](build func(list []T) any, counts ...int) func(d *parameter, raw json.RawMessage, p *parameters) (any, error) {
	return func(d *parameter, raw json.RawMessage, _ *parameters) (any, error) {
		list, err := decode[oneOrMore[T]](d, raw, wants[T]())
		switch {
		case err != nil || isNull(raw):
			return nil, err
		case !slices.Contains(counts, len(list)):
			return nil, d.miscounted(len(list))
		}
		return build(list), nil
	}
}

// kernelOf makes a size, width and height, of n or both.
func kernelOf(list []int) any { return [2]int{list[0], list[len(list)-1]} }

// rangeOf makes a range of n, which is [n, n], or of [low, high].
func rangeOf(list []float64) any { return [2]float64{list[0], list[len(list)-1]} }

func pointOf(list []float64) any { return (*[2]float64)(list) }

// paddingOf makes left, top, right and bottom of n, of [left/right, top/bottom], or of all four.
func paddingOf(list []int) any {
	n := len(list)
	return [4]int{list[0], list[1%n], list[2%n], list[3%n]}
}

// miscounted says that a parameter has a wrong number of numbers.
func (d *parameter) miscounted(n int) error {
	return fmt.Errorf("%s has %s, want %s", d.name, bytesize.Counted(n, "number", "numbers"), d.kind.want)
}

// checkNumbers checks every number of a field against the parameter's range.
func checkNumbers(d *parameter, field reflect.Value) error {
	if field.Kind() == reflect.Array {
		for i := range field.Len() {
			if err := checkNumbers(d, field.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	if v := field.Float(); d.bounded && !(d.low <= v && v <= d.high) {
		return fmt.Errorf("%s is %v, want %s", d.name, v, d.interval())
	}
	return nil
}

func checkInteger(d *parameter, field reflect.Value) error {
	if v := field.Int(); d.bounded && !(d.low <= float64(v) && float64(v) <= d.high) {
		return fmt.Errorf("%s is %d, want %s", d.name, v, d.interval())
	}
	return nil
}

// readBits reads a whole number that may be written as a fraction.
func readBits(d *parameter, raw json.RawMessage, _ *parameters) (any, error) {
	v, err := decode[float64](d, raw, "a number")
	if err == nil && !(d.low <= v && v <= d.high && v == math.Trunc(v)) {
		err = fmt.Errorf("%s is %v, want a whole number from %s", d.name, v, d.interval())
	}
	return int(v), err
}

// readWord reads a text and ignores its case.
func readWord(d *parameter, raw json.RawMessage, _ *parameters) (any, error) {
	word, err := decode[string](d, raw, "a string")
	return strings.ToLower(word), err
}

func checkText(d *parameter, field reflect.Value) error {
	if len(d.words) > 0 && !slices.Contains(d.words, field.String()) {
		return fmt.Errorf("%s is %q, want one of %s", d.name, field.String(), strings.Join(d.words, ", "))
	}
	return nil
}

func readSize(d *parameter, raw json.RawMessage, _ *parameters) (any, error) {
	if isNull(raw) {
		return nil, nil
	}
	list, err := decode[oneOrMore[int]](d, raw, wants[int]())
	if err != nil {
		return nil, err
	}
	for _, n := range list {
		if n < 1 || n > SizeMax {
			return nil, fmt.Errorf("%s is %d, want 1 to %d", d.name, n, SizeMax)
		}
	}
	switch len(list) {
	case 1:
		return Size{list[0]}, nil
	case 2:
		return Size(list), nil
	}
	return nil, d.miscounted(len(list))
}

func checkSize(_ *parameter, field reflect.Value) error {
	size := field.Interface().(Size)
	if size[1] == 0 {
		size[1] = size[0] // a square
	}
	field.Set(reflect.ValueOf(size))
	return size.check()
}

func checkKernel(d *parameter, field reflect.Value) error {
	size := field.Interface().([2]int)
	if size[1] == 0 {
		size[1] = size[0]
	}
	for _, n := range size {
		if n < int(d.low) || n > int(d.high) || n%2 == 0 {
			return fmt.Errorf("%s is %d, want an odd number from %s", d.name, n, d.interval())
		}
	}
	field.Set(reflect.ValueOf(size))
	return nil
}

func checkPadding(d *parameter, field reflect.Value) error {
	for i := range field.Len() {
		if n := field.Index(i).Int(); n < 0 || n > SizeMax {
			return fmt.Errorf("%s is %d, want 0 to %d", d.name, n, SizeMax)
		}
	}
	return nil
}

// readFill reads n, [n] or [red, green, blue]; null is black. As torchvision and Pillow do, it cuts fractions off and limits
// numbers to a byte.
func readFill(d *parameter, raw json.RawMessage, _ *parameters) (any, error) {
	var f Fill
	list, err := decode[oneOrMore[float64]](d, raw, wants[float64]())
	switch {
	case err != nil || isNull(raw):
		return nil, err
	case len(list) == 1:
		list = []float64{list[0], list[0], list[0]}
	case len(list) != 3:
		return nil, fmt.Errorf("%s has %s, want one, or red, green and blue", d.name, bytesize.Counted(len(list), "number", "numbers"))
	}
	for i, v := range list {
		f[i] = uint8(min(max(v, 0), 255))
	}
	return f, nil
}

func readPaddingMode(d *parameter, raw json.RawMessage, _ *parameters) (any, error) {
	name, err := decode[string](d, raw, "a string")
	i := slices.Index(paddingModes, name)
	if err == nil && i < 0 {
		err = fmt.Errorf("%s is %q, want one of %q", d.name, name, paddingModes)
	}
	return PaddingMode(max(i, 0)), err
}

func checkPaddingMode(d *parameter, field reflect.Value) error {
	if mode := field.Interface().(PaddingMode); int(mode) >= len(paddingModes) {
		return fmt.Errorf("%s is %v, want one of %q", d.name, mode, paddingModes)
	}
	return nil
}

// readFilter reads the filter of a resize. torchvision's antialias must be true, because Pillow always antialiases.
func readFilter(d *parameter, raw json.RawMessage, p *parameters) (any, error) {
	filter, err := readMap(d, raw, p)
	antialias := true
	if value := p.values["antialias"]; err == nil && !isNull(value) && json.Unmarshal(value, &antialias) != nil {
		err = fmt.Errorf("antialias is %.100s, want true or false", value)
	}
	if err == nil && !antialias {
		err = errors.New("antialias is false, but Pillow always antialiases; leave it out or use \"nearest\"")
	}
	return filter, err
}

func checkFilter(_ *parameter, field reflect.Value) error {
	if f := field.Interface().(Interpolation); f > Lanczos {
		return fmt.Errorf("unknown interpolation %d", f)
	}
	return nil
}

func writeFilter(value any) any { return value.(Interpolation).String() }

// readMap reads the interpolation of an operation that maps points.
func readMap(d *parameter, raw json.RawMessage, _ *parameters) (any, error) {
	name, err := decode[string](d, raw, "a string")
	if err != nil {
		return nil, err
	}
	return resample.ParseFilter(strings.ToLower(name))
}

func checkMap(d *parameter, field reflect.Value) error {
	if f := field.Interface().(Interpolation); !affine.Interpolates(f) {
		return fmt.Errorf("%s is %v, want nearest, bilinear or bicubic", d.name, f)
	}
	return nil
}

func readResampler(d *parameter, raw json.RawMessage, p *parameters) (any, error) {
	name, err := decode[string](d, raw, "a string")
	if err != nil || isNull(raw) {
		return p.resampler, err
	}
	return resample.ParseAlgorithm(name)
}

func checkResampler(_ *parameter, field reflect.Value) error {
	if r := field.Interface().(Resampler); r > Pillow12 {
		return fmt.Errorf("unknown resampler %d", r)
	}
	return nil
}

// readInterval reads two numbers.
func readInterval(d *parameter, raw json.RawMessage, _ *parameters) (any, error) {
	list, err := decode[[]float64](d, raw, "two numbers")
	if err != nil || isNull(raw) {
		return nil, err
	}
	if len(list) != 2 {
		return nil, d.miscounted(len(list))
	}
	return [2]float64(list), nil
}

// checkIntervals checks pairs of numbers against the parameter's range. The lower number comes first.
func checkIntervals(d *parameter, field reflect.Value) error {
	for i := 0; d.bounded && i < field.Len(); i += 2 {
		low, high := field.Index(i).Float(), field.Index(i+1).Float()
		for _, v := range []float64{high, low} { // high first: a single number n became -n and n, and the message shows n
			if !(d.low <= v && v <= d.high) {
				return fmt.Errorf("%s is %v, want %s", d.name, v, d.interval())
			}
		}
		if low > high {
			return fmt.Errorf("%s is %v, want the lower first", d.name, [2]float64{low, high})
		}
	}
	return nil
}

// readAngle reads a range of angles in degrees: n for -n to n, or [low, high].
func readAngle(d *parameter, raw json.RawMessage, _ *parameters) (any, error) {
	list, err := angles(d, raw, 2)
	if err != nil {
		return nil, err
	}
	return [2]float64(list), nil
}

// readShear reads a range of angles along x, and optionally one along y after it.
func readShear(d *parameter, raw json.RawMessage, _ *parameters) (any, error) {
	var shear [4]float64
	list, err := angles(d, raw, 4)
	copy(shear[:], list)
	return shear, err
}

// angles reads n, [low, high], or several such pairs, up to countMax numbers. It returns nil for null.
func angles(d *parameter, raw json.RawMessage, countMax int) ([]float64, error) {
	list, err := decode[oneOrMore[float64]](d, raw, wants[float64]())
	switch n := len(list); {
	case err != nil || n == 0:
		return nil, err
	case n == 1 && bytes.HasPrefix(raw, []byte("[")) || n > 1 && n%2 == 1 || n > countMax:
		return nil, fmt.Errorf("%s has %s, want n, or [low, high]", d.name, bytesize.Counted(n, "number", "numbers"))
	case n == 1 && list[0] < 0:
		return nil, fmt.Errorf("%s is %v: a single number must be positive", d.name, list[0])
	case n == 1:
		return []float64{-list[0], list[0]}, nil
	}
	return list, nil
}

func checkPoint(d *parameter, field reflect.Value) error {
	point := field.Interface().(*[2]float64)
	if point == nil {
		return nil
	}
	for _, v := range point {
		if !(math.Abs(v) <= longSideMax) {
			return fmt.Errorf("%s is %v, want two numbers of at most %d", d.name, *point, longSideMax)
		}
	}
	return nil
}

// readFactor reads the range of an adjustment: [low, high], or x for the neutral factor ± x. The neutral factor is 0 if
// the range allows negative numbers, otherwise 1. The result nil means no adjustment.
func readFactor(d *parameter, raw json.RawMessage, _ *parameters) (any, error) {
	unchanged := 1.0
	if d.low < 0 {
		unchanged = 0
	}
	var one float64
	var r [2]float64
	var list []float64
	switch {
	case json.Unmarshal(raw, &one) == nil && one < 0:
		return nil, fmt.Errorf("%s is %v: if it is a single number, it must be non negative", d.name, one)
	case json.Unmarshal(raw, &one) == nil:
		r = [2]float64{unchanged - one, unchanged + one}
		if unchanged == 1 {
			r[0] = max(r[0], 0)
		}
	case json.Unmarshal(raw, &list) == nil && len(list) == 2 && !holdsNull(raw):
		r = [2]float64(list)
	default:
		return nil, fmt.Errorf("%s is %.100s, want a number or [low, high]", d.name, raw)
	}
	if r == [2]float64{unchanged, unchanged} {
		return nil, nil
	}
	return &r, nil
}

func checkFactor(d *parameter, field reflect.Value) error {
	r := field.Interface().(*[2]float64)
	if r != nil && !(d.low <= r[0] && r[0] <= r[1] && r[1] <= d.high) {
		return fmt.Errorf("%s values should be between %g and %g, but got %v", d.name, d.low, d.high, *r)
	}
	return nil
}

func writeFactor(value any) any {
	if r := value.(*[2]float64); r != nil {
		return *r
	}
	return 0
}

// three is the number of channels of every result.
type three struct{}

func readThree(d *parameter, raw json.RawMessage, _ *parameters) (any, error) {
	n, err := decode[int](d, raw, "a whole number")
	if err == nil && n != 3 {
		err = fmt.Errorf("%s is %d, want 3: results are RGB", d.name, n)
	}
	return nil, err
}
