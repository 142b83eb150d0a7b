//go:build goexperiment.simd && amd64

#include "go_asm.h"
#include "textflag.h"

// The unpackers; unpackAVX2 and unpackAVX512 say how they go and why they are in assembly. Registers of both:
//
//	AX tables    BX headers     SI payload    R8 stride    CX chunks left
//	DX top row   DI bottom row  R14 memory to fetch ahead, R15 bytes from one place of it to the next

// GROUPS reads the header of one plane of a chunk: R9 and R10 become the places of the left and right two groups in
// tables of 32 bytes, R11 the bytes that a row of the left two takes, R12 those of all four.
#define GROUPS(at) \
	MOVBLZX at(BX), R9                            \
	MOVBLZX at+1(BX), R10                         \
	MOVBLZX groupTables_pairWidth(AX)(R9*1), R11  \
	MOVBLZX groupTables_pairWidth(AX)(R10*1), R12 \
	ADDQ    R11, R12

// LOAD256 brings the bit planes of one plane of a chunk to a (top row) and b (bottom row), and the lowest residuals of its
// columns to low.
#define LOAD256(at, a, alow, b, blow, low, lowlow) \
	GROUPS(at)                                                            \
	SHLQ        $5, R9                                                    \
	SHLQ        $5, R10                                                   \
	LEAQ        (SI)(R12*1), R13                                          \
	VMOVDQU     groupTables_spread+spread_planes(AX)(R9*1), lowlow        \
	VINSERTI128 $1, groupTables_spread+spread_planes(AX)(R10*1), low, low \
	VMOVDQU     (SI), alow                                                \
	VINSERTI128 $1, (SI)(R11*1), a, a                                     \
	VMOVDQU     (R13), blow                                               \
	VINSERTI128 $1, (R13)(R11*1), b, b                                    \
	LEAQ        (SI)(R12*2), SI                                           \
	VPSHUFB     low, a, a                                                 \
	VPSHUFB     low, b, b                                                 \
	VMOVDQU     groupTables_spread+spread_lowest(AX)(R9*1), lowlow        \
	VINSERTI128 $1, groupTables_spread+spread_lowest(AX)(R10*1), low, low

// INTERLEAVE interleaves the lower halves (into the first) and the upper halves of three pairs of vectors.
#define INTERLEAVE(lower, upper) \
	upper Y4, Y3, Y5   \
	lower Y4, Y3, Y3   \
	upper Y7, Y6, Y8   \
	lower Y7, Y6, Y6   \
	upper Y10, Y9, Y11 \
	lower Y10, Y9, Y9

// EXCHANGE swaps bits of three pairs of vectors: those of A in columns whose number has a bit set with those of B in columns
// that have it clear (the mask), which are shift bits to the right of them.
#define EXCHANGE(shift, columns, A0, B0, T0, A1, B1, T1, A2, B2, T2) \
	VPSRLQ shift, A0, T0   \
	VPSRLQ shift, A1, T1   \
	VPSRLQ shift, A2, T2   \
	VPXOR  B0, T0, T0      \
	VPXOR  B1, T1, T1      \
	VPXOR  B2, T2, T2      \
	VPAND  columns, T0, T0 \
	VPAND  columns, T1, T1 \
	VPAND  columns, T2, T2 \
	VPXOR  T0, B0, B0      \
	VPXOR  T1, B1, B1      \
	VPXOR  T2, B2, B2      \
	VPSLLQ shift, T0, T0   \
	VPSLLQ shift, T1, T1   \
	VPSLLQ shift, T2, T2   \
	VPXOR  T0, A0, A0      \
	VPXOR  T1, A1, A1      \
	VPXOR  T2, A2, A2

// func unpackPairAVX2(tables *groupTables, headers, payload, top, bottom unsafe.Pointer, stride, chunks int, ahead unsafe.Pointer, apart int)
TEXT ·unpackPairAVX2(SB), NOSPLIT, $0-72
	MOVQ         tables+0(FP), AX
	MOVQ         headers+8(FP), BX
	MOVQ         payload+16(FP), SI
	MOVQ         top+24(FP), DX
	MOVQ         bottom+32(FP), DI
	MOVQ         stride+40(FP), R8
	MOVQ         chunks+48(FP), CX
	MOVQ         ahead+56(FP), R14
	MOVQ         apart+64(FP), R15
	MOVQ         $0x0F0F0F0F0F0F0F0F, R9
	MOVQ         R9, X0
	VPBROADCASTQ X0, Y0
	MOVQ         $0x3333333333333333, R9
	MOVQ         R9, X1
	VPBROADCASTQ X1, Y1
	MOVQ         $0x5555555555555555, R9
	MOVQ         R9, X2
	VPBROADCASTQ X2, Y2

