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
// Upsampling makes two samples from each of count samples (H1V2 makes one). H2V1 and H2V2 take rows from one sample before the
// first. H1V2's bias is 1 for the upper and 2 for the lower of two pixel rows. Rows may be read and dst written up to
// planeMargin bytes beyond.
//
// Conversion fills dst exactly, with three bytes per pixel. Sources may be read up to planeMargin bytes beyond.
type kernels struct {
	idct, idctLow, idctDC func(q, quant *quad, dst []byte, stride int)

	upsampleH2V1 func(dst, row []byte, count int)
	upsampleH1V2 func(dst, near, far []byte, count, bias int)
	upsampleH2V2 func(dst, near, far []byte, count int)

	ycbcrToRGB func(dst, y, cb, cr []byte)

	// listSymbols lists a block's AC coefficients, and returns how many there are.
	listSymbols func(q *quadBlock, l *symbolList) int
}

var (
	byLevel = kernel.Table[kernels]{kernel.Generic: &generic}
	generic = kernels{
		idct: idctGeneric, idctLow: idctGeneric, idctDC: idctDCGeneric,
		upsampleH2V1: upsampleH2V1Generic, upsampleH1V2: upsampleH1V2Generic, upsampleH2V2: upsampleH2V2Generic,
		ycbcrToRGB: ycbcrToRGBGeneric, listSymbols: listSymbolsGeneric,
	}
)

// kernelsFor returns the kernels of a level, or the generic ones if the level is not compiled in.
func kernelsFor(level kernel.Level) kernels {
	if k := byLevel[level]; k != nil {
		return *k
	}
	return generic
}
