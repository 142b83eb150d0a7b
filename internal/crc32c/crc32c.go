// Package crc32c computes CRC-32C checksums, the ones of shards and their records.
//
// It has kernels of its own because checksums take 15 to 17 % of an epoch of stored pixels even with them (preset eval, Zen 4, AVX-512
// and AVX2). For a record that lies in memory and not in the caches, hash/crc32 takes twice as long.
package crc32c

import (
	"hash/crc32"
	"sync"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C of p.
func Checksum(p []byte) uint32 { return active()(p) }

var active = sync.OnceValue(func() func([]byte) uint32 { return checksumOf(kernel.Active()) })

func checksumGeneric(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// Update returns the CRC-32C of the bytes that had crc, followed by p.
func Update(crc uint32, p []byte) uint32 { return crc32.Update(crc, castagnoli, p) }
