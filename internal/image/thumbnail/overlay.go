package thumbnail

import "math"

// An Overlay is the targets of an image, to be drawn over its picture.
type Overlay struct {
	Width, Height int       // size of the image, in pixels
	Boxes         []float32 // left, top, right and bottom edge of each, in pixels of the image
	Labels        []int64   // the label of each box
	Mask          []byte    // the label of each pixel; nil: there is no mask
}

// Draw draws the targets over a picture of w × h pixels, RGB without gaps.
func (o *Overlay) Draw(pix []byte, w, h int) {
	if o.Mask != nil {
		drawMask(pix, w, h, o.Mask, o.Width, o.Height)
	}
	sx, sy := float32(w)/float32(o.Width), float32(h)/float32(o.Height)
	for i, label := range o.Labels {
		b := o.Boxes[4*i:]
		drawBox(pix, w, h, [4]float32{b[0] * sx, b[1] * sy, b[2] * sx, b[3] * sy}, label)
	}
}

// colourOf returns the colour of a label: that of PASCAL VOC's colour map for the label behind it, as 0 is black there.
func colourOf(label int64) (c [3]byte) {
	for n, bit := uint64(label)%255+1, 7; n > 0; n, bit = n>>3, bit-1 {
		for i := range c {
			c[i] |= byte(n>>i&1) << bit
		}
	}
	return c
}

// drawBox draws the edges of a box on w × h pixels. Edges outside lie on the border.
func drawBox(pix []byte, w, h int, box [4]float32, label int64) {
	at := func(x float32, most int) int {
		if math.IsNaN(float64(x)) {
			return 0
		}
		return int(min(max(x, 0), float32(most-1)))
	}
	x1, y1, x2, y2 := at(box[0], w), at(box[1], h), at(box[2], w), at(box[3], h)
	x1, x2, y1, y2 = min(x1, x2), max(x1, x2), min(y1, y2), max(y1, y2)
	c := colourOf(label)
	for i, v := range c {
		c[i] = byte(min(2*int(v), 255)) // a thin line needs bright colours
	}
	set := func(x, y int) { copy(pix[3*(y*w+x):], c[:]) }
	for x := x1; x <= x2; x++ {
		set(x, y1)
		set(x, y2)
	}
	for y := y1; y <= y2; y++ {
		set(x1, y)
		set(x2, y)
	}
}

// drawMask lays the colours of a mask's labels over w × h pixels, half of each. Labels are those of mw × mh pixels; 255, which is not a
// class, stays as it is.
func drawMask(pix []byte, w, h int, labels []byte, mw, mh int) {
	for y := range h {
		row := labels[y*mh/h*mw:]
		for x := range w {
			label := row[x*mw/w]
			if label == 255 {
				continue
			}
			c := colourOf(int64(label))
			for i, v := range c {
				p := &pix[3*(y*w+x)+i]
				*p = byte((int(*p) + int(v)) / 2)
			}
		}
	}
}
