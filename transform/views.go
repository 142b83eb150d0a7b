package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"strings"
	"time"
)

// Views are several transforms of one image, with a result each. A single one is an ordinary transform. Do not change them.
type Views []*Spec

// newViews returns the views of a list of operations: one, or several if it has a [FiveCrop] or [TenCrop]. The error is a [*SpecError].
func newViews(ops ...Op) (Views, error) {
	spec, err := newSpec(ops, true)
	if err != nil {
		return nil, err
	}
	views := Views{spec}
	for i := 1; i < spec.parts; i++ {
		view := *spec
		view.part = i
		views = append(views, &view)
	}
	return views, nil
}

// A severalOp makes several results of an image, and so several views of the transform that holds it. It applies the one of canvas.part.
type severalOp interface{ results() int }

// severalError is the error of a severalOp where only one result is allowed, or nil.
func severalError(op Op) error {
	if several, ok := op.(severalOp); ok {
		return fmt.Errorf("it makes %d views of an image, but only one is possible here", several.results())
	}
	return nil
}

// RNG returns the source of a view's random parameters. Views made from one list all have the first one's.
func (v Views) RNG(seed int64, epoch, index, repetition, view int) RNG {
	return NewViewRNG(seed, epoch, index, repetition, view-v[view].part)
}

// ViewsMax bounds the views of an image.
const ViewsMax = 64

// ParseViews is [Parse] with a default resampler, for operations that do not name one and for presets. It also takes several
// views: the name of one of [ViewPresets], or
//
//	{"views": ["train", [{"op": "CenterCrop", "size": 96}], {"repeat": 8, "ops": "cifar"}]}
//
// The elements are transforms as for [Parse], or objects with a transform and its number of views. Errors are [*SpecError].
func ParseViews(text string, resampler Resampler) (Views, error) {
	text = strings.TrimSpace(text)
	if views := textOf(viewPresets, unquoted(text)); views != "" {
		text = views
	}
	if !strings.HasPrefix(text, "{") {
		return parseTransform(text, resampler, append(Presets(), ViewPresets()...))
	}
	var object struct {
		Views []json.RawMessage `json:"views"`
	}
	err := decodeStrictly([]byte(text), &object)
	if err != nil && strings.Contains(text, `"op"`) && object.Views == nil {
		return nil, specError("an operation must be in a list: [%.200s]", text)
	}
	if err != nil {
		return nil, specError(`not {"views": [transform, …]}: %v`, err)
	}
	var views Views
	for i, raw := range object.Views {
		added, repeat, err := parseView(raw, resampler)
		if err != nil {
			return nil, specError("view %d: %v", i, err)
		}
		if n := len(views) + repeat*len(added); n > ViewsMax {
			return nil, specError("at least %d views, want at most %d", n, ViewsMax)
		}
		for range repeat {
			views = append(views, added...)
		}
	}
	if len(views) == 0 {
		return nil, specError("no views; want a list of transforms")
	}
	return views, nil
}

// parseView reads an element of a list of views, and its repeat count.
func parseView(raw json.RawMessage, resampler Resampler) (views Views, repeat int, err error) {
	repeat = 1
	if bytes.HasPrefix(raw, []byte("{")) {
		var object struct {
			Repeat json.RawMessage `json:"repeat"`
			Ops    json.RawMessage `json:"ops"`
		}
		if err := decodeStrictly(raw, &object); err != nil {
			return nil, 0, specError(`not {"repeat": n, "ops": transform}: %v`, err)
		}
		if err := json.Unmarshal(object.Repeat, &repeat); object.Repeat != nil && err != nil || repeat < 1 || repeat > ViewsMax {
			return nil, 0, specError("repeat is %.40s, want a whole number from 1 to %d", object.Repeat, ViewsMax)
		}
		if raw = object.Ops; raw == nil {
			return nil, 0, specError("ops is missing")
		}
	}
	views, err = parseTransform(string(raw), resampler, Presets())
	return views, repeat, err
}

// decodeStrictly refuses unknown fields, and anything after the value.
func decodeStrictly(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if d.More() {
		return errors.New("text after the value")
	}
	return nil
}

