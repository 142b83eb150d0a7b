package transform

import (
	"fmt"
	"image"
	"sort"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/transform/internal/affine"
	"github.com/imgfeed/imgfeed/transform/internal/pointwise"
)

// A canvas is the image that a transform's operations work on, one after the other, with the draws of its sample. It is
// lazy. Its image is the result of postponed work on stored pixels:
//
//	from → colours or pending → step
//
// from has the pixels: the stored image, still undecoded; the region of it that several views share; or one of the engine's two scratch
// images. colours change pixels one by one, so that only those are changed that the step shows. pending is an optional change of all of
// from, such as an affine map; only an image in memory has one. step is a single pass over the pixels: a crop, a resize, a crop, a flip.
//
// Crops, resizes and flips are added to the step. An operation that does not fit into the step (a resize of a resized image) ends it. Then
// render does pending and step, writes the result to the other scratch image, and begins a new step there.
//
// Other operations need the image in memory: inMemory renders it, unless it is there and the step is empty. change then
// leaves its work pending, and redraw does its work at once. Both first do earlier work (settle), in place or
// into the other image. So does recolour where the step does more than cut and flip.
//
// At the end finish writes to the batch: colours or the pending change directly if the step is empty, otherwise the step's result.
// A stored image that only a step works on is therefore decoded, resized and written to the batch without a stop.
//
// On a dry canvas (views.go) operations draw and add to the step as usual. The first operation that needs a pixel ends the run.
type canvas struct {
	engine *Engine
	draws  RNG
	params Params
	log    *recorder // nil if the work is not recorded
	part   int       // index of the view among those of one list
	tensor bool      // operations have torchvision's bits on tensors, not those on images of Pillow

	targets *Targets // what follows the image; nil if nothing does

	op       Op             // the running operation
	from     *imagefile.RGB // a region of the stored image or one of the engine's scratch images; nil while it is undecoded
	step     step
	colours  []colour // changes of from's pixels, one by one, done before the step
	pending  change   // change of all of from, done before the step; only without colours
	rendered int      // number of scratch images used so far, in turn; 0 while from is the stored image
	dry      bool     // operations run only to find out which pixels they need
}

// size returns the width and height of the image as the operations so far have left it.
func (c *canvas) size() (w, h int) { return c.step.keep.Dx(), c.step.keep.Dy() }

// crop cuts r out of the image; pixels outside the image are black.
func (c *canvas) crop(r image.Rectangle) error {
	if c.targets != nil {
		c.noteCrop(r)
		c.targets.crop(r)
	}
	return c.cropFilled(r, Fill{})
}

// cropFilled cuts r out of the image; pixels outside the image have the colour fill. Targets stay where they are, and whoever has moved
// them has recorded it.
func (c *canvas) cropFilled(r image.Rectangle, fill Fill) error {
	w, h := c.size()
	outside := !r.In(image.Rect(0, 0, w, h))
	if c.log != nil && c.targets == nil {
		c.log.crop(r, w, h, fill)
	}
	if outside && c.step.fill != fill && c.step.keep != c.step.visible { // r counts from the flipped image's left edge
		if err := c.render(); err != nil {
			return err
		}
	}
	if c.params.setCrop(r); outside {
		c.step.fill = fill
	}
	if c.step.flip { // r counts from the flipped image's left edge
		r = resample.Mirrored(r, w)
	}
	c.step.crop(r)
	return nil
}

func (c *canvas) resize(w, h int, method resizing) error {
	if c.log != nil && c.tensor && method.plain {
		c.log.add("resize", "size", [2]int{h, w}, "interpolation", method.filter, "antialias", false)
	} else if c.log != nil {
		c.log.add("resize", "size", [2]int{h, w}, "interpolation", method.filter)
	}
	if c.targets != nil {
		c.targets.resize(w, h)
	}
	method = method.on(c.tensor)
	if c.step.resize(w, h, method) {
		return nil
	}
	if !c.step.resizes() {
		return c.resizeBordered(w, h, method)
	}
	if err := c.render(); err != nil {
		return err
	}
	c.step.resize(w, h, method)
	return nil
}

// resizeBordered resizes an image with borders of one colour. What shows only borders is of that colour after the resize, too, so only
// the image is rendered, with as much of the borders as the filter mixes with it.
func (c *canvas) resizeBordered(w, h int, method resizing) error {
	s := &c.step
	whole := image.Rectangle{Max: s.keep.Size()}
	inside := s.keep.Intersect(s.visible).Sub(s.keep.Min)
	if s.flip {
		inside = resample.Mirrored(inside, whole.Max.X)
	}
	shown := touched(whole.Size(), image.Pt(w, h), inside, method.filter)
	if shown.Empty() {
		shown = image.Rect(0, 0, 1, 1)
	}
	need := resample.SourceRegion(whole.Max.X, whole.Max.Y, w, h, shown, method.filter)
	fill, flip := s.fill, s.flip
	if flip {
		need = resample.Mirrored(need, whole.Max.X)
	}
	s.crop(need)
	s.flip = false
	if err := c.render(); err != nil {
		return err
	}
	s.box, s.width, s.height, s.method, s.mirrored = whole.Sub(need.Min), w, h, method, flip
	s.keep, s.visible, s.fill = image.Rect(0, 0, w, h), shown, fill
	return nil
}

