#include "textflag.h"

// Rows of vectorTables.
#define FIRST_HIGH ·vectorTables+0(SB)
#define FIRST_LOW ·vectorTables+16(SB)
#define SECOND_HIGH ·vectorTables+32(SB)
#define SIMPLE_LOW ·vectorTables+80(SB)
#define SIMPLE_HIGH ·vectorTables+96(SB)

// What is left of a byte without its bound has the high bit if the byte begins a character of so many bytes.
DATA leadsThree<>+0(SB)/8, $0x6060606060606060
GLOBL leadsThree<>(SB), RODATA|NOPTR, $8
DATA leadsFour<>+0(SB)/8, $0x7070707070707070
GLOBL leadsFour<>(SB), RODATA|NOPTR, $8
DATA highBits<>+0(SB)/8, $0x8080808080808080
GLOBL highBits<>(SB), RODATA|NOPTR, $8

// The bytes that may follow a backslash in the loop at fast, besides a quote, each in the place that its lower half numbers. In the
// other places are bytes of other lower halves.
DATA simpleBytes<>+0(SB)/8, $0x0166017401720201 // r, t and f
DATA simpleBytes<>+8(SB)/8, $0x2f6e010101010101 // n and /
GLOBL simpleBytes<>(SB), RODATA|NOPTR, $16

// WIDE sets errors to what is wrong in the 32 bytes of v, which are at off(SI). It takes Y6, Y13 and Y14.
#define WIDE(off, v, errors) \
	VMOVDQU (off-1)(SI), Y13 \
	VPSRLW $4, Y13, Y14 \
	VPAND Y3, Y14, Y14 \
	VBROADCASTI128 FIRST_HIGH, Y6 \
	VPSHUFB Y14, Y6, errors \
	VPAND Y3, Y13, Y13 \
	VBROADCASTI128 FIRST_LOW, Y6 \
	VPSHUFB Y13, Y6, Y13 \
	VPAND Y13, errors, errors \
	VPSRLW $4, v, Y13 \
	VPAND Y3, Y13, Y13 \
	VBROADCASTI128 SECOND_HIGH, Y6 \
	VPSHUFB Y13, Y6, Y13 \
	VPAND Y13, errors, errors \
	VMOVDQU (off-2)(SI), Y13 \
	VPBROADCASTQ leadsThree<>(SB), Y6 \
	VPSUBUSB Y6, Y13, Y13 \
	VMOVDQU (off-3)(SI), Y14 \
	VPBROADCASTQ leadsFour<>(SB), Y6 \
	VPSUBUSB Y6, Y14, Y14 \
	VPOR Y14, Y13, Y13 \
	VPBROADCASTQ highBits<>(SB), Y6 \
	VPAND Y6, Y13, Y13 \
	VPXOR Y13, errors, errors

// func vectorText(p *byte, blocks int) (block int, mask, escapes, wide, open uint64)
//
// A byte is special unless it is above 0x1f as a signed number, which those above 0x7f are not, and neither quote nor
// backslash. Two vectors of 32 bytes make a block.
//
// Most blocks are passed by the loop at fast: ASCII, in which each backslash has before it no other one, and behind it a quote or
// one of /fnrt. It compares each byte with the one before, so that it needs no masks. The other blocks are looked at with masks.
//
// SI is at the block and CX behind the last one. At look, DI is 1 behind a backslash that is not escaped itself; at fast, the byte
// before is one or is no backslash. R14 is not 0 behind a block with characters of several bytes, of which the last may go on,
// and is 0 at fast. R8 are the special bytes of a block. R11 is not 0 if there are backslashes in the blocks that look has passed,
// and Y5 if there are in those of fast, but for the last byte.
TEXT ·vectorText(SB), NOSPLIT, $0-56
	MOVQ p+0(FP), SI
	MOVQ blocks+8(FP), CX
	SHLQ $6, CX
	ADDQ SI, CX
	XORQ DI, DI
	XORQ R11, R11
	XORQ R14, R14
	MOVQ R14, wide+40(FP)
	MOVQ $0x2222222222222222, BX
	MOVQ BX, X0
	VPBROADCASTQ X0, Y0
	MOVQ $0x5c5c5c5c5c5c5c5c, BX
	MOVQ BX, X1
	VPBROADCASTQ X1, Y1
	MOVQ $0x1f1f1f1f1f1f1f1f, BX
	MOVQ BX, X2
	VPBROADCASTQ X2, Y2
	MOVQ $0x0f0f0f0f0f0f0f0f, BX
	MOVQ BX, X3
	VPBROADCASTQ X3, Y3
	VBROADCASTI128 simpleBytes<>(SB), Y4
	VPXOR Y5, Y5, Y5
	MOVQ $0x5555555555555555, R12
	CMPB -1(SI), $0x5c // the end of an escape
	JEQ  slow

fast:
	CMPQ SI, CX
	JCC  passed

	PCALIGN $64 // else its cost is up to a sixth higher by chance
