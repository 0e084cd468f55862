package vec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"odradek/detectors/seedtest"
)

// impl is one implementation of the package's functions.
type impl struct {
	name      string
	dot       func(x, y []float32) float32
	sum       func(x []float32) float64
	axpy      func(a float32, x, y []float32)
	scale     func(a float32, x []float32)
	centre    func(dst, x []float32, mean float64) float32
	narrow    func(dst []float32, x []uint64, center float64)
	hankel    func(y, x, v []float32)
	hankel64  func(y, x, v []float64)
	slide     func(dst []float64, low []float32, src, in, out []float64, p, q float64)
	laneMul   func(y, m []float32, stride int, v []float32)
	laneDot   func(h *[Lanes]float32, x, y []float32)
	laneAxpy  func(h *[Lanes]float32, x, y []float32)
	laneScale func(dst []float32, h *[Lanes]float32, x []float32)
	moments   func(h, k *[Lanes]float32, s, v []float32)
	shift     func(y []float32, h, k *[Lanes]float32, s []float32)
}

// impls are the exported functions (assembly, where there is any) and the twin.
var impls = []impl{
	{"exported", Dot, Sum, Axpy, Scale, Centre, Narrow, Hankel, Hankel64, Slide, LaneMul, LaneDot, LaneAxpy, LaneScale,
		LaneMoments, LaneShift},
	{"twin", dotGo, sumGo, axpyGo, scaleGo, centreGo, narrowGo, hankelGo, hankel64Go, slideGo, laneMulGo, laneDotGo, laneAxpyGo,
		laneScaleGo, laneMomentsGo, laneShiftGo},
}

// arena returns slices with NaN on both sides, at any alignment.
type arena struct {
	t      *testing.T
	rng    *rand.Rand
	checks []func() error
}

func (a *arena) floats(n int, readOnly bool) []float32 {
	nan := float32(math.NaN())
	off := 16 + a.rng.IntN(16)
	buf := Aligned(off + n + 16)
	for i := range buf {
		buf[i] = nan
	}
	x := buf[off : off+n : off+n]
	for i := range x {
		x[i] = float32(a.rng.NormFloat64())
	}
	before := append([]float32(nil), x...)
	a.checks = append(a.checks, func() error {
		for i, v := range buf {
			if (i < off || i >= off+n) && v == v {
				return fmt.Errorf("wrote %d outside of [0, %d)", i-off, n)
			}
		}
		for i := range x {
			if readOnly && x[i] != before[i] {
				return fmt.Errorf("wrote element %d of an input", i)
			}
		}
		return nil
	})
	return x
}

func (a *arena) doubles(n int, readOnly bool) []float64 {
	buf := make([]float64, n+16)
	for i := range buf {
		buf[i] = math.NaN()
	}
	x := buf[8 : 8+n : 8+n]
	for i := range x {
		x[i] = a.rng.NormFloat64()
	}
	before := append([]float64(nil), x...)
	a.checks = append(a.checks, func() error {
		for i, v := range buf {
			if (i < 8 || i >= 8+n) && v == v {
				return fmt.Errorf("wrote %d outside of [0, %d)", i-8, n)
			}
		}
		for i := range x {
			if readOnly && x[i] != before[i] {
				return fmt.Errorf("wrote element %d of an input", i)
			}
		}
		return nil
	})
	return x
}

func (a *arena) check() {
	a.t.Helper()
	for _, f := range a.checks {
		if err := f(); err != nil {
			a.t.Error(err)
		}
	}
	a.checks = a.checks[:0]
}

// sum is an exact sum of products with the sum of their absolute values, which
// bounds the rounding of any order of adding them up.
type sum struct{ value, size float64 }

func (s *sum) add(factors ...float64) {
	p := 1.0
	for _, f := range factors {
		p *= f
	}
	s.value += p
	s.size += math.Abs(p)
}

