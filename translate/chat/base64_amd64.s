#include "textflag.h"

// func vectorBase64(p *byte, blocks int) bool
//
// A byte is of the alphabet if what its halves are looked up as has a bit in common.
TEXT ·vectorBase64(SB), NOSPLIT, $0-17
	MOVQ p+0(FP), SI
	MOVQ blocks+8(FP), CX
	VBROADCASTI128 ·base64Tables+0(SB), Y0 // by the low half; what is above 0x7f becomes 0
	VBROADCASTI128 ·base64Tables+16(SB), Y1 // by the high half
	MOVQ $0x0f0f0f0f0f0f0f0f, BX
	MOVQ BX, X2
	VPBROADCASTQ X2, Y2
	VPCMPEQB Y3, Y3, Y3 // the least in common so far
	VPXOR Y4, Y4, Y4

next:
	TESTQ CX, CX
	JLE  end
	VMOVDQU (SI), Y5
	VPSRLW $4, Y5, Y6
	VPAND Y2, Y6, Y6
	VPSHUFB Y5, Y0, Y5
	VPSHUFB Y6, Y1, Y6
	VPAND Y5, Y6, Y5
	VPMINUB Y5, Y3, Y3
	ADDQ $32, SI
	DECQ CX
	JMP  next

end:
	VPCMPEQB Y4, Y3, Y3
	VPTEST Y3, Y3
	SETEQ ret+16(FP)
	VZEROUPPER
	RET
