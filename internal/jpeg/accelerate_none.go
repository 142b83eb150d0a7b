//go:build !goexperiment.simd || !amd64

package jpeg

import "github.com/imgfeed/imgfeed/internal/kernel"

func accelerate(*kernels, kernel.Level) {}
