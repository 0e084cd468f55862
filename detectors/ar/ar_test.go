package ar

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"odradek/detectors/seedtest"
)

// testSignals returns series that are easy and hard to predict.
func testSignals(rng *rand.Rand, n int) map[string][]float64 {
	all := map[string][]float64{}
	add := func(name string, at func(i int) float64) {
		x := make([]float64, n)
		for i := range x {
			x[i] = at(i)
		}
		all[name] = x
	}
	walk, last := 0.0, 0.0
	add("noise", func(int) float64 { return rng.NormFloat64() })
	add("walk", func(int) float64 { walk += rng.NormFloat64(); return walk })
	add("autoregressive", func(int) float64 { last = 0.9*last + rng.NormFloat64(); return last })
	add("pure tone", func(i int) float64 { return math.Sin(float64(i) * 0.3) })
	add("noisy tone", func(i int) float64 { return math.Sin(float64(i)*0.3) + 0.1*rng.NormFloat64() })
	add("constant", func(int) float64 { return 0.1 })
	add("steps", func(i int) float64 { return float64(i / 50 % 3) })
	add("drift", func(i int) float64 { return float64(i) })
	add("far from zero", func(int) float64 { return 1e9 + 0.001*rng.NormFloat64() })
	add("huge", func(int) float64 { return 1e100 * rng.NormFloat64() })
	add("tiny", func(int) float64 { return 1e-100 * rng.NormFloat64() })
	add("spikes", func(int) float64 {
		if rng.IntN(25) == 0 {
			return 1e9 * rng.NormFloat64()
		}
		return rng.NormFloat64()
	})
	add("missing", func(int) float64 {
		if rng.IntN(40) == 0 {
			return []float64{math.NaN(), math.Inf(1), 1e200}[rng.IntN(3)]
		}
		return rng.NormFloat64()
	})
	add("rests", func(i int) float64 { return rng.NormFloat64() * float64(i/60%2) })
	return all
}

// TestStepIsTheDefinition compares the scores and the next state of both forms, from the same state.
func TestStepIsTheDefinition(t *testing.T) {
	rng := seedtest.New(t)
	for name, x := range testSignals(rng, 300) {
		p := &Params{Order: 1 + rng.IntN(12), Memory: 2 + rng.IntN(400)}
		words, back := make([]uint32, p.Words()), make([]uint32, p.Words())
		var s, d State
		s.Init(p, x[:p.Order])
		s.Store(words)
		for i := p.Order; i < len(x); i++ {
			s.Load(p, words)
			d.Load(p, words)
			at := x[i-p.Order : i+1]
			got, want := s.Step(p, at), d.Define(p, at)
			for k, v := range [][2]float64{{got.Innovation, want.Innovation}, {got.Novelty, want.Novelty}, {got.Off, want.Off},
				{s.mean, d.mean}, {s.variance, d.variance}, {s.squares, d.squares}} {
				if g, w := v[0], v[1]; !(math.Abs(g-w) <= 1e-7*math.Abs(w)) && (g == g || w == w) {
					// The difference of two equal numbers is in units of these numbers.
					if k == 2 && math.Abs(g-w) <= 1e-9*math.Sqrt(d.variance) || k == 0 && math.Abs(g-w) < 1e-7 {
						continue
					}
					t.Fatalf("%s, %+v, sample %d: number %d is %v, the definition gives %v", name, p, i, k, g, w)
				}
			}
			s.Store(words)
			d.Store(back)
			for j := Header; j < len(words); j++ {
				g, w := float64(math.Float32frombits(words[j])), float64(math.Float32frombits(back[j]))
				if !(math.Abs(g-w) <= 1e-6*(math.Abs(w)+1)) {
					t.Fatalf("%s, %+v, sample %d: word %d is %v, the definition leaves %v", name, p, i, j, g, w)
				}
			}
		}
	}
}

