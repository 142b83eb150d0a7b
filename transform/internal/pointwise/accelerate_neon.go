//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package pointwise

import "github.com/imgfeed/imgfeed/internal/kernel"

// kernelsOf returns the kernels of a level, nil for the generic code.
func kernelsOf(level kernel.Level) *kernels {
	if level == kernel.NEON {
		return &withLines
	}
	return nil
}

var withLines = func() kernels {
	k := accelerateNEON
	k.line, k.lines = lineNEON, linesNEON
	return k
}()
