//go:build !linux || !(amd64 || arm64)

package storage

import "os"

func mapFile(*os.File, int64, int64) ([]byte, error) { return nil, ErrNotMapped }
