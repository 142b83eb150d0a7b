//go:build goexperiment.simd && go1.27 && !go1.28 && (amd64 || arm64)

package crc32c

import (
	"hash/crc32"
	"sync"
	"unsafe"
)

// A processor's CRC instruction takes eight bytes, its result comes three cycles later (two on Neoverse), and x86's newer processors begin
// two or three of them in each, Neoverse one. hash/crc32 goes through three stretches of memory side by side and so begins one a cycle, and
// on arm64 through one; crcStretches goes through eight, which is also good for waiting for memory less.
//
// Afterwards the states of the stretches are joined: a state that n bytes follow counts x^8n times (modulo the polynomial). The
// product of two reflected polynomials of 32 bits is one of 64 bits, times x. The CRC instruction multiplies its operand by x^32 and
// reduces it. So the factor for n bytes is x^(8n−33).
//
// A stretch is a cache line longer than a page, as lines that lie pages apart compete for the same sets of the cache.
const (
	stretches    = 8
	longStretch  = 4096 + 64
	shortStretch = 512 + 16
)

// crcStretches continues a CRC, in the instruction's form of the state, over 8·length bytes. powers belong to the first seven
// stretches. length is a multiple of 16.
//
//go:noescape
func crcStretches(state uint32, p unsafe.Pointer, length int, powers *[stretches - 1][2]uint64) uint32

type stretchPowers [stretches - 1][2]uint64 // powers for stretch i, which 7−i stretches follow; the second words are 0

var powersOnce = sync.OnceValues(func() (long, short *stretchPowers) {
	return newStretchPowers(longStretch), newStretchPowers(shortStretch)
})

func newStretchPowers(length int) *stretchPowers {
	t := new(stretchPowers)
	for i := range t {
		t[i][0] = uint64(powerOfX(8*length*(stretches-1-i) - 33))
	}
	return t
}

// powerOfX returns x^n modulo the polynomial of CRC-32C, reflected: bit 31 is the coefficient of 1.
func powerOfX(n int) uint32 {
	result, square := uint32(1<<31), uint32(1<<30) // 1 and x
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = multiplyPolynomials(result, square)
		}
		square = multiplyPolynomials(square, square)
	}
	return result
}

// multiplyPolynomials returns a·b modulo the polynomial, all reflected.
func multiplyPolynomials(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a&(1<<31) != 0 {
			product ^= b
		}
		b = b>>1 ^ crc32.Castagnoli&-(b&1) // times x
	}
	return product
}

// checksumStretches is for AVX2 and NEON, and for processors that have CRC-32C and carry-less multiplication.
func checksumStretches(p []byte) uint32 {
	long, short := powersOnce()
	state := ^uint32(0)
	for ; len(p) >= stretches*longStretch; p = p[stretches*longStretch:] {
		state = crcStretches(state, unsafe.Pointer(unsafe.SliceData(p)), longStretch, (*[stretches - 1][2]uint64)(long))
	}
	for ; len(p) >= stretches*shortStretch; p = p[stretches*shortStretch:] {
		state = crcStretches(state, unsafe.Pointer(unsafe.SliceData(p)), shortStretch, (*[stretches - 1][2]uint64)(short))
	}
	return crc32.Update(^state, castagnoli, p)
}
