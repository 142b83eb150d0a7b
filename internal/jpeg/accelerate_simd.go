//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package jpeg

import "github.com/imgfeed/imgfeed/internal/kernel"

func accelerate(k *kernels, level kernel.Level) {
	switch level {
	case kernel.AVX2:
		k.idct, k.idctLow, k.idctDC = idctAVX2, idctLowAVX2, idctDCAVX2
		k.upsampleH2V1, k.upsampleH1V2, k.upsampleH2V2 = upsampleH2V1AVX2, upsampleH1V2AVX2, upsampleH2V2AVX2
		k.ycbcrToRGB, k.grayToRGB = ycbcrToRGBAVX2, grayToRGBAVX2
	case kernel.AVX512:
		k.idct, k.idctLow, k.idctDC = idctAVX512, idctLowAVX512, idctDCAVX512
		k.upsampleH2V1, k.upsampleH1V2, k.upsampleH2V2 = upsampleH2V1AVX512, upsampleH1V2AVX512, upsampleH2V2AVX512
		k.ycbcrToRGB, k.grayToRGB = ycbcrToRGBAVX512, grayToRGBAVX512
	}
}

// words2 repeats a pair of 16-bit factors, as VPMADDWD multiplies the pairs of interleaved rows by, over 512 bits.
func words2(a, b int32) (t [16]int32) {
	for i := range t {
		t[i] = int32(uint32(uint16(a)) | uint32(b)<<16)
	}
	return t
}

// The factors of the IDCT's one-dimensional pass, for pairs of inputs, as jidctint-avx2.asm has them: idct1D's terms
// multiplied out, which are the same sums, and 32-bit arithmetic that wraps makes them equal for every input.
var (
	evenSums = [2][16]int32{ // of (input 0 + input 4, input 0 - input 4)
		words2(1<<idctBits, 0),
		words2(0, 1<<idctBits),
	}
	even26 = [2][16]int32{ // of inputs (2, 6)
		words2(fix0541196100+fix0765366865, fix0541196100),
		words2(fix0541196100, fix0541196100-fix1847759065),
	}
	oddSums = [2][16]int32{ // of (input 7 + input 3, input 5 + input 1)
		words2(fix1175875602-fix1961570560, fix1175875602),
		words2(fix1175875602, fix1175875602-fix0390180644),
	}
	odd71 = [2][16]int32{ // of inputs (7, 1): for odd terms 0 and 3
		words2(fix0298631336-fix0899976223, -fix0899976223),
		words2(-fix0899976223, fix1501321110-fix0899976223),
	}
	odd53 = [2][16]int32{ // of inputs (5, 3): for odd terms 1 and 2
		words2(fix2053119869-fix2562915447, -fix2562915447),
		words2(-fix2562915447, fix3072711026-fix2562915447),
	}
	// The same where inputs 4 to 7 are zero: even terms of inputs (0, 2), odd terms of inputs (1, 3).
	even02 = [4][16]int32{
		words2(1<<idctBits, fix0541196100+fix0765366865),
		words2(1<<idctBits, fix0541196100),
		words2(1<<idctBits, -fix0541196100),
		words2(1<<idctBits, -fix0541196100-fix0765366865),
	}
	odd13 = [4][16]int32{
		words2(-fix0899976223+fix1175875602, -fix1961570560+fix1175875602),
		words2(-fix0390180644+fix1175875602, -fix2562915447+fix1175875602),
		words2(fix1175875602, fix3072711026-fix2562915447-fix1961570560+fix1175875602),
		words2(fix1501321110-fix0899976223-fix0390180644+fix1175875602, fix1175875602),
	}
	firstWord = func() (t [64]int8) { // VPSHUFB: the first word of each 128 bits, eight times
		for i := range t {
			t[i] = int8(i & 1)
		}
		return t
	}()
)

// Factors of the colour conversion. Those of jdcolor.c have 16 fractional bits and do not fit 16-bit words, so the whole
// part is added apart: R takes 1.402 as 1 + 26345/2^16, B takes 1.772 as 2 - 14942/2^16 (both of the doubled chroma, and
// halved with rounding), G takes -0.71414 as -1 + 18734/2^16.
const (
	factorR = 26345
	factorB = -14942
)

var factorsG = words2(-22554, 18734)
