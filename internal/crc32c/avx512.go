//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package crc32c

import (
	"hash/crc32"
	"simd/archsimd"
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// A record about to be decoded mostly lies in memory, not in the caches, so the cost of its checksum is waiting for memory. A
// processor fetches ahead within a page; the loops below therefore go through four pages side by side.
//
// The arithmetic is that of Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ" (Intel, 2009), for reflected
// CRCs. Each step removes 128 bits of the message. It adds a congruent value to the message some distance further on. The rest at the
// end goes through hash/crc32. With 128-bit vectors this is no faster than the processor's CRC instruction, which hash/crc32 uses.
const (
	foldPageBytes  = 4096
	foldGroupBytes = 4 * foldPageBytes
	foldFrom       = 1024 // shorter ones go through hash/crc32
)

// Constants to fold over a distance of n bytes: x^(8n+32) and x^(8n−32) modulo the polynomial, reflected, times two; four times.
var (
	fold64   = [8]uint64{0x740eef02, 0x9e4addf8, 0x740eef02, 0x9e4addf8, 0x740eef02, 0x9e4addf8, 0x740eef02, 0x9e4addf8}
	foldPage = [8]uint64{0xc2a5b65e, 0x18714ea86, 0xc2a5b65e, 0x18714ea86, 0xc2a5b65e, 0x18714ea86, 0xc2a5b65e, 0x18714ea86}
)

// checksumOf returns the checksum function for a level.
func checksumOf(level kernel.Level) func([]byte) uint32 {
	if level >= kernel.AVX512 && archsimd.X86.AVX512VPCLMULQDQ() {
		return checksumAVX512
	}
	if level >= kernel.AVX2 && cpu.X86.HasSSE42 && cpu.X86.HasPCLMULQDQ {
		return checksumStretches
	}
	return checksumGeneric
}

// initial is what a CRC's initial value, all ones, adds to the message.
var initial = [8]uint64{0xffffffff}

// finish returns the checksum from the folded message and the bytes after it. The message goes byte by byte: what
// hash/crc32 is given escapes to the heap.
func finish(folded *[64]byte, rest []byte) uint32 {
	state := uint32(0)
	for _, b := range folded {
		state = castagnoli[byte(state)^b] ^ state>>8
	}
	return crc32.Update(^state, castagnoli, rest)
}

func fold512(x, k archsimd.Uint64x8) archsimd.Uint64x8 {
	return x.CarrylessMultiplyEven(k).Xor(x.CarrylessMultiplyOdd(k))
}

func checksumAVX512(p []byte) uint32 {
	if len(p) < foldFrom {
		return checksumGeneric(p)
	}
	var folded [8]uint64
	done := foldAVX512(&folded, p)
	return finish((*[64]byte)(unsafe.Pointer(&folded)), p[done:])
}

// foldAVX512 folds all of p but less than 64 bytes, and returns how many it has. The memory for the result is zeroed elsewhere:
// the compiler does so by SSE.
//
//go:noinline
func foldAVX512(folded *[8]uint64, p []byte) (done int) {
	load := func(at int) archsimd.Uint64x8 {
		return archsimd.LoadUint64x8Array((*[8]uint64)(unsafe.Pointer(&p[at : at+64][0])))
	}
	near, far := archsimd.LoadUint64x8Array(&fold64), archsimd.LoadUint64x8Array(&foldPage)
	a := load(0).Xor(archsimd.LoadUint64x8Array(&initial))
	done = 64
	for ; len(p)-done >= foldGroupBytes; done += foldGroupBytes {
		var b, c, d archsimd.Uint64x8
		for i := done; i < done+foldPageBytes; i += 64 {
			group := unsafe.Pointer(&p[i : i+3*foldPageBytes+64][0])
			a = fold512(a, near).Xor(archsimd.LoadUint64x8Array((*[8]uint64)(group)))
			b = fold512(b, near).Xor(archsimd.LoadUint64x8Array((*[8]uint64)(unsafe.Add(group, foldPageBytes))))
			c = fold512(c, near).Xor(archsimd.LoadUint64x8Array((*[8]uint64)(unsafe.Add(group, 2*foldPageBytes))))
			d = fold512(d, near).Xor(archsimd.LoadUint64x8Array((*[8]uint64)(unsafe.Add(group, 3*foldPageBytes))))
		}
		b = b.Xor(fold512(a, far))
		c = c.Xor(fold512(b, far))
		a = d.Xor(fold512(c, far))
	}
	for ; len(p)-done >= 64; done += 64 {
		a = fold512(a, near).Xor(load(done))
	}
	a.StoreArray(folded)
	archsimd.ClearAVXUpperBits()
	return done
}
