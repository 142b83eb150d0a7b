//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

#include "go_asm.h"
#include "textflag.h"

// The unpackers; unpackAVX2 and unpackAVX512 say how they go and why they are in assembly. Registers of both:
//
//	AX tables    BX headers     SI payload    R8 stride    CX chunks left
//	DX top row   DI bottom row  R14 memory to fetch ahead, R15 bytes from one fetch to the next

// GROUPS reads the header of one plane of a chunk: R9 and R10 become the offsets of the left and right two groups in
// tables of 32 bytes, R11 the bytes that a row of the left two takes, R12 those of all four.
#define GROUPS(at) \
	MOVBLZX at(BX), R9                            \
	MOVBLZX at+1(BX), R10                         \
	MOVBLZX groupTables_pairWidth(AX)(R9*1), R11  \
	MOVBLZX groupTables_pairWidth(AX)(R10*1), R12 \
	ADDQ    R11, R12

// LOAD256 brings the bit planes of one plane of a chunk to a (top row) and b (bottom row).
#define LOAD256(at, a, alow, b, blow) \
	GROUPS(at)                                                            \
	SHLQ        $5, R9                                                    \
	SHLQ        $5, R10                                                   \
	LEAQ        (SI)(R12*1), R13                                          \
	VMOVDQU     groupTables_spread+spread_planes(AX)(R9*1), X15           \
	VINSERTI128 $1, groupTables_spread+spread_planes(AX)(R10*1), Y15, Y15 \
	VMOVDQU     (SI), alow                                                \
	VINSERTI128 $1, (SI)(R11*1), a, a                                     \
	VMOVDQU     (R13), blow                                               \
	VINSERTI128 $1, (R13)(R11*1), b, b                                    \
	LEAQ        (SI)(R12*2), SI                                           \
	VPSHUFB     Y15, a, a                                                 \
	VPSHUFB     Y15, b, b

// INTERLEAVE interleaves three pairs of vectors: A0 and B0 become A0, of the lower halves, and C0, of the upper halves.
#define INTERLEAVE(lower, upper, A0, A1, A2, B0, B1, B2, C0, C1, C2) \
	upper B0, A0, C0 \
	lower B0, A0, A0 \
	upper B1, A1, C1 \
	lower B1, A1, A1 \
	upper B2, A2, C2 \
	lower B2, A2, A2

// EXCHANGE swaps bits of three pairs of vectors: those of A in columns whose number has a bit set with those of B in columns
// that have it clear (the mask in Y15), which are shift bits to the right of them. T is scratch.
#define EXCHANGE(shift, A0, A1, A2, B0, B1, B2, T0, T1, T2) \
	VPSRLQ shift, A0, T0 \
	VPSRLQ shift, A1, T1 \
	VPSRLQ shift, A2, T2 \
	VPXOR  B0, T0, T0    \
	VPXOR  B1, T1, T1    \
	VPXOR  B2, T2, T2    \
	VPAND  Y15, T0, T0   \
	VPAND  Y15, T1, T1   \
	VPAND  Y15, T2, T2   \
	VPXOR  T0, B0, B0    \
	VPXOR  T1, B1, B1    \
	VPXOR  T2, B2, B2    \
	VPSLLQ shift, T0, T0 \
	VPSLLQ shift, T1, T1 \
	VPSLLQ shift, T2, T2 \
	VPXOR  T0, A0, A0    \
	VPXOR  T1, A1, A1    \
	VPXOR  T2, A2, A2

