//go:build race

package storage

// The race detector has a sync.Pool drop what it holds, at random.
const poolsDrop = true
