package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/resample"
)

// Presets lists the named transforms, in the order in which they are documented.
func Presets() []string { return []string{"eval", "train", "train-resize", "cifar"} }

// preset returns the operations of a named transform, nil if there is none.
func preset(name string) []Op {
	flip := Op{Kind: RandomHorizontalFlip, P: 0.5}
	resize := Op{Kind: Resize, Height: 256, Interpolation: resample.Bilinear}
	switch name {
	case "eval":
		return []Op{resize, {Kind: CenterCrop, Height: 224, Width: 224}}
	case "train":
		return []Op{{
			Kind: RandomResizedCrop, Height: 224, Width: 224, Interpolation: resample.Bilinear,
			Scale: scaleDefault, Ratio: ratioDefault,
		}, flip}
	case "train-resize":
		return []Op{resize, {Kind: RandomCrop, Height: 224, Width: 224}, flip}
	case "cifar":
		return []Op{{Kind: RandomCrop, Height: 32, Width: 32, Padding: [4]int{4, 4, 4, 4}}, flip}
	}
	return nil
}

// torchvision's defaults for RandomResizedCrop.
var (
	scaleDefault = [2]float64{0.08, 1}
	ratioDefault = [2]float64{3. / 4, 4. / 3}
)

// Parse reads a transform: the name of a preset (eval, train, train-resize, cifar), or a JSON list of operations such as
//
//	[{"op": "Resize", "size": 256, "interpolation": "bilinear"}, {"op": "CenterCrop", "size": 224}]
//
// with torchvision's parameter names and defaults. A name may also come as a JSON string. Resize and RandomResizedCrop
// take one parameter that torchvision lacks, "resampler": the releases of Pillow whose bits they give, the newest unless
// told. Errors are [*SpecError].
func Parse(text string) (*Spec, error) { return ParseWith(text, resample.Pillow13) }

// ParseWith is [Parse] with the resampler of those operations that name none, and of the presets.
func ParseWith(text string, resampler resample.Algorithm) (*Spec, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, `"`) {
		var name string
		if json.Unmarshal([]byte(text), &name) == nil {
			text = name
		}
	}
	if !strings.HasPrefix(text, "[") {
		ops := preset(text)
		if ops == nil {
			return nil, &SpecError{Op: -1, Reason: fmt.Sprintf("unknown transform %q, want %s or a JSON list of operations",
				text, strings.Join(Presets(), ", "))}
		}
		for i := range ops {
			if ops[i].resizes() {
				ops[i].Resampler = resampler
			}
		}
		return NewSpec(ops...)
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, &SpecError{Op: -1, Reason: "the list is no valid JSON: " + err.Error()}
	}
	ops := make([]Op, len(list))
	for i, raw := range list {
		var err error
		if ops[i], err = parseOp(i, raw, resampler); err != nil {
			return nil, err
		}
	}
	return NewSpec(ops...)
}

// opJSON holds an operation's parameters as torchvision names them. Pointers tell what is given from what is not.
type opJSON struct {
	Op            string          `json:"op"`
	Size          json.RawMessage `json:"size,omitempty"`
	Interpolation *string         `json:"interpolation,omitempty"`
	Antialias     *bool           `json:"antialias,omitempty"`
	Resampler     *string         `json:"resampler,omitempty"`
	Padding       json.RawMessage `json:"padding,omitempty"`
	PadIfNeeded   *bool           `json:"pad_if_needed,omitempty"`
	Fill          *int            `json:"fill,omitempty"`
	PaddingMode   *string         `json:"padding_mode,omitempty"`
	Scale         *[2]float64     `json:"scale,omitempty"`
	Ratio         *[2]float64     `json:"ratio,omitempty"`
	P             *float64        `json:"p,omitempty"`
}

