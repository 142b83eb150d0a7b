package transform

func (o Resize) naive(m *naiveImage, _ *RNG) error {
	w, h, err := o.Resized(m.w, m.h)
	if err != nil {
		return err
	}
	return m.resize(w, h, o.Interpolation, o.Resampler)
}
