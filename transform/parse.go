package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/suggest"
	"github.com/imgfeed/imgfeed/internal/termsafe"
)

// Parse reads a transform: the name of a preset ([Presets]), or a JSON list of operations such as
//
//	[{"op": "Resize", "size": 256, "interpolation": "bilinear"}, {"op": "CenterCrop", "size": 224}]
//
// with torchvision's parameter names and defaults. A name may also come as a JSON string. Operations that resize take one parameter that
// torchvision lacks, "resampler": the releases of Pillow that they match, by default the newest. Errors are [*SpecError].
func Parse(text string) (*Spec, error) {
	views, err := ParseViews(text, Pillow13)
	switch {
	case err != nil:
		return nil, err
	case len(views) > 1:
		return nil, specError("it makes %d views of an image, but only one is possible here", len(views))
	}
	return views[0], nil
}

// parseTransform reads the views of one transform, a preset's name or a list; names are those to suggest.
func parseTransform(text string, resampler Resampler, names []string) (Views, error) {
	if !strings.HasPrefix(text, "[") {
		name := unquoted(text)
		if text = textOf(presets, name); text == "" {
			hint := suggest.Hint(name, names)
			if _, err := parseTimm(name); err == nil {
				hint = fmt.Sprintf(` (put timm's policies into a list: {"op": "TimmAugment", "config": %q})`, name)
			}
			return nil, specError("unknown transform %q%s, want %s, or a JSON list of operations", name, hint, strings.Join(names, ", "))
		}
	}
	ops, err := parseNested([]byte(text), parameters{resampler: resampler})
	if err != nil {
		return nil, err
	}
	return newViews(ops...)
}

// unquoted returns a name that may come as a JSON string.
func unquoted(text string) string {
	var name string
	if strings.HasPrefix(text, `"`) && json.Unmarshal([]byte(text), &name) == nil {
		return name
	}
	return text
}

// parseNested reads a JSON list of operations, which is within those of p. It puts a ToImage before the first one whose
// backend is "tensor".
func parseNested(text []byte, p parameters) ([]Op, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, specError("the list is not valid JSON: %v", err)
	}
	ops := make([]Op, 0, len(list))
	for i, raw := range list {
		before := p.tensor
		name, op, err := p.parseOp(raw)
		if err != nil {
			return nil, opError(i, name, err)
		}
		if _, made := op.(ToImage); p.tensor && !before && !made {
			ops = append(ops, ToImage{})
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// parseOp reads an operation. It returns the name even if it is unknown.
func (p *parameters) parseOp(raw json.RawMessage) (name string, op Op, err error) {
	p.values = nil
	if json.Unmarshal(raw, &p.values) != nil || p.values == nil {
		return "", nil, errors.New(`want an object, such as {"op": "CenterCrop", "size": 224}`)
	}
	if json.Unmarshal(p.values["op"], &name) != nil {
		return "", nil, errors.New(`want "op" with the operation's name, as in {"op": "CenterCrop", "size": 224}`)
	}
	delete(p.values, "op")
	if err := p.readBackend(); err != nil {
		return name, nil, err
	}
	known := operations()
	i := slices.IndexFunc(known, func(o listedOp) bool { return NameOf(o.op) == name })
	if i < 0 {
		names := operationNames()
		err := fmt.Errorf("unknown operation%s, want one of %s", suggest.Hint(name, names), strings.Join(names, ", "))
		return termsafe.Text(fmt.Sprintf("%.60s", name)), nil, err
	}
	op, err = p.read(known[i].op)
	_, made := op.(ToImage)
	p.tensor = p.tensor || made
	return name, op, err
}

func listString(ops []Op) string {
	texts := make([]string, len(ops))
	for i, op := range ops {
		texts[i] = TextOf(op)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// named writes an operation as JSON: its name, and pairs of a parameter's name and value.
func named(name string, pairs ...any) string {
	b := fmt.Appendf(nil, `{"op": %q`, name)
	for i := 0; i < len(pairs); i += 2 {
		value := pairs[i+1]
		switch value.(type) {
		case Interpolation, PaddingMode:
			value = fmt.Sprint(value)
		}
		text, err := json.Marshal(value)
		if err != nil {
			text = fmt.Appendf(nil, "%q", err) // NaN and infinity, which a Spec refuses
		}
		b = fmt.Appendf(b, `, %q: %s`, pairs[i], spaced(text))
	}
	return string(append(b, '}'))
}

// spaced adds a space after every comma and colon of compact JSON.
func spaced(compact []byte) []byte {
	var lines bytes.Buffer
	_ = json.Indent(&lines, compact, "", "") // the text is valid
	return bytes.ReplaceAll(bytes.ReplaceAll(lines.Bytes(), []byte(",\n"), []byte(", ")), []byte("\n"), nil)
}
