package transform

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/transform/internal/affine"
)

// Parameters of operations that move pixels about: what they show where there is no pixel, by which angle, about which point.

// A Fill is a colour, torchvision's parameter fill: red, green and blue. The zero value is torchvision's default, black.
type Fill [3]uint8

// MarshalJSON returns n for grey, or [red, green, blue].
func (f Fill) MarshalJSON() ([]byte, error) {
	if f[0] == f[1] && f[1] == f[2] {
		return json.Marshal(f[0])
	}
	return fmt.Appendf(nil, "[%d,%d,%d]", f[0], f[1], f[2]), nil
}

// numbers reads a number or a list of numbers; nil for none.
func (p *parameters) numbers(name string) []float64 {
	var list realNumbers
	p.decode(name, "a number or a list of numbers", &list)
	return list
}

// realNumbers are one, or a list.
type realNumbers []float64

func (n *realNumbers) UnmarshalJSON(raw []byte) error {
	var one float64
	if json.Unmarshal(raw, &one) == nil {
		*n = realNumbers{one}
		return nil
	}
	return unmarshalSome(raw, (*[]float64)(n))
}

// fill reads fill: n, [n] or [red, green, blue]. As torchvision and Pillow do, fractions are cut off and what is no byte is limited to one.
func (p *parameters) fill() (f Fill) {
	list := p.numbers("fill")
	switch len(list) {
	case 0:
		return f
	case 1:
		list = []float64{list[0], list[0], list[0]}
	case 3:
	default:
		p.fail("fill has %s, want one, or red, green and blue", numbers(len(list)))
		return f
	}
	for i, v := range list {
		f[i] = uint8(min(max(v, 0), 255))
	}
	return f
}

// rangeOf reads n, which is [n, n], or [low, high].
func (p *parameters) rangeOf(name string, value [2]float64) [2]float64 {
	switch list := p.numbers(name); len(list) {
	case 0:
		return value
	case 1:
		return [2]float64{list[0], list[0]}
	case 2:
		return [2]float64(list)
	default:
		p.fail("%s has %s, want n or [low, high]", name, numbers(len(list)))
		return value
	}
}

// angle reads a range of angles in degrees: n for -n to n, or [low, high].
func (p *parameters) angle(name string) (degrees [2]float64) {
	list := p.angles(name, 2)
	if list == nil {
		p.fail("%s is missing, want n or [low, high]", name)
		return degrees
	}
	return [2]float64(list)
}

// angles reads n, [low, high], or up to most numbers that are such pairs; nil for none.
func (p *parameters) angles(name string, most int) []float64 {
	list := p.numbers(name)
	switch n := len(list); {
	case n == 0:
		return nil
	case n == 1:
		if p.isList(name) {
			p.fail("%s has 1 number, want n, or [low, high]", name)
		}
		if list[0] < 0 {
			p.fail("%s is %v: a single number must be positive", name, list[0])
		}
		return []float64{-list[0], list[0]}
	case n%2 == 1 || n > most:
		p.fail("%s has %s, want n, or [low, high]", name, numbers(n))
		return make([]float64, 2)
	}
	return list
}

// point reads [x, y]; nil for none.
func (p *parameters) point(name string) *[2]float64 {
	list := p.numbers(name)
	switch len(list) {
	case 0:
		return nil
	case 2:
		return (*[2]float64)(list)
	}
	p.fail("%s has %s, want [x, y]", name, numbers(len(list)))
	return nil
}

// interpolation reads interpolation, for operations that map and don't resize.
func (p *parameters) interpolation(value Interpolation) Interpolation {
	f, err := resample.ParseFilter(strings.ToLower(p.text("interpolation", value.String())))
	if err != nil {
		p.fail("%w", err)
	}
	return f
}

func checkMapping(f Interpolation) error {
	if !affine.Interpolates(f) {
		return fmt.Errorf("interpolation is %v, want nearest, bilinear or bicubic", f)
	}
	return nil
}

func checkInterval(name string, interval [2]float64, least, most float64) error {
	for _, v := range slices.Backward(interval[:]) { // of a single number n, which stands for -n to n, the n that was given
		if !(least <= v && v <= most) {
			return fmt.Errorf("%s is %v, want %g to %g", name, v, least, most)
		}
	}
	if interval[0] > interval[1] {
		return fmt.Errorf("%s is %v, want the lower first", name, interval)
	}
	return nil
}

func checkPoint(name string, point *[2]float64) error {
	if point == nil {
		return nil
	}
	for _, v := range point {
		if !(math.Abs(v) <= longSideMax) {
			return fmt.Errorf("%s is %v, want two numbers of at most %d", name, *point, longSideMax)
		}
	}
	return nil
}