// STORE256 predicts one plane of a chunk from the row above, which the bottom rows hold, and stores it: the residuals of the
// top row are in a, of the bottom row in b, each less the group's lowest. T is scratch.
#define STORE256(at, a, b, top, bottom, T) \
	MOVBLZX     at(BX), R9                                                \
	MOVBLZX     at+1(BX), R10                                             \
	SHLQ        $5, R9                                                    \
	SHLQ        $5, R10                                                   \
	VMOVDQU     groupTables_spread+spread_lowest(AX)(R9*1), X15           \
	VINSERTI128 $1, groupTables_spread+spread_lowest(AX)(R10*1), Y15, Y15 \
	VPADDB      bottom, Y15, T                                            \
	VPADDB      Y15, b, b                                                 \
	VPADDB      T, a, a                                                   \
	VPADDB      a, b, b                                                   \
	VMOVDQU     a, top                                                    \
	VMOVDQU     b, bottom                                                 \
	PREFETCHT1  (R14)                                                     \
	ADDQ        R15, R14

DATA nibbles<>+0(SB)/8, $0x0F0F0F0F0F0F0F0F
GLOBL nibbles<>(SB), RODATA|NOPTR, $8
DATA pairs<>+0(SB)/8, $0x3333333333333333
GLOBL pairs<>(SB), RODATA|NOPTR, $8
DATA bits<>+0(SB)/8, $0x5555555555555555
GLOBL bits<>(SB), RODATA|NOPTR, $8

// func unpackPairAVX2(tables *groupTables, headers, payload, top, bottom unsafe.Pointer, stride, chunks int, ahead unsafe.Pointer, step int)
TEXT ·unpackPairAVX2(SB), NOSPLIT, $0-72
	MOVQ tables+0(FP), AX
	MOVQ headers+8(FP), BX
	MOVQ payload+16(FP), SI
	MOVQ top+24(FP), DX
	MOVQ bottom+32(FP), DI
	MOVQ stride+40(FP), R8
	MOVQ chunks+48(FP), CX
	MOVQ ahead+56(FP), R14
	MOVQ step+64(FP), R15
	SUBQ $2, CX
	JLT  one

two:
	LOAD256(0, Y0, X0, Y3, X3)
	LOAD256(2, Y1, X1, Y4, X4)
	LOAD256(4, Y2, X2, Y5, X5)
	LOAD256(6, Y6, X6, Y9, X9)
	LOAD256(8, Y7, X7, Y10, X10)
	LOAD256(10, Y8, X8, Y11, X11)

	VPBROADCASTQ nibbles<>(SB), Y15
	INTERLEAVE(VPUNPCKLWD, VPUNPCKHWD, Y0, Y1, Y2, Y3, Y4, Y5, Y12, Y13, Y14)
	INTERLEAVE(VPUNPCKLWD, VPUNPCKHWD, Y6, Y7, Y8, Y9, Y10, Y11, Y3, Y4, Y5)
	EXCHANGE($4, Y0, Y1, Y2, Y12, Y13, Y14, Y9, Y10, Y11)
	EXCHANGE($4, Y6, Y7, Y8, Y3, Y4, Y5, Y9, Y10, Y11)
	VPBROADCASTQ pairs<>(SB), Y15
	INTERLEAVE(VPUNPCKLBW, VPUNPCKHBW, Y0, Y1, Y2, Y12, Y13, Y14, Y9, Y10, Y11)
	INTERLEAVE(VPUNPCKLBW, VPUNPCKHBW, Y6, Y7, Y8, Y3, Y4, Y5, Y12, Y13, Y14)
	EXCHANGE($2, Y0, Y1, Y2, Y9, Y10, Y11, Y3, Y4, Y5)
	EXCHANGE($2, Y6, Y7, Y8, Y12, Y13, Y14, Y3, Y4, Y5)
	VPBROADCASTQ bits<>(SB), Y15
	INTERLEAVE(VPUNPCKLBW, VPUNPCKHBW, Y0, Y1, Y2, Y9, Y10, Y11, Y3, Y4, Y5)
	INTERLEAVE(VPUNPCKLBW, VPUNPCKHBW, Y6, Y7, Y8, Y12, Y13, Y14, Y9, Y10, Y11)
	EXCHANGE($1, Y0, Y1, Y2, Y3, Y4, Y5, Y12, Y13, Y14)
	EXCHANGE($1, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14)
	INTERLEAVE(VPUNPCKLBW, VPUNPCKHBW, Y0, Y1, Y2, Y3, Y4, Y5, Y12, Y13, Y14)
	INTERLEAVE(VPUNPCKLBW, VPUNPCKHBW, Y6, Y7, Y8, Y9, Y10, Y11, Y3, Y4, Y5)

	STORE256(0, Y0, Y12, (DX), (DI), Y9)
	STORE256(2, Y1, Y13, (DX)(R8*1), (DI)(R8*1), Y10)
	STORE256(4, Y2, Y14, (DX)(R8*2), (DI)(R8*2), Y11)
	STORE256(6, Y6, Y3, 32(DX), 32(DI), Y9)
	STORE256(8, Y7, Y4, 32(DX)(R8*1), 32(DI)(R8*1), Y10)
	STORE256(10, Y8, Y5, 32(DX)(R8*2), 32(DI)(R8*2), Y11)
	ADDQ $12, BX
	ADDQ $64, DX
	ADDQ $64, DI
	SUBQ $2, CX
	JGE  two

