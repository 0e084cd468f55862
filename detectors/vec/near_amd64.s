//go:build !noasm

#include "textflag.h"

// DIST adds the squares of the differences of 8 points' coordinates from the
// two queries', in Y8 and Y9, to the sums A and B.
#define DIST(I, A, B) \
	VMOVUPS 32*I(AX), Y10; \
	VSUBPS Y10, Y8, Y11; \
	VSUBPS Y10, Y9, Y12; \
	VFMADD231PS Y11, Y11, A; \
	VFMADD231PS Y12, Y12, B

// ONE adds the squares of the differences of 8 points' coordinates from the query's, in Y8, to the sum A.
#define ONE(I, E, A) \
	VSUBPS 32*I(AX), Y8, E; \
	VFMADD231PS E, E, A

// LEAST stores 8 sums and lowers the minima of their groups.
#define LEAST(I, SUM, D, LOW) \
	VMOVUPS SUM, 32*I(D); \
	VMINPS 32*I(LOW)(BX*1), SUM, SUM; \
	VMOVUPS SUM, 32*I(LOW)(BX*1)

// func sqDistsAVX2(d, e, lowd, lowe, x *float32, blocks, groups, stride int, q, r *float32, dim int)
TEXT ·sqDistsAVX2(SB), NOSPLIT, $0-88
	MOVQ d+0(FP), DI
	MOVQ e+8(FP), R8
	MOVQ lowd+16(FP), R9
	MOVQ lowe+24(FP), R10
	MOVQ x+32(FP), SI
	MOVQ blocks+40(FP), CX
	MOVQ stride+56(FP), R11
	SHLQ $2, R11
	XORQ BX, BX

block:
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	MOVQ SI, AX
	MOVQ q+64(FP), R12
	MOVQ r+72(FP), R13
	MOVQ dim+80(FP), DX

coordinate:
	VBROADCASTSS (R12), Y8
	VBROADCASTSS (R13), Y9
	DIST(0, Y0, Y4)
	DIST(1, Y1, Y5)
	DIST(2, Y2, Y6)
	DIST(3, Y3, Y7)
	ADDQ R11, AX
	ADDQ $4, R12
	ADDQ $4, R13
	DECQ DX
	JNZ coordinate

	LEAST(0, Y0, DI, R9)
	LEAST(1, Y1, DI, R9)
	LEAST(2, Y2, DI, R9)
	LEAST(3, Y3, DI, R9)
	LEAST(0, Y4, R8, R10)
	LEAST(1, Y5, R8, R10)
	LEAST(2, Y6, R8, R10)
	LEAST(3, Y7, R8, R10)
	ADDQ $128, DI
	ADDQ $128, R8
	ADDQ $128, SI
	ADDQ $128, BX
	CMPQ BX, groups+48(FP)
	JNE same
	XORQ BX, BX

same:
	DECQ CX
	JNZ block
	VZEROUPPER
	RET

// func sqDistsOneAVX2(d, low, x *float32, blocks, groups, stride int, q *float32, dim int)
TEXT ·sqDistsOneAVX2(SB), NOSPLIT, $0-64
	MOVQ d+0(FP), DI
	MOVQ low+8(FP), R9
	MOVQ x+16(FP), SI
	MOVQ blocks+24(FP), CX
	MOVQ stride+40(FP), R11
	SHLQ $2, R11
	XORQ BX, BX

block:
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	MOVQ SI, AX
	MOVQ q+48(FP), R12
	MOVQ dim+56(FP), DX

coordinate:
	VBROADCASTSS (R12), Y8
	ONE(0, Y9, Y0)
	ONE(1, Y10, Y1)
	ONE(2, Y11, Y2)
	ONE(3, Y12, Y3)
	ONE(4, Y13, Y4)
	ONE(5, Y14, Y5)
	ONE(6, Y9, Y6)
	ONE(7, Y10, Y7)
	ADDQ R11, AX
	ADDQ $4, R12
	DECQ DX
	JNZ coordinate

	LEAST(0, Y0, DI, R9)
	LEAST(1, Y1, DI, R9)
	LEAST(2, Y2, DI, R9)
	LEAST(3, Y3, DI, R9)
	LEAST(4, Y4, DI, R9)
	LEAST(5, Y5, DI, R9)
	LEAST(6, Y6, DI, R9)
	LEAST(7, Y7, DI, R9)
	ADDQ $256, DI
	ADDQ $256, SI
	ADDQ $256, BX
	CMPQ BX, groups+32(FP)
	JNE same
	XORQ BX, BX

same:
	DECQ CX
	JNZ block
	VZEROUPPER
	RET

