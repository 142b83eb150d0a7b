//go:build !amd64 && !arm64

package kernel

// Prefetch asks the processor to bring p into its second-level cache, and does not wait. Here it does nothing.
func Prefetch([]byte) {}
