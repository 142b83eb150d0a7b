//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pointwise

import "github.com/imgfeed/imgfeed/internal/kernel"

// kernelsOf returns the kernels of a level, nil for the generic code.
func kernelsOf(level kernel.Level) *kernels {
	switch level {
	case kernel.AVX2:
		return &withLines
	case kernel.AVX512:
		return &withTables
	}
	return nil
}

var withTables = func() kernels {
	k := accelerateAVX512
	k.table = tableAVX512
	return k
}()

var withLines = func() kernels {
	k := accelerateAVX2
	k.line, k.lines = lineAVX2, linesAVX2
	return k
}()
