//go:build !goexperiment.simd || !go1.27 || go1.28 || !amd64

package resample

import "github.com/imgfeed/imgfeed/internal/kernel"

// Without GOEXPERIMENT=simd on amd64 there are no accelerated kernels.

type simdState struct{}

type computeConstants struct{}

func (a *axis) computeSIMD(axisSpec, kernel.Level) bool { return false }

func (r *Resampler) resizeSIMD(Output, []byte, int, bool) bool { return false }

func (r *Resampler) putRow(dst Output, y int, row []byte) { dst.putRow(y, row) }

func (r *Resampler) mirrorRow(dst, src []byte) { mirror(dst, src) }
