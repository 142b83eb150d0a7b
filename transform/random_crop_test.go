package transform

import "errors"

func (o RandomCrop) naive(m *naiveImage, d *Draws) error {
	r, ok := o.box(m.w, m.h, d)
	if !ok {
		return errors.New("the crop does not fit")
	}
	m.cut(r)
	return nil
}
