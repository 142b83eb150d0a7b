package pointwise

import "github.com/imgfeed/imgfeed/internal/kernel"

//go:generate go run ../../../internal/lanes/generate pointwise_avx2.go hue_avx2.go tensor_avx2.go

// kernels are the functions that have a version for each level. Those that return a number have done that many bytes
// from the start, and leave the others to the generic code.
type kernels struct {
	vector     int                                                 // number of bytes that smooth does at a time
	invert     func(dst, src []byte, below, always, mask byte) int // inverts bytes above below, or always, and masks all
	gray       func(dst, src []byte) int
	sumLuma    func(pix []byte) (sum, n int)
	saturation func(dst, src []byte, factor *float32) int
	hue        func(dst, src []byte, shift byte) int
	// Those of tensors take a factor and the rest to 1, or the shift of hues.
	tensorGray, tensorSaturation, tensorHue func(dst, src []byte, factors *[2]float32) int
	// sumTensorGray writes the sums of the lanes, of which no level has more. An array of its own would be zeroed by SSE.
	sumTensorGray func(pix []byte, sums *[16]uint32) (n int)

	smooth       func(dst, src []byte, from, end, stride int, factor *float32)
	tensorSmooth func(dst, src []byte, from, end, stride int, rest *float32)
	extremes     func(pix []byte, low, high *[192]byte) int // writes the extremes of as many places as it takes bytes at a time
	fill         func(t *[1024]byte, table *[256]byte)
	replace      func(dst, src []byte, tables *[3][1024]byte) int
	table        func(dst, src []byte, table *[1024]byte) int // replaces the bytes of all channels
	line         func(dst, src []byte, t *line) int           // table for a line, which is faster
	lines        func(dst, src []byte, t *[3]line) int        // replace for lines, which is faster
}

var byLevel kernel.Table[kernels]
