//go:generate go run ../../lanes/generate -neon rows_avx2.go chunks_avx2.go

package pixelcodec

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// kernels are the inner loops of the codecs. Every set of them does exactly what the generic set does.
//
// They trust their callers: see bitpackCodec.next for what is checked on hostile input, and when.
type kernels struct {
	// measure copies the first n bytes of headers to dst and returns the sum of their groups' widths, and of those of
	// the first skip bytes, skip < n. It reads each byte once, so that what it has summed is what is in dst. It may
	// read 63 bytes more and write as many to dst.
	measure func(t *groupTables, dst, headers []byte, n, skip int) (total, before int)

	// unpack decodes one pair of rows, as many chunks as it is told, to rows. payload starts with that of the first
	// chunk and has 64 readable bytes behind that of the last. On the way it may fetch memory into the cache.
	unpack func(t *groupTables, headers, payload []byte, rows *rowPair, chunks int, first bool, ahead fetch)

	// predict is unpack for residuals that are not packed: those of one pair of rows, 192 bytes a chunk.
	predict func(residuals []byte, rows *rowPair, chunks int, first bool)

	// interleave writes width pixels as R, G, B from planes G, R−G+128 and B−G+128, stride bytes apart; mirrored if
	// flip. It may read 64 bytes behind the last plane and writes exactly len(dst) = 3·width bytes.
	interleave func(dst, planes []byte, stride, width int, flip bool)

	// stream is interleave of one row, or of two if bottom is not nil, which go to dst one behind the other, past the
	// caches. dst must be aligned and width a multiple of streamAlign. nil if there is no such kernel.
	stream func(dst, top, bottom []byte, stride, width int, flip bool)

	// streamCopy copies src to dst past the caches; the same goes for dst and its length. nil if stream is.
	streamCopy func(dst, src []byte)

	// fence orders what stream and streamCopy have written before all that is written from now on. nil if stream is.
	fence func()

	// planar writes width pixels as three runs of R, G and B, planeBytes apart.
	planar func(dst []byte, planeBytes int, planes []byte, stride, width int, flip bool)

	// split is the reverse of an interleave without flip. It writes exactly width bytes of each plane.
	split func(planes []byte, stride int, src []byte, width int)

	// residuals makes the residuals of whole chunks of two rows of pixels. above holds the row above in planes, chunk
	// by chunk, and is left holding the bottom row.
	residuals func(dst, top, bottom, above []byte, chunks int, first bool)

	// pack writes the headers and payloads of one pair of rows and returns the payload's length. It may write 64
	// bytes behind it.
	pack func(t *groupTables, codes *codeTable, headers, payload, residuals []byte, chunks int) int
}

var byLevel kernel.Table[kernels]

var genericKernels = kernels{
	measure:    measureGeneric,
	unpack:     unpackGeneric,
	predict:    predictGeneric,
	interleave: interleaveGeneric,
	planar:     planarGeneric,
	split:      splitGeneric,
	residuals:  residualsGeneric,
	pack:       packGeneric,
}

// streamAlign is what the place and the length of a streamed row must be multiples of.
const streamAlign = 32

// kernelsFor returns the kernels for a level, the generic ones if this binary has none of it.
func kernelsFor(level kernel.Level) kernels {
	if k := byLevel[level]; k != nil {
		return *k
	}
	return genericKernels
}

// start returns the address of a slice's first byte.
//
// A pointer that has left the memory it points into is an error even if nothing reads there: the garbage collector ends
// the process when it finds one that points to where no object is. So kernels walk their slices by loops that leave
// before the step behind the last element, and work on one element at least; blobs have slack behind them, in which a
// pointer behind the last element still points into the blob.
func start(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