next:
	VMOVDQU (SI), Y7
	VMOVDQU 32(SI), Y8
	VPCMPEQB Y0, Y7, Y9 // quotes
	VPCMPEQB Y0, Y8, Y10
	VPCMPEQB -1(SI), Y1, Y11 // what follows a backslash
	VPCMPEQB 31(SI), Y1, Y12
	VPSHUFB Y7, Y4, Y13
	VPSHUFB Y8, Y4, Y14
	VPCMPEQB Y7, Y13, Y13 // what may, besides quotes
	VPCMPEQB Y8, Y14, Y14
	VPXOR Y9, Y11, Y9
	VPXOR Y10, Y12, Y10
	VPANDN Y9, Y13, Y9 // either a quote or behind a backslash, where that is wrong
	VPANDN Y10, Y14, Y10
	VPCMPGTB Y2, Y7, Y13
	VPCMPGTB Y2, Y8, Y14
	VPANDN Y13, Y9, Y9
	VPANDN Y14, Y10, Y10
	VPAND Y9, Y10, Y9
	VPMOVMSKB Y9, R9
	CMPL R9, $0xffffffff
	JNE  leave
	VPOR Y11, Y12, Y11
	VPOR Y11, Y5, Y5
	ADDQ $64, SI
	CMPQ SI, CX
	JCS  next

passed:
	CMPB -1(SI), $0x5c
	SETEQ DI
	ORQ  DI, R11
	JMP  none

leave:
	CMPB -1(SI), $0x5c
	SETEQ DI
	ORQ  DI, R11
	JMP  look

slow:
	CMPQ SI, CX
	JCC  none
	VMOVDQU (SI), Y7
	VMOVDQU 32(SI), Y8

look:
	VPCMPEQB Y0, Y7, Y9
	VPCMPEQB Y0, Y8, Y10
	VPCMPEQB Y1, Y7, Y11
	VPCMPEQB Y1, Y8, Y12
	VPCMPGTB Y2, Y7, Y13
	VPCMPGTB Y2, Y8, Y14
	VPOR Y9, Y11, Y6
	VPANDN Y13, Y6, Y6
	VPOR Y10, Y12, Y15
	VPANDN Y14, Y15, Y15
	VPMOVMSKB Y6, R8
	VPMOVMSKB Y15, R9
	SHLQ $32, R9
	ORQ  R9, R8
	NOTQ R8

	VPMOVMSKB Y13, R9
	VPMOVMSKB Y14, R10
	SHLQ $32, R10
	ORQ  R10, R9
	NOTQ R9
	VPMOVMSKB Y7, R10
	VPMOVMSKB Y8, R13
	SHLQ $32, R13
	ORQ  R13, R10 // above 0x7f
	MOVQ R10, R13
	NOTQ R13
	TESTQ R9, R13 // a control character
	JNZ  end

	ORQ  R10, R14
	JZ   escapes
	WIDE(0, Y7, Y15)
	VPTEST Y15, Y15
	JNZ  end
	WIDE(32, Y8, Y15)
	VPTEST Y15, Y15
	JNZ  end
	MOVQ R10, R14

escapes:
	VPMOVMSKB Y11, R9
	VPMOVMSKB Y12, R10
	SHLQ $32, R10
	ORQ  R10, R9 // backslashes
	VPMOVMSKB Y9, R10
	VPMOVMSKB Y10, R13
	SHLQ $32, R13
	ORQ  R13, R10 // quotes

	// Of a run of backslashes every second one is escaped. A run that begins at an odd bit carries, added to itself, into the
	// bit behind it what tells whether its length is odd.
	MOVQ DI, R13
	NOTQ R13
	ANDQ R9, R13 // without one that is escaped by the block before
	LEAQ (DI)(R13*2), DX // what follows a backslash
	MOVQ R12, BX
	ORQ  DX, BX
	NOTQ BX
	ANDQ R13, BX // where runs begin at an odd bit
	ADDQ R13, BX
	SBBQ R13, R13
	NEGQ R13 // whether the next block begins escaped
	ADDQ BX, BX
	XORQ R12, BX
	ANDQ DX, BX // what is escaped

	MOVQ BX, DX
	NOTQ DX
	TESTQ R10, DX // a quote that is not
	JNZ  end

	VPXOR Y6, Y6, Y6
	VBROADCASTI128 SIMPLE_LOW, Y13
	VBROADCASTI128 SIMPLE_HIGH, Y14
	VPSRLW $4, Y7, Y9
	VPSRLW $4, Y8, Y10
	VPAND Y3, Y9, Y9
	VPAND Y3, Y10, Y10
	VPSHUFB Y9, Y14, Y9
	VPSHUFB Y10, Y14, Y10
	VPSHUFB Y7, Y13, Y7
	VPSHUFB Y8, Y13, Y8
	VPAND Y7, Y9, Y9
	VPAND Y8, Y10, Y10
	VPCMPEQB Y6, Y9, Y9
	VPCMPEQB Y6, Y10, Y10
	VPMOVMSKB Y9, R10
	VPMOVMSKB Y10, DX
	SHLQ $32, DX
	ORQ  DX, R10
	TESTQ R10, BX // what may not follow a backslash, or is u
	JNZ  end

	ORQ  R9, R11
	ORQ  R14, wide+40(FP) // not before: what is behind a quote is another string's
	MOVQ R13, DI
	ADDQ $64, SI
	TESTQ R14, R14
	JNZ  slow
	SHRQ $63, R9
	CMPQ R9, DI
	JNE  slow // the last byte is a backslash that is escaped itself
	JMP  fast

none:
	XORQ R8, R8

end:
	VPMOVMSKB Y5, R9
	VZEROUPPER
	ORQ  R9, R11
	SUBQ p+0(FP), SI
	SHRQ $6, SI
	MOVQ SI, block+16(FP)
	MOVQ R8, mask+24(FP)
	MOVQ R11, escapes+32(FP)
	MOVQ DI, open+48(FP)
	RET
