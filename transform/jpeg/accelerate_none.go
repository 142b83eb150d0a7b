//go:build !goexperiment.simd || !amd64

package jpeg

import "github.com/imgfeed/imgfeed/transform/kernel"

func accelerate(*kernels, kernel.Level) {}
