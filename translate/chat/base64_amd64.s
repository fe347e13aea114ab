#include "textflag.h"

// func vectorBase64(p *byte, blocks int) bool
//
// A byte is of the alphabet if it is a letter once its case is dropped, one of the slash and the digits behind it, or a plus.
// A byte is within n of a first one if subtracting that and taking the smaller of the difference and n changes nothing.
TEXT ·vectorBase64(SB), NOSPLIT, $0-17
	MOVQ p+0(FP), SI
	MOVQ blocks+8(FP), CX
	MOVQ $0x2020202020202020, BX
	MOVQ BX, X0
	VPBROADCASTQ X0, Y0 // case
	MOVQ $0x6161616161616161, BX
	MOVQ BX, X1
	VPBROADCASTQ X1, Y1 // 'a'
	MOVQ $0x1919191919191919, BX
	MOVQ BX, X2
	VPBROADCASTQ X2, Y2 // 'z' - 'a'
	MOVQ $0x2f2f2f2f2f2f2f2f, BX
	MOVQ BX, X3
	VPBROADCASTQ X3, Y3 // '/'
	MOVQ $0x0a0a0a0a0a0a0a0a, BX
	MOVQ BX, X4
	VPBROADCASTQ X4, Y4 // '9' - '/'
	MOVQ $0x2b2b2b2b2b2b2b2b, BX
	MOVQ BX, X5
	VPBROADCASTQ X5, Y5 // '+'
	VPCMPEQB Y6, Y6, Y6 // all good so far

next:
	TESTQ CX, CX
	JLE  end
	VMOVDQU (SI), Y7
	VPOR Y0, Y7, Y8
	VPSUBB Y1, Y8, Y8
	VPMINUB Y2, Y8, Y9
	VPCMPEQB Y8, Y9, Y8
	VPSUBB Y3, Y7, Y9
	VPMINUB Y4, Y9, Y10
	VPCMPEQB Y9, Y10, Y9
	VPCMPEQB Y5, Y7, Y7
	VPOR Y8, Y9, Y8
	VPOR Y7, Y8, Y8
	VPAND Y8, Y6, Y6
	ADDQ $32, SI
	DECQ CX
	JMP  next

end:
	VPMOVMSKB Y6, AX
	VZEROUPPER
	CMPL AX, $0xffffffff
	SETEQ ret+16(FP)
	RET