one:
	ADDQ         $2, CX
	JZ           done
	LOAD256(0, Y0, X0, Y3, X3)
	LOAD256(2, Y1, X1, Y4, X4)
	LOAD256(4, Y2, X2, Y5, X5)
	VPBROADCASTQ nibbles<>(SB), Y15
	INTERLEAVE(VPUNPCKLWD, VPUNPCKHWD, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8)
	EXCHANGE($4, Y0, Y1, Y2, Y6, Y7, Y8, Y3, Y4, Y5)
	VPBROADCASTQ pairs<>(SB), Y15
	INTERLEAVE(VPUNPCKLBW, VPUNPCKHBW, Y0, Y1, Y2, Y6, Y7, Y8, Y3, Y4, Y5)
	EXCHANGE($2, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8)
	VPBROADCASTQ bits<>(SB), Y15
	INTERLEAVE(VPUNPCKLBW, VPUNPCKHBW, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8)
	EXCHANGE($1, Y0, Y1, Y2, Y6, Y7, Y8, Y3, Y4, Y5)
	INTERLEAVE(VPUNPCKLBW, VPUNPCKHBW, Y0, Y1, Y2, Y6, Y7, Y8, Y3, Y4, Y5)
	STORE256(0, Y0, Y3, (DX), (DI), Y9)
	STORE256(2, Y1, Y4, (DX)(R8*1), (DI)(R8*1), Y10)
	STORE256(4, Y2, Y5, (DX)(R8*2), (DI)(R8*2), Y11)

done:
	VZEROUPPER
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

// func unpackPairAVX512(tables *groupTables, headers, payload, top, bottom unsafe.Pointer, stride, chunks int, ahead unsafe.Pointer, step int)
TEXT ·unpackPairAVX512(SB), NOSPLIT, $0-72
	MOVQ      tables+0(FP), AX
	MOVQ      headers+8(FP), BX
	MOVQ      payload+16(FP), SI
	MOVQ      top+24(FP), DX
	MOVQ      bottom+32(FP), DI
	MOVQ      stride+40(FP), R8
	MOVQ      chunks+48(FP), CX
	MOVQ      ahead+56(FP), R14
	MOVQ      step+64(FP), R15
	MOVQ      ·constants512(SB), R9
	VMOVDQU64 constantsAVX512_reverse8(R9), Z0
	VMOVDQU64 constantsAVX512_identity(R9), Z1

chunk:
	PLANE512(0, (DX), (DI))
	PLANE512(2, (DX)(R8*1), (DI)(R8*1))
	PLANE512(4, (DX)(R8*2), (DI)(R8*2))
	ADDQ $6, BX
	ADDQ $32, DX
	ADDQ $32, DI
	DECQ CX
	JNZ  chunk
	VZEROUPPER
	RET