// given returns the names of the parameters that are there.
func (j *opJSON) given() []string {
	var names []string
	for name, there := range map[string]bool{
		"size": j.Size != nil, "interpolation": j.Interpolation != nil, "antialias": j.Antialias != nil,
		"resampler": j.Resampler != nil, "padding": j.Padding != nil, "pad_if_needed": j.PadIfNeeded != nil, "fill": j.Fill != nil,
		"padding_mode": j.PaddingMode != nil, "scale": j.Scale != nil, "ratio": j.Ratio != nil, "p": j.P != nil,
	} {
		if there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// parameters that each operation takes.
var parameters = map[Kind][]string{
	Resize:               {"size", "interpolation", "antialias", "resampler"},
	CenterCrop:           {"size"},
	RandomCrop:           {"size", "padding", "pad_if_needed", "fill", "padding_mode"},
	RandomResizedCrop:    {"size", "scale", "ratio", "interpolation", "antialias", "resampler"},
	RandomHorizontalFlip: {"p"},
}

func parseOp(i int, raw json.RawMessage, resampler resample.Algorithm) (Op, error) {
	var j opJSON
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	fail := func(format string, args ...any) (Op, error) {
		return Op{}, &SpecError{Op: i, Name: j.Op, Reason: fmt.Sprintf(format, args...)}
	}
	if err := d.Decode(&j); err != nil {
		return fail("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	kind := slices.Index(kindNames[:], j.Op)
	if kind < 0 {
		return fail("unknown operation, want one of %s", strings.Join(kindNames[:], ", "))
	}
	op := Op{Kind: Kind(kind)}
	for _, name := range j.given() {
		if !slices.Contains(parameters[op.Kind], name) {
			return fail("no parameter %q, want one of %s", name, strings.Join(parameters[op.Kind], ", "))
		}
	}
	if err := op.set(&j, resampler); err != nil {
		return fail("%v", err)
	}
	return op, nil
}

// resizes reports whether the operation has an interpolation and a resampler.
func (o *Op) resizes() bool { return o.Kind == Resize || o.Kind == RandomResizedCrop }

// set takes the parameters over, with torchvision's defaults for those that are not given, and the given resampler.
func (o *Op) set(j *opJSON, resampler resample.Algorithm) (err error) {
	if o.Kind != RandomHorizontalFlip {
		if o.Height, o.Width, err = parseSize(j.Size, o.Kind == Resize); err != nil {
			return err
		}
	}
	if o.resizes() {
		if err := o.setFilter(j, resampler); err != nil {
			return err
		}
	}
	switch o.Kind {
	case RandomCrop:
		if o.Padding, err = parsePadding(j.Padding); err != nil {
			return err
		}
		o.PadIfNeeded = j.PadIfNeeded != nil && *j.PadIfNeeded
		if j.Fill != nil && *j.Fill != 0 {
			return fmt.Errorf("fill is %d, only 0 (black) is supported", *j.Fill)
		}
		if j.PaddingMode != nil && *j.PaddingMode != "constant" {
			return fmt.Errorf("padding_mode is %q, only \"constant\" is supported", *j.PaddingMode)
		}
	case RandomResizedCrop:
		o.Scale, o.Ratio = scaleDefault, ratioDefault
		if j.Scale != nil {
			o.Scale = *j.Scale
		}
		if j.Ratio != nil {
			o.Ratio = *j.Ratio
		}
	case RandomHorizontalFlip:
		o.P = 0.5
		if j.P != nil {
			o.P = *j.P
		}
	}
	return nil
}

// setFilter takes over how an operation resizes.
func (o *Op) setFilter(j *opJSON, resampler resample.Algorithm) (err error) {
	o.Interpolation, o.Resampler = resample.Bilinear, resampler
	if j.Interpolation != nil {
		if o.Interpolation, err = resample.ParseFilter(strings.ToLower(*j.Interpolation)); err != nil {
			return err
		}
	}
	if j.Resampler != nil {
		if o.Resampler, err = resample.ParseAlgorithm(*j.Resampler); err != nil {
			return err
		}
	}
	if j.Antialias != nil && !*j.Antialias {
		return fmt.Errorf("antialias is false, but Pillow always antialiases; leave it out or use \"nearest\"")
	}
	return nil
}

// parseSize reads n, [n] or [h, w]. One number is a square, but for Resize, where it is the shorter side.
func parseSize(raw json.RawMessage, shortSide bool) (h, w int, err error) {
	numbers, err := parseInts("size", raw)
	if err != nil {
		return 0, 0, err
	}
	for _, n := range numbers {
		if n < 1 || n > SizeMax {
			return 0, 0, fmt.Errorf("size is %d, want 1 to %d", n, SizeMax)
		}
	}
	switch {
	case len(numbers) == 1 && shortSide:
		return numbers[0], 0, nil
	case len(numbers) == 1:
		return numbers[0], numbers[0], nil
	case len(numbers) == 2:
		return numbers[0], numbers[1], nil
	}
	return 0, 0, fmt.Errorf("size is missing or has %d numbers, want n or [h, w]", len(numbers))
}

// parsePadding reads n, [n], [left/right, top/bottom] or [left, top, right, bottom].
func parsePadding(raw json.RawMessage) ([4]int, error) {
	n, err := parseInts("padding", raw)
	if err != nil {
		return [4]int{}, err
	}
	switch len(n) {
	case 0:
		return [4]int{}, nil
	case 1:
		return [4]int{n[0], n[0], n[0], n[0]}, nil
	case 2:
		return [4]int{n[0], n[1], n[0], n[1]}, nil
	case 4:
		return [4]int(n), nil
	}
	return [4]int{}, fmt.Errorf("padding has %d numbers, want 1, 2 or 4", len(n))
}

// parseInts reads a number or a list of numbers; null and nothing give none.
func parseInts(name string, raw json.RawMessage) ([]int, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one int
	if json.Unmarshal(raw, &one) == nil {
		return []int{one}, nil
	}
	var list []int
	if json.Unmarshal(raw, &list) != nil {
		return nil, fmt.Errorf("%s is %s, want whole numbers", name, raw)
	}
	return list, nil
}

// String returns the transform as a JSON list with every parameter, which [Parse] reads back to the same Spec.
func (s *Spec) String() string {
	var b strings.Builder
	for i, op := range s.ops {
		b.WriteString([]string{"[", ", "}[min(i, 1)])
		b.WriteString(op.String())
	}
	return b.String() + "]"
}

// String returns the operation as a JSON object with every parameter.
func (o Op) String() string {
	b := fmt.Appendf(nil, `{"op": %q`, o.Kind)
	switch {
	case o.Kind == RandomHorizontalFlip:
		b = fmt.Appendf(b, `, "p": %s`, number(o.P))
	case o.Width == 0:
		b = fmt.Appendf(b, `, "size": %d`, o.Height)
	default:
		b = fmt.Appendf(b, `, "size": [%d, %d]`, o.Height, o.Width)
	}
	switch o.Kind {
	case Resize:
		b = fmt.Appendf(b, `, "interpolation": %q, "resampler": %q`, o.Interpolation, o.Resampler)
	case RandomResizedCrop:
		b = fmt.Appendf(b, `, "scale": [%s, %s], "ratio": [%s, %s], "interpolation": %q, "resampler": %q`, number(o.Scale[0]),
			number(o.Scale[1]), number(o.Ratio[0]), number(o.Ratio[1]), o.Interpolation, o.Resampler)
	case RandomCrop:
		b = fmt.Appendf(b, `, "padding": [%d, %d, %d, %d], "pad_if_needed": %v`, o.Padding[0], o.Padding[1], o.Padding[2],
			o.Padding[3], o.PadIfNeeded)
	}
	return string(append(b, '}'))
}

// number writes x so that it reads back to the same bits.
func number(x float64) string {
	b, _ := json.Marshal(x)
	return string(b)
}
