//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package coefficients

import "github.com/imgfeed/imgfeed/internal/kernel"

func init() {
	byLevel[kernel.NEON] = &kernels{spread: spreadNEON, unpack: unpackNEON, expand: expandNEON, list: listNEON}
}
