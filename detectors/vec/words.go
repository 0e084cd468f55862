package vec

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// wordsAlign is the alignment of AlignedWords in bytes.
const wordsAlign = 256

// AlignedWords returns n zeroed words, the first of them at a multiple of 256 bytes.
func AlignedWords(n int) []uint32 {
	w := make([]uint32, n+wordsAlign/4-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(w)))%wordsAlign) / 4
	return w[skip : skip+n : skip+n]
}

// WordsF32 views words as float32, without a copy.
func WordsF32(w []uint32) []float32 { return *(*[]float32)(unsafe.Pointer(&w)) }

// F32Words views float32s as words, without a copy.
func F32Words(x []float32) []uint32 { return *(*[]uint32)(unsafe.Pointer(&x)) }

// WordsF64 views pairs of words as float64, without a copy. The first must lie at a
// multiple of 8 bytes where the processor asks for that.
func WordsF64(w []uint32) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(w))), len(w)/2)
}

// BitsF64 views the bits of float64s as float64, without a copy.
func BitsF64(b []uint64) []float64 { return *(*[]float64)(unsafe.Pointer(&b)) }

// BitsI64 views the bits of int64s as int64, without a copy.
func BitsI64(b []uint64) []int64 { return *(*[]int64)(unsafe.Pointer(&b)) }

// CopyBits fills dst with little-endian numbers of eight bytes.
func CopyBits(dst []uint64, src []byte) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), 8*len(dst)), src[:8*len(dst)])
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		for i, v := range dst {
			dst[i] = bits.ReverseBytes64(v)
		}
	}
}

// WordsI64 is WordsF64 for int64.
func WordsI64(w []uint32) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(w))), len(w)/2)
}

// Round sets dst[i] to x[i] in float32.
func Round(dst []float32, x []float64) {
	Narrow(dst, *(*[]uint64)(unsafe.Pointer(&x)), 0)
}
