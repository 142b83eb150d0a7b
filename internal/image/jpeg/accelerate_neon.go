//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package jpeg

import "github.com/imgfeed/imgfeed/internal/kernel"

func accelerate(k *kernels, level kernel.Level) {
	if level == kernel.NEON {
		k.idct, k.idctLow, k.idctDC = idctNEON, idctLowNEON, idctDCNEON
		k.upsampleH2V1, k.upsampleH1V2, k.upsampleH2V2 = upsampleH2V1NEON, upsampleH1V2NEON, upsampleH2V2NEON
		k.ycbcrToRGB, k.grayToRGB = ycbcrToRGBNEON, grayToRGBNEON
	}
}
