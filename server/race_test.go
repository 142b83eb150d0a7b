//go:build race

package server

// The race detector makes everything several times as slow.
const raced = true
