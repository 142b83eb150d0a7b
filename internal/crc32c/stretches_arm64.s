//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

#include "textflag.h"

// STEP takes 16 bytes of a stretch.
#define STEP(from, state) \
	LDP.P   16(from), (R20, R21) \
	CRC32CX R20, state            \
	CRC32CX R21, state

// SHIFTED adds the product of a stretch's state and its power of x.
#define SHIFTED(state, at) \
	FMOVD  at(R2), F1               \
	FMOVD  state, F2                \
	VPMULL V1.D1, V2.D1, V1.Q1      \
	VEOR   V1.B16, V0.B16, V0.B16

// func crcStretches(state uint32, p unsafe.Pointer, length int, powers *[7][2]uint64) uint32
TEXT ·crcStretches(SB), NOSPLIT, $0-36
	MOVWU state+0(FP), R4
	MOVD  p+8(FP), R0
	MOVD  length+16(FP), R1
	MOVD  powers+24(FP), R2
	ADD   R1, R0, R8
	ADD   R1, R8, R9
	ADD   R1, R9, R10
	ADD   R1, R10, R11
	ADD   R1, R11, R12
	ADD   R1, R12, R13
	ADD   R1, R13, R14
	MOVD  ZR, R5
	MOVD  ZR, R6
	MOVD  ZR, R7
	MOVD  ZR, R15
	MOVD  ZR, R16
	MOVD  ZR, R17
	MOVD  ZR, R19

next:
	STEP(R0, R4)
	STEP(R8, R5)
	STEP(R9, R6)
	STEP(R10, R7)
	STEP(R11, R15)
	STEP(R12, R16)
	STEP(R13, R17)
	STEP(R14, R19)
	SUBS $16, R1
	BNE  next

	VEOR    V0.B16, V0.B16, V0.B16
	SHIFTED(R4, 0)
	SHIFTED(R5, 16)
	SHIFTED(R6, 32)
	SHIFTED(R7, 48)
	SHIFTED(R15, 64)
	SHIFTED(R16, 80)
	SHIFTED(R17, 96)
	VMOV    V0.D[0], R5
	MOVD    ZR, R6
	CRC32CX R5, R6
	EORW    R19, R6, R6
	MOVW    R6, ret+32(FP)
	RET
