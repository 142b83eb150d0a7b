package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/suggest"
)

// parameters are those of one operation, as its JSON object gives them: read asks for each by name and type, with its
// default. The first error is kept for the end, and a parameter that nobody asked for is one.
type parameters struct {
	given     map[string]json.RawMessage
	asked     []string
	resampler Resampler // of operations that name none
	nesting   int       // operations that hold this one
	err       error
}

// fail keeps an error, unless there is one already.
func (p *parameters) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// numbers writes how many a list has.
func numbers(n int) string { return bytesize.Counted(n, "number", "numbers") }

// wrong says that a parameter that must be given is missing, or has a wrong number of numbers.
func (p *parameters) wrong(name string, n int, want string) {
	if n == 0 {
		p.fail("%s is missing, want %s", name, want)
	}
	p.fail("%s has %s, want %s", name, numbers(n), want)
}

// finish returns what was wrong.
func (p *parameters) finish() error {
	for _, name := range slices.Sorted(maps.Keys(p.given)) {
		if !slices.Contains(p.asked, name) {
			return fmt.Errorf("no parameter %q%s, want one of %s", name, suggest.Hint(name, p.asked), strings.Join(p.asked, ", "))
		}
	}
	return p.err
}

// isList reports whether a parameter is given as a list.
func (p *parameters) isList(name string) bool { return bytes.HasPrefix(p.given[name], []byte("[")) }

// has reports whether a parameter is given; null counts as not given.
func (p *parameters) has(name string) bool {
	p.asked = append(p.asked, name)
	raw, ok := p.given[name]
	return ok && string(raw) != "null"
}

// decode reads a parameter into value, which stays as it is if none is given; null counts as not given.
func (p *parameters) decode(name, want string, value any) {
	p.asked = append(p.asked, name)
	raw, ok := p.given[name]
	if !ok || string(raw) == "null" {
		return
	}
	if json.Unmarshal(raw, value) != nil || holdsNull(raw) {
		p.fail("%s is %.100s, want %s", name, raw, want)
	}
}

// holdsNull reports whether a value is a list with a null in it, of which decoding makes a zero.
func holdsNull(raw json.RawMessage) bool {
	var list []json.RawMessage
	return json.Unmarshal(raw, &list) == nil && slices.ContainsFunc(list, func(one json.RawMessage) bool { return string(one) == "null" })
}

func (p *parameters) number(name string, value float64) float64 {
	p.decode(name, "a number", &value)
	return value
}

// required reads a number that has no default.
func (p *parameters) required(name string) float64 {
	var value *float64
	if p.decode(name, "a number", &value); value == nil {
		p.fail("%s is missing", name)
		return 0
	}
	return *value
}

func (p *parameters) integer(name string, value int) int {
	p.decode(name, "a whole number", &value)
	return value
}

func (p *parameters) boolean(name string, value bool) bool {
	p.decode(name, "true or false", &value)
	return value
}

func (p *parameters) text(name, value string) string {
	p.decode(name, "a string", &value)
	return value
}

// interval reads [low, high].
func (p *parameters) interval(name string, value [2]float64) [2]float64 {
	var list []float64
	p.decode(name, "two numbers", &list)
	switch {
	case list == nil:
		return value
	case len(list) == 2:
		return [2]float64(list)
	}
	p.fail("%s has %s, want [low, high]", name, numbers(len(list)))
	return value
}

// integers reads a number or a list of numbers.
func (p *parameters) integers(name string) []int {
	var list wholeNumbers
	p.decode(name, "whole numbers", &list)
	return list
}

// wholeNumbers are one, or a list.
type wholeNumbers []int

func (n *wholeNumbers) UnmarshalJSON(raw []byte) error {
	var one int
	if json.Unmarshal(raw, &one) == nil {
		*n = wholeNumbers{one}
		return nil
	}
	return unmarshalSome(raw, (*[]int)(n))
}

// unmarshalSome reads a list that has something in it, which torchvision wants of every list.
func unmarshalSome[T any](raw []byte, list *[]T) error {
	err := json.Unmarshal(raw, list)
	if err == nil && *list != nil && len(*list) == 0 {
		return errors.New("the list is empty")
	}
	return err
}

