package transform

import (
	"fmt"
	"image"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/transform/internal/affine"
)

// A canvas is the image that a transform's operations work on, one after the other, with the draws of its sample. It does as
// little as it can as late as it can: its image is what two kinds of work that is still to be done make of pixels,
//
//	from → pending → step
//
// from has the pixels: the stored image, of which nothing is decoded yet, the region of it that several views share, or one of
// the engine's two images between passes. pending is a change of all of from, such as an adjustment of colours, or none; only an
// image in memory has one. step is what a single pass over the pixels does: a crop, a resize, a crop, a flip.
//
// Crops, resizes and flips are added to the step. What it cannot take (a resize of a resized image) ends it first: render does
// pending and step, writes the result to the other image between passes, and begins a new step there.
//
// Other operations want the image in memory (inMemory renders it, unless it is there and the step is empty). change then leaves
// its work pending, and redraw does its work at once. What was pending before is done by then (settle), in place or into the
// other image.
//
// At the end finish writes to the batch: a pending change straight there where the step is empty, and else what the step makes.
// A stored image that only a step works on is therefore decoded, resized and written to the batch without a stop.
//
// On a dry canvas (views.go) operations draw and add to the step as ever, and the first that needs a pixel ends the run.
type canvas struct {
	engine *Engine
	draws  RNG
	params Params
	log    *recorder // nil unless it is asked for

	op       Op          // at work
	from     pixelSource // the stored image, a region of it, or one of the engine's images between passes
	step     step
	pending  change // of all of from, and done before the step
	rendered int    // images between passes so far, which take turns; 0 while from is the stored image
	dry      bool   // operations are run to learn which pixels they need, and end there
}

// size returns the width and height of the image as the operations so far have left it.
func (c *canvas) size() (w, h int) { return c.step.keep.Dx(), c.step.keep.Dy() }

// crop cuts r out of the image; what lies outside the image is black.
func (c *canvas) crop(r image.Rectangle) error { return c.cropFilled(r, Fill{}) }

// cropFilled cuts r out of the image; what lies outside the image has a colour.
func (c *canvas) cropFilled(r image.Rectangle, fill Fill) error {
	w, h := c.size()
	outside := !r.In(image.Rect(0, 0, w, h))
	if c.log != nil {
		c.log.crop(r, w, h, fill)
	}
	if c.step.flip || outside && c.step.fill != fill && c.step.keep != c.step.visible { // r counts from the flipped image's left edge
		if err := c.render(); err != nil {
			return err
		}
	}
	if c.params.setCrop(r); outside {
		c.step.fill = fill
	}
	c.step.crop(r)
	return nil
}

// resize resizes the image to w × h.
func (c *canvas) resize(w, h int, how resizing) error {
	if c.log != nil {
		c.log.add("resize", "size", [2]int{h, w}, "interpolation", how.filter.String())
	}
	if c.step.resize(w, h, how) {
		return nil
	}
	if err := c.render(); err != nil {
		return err
	}
	c.step.resize(w, h, how)
	return nil
}

// flip mirrors the image left to right.
func (c *canvas) flip() {
	c.note("hflip")
	c.step.flip = !c.step.flip
	c.params.Flip = !c.params.Flip
}

// renderedPixelsMax bounds an image between two passes.
const renderedPixelsMax = 1 << 26

// render does what the step has gathered, so that the image is one in memory.
func (c *canvas) render() error {
	w, h := c.size()
	if w*h > renderedPixelsMax {
		return c.tooLarge(w, h)
	}
	if c.dry {
		return errNeedsPixels
	}
	c.settle()
	to := c.next(w, h)
	if err := c.engine.render(Output{Pix: to.Pix, Width: w, Height: h, Flip: c.step.flip}, c.from, &c.step); err != nil {
		return err
	}
	c.from, c.step = to, wholeImage(w, h)
	return nil
}

// tooLarge says that the operation at work would keep an image of w × h pixels in memory.
func (c *canvas) tooLarge(w, h int) error {
	return &SizeError{NameOf(c.op), w, h, fmt.Sprintf("it would be kept in memory, where images of at most %d pixels are taken", renderedPixelsMax)}
}

// next returns the engine's image that the canvas is not on, with room for w × h pixels.
func (c *canvas) next(w, h int) *rgbImage {
	to := &c.engine.between[c.rendered&1]
	c.rendered++
	to.Resize(w, h)
	return to
}

// inMemory returns the image as the operations so far have left it, in memory of the engine: for an operation that changes
// pixels where they are.
func (c *canvas) inMemory() (*imagefile.RGB, error) {
	w, h := c.size()
	if c.rendered == 0 || c.step != wholeImage(w, h) {
		if err := c.render(); err != nil {
			return nil, err
		}
	}
	c.settle()
	return c.from.raw(), nil
}

