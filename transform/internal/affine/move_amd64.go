//go:build goexperiment.simd && go1.27 && !go1.28

package affine

import "unsafe"

// move does n moves, rounded up to fours. It is in assembly because the compiler adds up each address by itself: turns by 15° take 7 % longer
// with what it makes of the same.
//
//go:noescape
func move(to, from unsafe.Pointer, moves *[2][movesMax]int32, orders *[pieceLen][16]uint8, n int)
