package transform

import (
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/transform/internal/affine"
)

// A change is what an operation does to an image in memory, put off until it is known where the result goes: if nothing follows, straight to
// the batch, which spares a copy, and to memory of the engine otherwise. Its work is a function of its own and no closure, which would be
// allocated for each sample.
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

// settle does what was put off, in the engine's memory.
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
