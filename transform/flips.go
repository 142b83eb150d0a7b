package transform

import "github.com/imgfeed/imgfeed/internal/image/imagefile"

// RandomHorizontalFlip is torchvision.transforms.RandomHorizontalFlip(p).
type RandomHorizontalFlip struct {
	// P is the probability of a flip. In JSON its default is torchvision's, 0.5.
	P float64 `param:"p" default:"0.5" range:"0 1"`
}

func (o RandomHorizontalFlip) apply(c *canvas) error {
	if c.draws.unit() < o.P {
		c.flip()
	}
	return nil
}

// RandomVerticalFlip is torchvision.transforms.RandomVerticalFlip(p).
type RandomVerticalFlip struct {
	// P is the probability of a flip. In JSON its default is torchvision's, 0.5.
	P float64 `param:"p" default:"0.5" range:"0 1"`
}

func (o RandomVerticalFlip) apply(c *canvas) error { return c.perhaps(o.P, (*canvas).flipVertically) }

// flipVertically mirrors the image top to bottom.
func (c *canvas) flipVertically() error {
	c.note("vflip")
	w, h := c.size()
	return c.change(change{work: mirrorRows, width: w, height: h})
}

// mirrorRows writes the rows of from to to in reverse.
func mirrorRows(_ *Engine, to, from *imagefile.RGB, _ *changeParams) {
	line := 3 * from.Width
	for y := range from.Height {
		copy(to.Pix[(from.Height-1-y)*line:][:line], from.Pix[y*line:])
	}
}
