#include "textflag.h"

// func vectorBase64(p *byte, blocks int) bool
//
// A byte is of the alphabet if what its halves are looked up as has a bit in common.
TEXT ·vectorBase64(SB), NOSPLIT, $0-17
	MOVD p+0(FP), R0
	MOVD blocks+8(FP), R1
	ADD  R1<<5, R0, R1
	MOVD $·base64Tables(SB), R2
	VLD1 (R2), [V16.B16, V17.B16]
	VMOVI $0x0f, V18.B16
	VMOVI $0xff, V19.B16 // all good so far

	PCALIGN $16
next:
	CMP  R1, R0
	BHS  end
	VLD1.P 32(R0), [V0.B16, V1.B16]
	VUSHR $4, V0.B16, V2.B16
	VUSHR $4, V1.B16, V3.B16
	VAND V18.B16, V0.B16, V0.B16
	VAND V18.B16, V1.B16, V1.B16
	VTBL V0.B16, [V16.B16], V0.B16
	VTBL V1.B16, [V16.B16], V1.B16
	VTBL V2.B16, [V17.B16], V2.B16
	VTBL V3.B16, [V17.B16], V3.B16
	VCMTST V2.B16, V0.B16, V0.B16
	VCMTST V3.B16, V1.B16, V1.B16
	VAND V0.B16, V1.B16, V0.B16
	VAND V0.B16, V19.B16, V19.B16
	B    next

end:
	VMOV V19.D[0], R2
	VMOV V19.D[1], R3
	AND  R3, R2
	CMN  $1, R2
	CSET EQ, R2
	MOVB R2, ret+16(FP)
	RET
