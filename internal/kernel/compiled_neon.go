//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package kernel

const compiled = NEON
