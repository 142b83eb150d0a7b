package jpeg

//go:generate go run ../../lanes/generate idct_avx2.go samples_avx2.go

import "github.com/imgfeed/imgfeed/internal/kernel"

// kernels are the functions with accelerated versions. All versions give the same bytes for every input, including
// hostile ones. The generic ones are the reference.
//
// The three transforms turn a quad of coefficients into 8 rows of 32 samples at dst, and zero the quad. quant has each
// block's quantisation steps. idctDC may assume that all coefficients but each block's first are zero, idctLow that
// those outside each block's first four rows and columns are.
//
// upsampleH2 makes two samples from each of count samples of two rows, the nearer one with three times the weight. left
// and right are added to sixteen times the first and the second sample. The rows begin one sample before the first, and
// may be read, and dst written, up to planeMargin bytes beyond.
//
// Conversion fills dst exactly, with three bytes per pixel. Sources may be read up to planeMargin bytes beyond.
type kernels struct {
	idct, idctLow, idctDC func(q, quant *quad, dst []byte, stride int)

	upsampleH2 func(dst, near, far []byte, count, left, right int)
	ycbcrToRGB func(dst, y, cb, cr []byte)
	grayToRGB  func(dst, y []byte)

	// listSymbols lists a block's AC coefficients, and returns how many there are.
	listSymbols func(q *quadBlock, l *symbolList) int
}

var (
	byLevel = kernel.Table[kernels]{kernel.Generic: &generic}
	generic = kernels{
		idct: idctGeneric, idctLow: idctGeneric, idctDC: idctDCGeneric,
		upsampleH2: upsampleH2Generic, ycbcrToRGB: ycbcrToRGBGeneric, grayToRGB: grayToRGBGeneric, listSymbols: listSymbolsGeneric,
	}
)
