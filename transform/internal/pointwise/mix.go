package pointwise

// Sums of images, each times a weight, in float32 with each step rounded once, as numpy and torch have them.

// Start returns sums that begin with an image times a weight, in memory if that is large enough.
func Start(memory []float32, pix []byte, weight float32) []float32 {
	if cap(memory) < len(pix) {
		memory = make([]float32, len(pix)+len(pix)/4)
	}
	sums := memory[:len(pix)]
	for i, v := range pix {
		sums[i] = float32(weight * float32(v))
	}
	return sums
}

// Add adds an image times a weight.
func Add(sums []float32, pix []byte, weight float32) {
	for i, v := range pix[:len(sums)] {
		sums[i] += float32(weight * float32(v))
	}
}

// Finish writes the sums as bytes, cut off and limited to 0..255.
func Finish(pix []byte, sums []float32) {
	for i, v := range sums {
		pix[i] = byte(min(max(v, 0), 255))
	}
}

// Blend writes Image.blend of two images of dst's length: a + factor·(b − a). Either may be dst.
func Blend(dst, a, b []byte, factor float32) {
	for i := range dst {
		dst[i] = blend(a[i], b[i], factor)
	}
}
