//go:build !race

package loader

const poolsDrop = false
