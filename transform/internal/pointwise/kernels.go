package pointwise

import "github.com/imgfeed/imgfeed/internal/kernel"

//go:generate go run ../../../internal/lanes/generate pointwise_avx2.go hue_avx2.go
//go:generate go run ../../../internal/lanes/generate -neon line_avx2.go

// kernels are the functions that have a version for each level. Those that return a number have done that many bytes
// from the start, and leave the others to the generic code.
type kernels struct {
	vector      int // number of bytes that smooth does at a time
	xor, and    func(dst, src []byte, value byte) int
	solarize    func(dst, src []byte, below byte) int // inverts bytes above below
	solarizeAdd func(dst, src []byte, add, below byte) int
	gray        func(dst, src []byte) int
	sumLuma     func(pix []byte) (sum, n int)
	blend       func(dst, src []byte, value byte, factor *float32) int
	saturation  func(dst, src []byte, factor *float32) int
	hue         func(dst, src []byte, shift byte) int
	smooth      func(dst, src []byte, from, end, stride int, factor *float32)
	extremes    func(pix []byte, low, high *[192]byte) int // writes the extremes of as many places as it takes bytes at a time
	fill        func(t *[1024]byte, table *[256]byte)
	replace     func(dst, src []byte, tables *[3][1024]byte) int
	table       func(dst, src []byte, table *[1024]byte) int // replaces all channels by one table; nil where a line is faster

	// For tables that are lines, where table is nil: one line for all channels, or one for each.
	line  func(dst, src []byte, t *line) int
	lines func(dst, src []byte, t *[3]line) int
}

var byLevel kernel.Table[kernels]
