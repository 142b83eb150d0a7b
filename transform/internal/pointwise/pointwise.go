// Package pointwise changes the pixels of RGB images in memory like Pillow's ImageOps, ImageEnhance and Image.convert,
// with the same bits as every release from 9.4 on.
//
// An image's pixels are three bytes each, R, G and B, without gaps. Functions read src and write dst, which has room
// for as many bytes: the same memory, or memory that does not overlap.
//
// The generic Go code is the reference. Kernels for AVX2, AVX-512 and NEON give the same bytes; they are built with
// GOEXPERIMENT=simd on amd64 and arm64 and chosen by the [kernel.Level] given to [New].
package pointwise

import "github.com/imgfeed/imgfeed/internal/kernel"

// An Adjuster changes images. It keeps its tables from call to call, so that nothing is allocated. It serves one goroutine at a
// time.
type Adjuster struct {
	fast   *kernels // nil for the generic code
	tables [3][256]byte
	counts [6][256]uint32 // histograms of each channel: of even pixels, then of odd ones
	// Arguments of kernels.
	spread    [3][1024]byte
	lines     [3]line
	factor    float32
	low, high [192]byte
}

// New returns an Adjuster that runs kernels of the given level, which must be one of [kernel.Available].
func New(level kernel.Level) *Adjuster { return &Adjuster{fast: byLevel[level]} }

// Invert is ImageOps.invert: every byte is replaced by 255 minus it.
func (a *Adjuster) Invert(dst, src []byte) {
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.xor(dst, src, 255))
	}
	for i, v := range src {
		dst[i] = ^v
	}
}

// Posterize is ImageOps.posterize: every byte keeps its upper bits, 0 to 8 of them.
func (a *Adjuster) Posterize(dst, src []byte, bits int) {
	mask := ^byte(0xff >> bits)
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.and(dst, src, mask))
	}
	for i, v := range src {
		dst[i] = v & mask
	}
}

// Solarize is ImageOps.solarize: bytes of at least threshold, 0 to 256, are inverted.
func (a *Adjuster) Solarize(dst, src []byte, threshold int) {
	if threshold == 0 {
		a.Invert(dst, src)
		return
	}
	if dst = dst[:len(src)]; a.fast != nil && threshold < 256 {
		dst, src = skip(dst, src, a.fast.solarize(dst, src, byte(threshold-1)))
	}
	for i, v := range src {
		if int(v) >= threshold {
			v = ^v
		}
		dst[i] = v
	}
}

// SolarizeAdd adds add, which is not negative, to bytes below threshold, 0 to 256. Sums are limited to 255.
func (a *Adjuster) SolarizeAdd(dst, src []byte, add, threshold int) {
	if dst = dst[:len(src)]; a.fast != nil && 0 < threshold && threshold < 256 {
		dst, src = skip(dst, src, a.fast.solarizeAdd(dst, src, byte(min(add, 255)), byte(threshold-1)))
	}
	for i, v := range src {
		if int(v) < threshold {
			v = byte(min(int(v)+add, 255))
		}
		dst[i] = v
	}
}

// Gray is Image.convert("L").convert("RGB"): the channels of every pixel become its luma.
func (a *Adjuster) Gray(dst, src []byte) {
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.gray(dst, src))
	}
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		l := luma(src[0], src[1], src[2])
		dst[0], dst[1], dst[2] = l, l, l
	}
}

// skip drops the first n bytes.
func skip(dst, src []byte, n int) (to, from []byte) { return dst[n:], src[n:] }

// luma is Pillow's L24 (libImaging/Convert.c): ITU-R 601-2 with 16 bits of fraction, rounded.
func luma(r, g, b byte) byte {
	return byte((uint32(r)*19595 + uint32(g)*38470 + uint32(b)*7471 + 0x8000) >> 16)
}
