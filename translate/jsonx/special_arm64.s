#include "textflag.h"

// WIDE adds to V12 what is wrong in the 16 bytes of x. What the bytes before it bring along is in F, A and B: in F what is wrong
// if they are first bytes of two, in A and B whether they begin a character with a third and a fourth byte. It sets F1, A1 and B1
// to the same for x. It takes V8, V9, F, A and B.
#define WIDE(x, F, A, B, F1, A1, B1) \
	VUSHR $4, x, V8.B16 \
	VAND  V23.B16, x, V9.B16 \
	VTBL  V8.B16, [V24.B16], F1 \
	VTBL  V9.B16, [V25.B16], V9.B16 \
	VAND  V9.B16, F1, F1 \
	VTBL  V8.B16, [V27.B16], A1 \
	VTBL  V8.B16, [V28.B16], B1 \
	VTBL  V8.B16, [V26.B16], V8.B16 \
	VEXT  $15, F1, F, F \
	VEXT  $14, A1, A, A \
	VEXT  $13, B1, B, B \
	VAND  F, V8.B16, V8.B16 \
	VORR  A, B, A \
	VEOR  A, V8.B16, V8.B16 \
	VORR  V8.B16, V12.B16, V12.B16

// SIMPLE sets x to true for the bytes in it that may follow a backslash and are not u. It takes V8 and V9.
#define SIMPLE(x) \
	VUSHR  $4, x, V8.B16 \
	VAND   V23.B16, x, V9.B16 \
	VTBL   V8.B16, [V30.B16], V8.B16 \
	VTBL   V9.B16, [V29.B16], V9.B16 \
	VCMTST V8.B16, V9.B16, x

// BITS sets a to a mask of the bytes of a, b, c and d that are true, in its first half if it is added to itself pair by pair.
#define BITS(a, b, c, d) \
	VAND  V31.B16, a, a \
	VAND  V31.B16, b, b \
	VAND  V31.B16, c, c \
	VAND  V31.B16, d, d \
	VADDP b, a, a \
	VADDP d, c, c \
	VADDP c, a, a

// SPECIAL sets x to true for the special bytes in it. It takes V8 and V9.
#define SPECIAL(x) \
	VEOR  V16.B16, x, V8.B16 \
	VCMEQ V17.B16, x, x \
	VUMIN V18.B16, V8.B16, V9.B16 \
	VCMEQ V8.B16, V9.B16, V9.B16 \
	VORR  V9.B16, x, x

// func vectorText(p *byte, blocks int) (block int, mask, escapes, wide, open uint64)
//
// With the highest bit turned over, and that of 2, which makes the quote a space and leaves control characters what they are, all
// special bytes but the backslash are 0xa0 and below. Four vectors of 16 bytes make a block.
//
// R0 is behind the block, R1 behind the last one, and R2 is the first. R3 is 1 behind a backslash that is not escaped itself, R4
// is 1 behind a byte above 0x7f, with which a character may go on, and R10 is either. R5 is not 0 if escapes were passed, and R6
// if characters of several bytes were. Of a block that is not plain, R7 is not 0 if it has a byte above 0x7f, R8 if it has a
// backslash, V4 to V7 are its backslashes and V12 has what is wrong with it. V20 to V22 are what WIDE made of the vector before
// the block: that of plain text unless R4 is 1.
TEXT ·vectorText(SB), NOSPLIT, $0-56
	MOVD p+0(FP), R0
	MOVD blocks+8(FP), R1
	MOVD R0, R2
	ADD  R1<<6, R0, R1
	MOVD $·vectorTables(SB), R7
	VLD1.P 64(R7), [V24.B16, V25.B16, V26.B16, V27.B16]
	VLD1 (R7), [V28.B16, V29.B16, V30.B16, V31.B16]
	VMOVI $0x82, V16.B16
	VMOVI $0x5c, V17.B16
	VMOVI $0xa0, V18.B16
	VMOVI $0x22, V19.B16
	VMOVI $0x02, V20.B16 // too long, should a continuation follow
	VMOVI $0x00, V21.B16
	VMOVI $0x00, V22.B16
	VMOVI $0x0f, V23.B16
	MOVD ZR, R3
	MOVD ZR, R4
	MOVD ZR, R5
	MOVD ZR, R6
	MOVD ZR, R10

	PCALIGN $16
