package pointwise

import "github.com/imgfeed/imgfeed/internal/kernel"

//go:generate go run ../../../internal/lanes/generate pointwise_avx2.go hue_avx2.go tensor_avx2.go

// kernels are the functions that have a version for each level. Those that return a number have done that many bytes
// from the start, and leave the others to the generic code.
type kernels struct {
	vector    int                                                 // number of bytes that smooth does at a time
	invert    func(dst, src []byte, below, always, mask byte) int // inverts bytes above below, or always, and masks all
	hue       func(dst, src []byte, shift byte) int
	tensorHue func(dst, src []byte, t *turn) int
	permute   func(dst, src []byte, r, g, b int) int
	// For images of Pillow, and for tensors. factors are a factor and the rest to 1; smooth takes one of them.
	gray       [2]func(dst, src []byte) int
	sumGray    [2]func(pix []byte) (sum, n int)
	saturation [2]func(dst, src []byte, factors *[2]float32) int
	smooth     [2]func(dst, src []byte, from, end, stride int, factor *float32)
	extremes   func(pix []byte, low, high *[192]byte) int // writes an extreme for each byte of a vector
	fill       func(t *[1024]byte, table *[256]byte)
	replace    func(dst, src []byte, tables *[3][1024]byte) int
	table      func(dst, src []byte, table *[1024]byte) int // replaces the bytes of all channels
	line       func(dst, src []byte, t *line) int           // table for a line, which is faster
	lines      func(dst, src []byte, t *[3]line) int        // replace for lines, which is faster
}

var byLevel kernel.Table[kernels]
