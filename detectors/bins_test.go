package detectors

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
)

func params(t testing.TB, p BinParams) *BinParams {
	t.Helper()
	if err := p.Defaults(); err != nil {
		t.Fatal(err)
	}
	return &p
}

// virtualPoints unpacks the virtual points.
func virtualPoints(p *BinParams, state []float64) (points [][]float32, counts []float32) {
	n := p.Count(state)
	dst := make([]float32, n*(p.Dim+1))
	p.Pack(dst, state, make([]float64, p.Dim))
	for i := range n {
		points = append(points, dst[i*p.Dim:(i+1)*p.Dim])
	}
	return points, dst[n*p.Dim:]
}

// TestCountsAndMeans requires the counts and means of the points while no bin is rare and no range
// changes, and that a period has an effect at its end.
func TestCountsAndMeans(t *testing.T) {
	p := params(t, BinParams{Dim: 2, Cells: 4, Period: 8})
	var state []float64
	points := [][]float64{{0, 0}, {8, 8}, {0.5, 0.25}, {7.5, 7.75}, {0.5, 0.5}, {7.75, 7.5}, {0, 0.25}, {7.5, 8}}
	for i, x := range points {
		if n := p.Count(state); n != 0 {
			t.Fatalf("%d virtual points after %d of the first period", n, i)
		}
		state = p.Add(state, x)
	}
	got, counts := virtualPoints(p, state)
	if want := [][]float32{{0.25, 0.25}, {7.6875, 7.8125}}; !slices.EqualFunc(got, want, slices.Equal) ||
		!slices.Equal(counts, []float32{4, 4}) {
		t.Fatalf("points %v, counts %v, want %v", got, counts, want)
	}
	// A period in one of them only: the other decays.
	for range 8 {
		state = p.Add(state, []float64{0.25, 1.25})
	}
	got, counts = virtualPoints(p, state)
	if want := [][]float32{{0.25, 11. / 12}, {7.6875, 7.8125}}; !slices.EqualFunc(got, want, slices.Equal) ||
		!slices.Equal(counts, []float32{12, 3.6}) {
		t.Fatalf("points %v, counts %v, want %v", got, counts, want)
	}
	// It is dropped when less than one point is left of it: 4 * 0.9^14 < 1.
	for range 13 {
		for range 8 {
			state = p.Add(state, []float64{0.25, 1.25})
		}
	}
	if got, _ := virtualPoints(p, state); len(got) != 1 {
		t.Fatalf("points %v after 14 periods without the second", got)
	}
}

// TestRareIsBelowHalf requires that the count of a bin decays where its points of the period are below half of the bins' mean,
// and not where they are exactly half.
func TestRareIsBelowHalf(t *testing.T) {
	for _, c := range []struct{ few, many, decays int }{{5, 15, 0}, {4, 16, 1}} {
		p := params(t, BinParams{Dim: 1, Cells: 2, Period: 20, Decay: 0.5})
		var state []float64
		period := func(few int) {
			for i := range p.Period {
				x := 1.0
				if i < few {
					x = 0
				}
				state = p.Add(state, []float64{x})
			}
		}
		period(10) // 10 in each
		period(c.few)
		want := []float32{float32(10 + c.few), float32(10 + c.many)}
		if c.decays > 0 {
			want[0] -= 5
		}
		if _, counts := virtualPoints(p, state); !slices.Equal(counts, want) {
			t.Errorf("%d and %d points, a mean of 10: counts %v, want %v", c.few, c.many, counts, want)
		}
	}
}

func TestOneCell(t *testing.T) {
	rng := seedtest.New(t)
	p := params(t, BinParams{Dim: 3, Cells: 1, Period: 10})
	var state []float64
	var sum [3]float64
	for range 200 {
		x := []float64{rng.NormFloat64(), 100 * rng.NormFloat64(), 7}
		for c, v := range x {
			sum[c] += v / 200
		}
		state = p.Add(state, x)
	}
	got, counts := virtualPoints(p, state)
	if len(got) != 1 || counts[0] != 200 {
		t.Fatalf("points %v, counts %v", got, counts)
	}
	for c, v := range got[0] {
		if math.Abs(float64(v)-sum[c]) > 1e-4 {
			t.Errorf("mean %d is %v, want %v", c, v, sum[c])
		}
	}
}

// TestRangesFollow requires that an extreme value coarsens the cells until it is forgotten.
func TestRangesFollow(t *testing.T) {
	rng := seedtest.New(t)
	p := params(t, BinParams{Dim: 1, Cells: 16, Period: 100})
	var state []float64
	add := func(n int) {
		for range n {
			state = p.Add(state, []float64{rng.NormFloat64()})
		}
	}
	add(300)
	usual := p.Count(state)
	state = p.Add(state, []float64{1e12})
	add(99)
	if n := p.Count(state); n > 2 {
		t.Errorf("%d bins beside a wild value", n)
	}
	add(2000)
	if n := p.Count(state); n < usual/2 {
		t.Errorf("%d bins 20 periods later, %d before", n, usual)
	}
}

// TestAnyPoints requires that the state is bounded, finite and the same for the same points, regardless of
// they are.
func TestAnyPoints(t *testing.T) {
	rng := seedtest.New(t)
	for range 30 {
		p := params(t, BinParams{Dim: 1 + rng.IntN(3), Cells: 1 + rng.IntN(20), Period: 1 + rng.IntN(40), Max: 1 + rng.IntN(30),
			Decay: 0.1 + 0.8*rng.Float64()})
		var a, b []float64
		x := make([]float64, p.Dim)
		for i := range 2000 {
			for c := range x {
				switch rng.IntN(40) {
				case 0:
					x[c] = []float64{math.NaN(), math.Inf(1), math.MaxFloat64, -math.MaxFloat64, 0, 5e-324}[rng.IntN(6)]
				case 1:
					x[c] = math.Exp(100 * rng.NormFloat64())
				default:
					x[c] = float64(rng.IntN(50))
				}
			}
			a = p.Add(a, x)
			b = slices.Clone(b) // at another capacity
			b = p.Add(b, x)
			if !slices.Equal(a, b) {
				t.Fatalf("%+v: two states of the same %d points", *p, i+1)
			}
			if !p.Valid(a) || p.Count(a) > p.Max {
				t.Fatalf("%+v: length %d, %d bins", *p, len(a), p.Count(a))
			}
			for _, v := range a {
				if v-v != 0 {
					t.Fatalf("%+v: %v in the state after %v", *p, v, x)
				}
			}
			cells := map[float64]bool{}
			for i := range p.count(a) {
				cells[p.bin(a, i)[atCell]] = true
			}
			if len(cells) != p.count(a) {
				t.Fatalf("%+v: two bins of one cell", *p)
			}
		}
	}
}

func TestFaultsAreReportedTogether(t *testing.T) {
	p := BinParams{Cells: -1, Period: 1 << 30, Decay: 1, Max: 1 << 20}
	err := p.Defaults()
	for _, want := range []string{"dimension", "cells", "period", "decay", "number of bins"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	rng := seedtest.New(b)
	for _, dim := range []int{1, 8} {
		b.Run(strconv.Itoa(dim), func(b *testing.B) {
			p := params(b, BinParams{Dim: dim})
			state := make([]float64, 0, p.MaxLen())
			x := make([]float64, 1024*dim)
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			at := 0
			b.ReportAllocs()
			for b.Loop() {
				at = (at + 1) % 1024
				state = p.Add(state, x[at*dim:(at+1)*dim])
			}
		})
	}
}
