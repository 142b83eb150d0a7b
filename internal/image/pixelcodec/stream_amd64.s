//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

#include "go_asm.h"
#include "textflag.h"

// The first two functions write one or two rows of pixels, 32 at a time: three vectors that go past the caches.
//
//	DI destination   SI planes of the row at hand   R9 those of the other row, or 0
//	R8 stride        CX blocks left                 DX from a block to the next, negative to mirror

#define ROWS \
	MOVQ         dst+0(FP), DI            \
	MOVQ         top+8(FP), SI            \
	MOVQ         bottom+16(FP), R9        \
	MOVQ         stride+24(FP), R8        \
	MOVQ         step+40(FP), DX          \
	MOVQ         shuffles+48(FP), R10     \
	MOVQ         $0x8080808080808080, R11 \
	VMOVQ        R11, X15                 \
	VPBROADCASTQ X15, Y15

// func streamRowsAVX512(dst, top, bottom unsafe.Pointer, stride, blocks, step int, shuffles unsafe.Pointer)
TEXT ·streamRowsAVX512(SB), NOSPLIT, $0-56
	ROWS
	VMOVDQU64 (R10), Z0
	VMOVDQU64 64(R10), Z1

row:
	MOVQ blocks+32(FP), CX

block:
	VMOVDQU       (SI), Y3           // G
	VPXOR         Y15, Y3, Y4
	VPADDB        (SI)(R8*1), Y4, Y5 // R
	VPADDB        (SI)(R8*2), Y4, Y6 // B
	VINSERTI64X4  $1, Y3, Z5, Z5
	VMOVDQA64     Z5, Z7
	VPERMT2B      Z6, Z0, Z5
	VPERMT2B      Z6, Z1, Z7
	VEXTRACTI64X4 $1, Z5, Y8
	VMOVNTDQ      Y5, (DI)
	VMOVNTDQ      Y8, 32(DI)
	VMOVNTDQ      Y7, 64(DI)
	ADDQ          DX, SI
	ADDQ          $96, DI
	DECQ          CX
	JNZ           block
	MOVQ          R9, SI
	XORL          R9, R9
	TESTQ         SI, SI
	JNZ           row
	VZEROUPPER
	RET

// Red, green and blue of 32 pixels become Y3, Y4 and Y5, then, shuffled, the three vectors Y6, Y7 and Y8.
#define SHUFFLED \
	VPXOR     Y15, Y4, Y6     \
	VPADDB    Y6, Y3, Y3      \
	VPADDB    Y6, Y5, Y5      \
	VPSHUFB   Y0, Y3, Y3      \
	VPSHUFB   Y1, Y4, Y4      \
	VPSHUFB   Y2, Y5, Y5      \
	VPBLENDVB Y14, Y4, Y5, Y6 \
	VPBLENDVB Y14, Y5, Y3, Y7 \
	VPBLENDVB Y14, Y3, Y4, Y8 \
	VPBLENDVB Y13, Y3, Y6, Y6 \
	VPBLENDVB Y13, Y4, Y7, Y7 \
	VPBLENDVB Y13, Y5, Y8, Y8

// func streamRowsAVX2(dst, top, bottom unsafe.Pointer, stride, blocks, step int, shuffles, thirds unsafe.Pointer)
TEXT ·streamRowsAVX2(SB), NOSPLIT, $0-64
	ROWS
	MOVQ    thirds+56(FP), R11
	VMOVDQU (R10), Y0
	VMOVDQU 32(R10), Y1
	VMOVDQU 64(R10), Y2
	VMOVDQU (R11), Y13
	VMOVDQU 32(R11), Y14

row:
	MOVQ  blocks+32(FP), CX
	TESTQ DX, DX
	JS    mirrored

block:
	VMOVDQU    (SI)(R8*1), Y3
	VMOVDQU    (SI), Y4
	VMOVDQU    (SI)(R8*2), Y5
	SHUFFLED
	VPERM2I128 $0x20, Y7, Y6, Y9
	VPERM2I128 $0x30, Y6, Y8, Y10
	VPERM2I128 $0x31, Y8, Y7, Y11
	VMOVNTDQ   Y9, (DI)
	VMOVNTDQ   Y10, 32(DI)
	VMOVNTDQ   Y11, 64(DI)
	ADDQ       DX, SI
	ADDQ       $96, DI
	DECQ       CX
	JNZ        block
	JMP        next

mirrored:
	VMOVDQU    (SI)(R8*1), Y3
	VMOVDQU    (SI), Y4
	VMOVDQU    (SI)(R8*2), Y5
	SHUFFLED
	VPERM2I128 $0x31, Y7, Y6, Y9
	VPERM2I128 $0x21, Y6, Y8, Y10
	VPERM2I128 $0x20, Y8, Y7, Y11
	VMOVNTDQ   Y9, (DI)
	VMOVNTDQ   Y10, 32(DI)
	VMOVNTDQ   Y11, 64(DI)
	ADDQ       DX, SI
	ADDQ       $96, DI
	DECQ       CX
	JNZ        mirrored

next:
	MOVQ  R9, SI
	XORL  R9, R9
	TESTQ SI, SI
	JNZ   row
	VZEROUPPER
	RET

// func streamCopyAVX2(dst, src unsafe.Pointer, vectors int)
TEXT ·streamCopyAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ vectors+16(FP), CX

next:
	VMOVDQU  (SI), Y0
	VMOVNTDQ Y0, (DI)
	ADDQ     $32, SI
	ADDQ     $32, DI
	DECQ     CX
	JNZ      next
	VZEROUPPER
	RET

// func fence()
TEXT ·fence(SB), NOSPLIT, $0-0
	SFENCE
	RET
