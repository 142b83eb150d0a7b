//go:build !goexperiment.simd || !amd64

package kernel

const compiled = Generic
