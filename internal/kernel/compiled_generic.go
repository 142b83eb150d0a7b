//go:build !goexperiment.simd || !go1.27 || go1.28 || !(amd64 || arm64)

package kernel

const compiled = Generic