next:
	CMP R1, R0
	BHS none
	VLD1.P 64(R0), [V0.B16, V1.B16, V2.B16, V3.B16]
	VEOR  V16.B16, V0.B16, V8.B16
	VEOR  V16.B16, V1.B16, V9.B16
	VEOR  V16.B16, V2.B16, V10.B16
	VEOR  V16.B16, V3.B16, V11.B16
	VCMEQ V17.B16, V0.B16, V4.B16
	VCMEQ V17.B16, V1.B16, V5.B16
	VCMEQ V17.B16, V2.B16, V6.B16
	VCMEQ V17.B16, V3.B16, V7.B16
	VUMIN V8.B16, V9.B16, V8.B16
	VUMIN V10.B16, V11.B16, V10.B16
	VUMIN V8.B16, V10.B16, V8.B16
	VORR  V4.B16, V5.B16, V12.B16
	VORR  V6.B16, V7.B16, V13.B16
	VORR  V12.B16, V13.B16, V12.B16
	VUMIN V18.B16, V8.B16, V9.B16
	VCMEQ V8.B16, V9.B16, V9.B16
	VORR  V9.B16, V12.B16, V9.B16
	VADDP V9.D2, V9.D2, V9.D2 // not 0 by carrying, as each byte is 0 or 0xff
	VMOV  V9.D[0], R9
	ORR   R10, R9
	CBZ   R9, next

	VUSHR $7, V8.B16, V8.B16
	VUADDLV V8.B16, V8
	VMOV  V8.D[0], R7
	EOR   $16, R7 // the number of those that are not above 0x7f
	VADDP V12.D2, V12.D2, V12.D2
	VMOV  V12.D[0], R8
	VUMIN V0.B16, V1.B16, V9.B16
	VUMIN V2.B16, V3.B16, V10.B16
	VUMIN V9.B16, V10.B16, V9.B16
	VMOVI $0x1f, V11.B16
	VUMIN V9.B16, V11.B16, V11.B16
	VCMEQ V9.B16, V11.B16, V12.B16 // control characters
	ORR   R7, R4, R9
	CBZ   R9, quotes
	WIDE(V0.B16, V20.B16, V21.B16, V22.B16, V13.B16, V14.B16, V15.B16)
	WIDE(V1.B16, V13.B16, V14.B16, V15.B16, V20.B16, V21.B16, V22.B16)
	WIDE(V2.B16, V20.B16, V21.B16, V22.B16, V13.B16, V14.B16, V15.B16)
	WIDE(V3.B16, V13.B16, V14.B16, V15.B16, V20.B16, V21.B16, V22.B16)

quotes:
	VCMEQ V19.B16, V0.B16, V8.B16
	VCMEQ V19.B16, V1.B16, V9.B16
	VCMEQ V19.B16, V2.B16, V10.B16
	VCMEQ V19.B16, V3.B16, V11.B16
	ORR   R8, R3, R9
	CBNZ  R9, escapes
	VORR  V8.B16, V9.B16, V8.B16
	VORR  V10.B16, V11.B16, V10.B16
	VORR  V8.B16, V10.B16, V8.B16
	VORR  V8.B16, V12.B16, V12.B16
	VUADDLV V12.B16, V12
	VMOV  V12.D[0], R9
	CBNZ  R9, end

passed:
	ORR   R7, R6
	MOVBU -1(R0), R4
	LSR   $7, R4
	ORR   R3, R4, R10
	B     next

escapes:
	VUADDLV V12.B16, V12
	VMOV  V12.D[0], R9
	CBNZ  R9, end
	BITS(V4.B16, V5.B16, V6.B16, V7.B16)
	BITS(V8.B16, V9.B16, V10.B16, V11.B16)
	VADDP V8.B16, V4.B16, V4.B16
	SIMPLE(V0.B16)
	SIMPLE(V1.B16)
	SIMPLE(V2.B16)
	SIMPLE(V3.B16)
	BITS(V0.B16, V1.B16, V2.B16, V3.B16)
	VADDP V0.B16, V0.B16, V0.B16
	VMOV  V4.D[0], R9  // backslashes
	VMOV  V4.D[1], R12 // quotes
	VMOV  V0.D[0], R13 // what may follow a backslash

	// Of a run of backslashes every second one is escaped. A run that begins at an odd bit carries, added to itself, into the
	// bit behind it what tells whether its length is odd.
	BIC  R3, R9, R9 // without one that is escaped by the block before
	ORR  R9<<1, R3, R14 // what follows a backslash
	ORR  $0x5555555555555555, R14, R15
	BIC  R15, R9, R15 // where runs begin at an odd bit
	ADDS R9, R15, R15
	CSET HS, R11 // whether the next block begins escaped
	LSL  $1, R15, R15
	EOR  $0x5555555555555555, R15, R15
	AND  R14, R15, R15 // what is escaped
	BIC  R15, R12, R12 // a quote that is not
	BIC  R13, R15, R13 // what may not follow a backslash, or is u
	ORR  R12, R13, R13
	CBNZ R13, end
	ORR  R8, R5
	MOVD R11, R3
	B    passed

none:
	MOVD ZR, R7
	B    return

end:
	SUB  $64, R0
	VLD1 (R0), [V0.B16, V1.B16, V2.B16, V3.B16]
	SPECIAL(V0.B16)
	SPECIAL(V1.B16)
	SPECIAL(V2.B16)
	SPECIAL(V3.B16)
	BITS(V0.B16, V1.B16, V2.B16, V3.B16)
	VADDP V0.B16, V0.B16, V0.B16
	VMOV  V0.D[0], R7

return:
	SUB  R2, R0, R0
	LSR  $6, R0
	MOVD R0, block+16(FP)
	MOVD R7, mask+24(FP)
	MOVD R5, escapes+32(FP)
	MOVD R6, wide+40(FP)
	MOVD R3, open+48(FP)
	RET