// func extentAVX2(x *float32, n int) (most, least uint32)
TEXT ·extentAVX2(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	VPCMPEQD Y0, Y0, Y0 // all ones
	VPSRLD $1, Y0, Y1   // all but the sign
	VPXOR Y2, Y2, Y2
	VMOVDQA Y0, Y3

next:
	VPAND (SI), Y1, Y4
	VPMAXUD Y4, Y2, Y2
	VPADDD Y0, Y4, Y4 // 0 becomes the largest
	VPMINUD Y4, Y3, Y3
	ADDQ $32, SI
	DECQ CX
	JNZ next
	VEXTRACTI128 $1, Y2, X4
	VPMAXUD X4, X2, X2
	VPSHUFD $0x4e, X2, X4
	VPMAXUD X4, X2, X2
	VPSHUFD $0xb1, X2, X4
	VPMAXUD X4, X2, X2
	VMOVD X2, AX
	MOVL AX, most+16(FP)
	VEXTRACTI128 $1, Y3, X4
	VPMINUD X4, X3, X3
	VPSHUFD $0x4e, X3, X4
	VPMINUD X4, X3, X3
	VPSHUFD $0xb1, X3, X4
	VPMINUD X4, X3, X3
	VMOVD X3, AX
	INCL AX
	MOVL AX, least+20(FP)
	VZEROUPPER
	RET

// func columnAVX2(dst, x *float32, n, stride int, a float32)
TEXT ·columnAVX2(SB), NOSPLIT, $0-36
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ stride+24(FP), DX
	SHLQ $2, DX
	LEAQ (DX)(DX*2), R8
	VMOVSS a+32(FP), X0
	SUBQ $4, CX
	JLT rest

four:
	VMULSS (SI), X0, X1
	VMULSS (SI)(DX*1), X0, X2
	VMULSS (SI)(DX*2), X0, X3
	VMULSS (SI)(R8*1), X0, X4
	VMOVSS X1, (DI)
	VMOVSS X2, 4(DI)
	VMOVSS X3, 8(DI)
	VMOVSS X4, 12(DI)
	LEAQ (SI)(DX*4), SI
	ADDQ $16, DI
	SUBQ $4, CX
	JGE four

rest:
	ADDQ $4, CX
	JZ done

one:
	VMULSS (SI), X0, X1
	VMOVSS X1, (DI)
	ADDQ DX, SI
	ADDQ $4, DI
	DECQ CX
	JNZ one

done:
	RET

// func rankAVX2(x *float32, n, least, most int) float32
//
// Floats that are not negative are in the order of their bits, so it bisects
// those: fewer than least are at most AX, at least that many at most BX. BX
// begins at the largest finite number and falls by no more than R12, which
// doubles: the numbers are mostly close together but for a 0.
TEXT ·rankAVX2(SB), NOSPLIT, $0-36
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ least+16(FP), R8
	MOVQ most+24(FP), R9
	SUBQ R8, R9
	MOVL $0x7f7fffff, AX
	VMOVD AX, X2
	VPBROADCASTD X2, Y2
	VPXOR Y1, Y1, Y1
	MOVQ SI, DI
	MOVQ CX, DX

extreme:
	VMOVDQU (DI), Y0
	VPCMPGTD Y2, Y0, Y3
	VPANDN Y0, Y3, Y0
	VPMAXSD Y0, Y1, Y1
	ADDQ $32, DI
	DECQ DX
	JNZ extreme
	VEXTRACTI128 $1, Y1, X2
	VPMAXSD X2, X1, X1
	VPSHUFD $0x4e, X1, X2
	VPMAXSD X2, X1, X1
	VPSHUFD $0xb1, X1, X2
	VPMAXSD X2, X1, X1
	VMOVD X1, BX
	MOVQ $-1, AX
	MOVQ $0x200000, R12

bisect:
	MOVQ BX, R10
	SUBQ AX, R10
	CMPQ R10, $1
	JLE done
	SHRQ $1, R10
	ADDQ AX, R10
	MOVQ BX, R13
	SUBQ R12, R13
	CMPQ R13, R10
	CMOVQGT R13, R10
	SHLQ $1, R12
	VMOVD R10, X2
	VPBROADCASTD X2, Y2
	VPXOR Y3, Y3, Y3
	VPXOR Y6, Y6, Y6
	MOVQ SI, DI
	MOVQ CX, DX
	SUBQ $2, DX
	JLT last

count:
	VMOVDQU (DI), Y4
	VMOVDQU 32(DI), Y5
	VPCMPGTD Y2, Y4, Y4
	VPCMPGTD Y2, Y5, Y5
	VPADDD Y4, Y3, Y3
	VPADDD Y5, Y6, Y6
	ADDQ $64, DI
	SUBQ $2, DX
	JGE count

last:
	ADDQ $2, DX
	JZ counted
	VMOVDQU (DI), Y4
	VPCMPGTD Y2, Y4, Y4
	VPADDD Y4, Y3, Y3

counted:
	VPADDD Y6, Y3, Y3
	VEXTRACTI128 $1, Y3, X4
	VPADDD X4, X3, X3
	VPSHUFD $0x4e, X3, X4
	VPADDD X4, X3, X3
	VPSHUFD $0xb1, X3, X4
	VPADDD X4, X3, X3
	VMOVD X3, R11
	MOVLQSX R11, R11
	LEAQ (R11)(CX*8), R11 // not above R10
	CMPQ R11, R8
	CMOVQLT R10, AX
	CMOVQGE R10, BX
	SUBQ R8, R11
	CMPQ R11, R9
	JHI bisect

done:
	// The largest that is not above BX.
	VMOVD BX, X2
	VPBROADCASTD X2, Y2
	VPXOR Y3, Y3, Y3

largest:
	VMOVDQU (SI), Y4
	VPCMPGTD Y2, Y4, Y5
	VPANDN Y4, Y5, Y5
	VPMAXSD Y5, Y3, Y3
	ADDQ $32, SI
	DECQ CX
	JNZ largest
	VEXTRACTI128 $1, Y3, X4
	VPMAXSD X4, X3, X3
	VPSHUFD $0x4e, X3, X4
	VPMAXSD X4, X3, X3
	VPSHUFD $0xb1, X3, X4
	VPMAXSD X4, X3, X3
	VMOVD X3, BX
	MOVL BX, ret+32(FP)
	VZEROUPPER
	RET

// func atMostAVX2(at *int32, near, d *float32, n int, t float32, packing *[256]uint64) int
TEXT ·atMostAVX2(SB), NOSPLIT, $0-56
	MOVQ at+0(FP), DI
	MOVQ near+8(FP), BX
	MOVQ d+16(FP), SI
	MOVQ n+24(FP), CX
	VBROADCASTSS t+32(FP), Y0
	MOVQ packing+40(FP), R8
	MOVQ $0x0706050403020100, AX
	VMOVQ AX, X1
	VPMOVZXBD X1, Y1
	MOVQ $8, AX
	VMOVQ AX, X2
	VPBROADCASTD X2, Y2
	XORQ DX, DX

next:
	VMOVUPS (SI), Y3
	VCMPPS $2, Y0, Y3, Y5 // not above t
	VMOVMSKPS Y5, AX
	VPMOVZXBD (R8)(AX*8), Y4
	VPERMD Y1, Y4, Y5
	VPERMPS Y3, Y4, Y6
	VMOVDQU Y5, (DI)(DX*4)
	VMOVUPS Y6, (BX)(DX*4)
	POPCNTL AX, AX
	ADDQ AX, DX
	VPADDD Y2, Y1, Y1
	ADDQ $32, SI
	DECQ CX
	JNZ next
	MOVQ DX, ret+48(FP)
	VZEROUPPER
	RET

// TERM adds the square of the difference of a coordinate of the point at P from the query's, in X4, to the sum A.
#define TERM(P, E, A) \
	VCVTSS2SD (P)(DX*4), X7, E; \
	VSUBSD E, X4, E; \
	VMULSD E, E, E; \
	VADDSD E, A, A

// POINT sets P to where the next point of at begins.
#define POINT(I, P) \
	MOVLQSX 4*I(R8), P; \
	IMULQ R11, P; \
	ADDQ SI, P

// func sqDists64AVX2(d *float64, x *float32, at *int32, n, step int, q *float64, dim int)
//
// Four points at a time: the terms of one are added in order, each after the one before.
TEXT ·sqDists64AVX2(SB), NOSPLIT, $0-56
	MOVQ d+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ at+16(FP), R8
	MOVQ n+24(FP), CX
	MOVQ step+32(FP), R11
	SHLQ $2, R11
	MOVQ q+40(FP), R9
	MOVQ dim+48(FP), R10
	VXORPD X7, X7, X7
	SUBQ $4, CX
	JLT rest

four:
	POINT(0, AX)
	POINT(1, BX)
	POINT(2, R12)
	POINT(3, R13)
	VXORPD X0, X0, X0
	VXORPD X1, X1, X1
	VXORPD X2, X2, X2
	VXORPD X3, X3, X3
	XORQ DX, DX

terms:
	VMOVSD (R9)(DX*8), X4
	TERM(AX, X5, X0)
	TERM(BX, X6, X1)
	TERM(R12, X8, X2)
	TERM(R13, X9, X3)
	INCQ DX
	CMPQ DX, R10
	JNE terms
	VMOVSD X0, (DI)
	VMOVSD X1, 8(DI)
	VMOVSD X2, 16(DI)
	VMOVSD X3, 24(DI)
	ADDQ $32, DI
	ADDQ $16, R8
	SUBQ $4, CX
	JGE four

rest:
	ADDQ $4, CX
	JZ done

one:
	POINT(0, AX)
	VXORPD X0, X0, X0
	XORQ DX, DX

term:
	VMOVSD (R9)(DX*8), X4
	TERM(AX, X5, X0)
	INCQ DX
	CMPQ DX, R10
	JNE term
	VMOVSD X0, (DI)
	ADDQ $8, DI
	ADDQ $4, R8
	DECQ CX
	JNZ one

done:
	RET
