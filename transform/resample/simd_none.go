package resample

import "github.com/imgfeed/imgfeed/transform/kernel"

// Without GOEXPERIMENT=simd on amd64 there are no accelerated kernels.

type simdState struct{}

func (a *axis) computeSIMD(axisSpec, kernel.Level) bool { return false }

func (r *Resampler) resizeSIMD(Output, []byte, int) bool { return false }
