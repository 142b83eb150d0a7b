//go:build goexperiment.simd && amd64

package resample

// putRow is Output.putRow with the kernels of r's level.
func (r *Resampler) putRow(dst Output, y int, row []byte) { dst.putRow(y, row) }
