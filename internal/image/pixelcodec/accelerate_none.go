//go:build !goexperiment.simd || !go1.27 || go1.28 || !(amd64 || arm64)

package pixelcodec

import "github.com/imgfeed/imgfeed/internal/kernel"

// acceleratedKernels returns the generic kernels: this build has no others.
func acceleratedKernels(kernel.Level) kernels { return genericKernels }
