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
// AX counts the blocks, DI is 1 behind a backslash that is not escaped itself, and R14 is not 0 behind a block with characters of
// several bytes, of which the last may go on. R8 are the special bytes of a block and R11 the backslashes of all blocks that were
// passed.
TEXT ·vectorText(SB), NOSPLIT, $0-56
	MOVQ p+0(FP), SI
	MOVQ blocks+8(FP), CX
	XORQ AX, AX
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
	VBROADCASTI128 SIMPLE_LOW, Y4
	VBROADCASTI128 SIMPLE_HIGH, Y5
	MOVQ $0x5555555555555555, R12

	PCALIGN $64 // else its cost is up to a sixth higher by chance
next:
	CMPQ AX, CX
	JGE  none
	VMOVDQU (SI), Y7
	VMOVDQU 32(SI), Y8
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
	VPAND Y6, Y15, Y6
	VPMOVMSKB Y6, R9
	XORL $0xffffffff, R9
	ORQ  DI, R9
	ORQ  R14, R9
	JNZ  look

step:
	ADDQ $64, SI
	INCQ AX
	JMP  next

look:
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
	VPSRLW $4, Y7, Y9
	VPSRLW $4, Y8, Y10
	VPAND Y3, Y9, Y9
	VPAND Y3, Y10, Y10
	VPSHUFB Y9, Y5, Y9
	VPSHUFB Y10, Y5, Y10
	VPSHUFB Y7, Y4, Y7
	VPSHUFB Y8, Y4, Y8
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
	JMP  step

none:
	XORQ R8, R8

end:
	VZEROUPPER
	MOVQ AX, block+16(FP)
	MOVQ R8, mask+24(FP)
	MOVQ R11, escapes+32(FP)
	MOVQ DI, open+48(FP)
	RET
