//go:build goexperiment.simd && go1.27 && !go1.28

package affine

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/neon"
)

// move does n moves.
func move(to, from unsafe.Pointer, moves *[2][movesMax]int32, orders *[pieceLen][16]uint8, n int) {
	for i, source := range moves[0][:n] {
		target := uint32(moves[1][i])
		order := unsafe.Add(unsafe.Pointer(orders), int(uint8(target)))
		Store(Take(Load(unsafe.Add(from, int(source))), Load(order)), unsafe.Add(to, int(target>>8)))
	}
}
