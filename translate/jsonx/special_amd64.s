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

// What may follow a backslash, as two tables of sixteen: by its low half, a bit for each high half that goes with it, and by its
// high half that bit. The bits are 1 for 2x, 2 for 5x, 4 for 6x and 8 for 7x.
DATA simpleLow<>+0(SB)/8, $0x00040008000d0000
DATA simpleLow<>+8(SB)/8, $0x0104000200000000
GLOBL simpleLow<>(SB), RODATA|NOPTR, $16
DATA simpleHigh<>+0(SB)/8, $0x0804020000010000
DATA simpleHigh<>+8(SB)/8, $0x0000000000000000
GLOBL simpleHigh<>(SB), RODATA|NOPTR, $16

// func vectorClasses(p *byte, c *classes)
TEXT ·vectorClasses(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ c+8(FP), DI
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
	VBROADCASTI128 simpleLow<>(SB), Y4
	VBROADCASTI128 simpleHigh<>(SB), Y5
	VPXOR Y6, Y6, Y6
	VMOVDQU (SI), Y7
	VMOVDQU 32(SI), Y8

	VPCMPEQB Y0, Y7, Y9
	VPCMPEQB Y0, Y8, Y10
	VPMOVMSKB Y9, AX
	VPMOVMSKB Y10, BX
	SHLQ $32, BX
	ORQ  BX, AX
	MOVQ AX, 0(DI) // quotes

	VPCMPEQB Y1, Y7, Y9
	VPCMPEQB Y1, Y8, Y10
	VPMOVMSKB Y9, AX
	VPMOVMSKB Y10, BX
	SHLQ $32, BX
	ORQ  BX, AX
	MOVQ AX, 8(DI) // backslashes

	VPCMPGTB Y2, Y7, Y9
	VPCMPGTB Y2, Y8, Y10
	VPMOVMSKB Y9, AX
	VPMOVMSKB Y10, BX
	SHLQ $32, BX
	ORQ  BX, AX
	NOTQ AX
	MOVQ AX, 24(DI) // others

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
	VPMOVMSKB Y9, AX
	VPMOVMSKB Y10, BX
	SHLQ $32, BX
	ORQ  BX, AX
	NOTQ AX
	MOVQ AX, 16(DI) // followers

	VZEROUPPER
	RET
