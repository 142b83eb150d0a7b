package pixels

import "github.com/imgfeed/imgfeed/transform/kernel"

// kernels are the inner loops of the codecs. Every set of them does exactly what the generic set does.
//
// They trust their callers: see bitpackCodec.next for what is checked on hostile input, and when.
type kernels struct {
	// widths returns the sum of the group widths in the first n bytes of headers. It may read 63 bytes more.
	widths func(t *groupTables, headers []byte, n int) int

	// unpack decodes one pair of rows, as many chunks as it is told, to rows. payload starts with that of the first
	// chunk and has 64 readable bytes behind that of the last.
	unpack func(t *groupTables, headers, payload []byte, rows *rowPair, chunks int, first bool)

	// predict is unpack for residuals that are not packed: those of one pair of rows, 192 bytes a chunk.
	predict func(residuals []byte, rows *rowPair, chunks int, first bool)

	// interleave writes width pixels as R, G, B from planes G, R−G+128 and B−G+128, stride bytes apart; mirrored if
	// flip. It may read 64 bytes behind the last plane and writes exactly len(dst) = 3·width bytes.
	interleave func(dst, planes []byte, stride, width int, flip bool)

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

	// leave ends the use of the others for one image: it clears what would slow other code's SSE instructions down.
	leave func()
}

var genericKernels = kernels{
	widths:     widthsGeneric,
	unpack:     unpackGeneric,
	predict:    predictGeneric,
	interleave: interleaveGeneric,
	planar:     planarGeneric,
	split:      splitGeneric,
	residuals:  residualsGeneric,
	pack:       packGeneric,
	leave:      func() {},
}

// kernelsFor returns the kernels for a level, or those of the highest level below it that is compiled in.
func kernelsFor(level kernel.Level) kernels {
	if level == kernel.Generic {
		return genericKernels
	}
	return acceleratedKernels(level)
}
