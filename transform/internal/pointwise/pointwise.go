// Package pointwise changes the pixels of RGB images in memory like Pillow's ImageOps, ImageEnhance and Image.convert,
// with the same bits as every release from 9.4 on.
//
// An image's pixels are three bytes each, R, G and B, without gaps. Functions read src and write dst, which has room
// for as many bytes: the same memory, or memory that does not overlap.
//
// The generic Go code is the reference. Kernels for AVX2, AVX-512 and NEON give the same bytes; they are built with
// GOEXPERIMENT=simd on amd64 and arm64 and chosen by the [kernel.Level] given to [New].
package pointwise

import (
	"math"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// An Adjuster changes images. It keeps its tables from call to call, so that nothing is allocated. It serves one goroutine at a time.
type Adjuster struct {
	kind   int      // kind of the images: one of those below
	fast   *kernels // nil for the generic code
	byLine bool     // kernels compute a line faster than they look up its table
	tables [3][256]byte
	counts [6][256]uint32 // histograms of each channel: of even pixels, then of odd ones
	// Arguments of kernels.
	spread    [3][1024]byte
	lines     [3]line
	factors   [2]float32
	turn      turn
	low, high [192]byte
}

// An Adjustment is a method of [Adjuster] that changes pixels by an amount, or that ignores the amount.
type Adjustment func(a *Adjuster, dst, src []byte, amount float64)

// New returns an Adjuster that runs kernels of the given level, which must be one of [kernel.Available].
func New(level kernel.Level) *Adjuster {
	fast := byLevel[level]
	return &Adjuster{fast: fast, byLine: fast != nil && level != kernel.AVX512}
}

// The kinds of images, whose adjustments differ.
const (
	pillow = iota
	tensor
)

// On says what the next images are, and returns the Adjuster: images of Pillow, as at first, or uint8 tensors. Those are adjusted
// like by torchvision.transforms.v2.
func (a *Adjuster) On(tensors bool) *Adjuster {
	if a.kind = pillow; tensors {
		a.kind = tensor
	}
	return a
}

// Invert is ImageOps.invert: every byte is replaced by 255 minus it.
func (a *Adjuster) Invert(dst, src []byte, _ float64) { a.Solarize(dst, src, 0) }

// Posterize is ImageOps.posterize: every byte keeps its upper bits, 0 to 8 of them.
func (a *Adjuster) Posterize(dst, src []byte, bits float64) {
	a.invert(dst, src, 256, ^byte(0xff>>int(bits)))
}

// Solarize is ImageOps.solarize: bytes of at least threshold, 0 to 256, are inverted.
func (a *Adjuster) Solarize(dst, src []byte, threshold float64) {
	a.invert(dst, src, int(math.Ceil(threshold)), 255)
}

// invert inverts bytes of at least threshold, 0 to 256, and keeps the bits of the mask.
func (a *Adjuster) invert(dst, src []byte, threshold int, mask byte) {
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.invert(dst, src, byte(max(threshold-1, 0)), byte(min(threshold, 1)-1), mask))
	}
	for i, v := range src {
		if int(v) >= threshold {
			v = ^v
		}
		dst[i] = v & mask
	}
}

// SolarizeAdd adds add, 0 to 255, to bytes below 128. Sums are limited to 255.
func (a *Adjuster) SolarizeAdd(dst, src []byte, add float64) {
	for v := range a.tables[0] {
		if a.tables[0][v] = byte(v); v < 128 {
			a.tables[0][v] = byte(min(v+int(add), 255))
		}
	}
	a.replaceAll(dst, src)
}

// replaceAll replaces the bytes of all channels by those of the first table.
func (a *Adjuster) replaceAll(dst, src []byte) {
	if dst = dst[:len(src)]; a.fast != nil {
		a.fast.fill(&a.spread[0], &a.tables[0])
		dst, src = skip(dst, src, a.fast.table(dst, src, &a.spread[0]))
	}
	for i, v := range src {
		dst[i] = a.tables[0][v]
	}
}

// Gray is Image.convert("L").convert("RGB"): the channels of every pixel become its luma. For tensors it is rgb_to_grayscale.
func (a *Adjuster) Gray(dst, src []byte, _ float64) {
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.gray[a.kind](dst, src))
	}
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		l := grays[a.kind](src[0], src[1], src[2])
		dst[0], dst[1], dst[2] = l, l, l
	}
}

// Permute gives every pixel the channels of these numbers, three digits: 210 reverses them.
func (a *Adjuster) Permute(dst, src []byte, channels float64) {
	r, g, b := int(channels)/100, int(channels)/10%10, int(channels)%10
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.permute(dst, src, r, g, b))
	}
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		p := [3]byte(src)
		dst[0], dst[1], dst[2] = p[r], p[g], p[b]
	}
}

func skip(dst, src []byte, n int) (to, from []byte) { return dst[n:], src[n:] }

// luma is Pillow's L24 (libImaging/Convert.c): ITU-R 601-2 with 16 bits of fraction, rounded.
func luma(r, g, b byte) byte {
	return byte((uint32(r)*19595 + uint32(g)*38470 + uint32(b)*7471 + 0x8000) >> 16)
}

// grays are the gray values of pixels by kind.
var grays = [2]func(r, g, b byte) byte{luma, tensorLuma}
