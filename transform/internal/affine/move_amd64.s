//go:build goexperiment.simd && go1.27 && !go1.28

#include "go_asm.h"
#include "textflag.h"

// MOVE does one move: from is where its bytes come from, to where they go, order the place of their order.
#define MOVE(from, to, order, x) \
	VMOVDQU (SI)(from*1), x      \
	VPSHUFB (R9)(order*1), x, x  \
	VMOVDQU x, (DI)(to*1)

// PAIR does two moves. It loads where both come from at once, and where both go: what limits it is how often it goes to memory.
#define PAIR(at) \
	MOVQ    at(R8), AX                    \
	MOVQ    (4*const_movesMax+at)(R8), BX \
	MOVL    AX, R10                       \
	SHRQ    $32, AX                       \
	MOVBLZX BX, DX                        \
	MOVL    BX, R11                       \
	SHRQ    $32, BX                       \
	SHRL    $8, R11                       \
	MOVBLZX BX, R12                       \
	SHRL    $8, BX                        \
	MOVE(R10, R11, DX, X0)                \
	MOVE(AX, BX, R12, X1)

// func move(to, from unsafe.Pointer, moves *[2][movesMax]int32, orders *[pieceLen][16]uint8, n int)
TEXT ·move(SB), NOSPLIT, $0-40
	MOVQ to+0(FP), DI
	MOVQ from+8(FP), SI
	MOVQ moves+16(FP), R8
	MOVQ orders+24(FP), R9
	MOVQ n+32(FP), CX

four:
	PAIR(0)
	PAIR(8)
	ADDQ $16, R8
	SUBQ $4, CX
	JG   four
	RET