// near fails unless got is s up to the rounding of n float32 additions.
func (s sum) near(t *testing.T, got float32, n int) {
	t.Helper()
	if d := math.Abs(float64(got) - s.value); !(d <= float64(n+2)*0x1p-23*s.size) {
		t.Errorf("got %v, want %v +- %.3g", got, s.value, float64(n+2)*0x1p-23*s.size)
	}
}

// each calls f for every implementation and vector length in [0, 67] and a few
// larger ones.
func each(t *testing.T, f func(t *testing.T, im impl, a *arena, n int)) {
	rng := seedtest.New(t)
	for _, im := range impls {
		t.Run(im.name, func(t *testing.T) {
			sizes := []int{100, 104, 107, 113, 199, 320, 511}
			for n := range 68 {
				sizes = append(sizes, n)
			}
			for _, n := range sizes {
				a := &arena{t: t, rng: rng}
				f(t, im, a, n)
				a.check()
				if t.Failed() {
					t.Fatalf("at length %d", n)
				}
			}
		})
	}
}

func TestSums(t *testing.T) {
	each(t, func(t *testing.T, im impl, a *arena, n int) {
		x, y := a.floats(n, true), a.floats(n, true)
		var dot, total sum
		for i := range x {
			p, q := float64(x[i]), float64(y[i])
			dot.add(p, q)
			total.add(p)
		}
		dot.near(t, im.dot(x, y), n)
		if got := im.sum(x); math.Abs(got-total.value) > 1e-14*total.size {
			t.Errorf("sum: got %v, want %v", got, total.value)
		}
	})
}

func TestNarrow(t *testing.T) {
	each(t, func(t *testing.T, im impl, a *arena, n int) {
		x, dst := make([]uint64, n), a.floats(n, false)
		center := float64(1e9 * a.rng.NormFloat64()) // rounded: arm64 would fuse the product into the differences below
		for i := range x {
			v := center + a.rng.NormFloat64()
			switch a.rng.IntN(8) {
			case 0:
				v = math.Ldexp(v, a.rng.IntN(2000)-1000) // denormal and infinite as float32
			case 1:
				v = math.Inf(1 - 2*a.rng.IntN(2))
			}
			x[i] = math.Float64bits(v)
		}
		im.narrow(dst, x, center)
		for i, v := range x {
			if want := float32(math.Float64frombits(v) - center); dst[i] != want {
				t.Errorf("narrow: got %v, want %v", dst[i], want)
			}
		}
	})
}

func TestElementwise(t *testing.T) {
	each(t, func(t *testing.T, im impl, a *arena, n int) {
		x, y, z := a.floats(n, true), a.floats(n, false), a.floats(n, false)
		y0, z0 := append([]float32(nil), y...), append([]float32(nil), z...)
		im.axpy(0.3, x, y)
		im.scale(0.3, z)
		mean := a.rng.NormFloat64()
		c := a.floats(n, false)
		peak := im.centre(c, x, mean)
		want := float32(0)
		for i := range x {
			var s sum
			s.add(float64(y0[i]))
			s.add(float64(float32(0.3)), float64(x[i]))
			s.near(t, y[i], 1)
			if z[i] != z0[i]*0.3 {
				t.Errorf("scale: got %v, want %v", z[i], z0[i]*0.3)
			}
			if w := float32(float64(x[i]) - mean); c[i] != w {
				t.Errorf("centre: got %v, want %v", c[i], w)
			}
			want = max(want, float32(math.Abs(float64(c[i]))))
		}
		if peak != want {
			t.Errorf("centre: peak %v, want %v", peak, want)
		}
	})
}

func TestHankel(t *testing.T) {
	each(t, func(t *testing.T, im impl, a *arena, n int) {
		for _, m := range []int{0, 1, 2, 3, 7, 8, 20, n} {
			x, v, y := a.floats(max(0, n+m-1), true), a.floats(m, true), a.floats(n, false)
			im.hankel(y, x, v)
			for i := range y {
				var s sum
				for j := range v {
					s.add(float64(x[i+j]), float64(v[j]))
				}
				s.near(t, y[i], m)
			}
			x64, v64, y64 := a.doubles(max(0, n+m-1), true), a.doubles(m, true), a.doubles(n, false)
			im.hankel64(y64, x64, v64)
			for i := range y64 {
				var s sum
				for j := range v64 {
					s.add(x64[i+j], v64[j])
				}
				if d := math.Abs(y64[i] - s.value); !(d <= float64(m+2)*0x1p-52*s.size) {
					t.Errorf("got %v, want %v", y64[i], s.value)
				}
			}
		}
	})
}

