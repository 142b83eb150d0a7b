package transform

func (o CenterCrop) naive(m *naiveImage, _ *RNG) error {
	m.cut(o.box(m.w, m.h))
	return nil
}
