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