// touched returns the part of a resized image of which each pixel shows some of the part inside of the image.
func touched(from, to image.Point, inside image.Rectangle, filter Interpolation) image.Rectangle {
	if inside.Empty() {
		return image.Rectangle{}
	}
	// The windows of pixels move to the right and down with them.
	window := func(x, y int) image.Rectangle {
		return resample.SourceRegion(from.X, from.Y, to.X, to.Y, image.Rect(x, y, x+1, y+1), filter)
	}
	return image.Rect(
		sort.Search(to.X, func(x int) bool { return window(x, 0).Max.X > inside.Min.X }),
		sort.Search(to.Y, func(y int) bool { return window(0, y).Max.Y > inside.Min.Y }),
		sort.Search(to.X, func(x int) bool { return window(x, 0).Min.X >= inside.Max.X }),
		sort.Search(to.Y, func(y int) bool { return window(0, y).Min.Y >= inside.Max.Y }),
	)
}

// flip mirrors the image left to right.
func (c *canvas) flip() error {
	c.note("hflip")
	if c.targets != nil {
		c.targets.flip(false)
	}
	c.step.flip = !c.step.flip
	c.params.Flip = !c.params.Flip
	return nil
}

// renderedPixelsMax bounds an image between two passes.
const renderedPixelsMax = 1 << 26

// render executes the step, so that the image is in memory.
func (c *canvas) render() error {
	w, h := c.size()
	if w*h > renderedPixelsMax {
		return c.tooLarge(w, h)
	}
	if c.dry {
		return errNeedsPixels
	}
	if c.pending.work != nil {
		c.settle()
	}
	to := c.next(w, h)
	if err := c.engine.render(Output{Pix: to.Pix, Width: w, Height: h, Flip: c.step.flip}, c.from, c.colours, &c.step); err != nil {
		return err
	}
	c.from, c.colours, c.step = to, c.colours[:0], wholeImage(w, h)
	return nil
}

// tooLarge is the error of an operation that would keep an image of w × h pixels in memory.
func (c *canvas) tooLarge(w, h int) error {
	return &SizeError{NameOf(c.op), w, h, fmt.Sprintf("it would be kept in memory, which is limited to %d pixels", renderedPixelsMax)}
}

// next returns the engine's image that the canvas is not on, with room for w × h pixels.
func (c *canvas) next(w, h int) *imagefile.RGB {
	to := &c.engine.scratch[c.rendered&1]
	c.rendered++
	to.Resize(w, h)
	return to
}

// inMemory returns the image after the operations so far, in the engine's memory, for an operation that changes pixels in place.
func (c *canvas) inMemory() (*imagefile.RGB, error) {
	w, h := c.size()
	if c.rendered == 0 || c.step != wholeImage(w, h) {
		if err := c.render(); err != nil {
			return nil, err
		}
	}
	c.settle()
	return c.from, nil
}

// redraw returns the image after the operations so far, and an image of w × h pixels that replaces it, for an operation
// that needs other pixels of the image than the one it writes. It must write every pixel of to, which holds old data.
func (c *canvas) redraw(w, h int) (from, to *imagefile.RGB, err error) {
	if w*h > renderedPixelsMax {
		return nil, nil, c.tooLarge(w, h)
	}
	if from, err = c.inMemory(); err != nil {
		return nil, nil, err
	}
	to = c.next(w, h)
	c.from, c.step = to, wholeImage(w, h)
	return from, to, nil
}

// A step is one pass over the pixels: cut box out of a source image, resize it to width × height, keep a window of the
// result, and flip it. Pixels of the window outside the visible box get the colour fill.
type step struct {
	box           image.Rectangle // part of the source, in its pixels
	mirrored      bool            // box is flipped before it is resized
	width, height int             // box is resized to this
	method        resizing
	keep          image.Rectangle // the window, in pixels of the resized box; may lie partly outside
	visible       image.Rectangle // the part of the window that shows the resized box, in the same pixels
	fill          Fill            // colour of the other pixels
	flip          bool
}

