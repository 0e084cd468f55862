package detectors

import (
	"math"

	"odradek/detectors/vec"
)

// Words are 32-bit words, which hold float32, uint32 and, two words each, float64 and
// int64, the less significant word first.
type Words []uint32

// WordsOf views float32s as words: the same memory.
func WordsOf(x []float32) Words { return vec.F32Words(x) }

// F32 views the words as float32; all views share the memory.
func (w Words) F32() []float32 { return vec.WordsF32(w) }

// F64 views pairs of words as float64. They have to begin at an even offset of an
// arena, as GrowF64 has them; Float64 has no such need.
func (w Words) F64() []float64 { return vec.WordsF64(w) }

// I64 views pairs of words as int64; see F64.
func (w Words) I64() []int64 { return vec.WordsI64(w) }

// Int returns word i as an int32.
func (w Words) Int(i int) int { return int(int32(w[i])) }

// Bool returns word i, which is 0 or 1, as a bool.
func (w Words) Bool(i int) bool { return w[i] != 0 }

// Float32 returns the float32 of word i.
func (w Words) Float32(i int) float32 { return math.Float32frombits(w[i]) }

// Float64 returns the float64 of the words i and i+1.
func (w Words) Float64(i int) float64 { return math.Float64frombits(w.uint64(i)) }

// Int64 returns the int64 of the words i and i+1.
func (w Words) Int64(i int) int64 { return int64(w.uint64(i)) }

// SetInt sets word i to an int32.
func (w Words) SetInt(i, v int) { w[i] = uint32(int32(v)) }

// SetBool sets word i to 1 or 0.
func (w Words) SetBool(i int, v bool) {
	w[i] = 0
	if v {
		w[i] = 1
	}
}

// SetFloat32 sets word i.
func (w Words) SetFloat32(i int, v float32) { w[i] = math.Float32bits(v) }

// SetFloat64 sets the words i and i+1.
func (w Words) SetFloat64(i int, v float64) { w.SetInt64(i, int64(math.Float64bits(v))) }

// SetInt64 sets the words i and i+1.
func (w Words) SetInt64(i int, v int64) { w[i], w[i+1] = uint32(v), uint32(uint64(v)>>32) }

func (w Words) uint64(i int) uint64 { return uint64(w[i]) | uint64(w[i+1])<<32 }