// TestUpdateIsFilterRLS compares the update with padasip 1.2.2, FilterRLS(n=3, mu=0.98,
// eps=1), which adapts the inverse of the autocorrelation matrix itself.
func TestUpdateIsFilterRLS(t *testing.T) {
	want := map[int][4]float64{ // error and weights after the sample
		3:  {0.26, 0.046472248353715884, -0.004891815616180626, -0.12229539040451552},
		10: {0.35580283002690644, 0.1732125784918137, -0.21306566236311703, 0.1273448048698273},
		30: {1.194655498378844, 0.26619883093297136, -0.25775298066288077, -0.05799437924751913},
		59: {0.30573818566619865, -0.10854796845770405, -0.1154125232041365, 0.05439046118596072},
	}
	var s State
	s.Init(&Params{Order: 3, Memory: 2}, []float64{0, 0, 0})
	x := make([]float64, 60)
	for i := range x {
		x[i] = float64((37*i*i+11*i)%101)/50 - 1
		if i < 3 {
			continue
		}
		e := x[i]
		for k := range s.v {
			s.v[k] = x[i-1-k]
			e -= s.w[k] * s.v[k]
		}
		a, _ := s.update(0.98)
		for k, b := range s.b {
			s.w[k] += b / a * e
		}
		if w, ok := want[i]; ok {
			for k, got := range []float64{e, s.w[0], s.w[1], s.w[2]} {
				if math.Abs(got-w[k]) > 1e-12 {
					t.Errorf("sample %d: number %d is %v, padasip has %v", i, k, got, w[k])
				}
			}
		}
	}
}

// TestWeights requires the weights of an autoregressive process, and the innovations of its noise.
func TestWeights(t *testing.T) {
	rng := seedtest.New(t)
	p := &Params{Order: 2, Memory: 10_000}
	x := make([]float64, 50_000)
	for i := range x {
		x[i] = rng.NormFloat64()
		if i > 1 {
			x[i] += 1.5*x[i-1] - 0.8*x[i-2]
		}
	}
	var s State
	s.Init(p, x[:2])
	sum, n := 0.0, 0
	for i := 2; i < len(x); i++ {
		if sc := s.Step(p, x[i-2:i+1]); i > 25_000 { // the errors of the first samples are forgotten
			sum += sc.Innovation * sc.Innovation
			n++
		}
	}
	// The standard error of the weights is sqrt((1-0.8^2)/n) = 0.004: n is twice the memory.
	if math.Abs(s.w[0]-1.5) > 0.03 || math.Abs(s.w[1]+0.8) > 0.03 {
		t.Errorf("weights %v of a process with 1.5 and -0.8", s.w)
	}
	if r := math.Sqrt(sum / float64(n)); math.Abs(r-1) > 0.05 {
		t.Errorf("innovations have a root mean square of %v, want 1", r)
	}
}

// TestLongRun requires that a state that is rounded to float32 after each sample stays sound for
// 200,000 samples, and gives the scores of a state in float64.
func TestLongRun(t *testing.T) {
	rng := seedtest.New(t)
	for name, x := range testSignals(rng, 200_000) {
		p := &Params{Order: 16, Memory: 1000}
		words := make([]uint32, p.Words())
		var s, wide State
		s.Init(p, x[:16])
		wide.Init(p, x[:16])
		s.Store(words)
		off, sum := 0.0, 0.0
		for i := 16; i < len(x); i++ {
			s.Load(p, words)
			at := x[i-16 : i+1]
			got, want := s.Step(p, at), wide.Step(p, at)
			s.Store(words)
			if finite(at) && !(got.Innovation >= 0 && got.Innovation <= MaxInnovation && got.Novelty >= 0 && got.Novelty < 1e12) {
				t.Fatalf("%s, sample %d: %+v", name, i, got)
			}
			if finite(at) && i > 10_000 {
				off += math.Abs(got.Innovation - want.Innovation)
				sum += want.Innovation
			}
		}
		for i, d := range s.d {
			if !(d > 0 && d <= loose) {
				t.Fatalf("%s: D[%d] is %v", name, i, d)
			}
		}
		t.Logf("%s: mean innovation %.3g, differs by %.3g in float32", name, sum/190_000, off/190_000)
		if off > 0.02*sum+0.02*190_000 {
			t.Errorf("%s: mean innovation is %v, and differs by %v where the state is rounded to float32", name, sum/190_000, off/190_000)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for _, order := range []int{8, 16, 32} {
		b.Run(strconv.Itoa(order), func(b *testing.B) {
			p := &Params{Order: order, Memory: 5000}
			x := testSignals(seedtest.New(b), 4096)["noisy tone"]
			words := make([]uint32, p.Words())
			var s State
			s.Init(p, x[:order])
			s.Store(words)
			for i := 0; b.Loop(); i++ {
				s.Load(p, words)
				at := i % (len(x) - order)
				s.Step(p, x[at:at+order+1])
				s.Store(words)
			}
		})
	}
}