func TestSlide(t *testing.T) {
	each(t, func(t *testing.T, im impl, a *arena, n int) {
		src, in, out := a.doubles(n, true), a.doubles(n, true), a.doubles(n, true)
		dst, low := a.doubles(n, false), a.floats(n, false)
		im.slide(dst, low, src, in, out, 0.3, 0.7)
		for i := range dst {
			want := src[i] + 0.3*in[i] - 0.7*out[i]
			if size := math.Abs(src[i]) + math.Abs(in[i]) + math.Abs(out[i]); math.Abs(dst[i]-want) > 1e-15*size {
				t.Errorf("got %v, want %v", dst[i], want)
			}
			if low[i] != float32(dst[i]) {
				t.Errorf("low: got %v, want %v", low[i], float32(dst[i]))
			}
		}
	})
}

func TestLanes(t *testing.T) {
	each(t, func(t *testing.T, im impl, a *arena, n int) {
		x, y, z := a.floats(n*Lanes, true), a.floats(n*Lanes, false), a.floats(n*Lanes, false)
		y0 := append([]float32(nil), y...)
		var h, factors [Lanes]float32
		copy(factors[:], a.floats(Lanes, true))
		im.laneDot(&h, x, y)
		im.laneAxpy(&factors, x, y)
		im.laneScale(z, &factors, x)
		s, shifted := a.floats(n, true), a.floats(n*Lanes, false)
		shifted0 := append([]float32(nil), shifted...)
		var hs, ks [Lanes]float32
		im.moments(&hs, &ks, s, x)
		im.shift(shifted, &factors, &hs, s)
		for l := range Lanes {
			var dot sum
			for i := l; i < len(x); i += Lanes {
				dot.add(float64(x[i]), float64(y0[i]))
				var s sum
				s.add(float64(y0[i]))
				s.add(float64(factors[l]), float64(x[i]))
				s.near(t, y[i], 1)
				if z[i] != factors[l]*x[i] {
					t.Errorf("laneScale: got %v, want %v", z[i], factors[l]*x[i])
				}
			}
			dot.near(t, h[l], n)
			var first, zeroth sum
			for i := range s {
				first.add(float64(s[i]), float64(x[i*Lanes+l]))
				zeroth.add(float64(x[i*Lanes+l]))
				var to sum
				to.add(float64(shifted0[i*Lanes+l]))
				to.add(float64(factors[l]), float64(s[i]))
				to.add(float64(hs[l]))
				to.near(t, shifted[i*Lanes+l], 2)
			}
			first.near(t, hs[l], n)
			zeroth.near(t, ks[l], n)
		}
	})
}

func TestLaneMul(t *testing.T) {
	each(t, func(t *testing.T, im impl, a *arena, n int) {
		for _, m := range []int{0, 1, 2, 9} {
			stride := n + a.rng.IntN(3)
			g, v, y := a.floats(max(0, (m-1)*stride+n), true), a.floats(m*Lanes, true), a.floats(n*Lanes, false)
			im.laneMul(y, g, stride, v)
			for i := range y {
				var s sum
				for b := range m {
					s.add(float64(g[b*stride+i/Lanes]), float64(v[b*Lanes+i%Lanes]))
				}
				s.near(t, y[i], m)
			}
		}
	})
}