// A resizing is how pixels are resized.
type resizing struct {
	filter    Interpolation
	algorithm Resampler
	plain     bool // not antialiased, which only tensors are
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
		need = resample.SourceRegion(s.box.Dx(), s.box.Dy(), s.width, s.height, inside, s.method.filter)
		if s.mirrored {
			need = resample.Mirrored(need, s.box.Dx())
		}
		return inside, need
	}
	return inside, inside
}

func (s *step) resizes() bool { return s.width != s.box.Dx() || s.height != s.box.Dy() }

// crop narrows the step to r, in pixels of the image that it makes so far, before it is flipped.
func (s *step) crop(r image.Rectangle) {
	s.keep = r.Add(s.keep.Min)
	s.visible = s.visible.Intersect(s.keep)
}

// resize appends a resize of the image that the step makes so far, and reports whether the step can do it. A step that
// resizes already or shows borders cannot.
func (s *step) resize(w, h int, method resizing) bool {
	if w == s.keep.Dx() && h == s.keep.Dy() {
		return true // Pillow returns a copy
	}
	if s.resizes() || s.keep != s.visible {
		return false
	}
	*s = step{
		box: s.keep.Add(s.box.Min), mirrored: s.flip, width: w, height: h, method: method,
		keep: image.Rect(0, 0, w, h), visible: image.Rect(0, 0, w, h),
	}
	return true
}

// A colour is a change of pixels, each by itself. The canvas postpones it until it knows which pixels are shown.
type colour struct {
	adjustment pointwise.Adjustment // nil for a blend with a level
	amount     float64
	level      float32
	tensor     bool
}

// recolour postpones a change of pixels.
func (c *canvas) recolour(next colour) error {
	if c.pending.work != nil || c.step.resizes() || c.step.keep != c.step.visible {
		if _, err := c.inMemory(); err != nil {
			return err
		}
	}
	c.colours = append(c.colours, next)
	return nil
}

// recolourBytes is how much is changed at a time: by all changes, while it is in the processor's cache, and in whole vectors.
const recolourBytes = 3 << 16

// recolour does changes of the pixels of from, the last of them to to, which may be the same.
func (e *Engine) recolour(to, from []byte, colours []colour) {
	for len(from) > 0 {
		n := min(len(from), recolourBytes)
		for i := range colours {
			next, result := &colours[i], from[:n]
			if i == len(colours)-1 {
				result = to[:n]
			}
			if e.adjuster.On(next.tensor); next.adjustment == nil {
				e.adjuster.BlendLevel(result, from[:n], next.level, next.amount)
			} else {
				next.adjustment(e.adjuster, result, from[:n], next.amount)
			}
		}
		to, from = to[n:], from[n:]
	}
}

// A change is an operation's work on an image in memory. The canvas postpones it until it knows where the result goes:
// directly to the batch if no operation follows, which saves a copy, otherwise to the engine's memory. The work is a
// plain function, because a closure would be allocated for each sample.
type change struct {
	work          changeWork // nil if nothing is pending
	inPlace       bool       // work accepts the same image as to and from
	width, height int        // size of to
	params        changeParams
}

// changeWork writes every pixel of to.
type changeWork func(e *Engine, to, from *imagefile.RGB, params *changeParams)

// changeParams are the parameters of a change: the amount of an adjustment, or those of a map.
type changeParams struct {
	adjustment pointwise.Adjustment
	amount     float64
	tensor     bool

	matrix affine.Matrix
	filter Interpolation
	fill   Fill
	masked bool // the image is a tensor, and its fill was given
}

// change postpones a change. Later operations see the image as changed.
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

// settle does the postponed work on an image in the engine's memory.
func (c *canvas) settle() {
	if len(c.colours) > 0 {
		c.engine.recolour(c.from.Pix, c.from.Pix, c.colours)
		c.colours = c.colours[:0]
	}
	p := &c.pending
	if p.work == nil {
		return
	}
	to := c.from
	if !p.inPlace {
		to = c.next(p.width, p.height)
	}
	p.work(c.engine, to, c.from, &p.params)
	c.from = to
	p.work = nil
}

// finish writes the final image to dst, which has its size.
func (c *canvas) finish(dst Output) error {
	e, p := c.engine, &c.pending
	w, h := c.size()
	if inMemory := c.rendered > 0 && c.step == wholeImage(w, h); inMemory && dst.Layout == NHWC {
		switch {
		case len(c.colours) > 0:
			e.recolour(dst.Pix, c.from.Pix, c.colours)
			return nil
		case p.work != nil:
			e.final = imagefile.RGB{Pix: dst.Pix[:3*w*h], Width: w, Height: h}
			p.work(e, &e.final, c.from, &p.params)
			e.final, p.work = imagefile.RGB{}, nil
			return nil
		}
	}
	if p.work != nil {
		c.settle()
	}
	dst.Flip = c.step.flip
	return e.render(dst, c.from, c.colours, &c.step)
}
