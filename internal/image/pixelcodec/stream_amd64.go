//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pixelcodec

import "unsafe"

// A store to memory that is in no cache first reads it from there. Stores that go past the caches don't, which saves a third of
// what decoding moves; simd/archsimd does not have them. A batch larger than the caches is not in them any more
// when its consumer reads it, and so loses nothing.

//go:noescape
func streamRowsAVX512(dst, top, bottom unsafe.Pointer, stride, blocks, step int, shuffles unsafe.Pointer)

//go:noescape
func streamRowsAVX2(dst, top, bottom unsafe.Pointer, stride, blocks, step int, shuffles, thirds unsafe.Pointer)

// streamCopyAVX2 copies vectors of 32 bytes, one at least.
//
//go:noescape
func streamCopyAVX2(dst, src unsafe.Pointer, vectors int)

// streamCopy copies src to dst, which is as long and aligned.
func streamCopy(dst, src []byte) { streamCopyAVX2(start(dst), start(src), len(dst)/streamAlign) }

// fence orders streamed stores before all that come after: other processors may otherwise see those first.
func fence()

// ends returns where the first blocks of two rows are, and how far it is from one to the next. The second row may be nil.
func ends(top, bottom []byte, width int, flip bool) (first, second unsafe.Pointer, step int) {
	first, step = start(top), 32
	if bottom != nil {
		second = start(bottom)
	}
	if flip {
		first, step = unsafe.Pointer(&top[width-32]), -32
		if bottom != nil {
			second = unsafe.Pointer(&bottom[width-32])
		}
	}
	return first, second, step
}

func streamAVX512(dst, top, bottom []byte, stride, width int, flip bool) {
	first, second, step := ends(top, bottom, width, flip)
	shuffles := &constants512.interleaveLow
	if flip {
		shuffles = &constants512.mirrorLow
	}
	streamRowsAVX512(start(dst), first, second, stride, width/32, step, unsafe.Pointer(shuffles))
}

func streamAVX2(dst, top, bottom []byte, stride, width int, flip bool) {
	first, second, step := ends(top, bottom, width, flip)
	shuffles := &placesAVX2
	if flip {
		shuffles = &mirroredAVX2
	}
	streamRowsAVX2(start(dst), first, second, stride, width/32, step, unsafe.Pointer(shuffles), unsafe.Pointer(&thirdsAVX2))
}
