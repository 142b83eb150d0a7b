//go:build goexperiment.simd && go1.27 && !go1.28

#include "go_asm.h"
#include "textflag.h"

// MOVE does one move: AX is where its bytes come from, BX where they go, and DX the place of their order.
#define MOVE(at) \
	MOVLQSX at(R8), AX                   \
	MOVL    (4*const_movesMax+at)(R8), BX \
	MOVBLZX BX, DX                       \
	SHRL    $8, BX                       \
	VMOVDQU (SI)(AX*1), X0               \
	VPSHUFB (R9)(DX*1), X0, X0           \
	VMOVDQU X0, (DI)(BX*1)

// func move(to, from unsafe.Pointer, moves *[2][movesMax]int32, orders *[pieceLen][16]uint8, n int)
TEXT ·move(SB), NOSPLIT, $0-40
	MOVQ to+0(FP), DI
	MOVQ from+8(FP), SI
	MOVQ moves+16(FP), R8
	MOVQ orders+24(FP), R9
	MOVQ n+32(FP), CX

four:
	MOVE(0)
	MOVE(4)
	MOVE(8)
	MOVE(12)
	ADDQ $16, R8
	SUBQ $4, CX
	JG   four
	RET