// redraw returns the image as the operations so far have left it, and one of w × h pixels that takes its place: for an operation
// that makes its result of pixels elsewhere in the image. It must write every pixel of to, in which something is left over.
func (c *canvas) redraw(w, h int) (from, to *imagefile.RGB, err error) {
	if w*h > renderedPixelsMax {
		return nil, nil, c.tooLarge(w, h)
	}
	if from, err = c.inMemory(); err != nil {
		return nil, nil, err
	}
	next := c.next(w, h)
	c.from, c.step = next, wholeImage(w, h)
	return from, &next.RGB, nil
}

// A step is what one pass over the pixels does: cut box out of a source image, resize it to width × height, keep a
// window of that (in one colour where it is not visible), and flip it.
type step struct {
	box           image.Rectangle // in source pixels
	width, height int             // box is resized to this
	how           resizing
	keep          image.Rectangle // the window, in pixels of the resized box; may lie partly outside
	visible       image.Rectangle // where the resized box may be seen, in the same pixels
	fill          Fill            // the colour elsewhere
	flip          bool
}

// A resizing is how pixels are resized.
type resizing struct {
	filter    Interpolation
	algorithm Resampler
}

// wholeImage is the step that changes nothing.
func wholeImage(w, h int) step {
	r := image.Rect(0, 0, w, h)
	return step{box: r, width: w, height: h, keep: r, visible: r}
}

// needs returns which part of the result shows pixels of the source, and which region of the box that takes.
func (s *step) needs() (inside, need image.Rectangle) {
	inside = s.keep.Intersect(s.visible)
	if s.resizes() && !inside.Empty() {
		return inside, resample.SourceRegion(s.box.Dx(), s.box.Dy(), s.width, s.height, inside, s.how.filter)
	}
	return inside, inside
}

func (s *step) resizes() bool { return s.width != s.box.Dx() || s.height != s.box.Dy() }

// crop narrows the step to r, in pixels of the image that it makes so far. It is not for a step that flips.
func (s *step) crop(r image.Rectangle) {
	s.keep = r.Add(s.keep.Min)
	s.visible = s.visible.Intersect(s.keep)
}

// resize appends a resize of the image that the step makes so far, and reports whether the step can do it: not if it
// resizes already, flips, or shows borders.
func (s *step) resize(w, h int, how resizing) bool {
	if w == s.keep.Dx() && h == s.keep.Dy() {
		return true // Pillow returns a copy
	}
	if s.resizes() || s.flip || s.keep != s.visible {
		return false
	}
	*s = step{
		box: s.keep.Add(s.box.Min), width: w, height: h, how: how,
		keep: image.Rect(0, 0, w, h), visible: image.Rect(0, 0, w, h),
	}
	return true
}

// A change is an operation's work on an image in memory. The canvas puts it off until it knows where the result goes: straight to
// the batch if no operation follows, which saves a copy, and else to the engine's memory. Its work is a plain function, because a
// closure would be allocated for each sample.
type change struct {
	work          changeWork // nil if nothing was put off
	inPlace       bool       // to may be from
	width, height int        // of to
	with          changeParams
}

// changeWork writes every pixel of to.
type changeWork func(e *Engine, to, from *imagefile.RGB, with *changeParams)

// changeParams are the parameters of changes, if they have any: of adjustments, and of maps.
type changeParams struct {
	by float32

	matrix affine.Matrix
	how    Interpolation
	fill   Fill
}

// change puts a change off. The image counts as changed.
func (c *canvas) change(next change) error {
	if next.width*next.height > renderedPixelsMax {
		return c.tooLarge(next.width, next.height)
	}
	if _, err := c.inMemory(); err != nil {
		return err
	}
	c.pending, c.step = next, wholeImage(next.width, next.height)
	return nil
}

// settle does the pending work, in the engine's memory.
func (c *canvas) settle() {
	p := &c.pending
	if p.work == nil {
		return
	}
	from := c.from.raw()
	if p.inPlace {
		p.work(c.engine, from, from, &p.with)
	} else {
		to := c.next(p.width, p.height)
		p.work(c.engine, &to.RGB, from, &p.with)
		c.from = to
	}
	p.work = nil
}

// finish writes the image as the operations have left it to dst, which has its size.
func (c *canvas) finish(dst Output) error {
	e, p := c.engine, &c.pending
	if p.work != nil && dst.Layout == NHWC && c.step == wholeImage(p.width, p.height) && !c.step.flip {
		e.final = imagefile.RGB{Pix: dst.Pix[:3*p.width*p.height], Width: p.width, Height: p.height}
		p.work(e, &e.final, c.from.raw(), &p.with)
		e.final, p.work = imagefile.RGB{}, nil
		return nil
	}
	c.settle()
	dst.Flip = c.step.flip
	return e.render(dst, c.from, &c.step)
}