chunk:
	LOAD256(0, Y3, X3, Y4, X4, Y12, X12)
	LOAD256(2, Y6, X6, Y7, X7, Y13, X13)
	LOAD256(4, Y9, X9, Y10, X10, Y14, X14)

	INTERLEAVE(VPUNPCKLWD, VPUNPCKHWD)
	EXCHANGE($4, Y0, Y3, Y5, Y4, Y6, Y8, Y7, Y9, Y11, Y10)
	VPUNPCKHBW Y5, Y3, Y4
	VPUNPCKLBW Y5, Y3, Y3
	VPUNPCKHBW Y8, Y6, Y7
	VPUNPCKLBW Y8, Y6, Y6
	VPUNPCKHBW Y11, Y9, Y10
	VPUNPCKLBW Y11, Y9, Y9
	EXCHANGE($2, Y1, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11)
	INTERLEAVE(VPUNPCKLBW, VPUNPCKHBW)
	EXCHANGE($1, Y2, Y3, Y5, Y4, Y6, Y8, Y7, Y9, Y11, Y10)
	VPUNPCKHBW Y5, Y3, Y4
	VPUNPCKLBW Y5, Y3, Y3
	VPUNPCKHBW Y8, Y6, Y7
	VPUNPCKLBW Y8, Y6, Y6
	VPUNPCKHBW Y11, Y9, Y10
	VPUNPCKLBW Y11, Y9, Y9

	PREFETCHT1 (R14)
	PREFETCHT1 (R14)(R15*1)
	PREFETCHT1 (R14)(R15*2)
	LEAQ       (R14)(R15*2), R14
	ADDQ       R15, R14

	// The top row is predicted by the row above, which the bottom rows hold, and the bottom row by the top row.
	VPADDB  (DI), Y12, Y5
	VPADDB  (DI)(R8*1), Y13, Y8
	VPADDB  (DI)(R8*2), Y14, Y11
	VPADDB  Y12, Y4, Y4
	VPADDB  Y13, Y7, Y7
	VPADDB  Y14, Y10, Y10
	VPADDB  Y5, Y3, Y3
	VPADDB  Y8, Y6, Y6
	VPADDB  Y11, Y9, Y9
	VPADDB  Y3, Y4, Y4
	VPADDB  Y6, Y7, Y7
	VPADDB  Y9, Y10, Y10
	VMOVDQU Y3, (DX)
	VMOVDQU Y6, (DX)(R8*1)
	VMOVDQU Y9, (DX)(R8*2)
	VMOVDQU Y4, (DI)
	VMOVDQU Y7, (DI)(R8*1)
	VMOVDQU Y10, (DI)(R8*2)

	ADDQ $6, BX
	ADDQ $32, DX
	ADDQ $32, DI
	DECQ CX
	JNZ  chunk
	RET

// PLANE512 decodes one plane of a chunk.
#define PLANE512(at, top, bottom) \
	GROUPS(at)                                                             \
	MOVQ           groupTables_present(AX)(R9*8), R11                      \
	MOVQ           groupTables_present(AX)(R10*8), R13                     \
	SHLQ           $16, R13                                                \
	ORQ            R11, R13                                                \
	KMOVQ          R13, K1                                                 \
	SHLQ           $5, R9                                                  \
	SHLQ           $5, R10                                                 \
	VMOVDQU64      (SI), Z4                                                \
	VPEXPANDB.Z    Z4, K1, Z4                                              \
	LEAQ           (SI)(R12*2), SI                                         \
	VPSHUFB        Z0, Z4, Z4                                              \
	VGF2P8AFFINEQB $0, Z4, Z1, Z4                                          \
	VMOVDQU        groupTables_spread+spread_lowest(AX)(R9*1), X3          \
	VINSERTI128    $1, groupTables_spread+spread_lowest(AX)(R10*1), Y3, Y3 \
	PREFETCHT1     (R14)                                                   \
	ADDQ           R15, R14                                                \
	VPADDB         bottom, Y3, Y6                                          \
	VEXTRACTI64X4  $1, Z4, Y5                                              \
	VPADDB         Y4, Y6, Y4                                              \
	VPADDB         Y3, Y5, Y5                                              \
	VMOVDQU        Y4, top                                                 \
	VPADDB         Y4, Y5, Y5                                              \
	VMOVDQU        Y5, bottom

// func unpackPairAVX512(tables *groupTables, headers, payload, top, bottom unsafe.Pointer, stride, chunks int, ahead unsafe.Pointer, apart int)
TEXT ·unpackPairAVX512(SB), NOSPLIT, $0-72
	MOVQ      tables+0(FP), AX
	MOVQ      headers+8(FP), BX
	MOVQ      payload+16(FP), SI
	MOVQ      top+24(FP), DX
	MOVQ      bottom+32(FP), DI
	MOVQ      stride+40(FP), R8
	MOVQ      chunks+48(FP), CX
	MOVQ      ahead+56(FP), R14
	MOVQ      apart+64(FP), R15
	MOVQ      ·constants512(SB), R9
	VMOVDQU64 shuffles512_reverse8(R9), Z0
	VMOVDQU64 shuffles512_identity(R9), Z1

chunk:
	PLANE512(0, (DX), (DI))
	PLANE512(2, (DX)(R8*1), (DI)(R8*1))
	PLANE512(4, (DX)(R8*2), (DI)(R8*2))
	ADDQ $6, BX
	ADDQ $32, DX
	ADDQ $32, DI
	DECQ CX
	JNZ  chunk
	RET
