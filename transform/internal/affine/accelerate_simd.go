//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package affine

import "github.com/imgfeed/imgfeed/internal/kernel"

var (
	avx2 = kernels{doubles: 4, offsets: offsetsAVX2,
		places: placesAVX2, placesCubic: placesCubicAVX2, bilinear: bilinearAVX2, bicubic: bicubicAVX2,
	}
	avx512 = kernels{doubles: 8, offsets: offsetsAVX512,
		places: placesAVX512, placesCubic: placesCubicAVX512, bilinear: bilinearAVX512, bicubic: bicubicAVX512,
	}
)

// kernelsOf returns the kernels of a level, nil for the generic code.
func kernelsOf(level kernel.Level) *kernels {
	switch level {
	case kernel.AVX2:
		return &avx2
	case kernel.AVX512:
		return &avx512
	}
	return nil
}
