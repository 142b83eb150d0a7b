//go:build !race

package storage

const poolsDrop = false
