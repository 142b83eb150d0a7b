//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package affine

import "github.com/imgfeed/imgfeed/internal/kernel"

var neon = kernels{doubles: 2, offsets: offsetsNEON,
	places: placesNEON, placesCubic: placesCubicNEON, bilinear: bilinearNEON, bicubic: bicubicNEON,
}

// kernelsOf returns the kernels of a level, nil for the generic code.
func kernelsOf(level kernel.Level) *kernels {
	if level == kernel.NEON {
		return &neon
	}
	return nil
}