// TestAlignmentDoesNotChangeABit requires that results do not depend on the place of the arguments.
func TestAlignmentDoesNotChangeABit(t *testing.T) {
	rng := seedtest.New(t)
	x, v := make([]float32, 199), make([]float32, 100)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	var dot float32
	var y []float32
	for off := range 16 {
		x1, v1 := append(Aligned(off), x...)[off:], append(Aligned(off/2), v...)[off/2:]
		y1 := Aligned(off + 100)[off:]
		Hankel(y1, x1, v1)
		d := Dot(y1, v1)
		if off == 0 {
			dot, y = d, y1
		}
		if d != dot {
			t.Errorf("offset %d: dot %v, before %v", off, d, dot)
		}
		for i := range y {
			if y[i] != y1[i] {
				t.Fatalf("offset %d: element %d is %v, before %v", off, i, y1[i], y[i])
			}
		}
	}
}

func TestLengthsThatDoNotFitPanic(t *testing.T) {
	f := func(name string, call func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", name)
			}
		}()
		call()
	}
	x, y := make([]float32, 8), make([]float32, 9)
	f("Dot", func() { Dot(x, y) })
	f("Axpy", func() { Axpy(1, x, y) })
	f("Centre", func() { Centre(x, y, 0) })
	f("Narrow", func() { Narrow(x, make([]uint64, 9), 0) })
	f("Hankel", func() { Hankel(x, y, y) })
	f("LaneDot", func() { LaneDot(&[Lanes]float32{}, y, y) })
	f("LaneAxpy", func() { LaneAxpy(&[Lanes]float32{}, x, y) })
	f("LaneScale", func() { LaneScale(x, &[Lanes]float32{}, y) })
	f("LaneMul", func() { LaneMul(x, x, 0, x) })
	f("Slide", func() { Slide(make([]float64, 1), x, nil, nil, nil, 0, 0) })
}

func BenchmarkHankel(b *testing.B) {
	for _, w := range []int{20, 50, 100, 320} {
		b.Run(strconv.Itoa(w), func(b *testing.B) {
			y, x, v := Aligned(w), Aligned(2*w-1), Aligned(w)
			for b.Loop() {
				Hankel(y, x, v)
			}
			b.ReportMetric(float64(w*w)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "mac/ns")
		})
	}
}

func BenchmarkLaneMul(b *testing.B) {
	for _, w := range []int{20, 100, 320} {
		b.Run(strconv.Itoa(w), func(b *testing.B) {
			n, stride := w+7, w+23
			y, m, v := Aligned(n*Lanes), Aligned(n*stride), Aligned(n*Lanes)
			for b.Loop() {
				LaneMul(y, m, stride, v)
			}
			b.ReportMetric(float64(n*n*Lanes)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "mac/ns")
		})
	}
}

func BenchmarkDot(b *testing.B) {
	x, y := Aligned(100), Aligned(100)
	for b.Loop() {
		Dot(x, y)
	}
}

func BenchmarkAxpy(b *testing.B) {
	x, y := Aligned(100), Aligned(100)
	for b.Loop() {
		Axpy(1, x, y)
	}
}

func BenchmarkLaneDot(b *testing.B) {
	var h [Lanes]float32
	x, y := Aligned(107*Lanes), Aligned(107*Lanes)
	for b.Loop() {
		LaneDot(&h, x, y)
	}
}

func BenchmarkLaneAxpy(b *testing.B) {
	var h [Lanes]float32
	x, y := Aligned(107*Lanes), Aligned(107*Lanes)
	for b.Loop() {
		LaneAxpy(&h, x, y)
	}
}

func BenchmarkSlide(b *testing.B) {
	n := 115
	dst, src, in, out, low := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), Aligned(n)
	for b.Loop() {
		Slide(dst, low, src, in, out, 1, 2)
	}
}

// TestCopyBits copies numbers from any place in memory.
func TestCopyBits(t *testing.T) {
	rng := seedtest.New(t)
	for range 100 {
		want := make([]uint64, rng.IntN(20))
		at := rng.IntN(8)
		src := bytes.Repeat([]byte{1}, at)
		for i := range want {
			want[i] = rng.Uint64()
			src = binary.LittleEndian.AppendUint64(src, want[i])
		}
		got := make([]uint64, len(want))
		if CopyBits(got, slices.Concat(src, []byte{1, 2, 3})[at:]); !slices.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
	}
}
