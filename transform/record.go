package transform

import (
	"fmt"
	"image"
)

// A recorder writes down the work on an image: a JSON list of functions of torchvision.transforms.functional, each with its
// arguments, by their names there. Done to the stored image one after the other, they give the result.
type recorder struct{ text []byte }

// add appends a call of a function, with pairs of an argument's name and value.
func (r *recorder) add(function string, pairs ...any) {
	separator := ", "
	if len(r.text) == 0 {
		separator = "["
	}
	r.text = fmt.Append(r.text, separator, named(function, pairs...))
}

// note writes down a function without arguments, if there is a recorder.
func (c *canvas) note(function string) {
	if c.log != nil {
		c.log.add(function)
	}
}

// noteBy is note for a function with one argument, which is boxed into an interface, and so allocates, only if there is a recorder.
func noteBy[V any](c *canvas, function, argument string, value V) {
	if c.log != nil {
		c.log.add(function, argument, value)
	}
}

// crop appends the cut of a part out of an image of w × h pixels, with a colour around it. torchvision's crop shows
// black there, so for another colour it appends a pad first.
func (r *recorder) crop(part image.Rectangle, w, h int, fill Fill) {
	if fill != (Fill{}) && !part.In(image.Rect(0, 0, w, h)) {
		left, top := max(-part.Min.X, 0), max(-part.Min.Y, 0)
		r.add("pad", "padding", [4]int{left, top, max(part.Max.X-w, 0), max(part.Max.Y-h, 0)}, "fill", fill, "padding_mode", Constant)
		part = part.Add(image.Pt(left, top))
	}
	r.add("crop", "top", part.Min.Y, "left", part.Min.X, "height", part.Dy(), "width", part.Dx())
}

// noteCrop writes down the cut of a part that lies in the image, or of one with black and label 0 around it.
func (c *canvas) noteCrop(part image.Rectangle) {
	if c.log != nil {
		c.log.crop(part, 0, 0, Fill{})
	}
}

func (r *recorder) String() string {
	if len(r.text) == 0 {
		return "[]"
	}
	return string(r.text) + "]"
}

// ApplyRecorded is [Engine.Apply] with a record of the work, for people to read and programs to repeat: a JSON list such as
//
//	[{"op": "crop", "top": 3, "left": 20, "height": 200, "width": 180}, {"op": "adjust_hue", "hue_factor": 0.031}]
//
// docs/transforms.md lists the functions. Unlike Apply it allocates memory.
func (e *Engine) ApplyRecorded(spec *Spec, dst Output, src Source, draws RNG) (Params, string, error) {
	view := View{Spec: spec, Dst: dst, RNG: draws}
	record, err := e.RecordView(&view, src)
	return view.Params, record, err
}

// RecordView makes a view, and returns the record of the work on the image and on its Targets, as [Engine.ApplyRecorded] does.
func (e *Engine) RecordView(view *View, src Source) (string, error) {
	var r recorder
	e.log = &r
	defer func() { e.log = nil }()
	views := []View{*view}
	err := e.ApplyViews(src, views)
	view.Params = views[0].Params
	return r.String(), err
}

// Params are the draws for a sample. With torchvision they replay as functional.resized_crop(image, top, left,
// height, width, size) or functional.crop(image, top, left, height, width), and functional.hflip.
type Params struct {
	// Top, Left, Height and Width are the last crop, in pixels of the cropped image: the stored image for
	// RandomResizedCrop, the resized one for RandomCrop and CenterCrop after a Resize. Top and Left are negative where
	// a crop begins in the padding. Without a crop they are the whole image.
	Top, Left, Height, Width int
	// Flip reports whether the image was flipped left to right.
	Flip bool
}

// ParamsLen is the number of int32 of a sample's Params.
const ParamsLen = 5

// Int32s returns the Params as clients get them: top, left, height, width, and 1 if the image was flipped, else 0.
func (p Params) Int32s() [ParamsLen]int32 {
	flip := int32(0)
	if p.Flip {
		flip = 1
	}
	return [ParamsLen]int32{int32(p.Top), int32(p.Left), int32(p.Height), int32(p.Width), flip}
}

func (p *Params) setCrop(r image.Rectangle) {
	p.Top, p.Left, p.Height, p.Width = r.Min.Y, r.Min.X, r.Dy(), r.Dx()
}
