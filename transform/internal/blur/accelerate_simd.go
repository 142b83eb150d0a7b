//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package blur

import "github.com/imgfeed/imgfeed/internal/kernel"

var (
	avx2   = kernels{box: boxAVX2, rows: rowsAVX2, columns: columnsAVX2}
	avx512 = kernels{box: boxAVX512, rows: rowsAVX512, columns: columnsAVX512}
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
