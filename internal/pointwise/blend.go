package pointwise

// blend is Image.blend (libImaging/Blend.c) for one byte: a + factor·(b − a) in float32, each step rounded once, cut off and
// limited to 0..255. A factor of 0 gives a and one of 1 gives b.
func blend(a, b byte, factor float32) byte {
	v := float32(a) + float32(factor*float32(int(b)-int(a)))
	switch {
	case v <= 0:
		return 0
	case v >= 255:
		return 255
	}
	return byte(v)
}
