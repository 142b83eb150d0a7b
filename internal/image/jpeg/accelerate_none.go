//go:build !goexperiment.simd || !go1.27 || go1.28 || !(amd64 || arm64)

package jpeg

import "github.com/imgfeed/imgfeed/internal/kernel"

func accelerate(*kernels, kernel.Level) {}
