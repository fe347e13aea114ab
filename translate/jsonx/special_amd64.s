#include "textflag.h"

// func vectorSpecial(p *byte, blocks int) (block int, mask uint64)
//
// A byte is special unless it is above 0x1f as a signed number, which those above 0x7f are not, and neither quote nor
// backslash. Two vectors of 32 bytes make a block.
TEXT ·vectorSpecial(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ blocks+8(FP), CX
	XORQ AX, AX
	XORQ R8, R8
	MOVQ $0x2222222222222222, BX
	MOVQ BX, X0
	VPBROADCASTQ X0, Y0
	MOVQ $0x5c5c5c5c5c5c5c5c, BX
	MOVQ BX, X1
	VPBROADCASTQ X1, Y1
	MOVQ $0x1f1f1f1f1f1f1f1f, BX
	MOVQ BX, X2
	VPBROADCASTQ X2, Y2

next:
	CMPQ AX, CX
	JGE  end
	VMOVDQU (SI), Y3
	VMOVDQU 32(SI), Y4
	VPCMPGTB Y2, Y3, Y5
	VPCMPGTB Y2, Y4, Y6
	VPCMPEQB Y0, Y3, Y7
	VPCMPEQB Y1, Y3, Y3
	VPCMPEQB Y0, Y4, Y8
	VPCMPEQB Y1, Y4, Y4
	VPOR Y7, Y3, Y3
	VPOR Y8, Y4, Y4
	VPANDN Y5, Y3, Y3
	VPANDN Y6, Y4, Y4
	VPMOVMSKB Y3, R8
	VPMOVMSKB Y4, R9
	SHLQ $32, R9
	ORQ  R9, R8
	NOTQ R8
	TESTQ R8, R8
	JNZ  end
	ADDQ $64, SI
	INCQ AX
	JMP  next

end:
	VZEROUPPER
	MOVQ AX, block+16(FP)
	MOVQ R8, mask+24(FP)
	RET
