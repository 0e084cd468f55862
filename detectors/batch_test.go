package detectors_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"odradek/detectors"
	"odradek/detectors/simple"
)

// TestWordViews requires that each type has its bits in the words, the less significant word first, in
// views and one by one.
func TestWordViews(t *testing.T) {
	w := make(detectors.Words, 8)
	w.SetFloat32(0, -1.5)
	w.SetFloat64(1, math.Pi)
	w.SetInt64(3, -1<<60+7)
	w[5] = math.MaxUint32
	if w.Float32(0) != -1.5 || w.Float64(1) != math.Pi || w.Int64(3) != -1<<60+7 || w[5] != math.MaxUint32 || w[6] != 0 {
		t.Errorf("words %x", w)
	}
	if bits := math.Float64bits(math.Pi); w[1] != uint32(bits) || w[2] != uint32(bits>>32) {
		t.Errorf("a float64 of bits %x lies as %x", bits, w[1:3])
	}
	w.F32()[6] = 2
	copy(w.F64(), []float64{1e300})
	w.I64()[1] = math.MinInt64
	if w.Float32(6) != 2 || w.Float64(0) != 1e300 || w.Int64(2) != math.MinInt64 || len(w.F64()) != 4 || len(w[:7].I64()) != 3 {
		t.Errorf("words %x", w)
	}
	x := []float32{1, 2}
	detectors.WordsOf(x).SetFloat32(1, 3)
	if x[1] != 3 {
		t.Error("WordsOf has other memory")
	}
}

// TestBatchGrows requires that the result of a Grow keeps its content through later ones, and that
// elements of 8 bytes lie at multiples of 8.
func TestBatchGrows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 15))
	for range 20 {
		var b detectors.Batch
		type piece struct {
			op    detectors.Op // one whose X has the type
			at    detectors.Span
			first float64
		}
		var pieces []piece
		for range 300 {
			n, v := rng.IntN(40), rng.NormFloat64()
			p := piece{first: float64(float32(v))}
			if rng.IntN(2) == 0 {
				var x []float32
				p.op = simple.OpZScore
				if p.at, x = b.GrowF32(n); n > 0 {
					x[0] = float32(v)
				}
			} else {
				var x []float64
				p.op, p.first = simple.OpFlatline, v
				if p.at, x = b.GrowF64(n); n > 0 {
					x[0] = v
				}
				if len(x) != n || n > 0 && uintptr(unsafe.Pointer(&x[0]))%8 != 0 {
					t.Fatalf("%d float64s of %d at %p", len(x), n, x)
				}
			}
			if n > 0 {
				pieces = append(pieces, p)
			}
		}
		if uintptr(unsafe.Pointer(&b.In[0]))%256 != 0 {
			t.Errorf("In begins at %p", &b.In[0])
		}
		for _, p := range pieces {
			b.Tasks = append(b.Tasks, detectors.Task{Op: p.op, Dim: 1, Fresh: 1, X: p.at})
			r := b.Rows(len(b.Tasks) - 1)
			if r.Len() != int(p.at.Len) || p.op == simple.OpZScore && float64(r.X[0]) != p.first ||
				p.op == simple.OpFlatline && r.X64[0] != p.first {
				t.Fatalf("%v at %v: %v %v, want %v first", p.op, p.at, r.X, r.X64, p.first)
			}
		}
	}
	b := detectors.Batch{MaxIn: 10}
	b.GrowF32(3)
	if _, x := b.GrowI64(2); len(x) != 2 || len(b.In) != 8 || !b.Fits(detectors.Need{In: 2}) ||
		b.Fits(detectors.Need{In: detectors.I64.Words(1)}) {
		t.Errorf("%d words after 3 float32s and 2 int64s", len(b.In))
	}
}

// TestPutIsEven requires that the words of Put may begin with an int64.
func TestPutIsEven(t *testing.T) {
	var b detectors.Batch
	for n := range 20 {
		b.GrowF32(n % 3)
		if s := b.Put(make(detectors.Words, n)); s.Off%2 != 0 || int(s.Len) != n {
			t.Fatalf("%d words at %d, length %d", n, s.Off, s.Len)
		}
	}
}

// A task is small, as there may be 100,000 in a batch.
func TestLayout(t *testing.T) {
	if n := unsafe.Sizeof(detectors.Task{}); n != 80 {
		t.Errorf("a task has %d bytes, want 80", n)
	}
}
