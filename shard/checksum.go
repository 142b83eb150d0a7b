package shard

import (
	"hash/crc32"
	"sync"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C of p. Every record is checked each time that it is read, so this is worth kernels of its own: with them it takes 15 % of
// the time of the fastest recipe, eval of pixels, and hash/crc32 would take more.
func checksum(p []byte) uint32 { return activeChecksum()(p) }

var activeChecksum = sync.OnceValue(func() func([]byte) uint32 { return checksumOf(kernel.Active()) })

func checksumGeneric(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// crc32Append returns the CRC-32C of the bytes that had crc, followed by p.
func crc32Append(crc uint32, p []byte) uint32 { return crc32.Update(crc, castagnoli, p) }
