//go:build goexperiment.simd && go1.27 && !go1.28 && (amd64 || arm64)

package shard

import (
	"hash/crc32"
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// checksumOf returns the checksum function for a level. AVX-512's carry-less multiplication of vectors is no faster than
// checksumStretches.
func checksumOf(level kernel.Level) func([]byte) uint32 {
	x86 := level >= kernel.AVX2 && cpu.X86.HasSSE42 && cpu.X86.HasPCLMULQDQ
	if x86 || level == kernel.NEON && cpu.ARM64.HasCRC32 && cpu.ARM64.HasPMULL {
		return checksumStretches
	}
	return checksumGeneric
}

// A processor's CRC instruction takes eight bytes, its result comes three cycles later (two on Neoverse), and x86's newer
// processors begin two or three of them in each, Neoverse one. hash/crc32 goes through three stretches of memory side by side
// and so begins one a cycle, and on arm64 through one; crcStretches goes through eight, which is also good for waiting for memory
// less.
//
// Afterwards the states of the stretches are joined: a state that n bytes follow counts x^8n times (modulo the polynomial). The
// product of two reflected polynomials of 32 bits is one of 64 bits, times x. The CRC instruction multiplies its operand by x^32 and
// reduces it. So the factor for n bytes is x^(8n−33).
//
// A stretch is a cache line longer than a page, as lines that lie pages apart compete for the same places in the cache.
const (
	stretches    = 8
	longStretch  = 4096 + 64
	shortStretch = 512 + 16
)

// crcStretches continues a CRC, in the instruction's form of the state, over 8·length bytes. powers belong to the first seven
// stretches. length is a multiple of 16.
//
//go:noescape
func crcStretches(state uint32, p unsafe.Pointer, length int, powers *stretchPowers) uint32

// stretchPowers are x^(8n−33), modulo the polynomial and reflected, for the n bytes that follow each stretch; the second words are 0.
type stretchPowers [stretches - 1][2]uint64

var (
	longPowers  = stretchPowers{{0x75111e66}, {0x4480d945}, {0xb6b60b9c}, {0xba14e742}, {0x7cfd7add}, {0xad630641}, {0xc4cedd32}}
	shortPowers = stretchPowers{{0x93f3319c}, {0x1c2cce0a}, {0x2e7d11a7}, {0x021ac5ef}, {0x0b0bf8ca}, {0x6f345e45}, {0xf285651c}}
)

// checksumStretches is for AVX2 and NEON, and for processors that have CRC-32C and carry-less multiplication.
func checksumStretches(p []byte) uint32 {
	state := ^uint32(0)
	for ; len(p) >= stretches*longStretch; p = p[stretches*longStretch:] {
		state = crcStretches(state, unsafe.Pointer(unsafe.SliceData(p)), longStretch, &longPowers)
	}
	for ; len(p) >= stretches*shortStretch; p = p[stretches*shortStretch:] {
		state = crcStretches(state, unsafe.Pointer(unsafe.SliceData(p)), shortStretch, &shortPowers)
	}
	return crc32.Update(^state, castagnoli, p)
}
