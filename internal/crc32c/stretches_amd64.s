//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

#include "textflag.h"

// STEP takes eight bytes of each stretch: at SI the stretches 0, 1, 2 and 4, at BX 3 and 5, at DI 6 and 7.
#define STEP(at) \
	CRC32Q at(SI), R8        \
	CRC32Q at(SI)(DX*1), R9  \
	CRC32Q at(SI)(DX*2), R10 \
	CRC32Q at(BX), R11       \
	CRC32Q at(SI)(DX*4), R12 \
	CRC32Q at(BX)(DX*2), R13 \
	CRC32Q at(DI), R14       \
	CRC32Q at(DI)(DX*1), R15

// SHIFTED adds the product of a stretch's state and its power of x.
#define SHIFTED(state, at) \
	VMOVQ      state, X1          \
	VPCLMULQDQ $0, at(AX), X1, X1 \
	VPXOR      X1, X0, X0

// func crcStretches(state uint32, p unsafe.Pointer, length int, powers *[7][2]uint64) uint32
TEXT ·crcStretches(SB), NOSPLIT, $0-36
	MOVL state+0(FP), R8
	MOVQ p+8(FP), SI
	MOVQ length+16(FP), DX
	MOVQ powers+24(FP), AX
	LEAQ (SI)(DX*2), BX
	ADDQ DX, BX
	LEAQ (BX)(DX*2), DI
	ADDQ DX, DI
	MOVQ DX, CX
	SHRQ $4, CX
	XORL R9, R9
	XORL R10, R10
	XORL R11, R11
	XORL R12, R12
	XORL R13, R13
	XORL R14, R14
	XORL R15, R15

next:
	STEP(0)
	STEP(8)
	ADDQ $16, SI
	ADDQ $16, BX
	ADDQ $16, DI
	DECQ CX
	JNZ  next

	VPXOR  X0, X0, X0
	SHIFTED(R8, 0)
	SHIFTED(R9, 16)
	SHIFTED(R10, 32)
	SHIFTED(R11, 48)
	SHIFTED(R12, 64)
	SHIFTED(R13, 80)
	SHIFTED(R14, 96)
	VMOVQ  X0, CX
	XORL   AX, AX
	CRC32Q CX, AX
	XORL   R15, AX
	MOVL   AX, ret+32(FP)
	RET
