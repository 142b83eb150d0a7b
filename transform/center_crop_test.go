package transform

func (o CenterCrop) naive(m *naiveImage, _ *Draws) error {
	m.cut(o.box(m.w, m.h))
	return nil
}