// OutputBytes returns the size of all results of an image.
func (v Views) OutputBytes() int {
	n := 0
	for _, spec := range v {
		n += spec.OutputBytes()
	}
	return n
}

// String returns the views as [ParseViews] reads them: a list if they come from one, otherwise an object.
func (v Views) String() string {
	var texts []string
	for first := 0; first < len(v); {
		n := max(1, v[first].parts) // views of one list
		after := first + n
		for after < len(v) && v[after] == v[first] {
			after += n
		}
		text := v[first].String()
		if after-first == len(v) && n == len(v) {
			return text
		}
		if after > first+n {
			text = fmt.Sprintf(`{"repeat": %d, "ops": %s}`, (after-first)/n, text)
		}
		texts = append(texts, text)
		first = after
	}
	return `{"views": [` + strings.Join(texts, ", ") + `]}`
}

// A View is one result of an image.
type View struct {
	Spec *Spec
	Dst  Output // see [Engine.Apply]
	RNG  RNG
	// Targets follow the image; nil if it has none. They are for transforms of one view that can move them, see [Views.CheckTargets].
	Targets *Targets
	// Params are the draws; ApplyViews sets them.
	Params Params
}

// ApplyViews is [Engine.Apply] for several results of one image. It decodes the region of all views once if that is
// less work than decoding for each. Each result has the bits that Apply gives with its draws.
func (e *Engine) ApplyViews(src Source, views []View) error {
	w, h, err := e.open(src)
	if err != nil {
		return err
	}
	whole := wholeImage(w, h)
	from := e.stored.inMemory()
	at := image.Point{}
	if len(views) > 1 && from == nil {
		if region := e.sharedRegion(views, w, h); !region.Empty() {
			if err := e.decode(&e.shared, region); err != nil {
				return err
			}
			from, at = &e.shared, region.Min
		}
	}
	whole.box = whole.box.Sub(at)
	for i := range views {
		if i > 0 && from == nil {
			if _, _, err := e.open(src); err != nil { // a decoder decodes once
				return err
			}
		}
		err := e.applyTo(&views[i], from, whole)
		if views[i].Params = e.canvas.params; err != nil && len(views) > 1 {
			return fmt.Errorf("view %d: %w", i, err)
		} else if err != nil {
			return err
		}
	}
	e.trim()
	return nil
}

func (e *Engine) open(src Source) (w, h int, err error) {
	started := time.Now()
	w, h, err = e.stored.open(src)
	e.times.Decode += time.Since(started)
	return w, h, err
}

// sharedRegion returns the region of an image of w × h pixels to decode once for all views: the bounding box of their regions, or an empty
// one if decoding for each is less work. It runs each view's operations, with its draws, up to the first one that needs a pixel.
func (e *Engine) sharedRegion(views []View, w, h int) (all image.Rectangle) {
	each := 0
	for i := range views {
		need := e.firstNeed(&views[i], w, h)
		all = all.Union(need)
		each += decodingWork(need, w)
	}
	if decodingWork(all, w) > each {
		return image.Rectangle{}
	}
	return all
}

// decodingWork estimates the work of decoding a region of an image with w pixels a row. The decoder reads whole rows of
// stored bytes and makes pixels of the region, and both take about as long.
func decodingWork(r image.Rectangle, w int) int { return r.Dy() * (w + r.Dx()) }

// errNeedsPixels ends a dry run of a view's operations at the first one that needs pixels.
var errNeedsPixels = errors.New("transform: an operation needs pixels")

// firstNeed returns the region of an image of w × h pixels that a view reads. A view that fails does so again when it is made.
func (e *Engine) firstNeed(v *View, w, h int) image.Rectangle {
	c := &e.canvas
	*c = canvas{engine: e, draws: v.RNG, part: v.Spec.part, step: wholeImage(w, h), colours: c.colours[:0], dry: true}
	for _, c.op = range v.Spec.ops {
		if err := c.op.apply(c); err != nil {
			break
		}
	}
	inside, need := c.step.needs()
	if inside.Empty() {
		return image.Rectangle{}
	}
	return need.Add(c.step.box.Min)
}
