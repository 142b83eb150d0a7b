//go:build !linux || !(amd64 || arm64)

package shard

func mapFile(shardFile, int64, int64) ([]byte, error) { return nil, errNoMapping }

func unmapFile([]byte) error { return nil }
