package transform

import (
	"errors"
	"image"
)

// naive pads as torchvision does, in steps, before it crops.
func (o RandomCrop) naive(m *naiveImage, d *RNG) error {
	w, h := m.w, m.h
	r, ok := o.box(w, h, d)
	if !ok {
		return errors.New("the crop does not fit")
	}
	missingX, missingY := o.missing(w, h)
	m.pad(o.Padding, o.Mode, o.Fill)
	m.pad([4]int{missingX, 0, missingX, 0}, o.Mode, o.Fill)
	m.pad([4]int{0, missingY, 0, missingY}, o.Mode, o.Fill)
	m.cut(r.Add(image.Pt(o.Padding[0]+missingX, o.Padding[1]+missingY)))
	return nil
}
