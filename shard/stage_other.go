//go:build unix && !linux

package shard

func exchange(a, b string) error { return exchangeByRenames(a, b) }
