//go:build race

package loader

// The race detector has a sync.Pool drop what it holds, at random.
const poolsDrop = true
