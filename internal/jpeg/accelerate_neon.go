//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package jpeg

import "github.com/imgfeed/imgfeed/internal/kernel"

func accelerate(k *kernels, level kernel.Level) {
	if level == kernel.NEON {
		k.idct, k.idctLow = idctNEON, idctLowNEON
	}
}
