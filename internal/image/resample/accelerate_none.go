//go:build !goexperiment.simd || !go1.27 || go1.28 || !(amd64 || arm64)

package resample

import "github.com/imgfeed/imgfeed/internal/kernel"

func kernelsOf(kernel.Level) *kernels { return nil }
