#include "textflag.h"

// func Prefetch(p []byte)
TEXT ·Prefetch(SB), NOSPLIT, $0-24
	MOVD p_base+0(FP), R0
	MOVD p_len+8(FP), R1
	ADD  R0, R1

line:
	CMP  R1, R0
	BHS  done
	PRFM (R0), PLDL2KEEP
	ADD  $64, R0
	B    line

done:
	RET
