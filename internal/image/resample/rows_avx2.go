//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

func init() {
	byLevel[kernel.AVX2] = &kernels{
		level: kernel.AVX2, doubles: 2 * Count, weights: weightsAVX2, split: SplitWeight,
		prepare: prepareAVX2, vertical: &verticalsAVX2, take: takeAVX2,
		verticalFirst: [3]verticalFirstKernel{verticalFirstAVX2[clipped], verticalFirstAVX2[topByte], verticalFirst2AVX2},
		splitPlanes:   splitPlanesAVX2, mirror: mirrorAVX2, bytes: 16 * Count,
	}
}

// Nothing outside the rows is read or written.

// splitPlanesAVX2 takes 16 pixels in each lane.
func splitPlanesAVX2(red, green, blue, row []byte) {
	row = row[:3*len(red)]
	to0, to1, to2 := unsafe.Pointer(&red[0]), unsafe.Pointer(&green[0]), unsafe.Pointer(&blue[0])
	for x := 0; x < len(red); x += 16 * Count {
		x := min(x, len(red)-16*Count)
		a, b, c := LoadPixels(unsafe.Pointer(&row[3*x]))
		Store(Channel(a, b, c, 0), unsafe.Add(to0, x))
		Store(Channel(a, b, c, 1), unsafe.Add(to1, x))
		Store(Channel(a, b, c, 2), unsafe.Add(to2, x))
	}
	Leave()
}

// mirrorAVX2 takes 15 bytes at a time while 16 can be read, and then the rest one by one.
func mirrorAVX2(dst, src []byte) {
	index, pixels, x := LoadLaneIndices(&mirrorIndex), len(src)/3, 0
	for ; x+mirrorPixels < pixels; x += mirrorPixels {
		LookupLane(unsafe.Pointer(&src[3*x:][:16][0]), unsafe.Pointer(&dst[3*(pixels-mirrorPixels-x)-1:][:16][0]), index)
	}
	mirror(dst[:3*(pixels-x)], src[3*x:3*pixels])
}