// size reads n, [n] or [h, w].
func (p *parameters) size(name string) Size {
	list := p.integers(name)
	for _, n := range list {
		if n < 1 || n > SizeMax {
			p.fail("%s is %d, want 1 to %d", name, n, SizeMax)
		}
	}
	switch len(list) {
	case 1:
		return Size{list[0]}
	case 2:
		return Size(list)
	}
	p.wrong(name, len(list), "n or [h, w]")
	return Size{}
}

// padding reads n, [n], [left/right, top/bottom] or [left, top, right, bottom]; none is no padding.
func (p *parameters) padding(name string) [4]int {
	list := p.integers(name)
	switch len(list) {
	case 0:
		return [4]int{}
	case 1:
		return [4]int{list[0], list[0], list[0], list[0]}
	case 2:
		return [4]int{list[0], list[1], list[0], list[1]}
	case 4:
		return [4]int(list)
	}
	p.fail("%s has %s, want 1, 2 or 4", name, numbers(len(list)))
	return [4]int{}
}

// resizing reads how an operation resizes: interpolation, antialias and resampler, which torchvision lacks.
func (p *parameters) resizing() (Interpolation, Resampler) {
	filter, err := resample.ParseFilter(strings.ToLower(p.text("interpolation", Bilinear.String())))
	if err != nil {
		p.fail("%w", err)
	}
	if !p.boolean("antialias", true) {
		p.fail("antialias is false, but Pillow always antialiases; leave it out or use \"nearest\"")
	}
	algorithm, err := resample.ParseAlgorithm(p.text("resampler", p.resampler.String()))
	if err != nil {
		p.fail("%w", err)
	}
	return filter, algorithm
}

func checkResizing(i Interpolation, r Resampler) error {
	if i > Lanczos {
		return fmt.Errorf("unknown interpolation %d", i)
	}
	if r > Pillow12 {
		return fmt.Errorf("unknown resampler %d", r)
	}
	return nil
}

func checkProbability(name string, p float64) error {
	if !(0 <= p && p <= 1) {
		return fmt.Errorf("%s is %v, want 0 to 1", name, p)
	}
	return nil
}

// SizeMax bounds a side of every size and padding that an operation names.
const SizeMax = 1 << 14

// A Size is torchvision's parameter size, in pixels: {n}, or {height, width}.
type Size [2]int

// square returns height and width of a size of which {n} is a square.
func (s Size) square() Size {
	if s[1] == 0 {
		s[1] = s[0]
	}
	return s
}

func (s Size) check() error {
	if s[0] < 1 || s[0] > SizeMax || s[1] < 0 || s[1] > SizeMax {
		return fmt.Errorf("size is %d×%d, want 1 to %d", s[0], s[1], SizeMax)
	}
	return nil
}

// MarshalJSON returns n or [height, width].
func (s Size) MarshalJSON() ([]byte, error) {
	if s[1] == 0 {
		return json.Marshal(s[0])
	}
	return json.Marshal([2]int(s))
}

// object writes an operation as JSON: its name, and pairs of a parameter's name and value.
func object(o Op, pairs ...any) string { return named(o.Name(), pairs...) }

func named(name string, pairs ...any) string {
	b := fmt.Appendf(nil, `{"op": %q`, name)
	for i := 0; i < len(pairs); i += 2 {
		value, err := json.Marshal(pairs[i+1])
		if err != nil {
			value = fmt.Appendf(nil, "%q", err) // a number that JSON lacks, such as NaN: of an operation that no Spec takes
		}
		b = fmt.Appendf(b, `, %q: %s`, pairs[i], spaced(value))
	}
	return string(append(b, '}'))
}

// spaced adds a space after every comma and colon of compact JSON.
func spaced(compact []byte) []byte {
	var b []byte
	quoted, escaped := false, false
	for _, c := range compact {
		b = append(b, c)
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ':'):
			b = append(b, ' ')
		}
	}
	return b
}

var errNoObject = errors.New(`want an object, such as {"op": "CenterCrop", "size": 224}`)
