//go:generate go run ../../lanes/generate -neon rows_avx2.go chunks_avx2.go

package pixelcodec

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// kernels are the inner loops of the codecs. All sets have the same results as the generic set.
//
// They trust their callers: bitpackCodec.next has the checks of hostile input.
type kernels struct {
	// measure copies the first n bytes of headers to dst and returns the sum of their groups' widths, and of those of the first skip bytes,
	// skip < n. It reads each byte once, so that the sum is that of the bytes in dst. It may read 63 bytes more and write as many to dst.
	measure func(t *groupTables, dst, headers []byte, n, skip int) (total, before int)

	// unpack decodes the given number of chunks of one pair of rows to rows. payload starts with that of the first
	// chunk and has 64 readable bytes after that of the last. Meanwhile it may fetch memory into the cache.
	unpack func(t *groupTables, headers, payload []byte, rows *rowPair, chunks int, first bool, ahead fetch)

	// predict is unpack for unpacked residuals of one pair of rows, 192 bytes per chunk.
	predict func(residuals []byte, rows *rowPair, chunks int, first bool)

	// interleave writes width pixels as R, G, B from planes G, R−G+128 and B−G+128, stride bytes apart; mirrored if
	// flip. It may read 64 bytes behind the last plane and writes exactly len(dst) = 3·width bytes.
	interleave func(dst, planes []byte, stride, width int, flip bool)

	// stream is interleave for one row, or two if bottom is not nil, one after the other, with stores that bypass the
	// caches. dst must be aligned and width a multiple of streamAlign. nil if there is no such kernel: processors with
	// NEON detect complete writes of lines, and do not read them first.
	stream func(dst, top, bottom []byte, stride, width int, flip bool)

	// streamCopy copies src to dst, bypassing the caches, with the same conditions for dst and its length. nil if stream is.
	streamCopy func(dst, src []byte)

	// fence orders the stores of stream and streamCopy before all later stores. nil if stream is.
	fence func()

	// planar writes width pixels as three runs of R, G and B, planeBytes apart.
	planar func(dst []byte, planeBytes int, planes []byte, stride, width int, flip bool)

	// split is the reverse of an interleave without flip. It writes exactly width bytes of each plane.
	split func(planes []byte, stride int, src []byte, width int)

	// residuals makes the residuals of whole chunks of two rows of pixels. above holds the row above in planes, chunk
	// by chunk, and at the end the bottom row.
	residuals func(dst, top, bottom, above []byte, chunks int, first bool)

	// pack writes the headers and payloads of one pair of rows and returns the payload's length. It may write 64 bytes behind it.
	pack func(t *groupTables, codes *codeTable, headers, payload, residuals []byte, chunks int) int
}

var byLevel = kernel.Table[kernels]{kernel.Generic: {
	measure: measureGeneric, unpack: unpackGeneric, predict: predictGeneric, interleave: interleaveGeneric,
	planar: planarGeneric, split: splitGeneric, residuals: residualsGeneric, pack: packGeneric,
}}

// streamAlign divides the address and the length of a streamed row.
const streamAlign = 32

// start returns the address of a slice's first byte.
//
// A pointer outside its memory is an error even if it is not used: the garbage collector ends the process when it finds
// a pointer without an object. So kernels' loops exit before the step after the last element, and process at least one
// element. Blobs have slack after them, so a pointer after the last element still points into the blob.
func start(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
