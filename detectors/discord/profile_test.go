package discord

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// nasty returns difficult series by name.
func nasty(rng *rand.Rand, n int) map[string][]float64 {
	walk, level := 0.0, 0.0
	all := map[string][]float64{}
	for name, f := range map[string]func(i int) float64{
		"noise": func(int) float64 { return rng.NormFloat64() },
		"walk":  func(int) float64 { walk += rng.NormFloat64(); return walk },
		"tones": func(i int) float64 { return math.Sin(float64(i)*0.3) + 0.01*rng.NormFloat64() },
		"tied":  func(int) float64 { return float64(rng.IntN(3)) },
		"steps by 1e9": func(i int) float64 {
			if i%97 == 0 {
				level = float64(rng.IntN(3)) * 1e9
			}
			return level + 100*rng.NormFloat64()
		},
		"nearly constant": func(i int) float64 {
			if i/60%2 == 0 {
				return 5 + 1e-6*rng.NormFloat64()
			}
			return rng.NormFloat64()
		},
		"flat stretches": func(i int) float64 {
			if i/40%2 == 0 {
				return 5
			}
			return rng.NormFloat64()
		},
		"spikes": func(i int) float64 {
			if rng.IntN(25) == 0 {
				return 1e9 * rng.NormFloat64()
			}
			return rng.NormFloat64()
		},
		"gaps": func(i int) float64 {
			if rng.IntN(70) == 0 {
				return nan
			}
			return rng.NormFloat64()
		},
		"constant":      func(int) float64 { return 0.1 },
		"square":        func(i int) float64 { return float64(i / 7 % 2) },
		"far from zero": func(int) float64 { return 1e9 + 0.001*rng.NormFloat64() },
		"huge":          func(int) float64 { return 1e30 * rng.NormFloat64() },
		"tiny":          func(int) float64 { return 1e-30 * rng.NormFloat64() },
		"nothing":       func(int) float64 { return nan },
	} {
		x := make([]float64, n)
		for i := range x {
			x[i] = f(i)
		}
		all[name] = x
	}
	return all
}

// differ compares profiles: distances by 1e-6 and, where roots enlarge roundings, as correlations by
// 1e-9. Other neighbours may be equally near.
func differ(m int, o Options, got, want Profile) error {
	if len(got.Distance) != len(want.Distance) || len(got.Nearest) != len(want.Nearest) {
		return fmt.Errorf("%d subsequences, want %d", len(got.Distance), len(want.Distance))
	}
	for i, w := range want.Distance {
		g, k := got.Distance[i], o.k()
		if g != g && w != w && got.Nearest[i] == -1 {
			continue
		}
		if !(math.Abs(g-w) <= 1e-6*float64(k)) && !(math.Abs(Normalised(g, m, k)-Normalised(w, m, k)) <= 1e-9) {
			return fmt.Errorf("subsequence %d is %v from %d, want %v from %d", i, g, got.Nearest[i], w, want.Nearest[i])
		}
		if j := got.Nearest[i]; j < 0 || j > i-o.exclusion(m) && j < i+o.exclusion(m) {
			return fmt.Errorf("the neighbour of subsequence %d is %d", i, j)
		}
	}
	return nil
}

// backwards is a detectors.Parallel in random order on several goroutines.
func backwards(n int, f func(i int)) {
	var wg sync.WaitGroup
	for _, i := range rand.Perm(n) {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func TestCompute(t *testing.T) {
	rng := seedtest.New(t)
	for round := range 3 {
		for name, x := range nasty(rng, 200+rng.IntN(300)) {
			m := 3 + rng.IntN(60)
			o := Options{ExcludeFlat: rng.IntN(2) == 0, K: rng.IntN(4) * round}
			if rng.IntN(2) == 0 {
				o.Exclusion = 1 + rng.IntN(m)
			}
			got := Compute(x, m, o, detectors.Sequential)
			if err := differ(m, o, got, Define(x, m, o)); err != nil {
				t.Errorf("%s, %d values, m %d, %+v: %v", name, len(x), m, o, err)
			}
			if again := Compute(x, m, o, backwards); !same(again.Distance, got.Distance, 0) || !reflect.DeepEqual(again.Nearest, got.Nearest) {
				t.Errorf("%s, %d values, m %d, %+v: another profile in parallel", name, len(x), m, o)
			}
		}
	}
	for _, n := range []int{0, 1, 5, 6, 9, 10, 11, 26, 27} { // around m = 5, twice m, and the lanes
		x := nasty(rng, n)["noise"]
		if err := differ(5, Options{}, Compute(x, 5, Options{}, detectors.Sequential), Define(x, 5, Options{})); err != nil {
			t.Errorf("%d values: %v", n, err)
		}
	}
}

// TestComputeLong has more rows than there are between covariances computed from the values, and
// several bands of diagonals.
func TestComputeLong(t *testing.T) {
	rng := seedtest.New(t)
	const m = 20
	for _, name := range []string{"walk", "steps by 1e9", "nearly constant"} {
		x := nasty(rng, drift+rng.IntN(900)+100)[name]
		got := Compute(x, m, Options{}, backwards)
		w := windows(x, m)
		want := Profile{append([]float64(nil), got.Distance...), got.Nearest}
		for range 200 {
			i := rng.IntN(len(w))
			want.Distance[i], _ = define(w, i, m, Options{})
		}
		if err := differ(m, Options{}, got, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWalkDrift requires that covariances are computed from the values at intervals of rows, since
// roundings would add up without a bound: on a diagonal of 400,000 rows correlations are as exact at
// the end as at the beginning.
func TestWalkDrift(t *testing.T) {
	rng := seedtest.New(t)
	const m, k, rounds = 20, 57, 12
	worst := 0.0
	for range rounds {
		// A repeated cycle, so that its roundings repeat, too: random ones would grow by the root
		// alone.
		x, cycle := make([]float64, 400_000), make([]float64, 90+rng.IntN(20))
		for i := range cycle {
			cycle[i] = rng.NormFloat64() * math.Exp(2*rng.Float64())
		}
		for i := range x {
			x[i] = cycle[i%len(cycle)]
		}
		var s series
		s.load(x, m, false)
		every := make([]float64, s.starts+lanes)
		for i := range every {
			every[i] = math.Inf(-1)
		}
		var memory strip
		s.walk(&memory, lanes, lanes+k, s.starts-lanes-k, every, every, func(i, j int, rho []float64) {
			if i%97 == 0 {
				d := s.distance(i, j)
				worst = max(worst, math.Abs(1-d*d/(2*m)-rho[0]))
			}
		})
	}
	if worst > 3e-13 {
		t.Errorf("a correlation is wrong by %.3g", worst)
	}
}

// TestComputeTies requires the first of equally near neighbours, whichever is found first.
func TestComputeTies(t *testing.T) {
	rng := seedtest.New(t)
	x := make([]float64, 5*band+rng.IntN(100))
	for i := range x {
		x[i] = float64([]int{0, 4, 1, 0, 2, 8, 5, 4}[i%8])
	}
	for range 5 {
		for i, at := range Compute(x, 16, Options{}, backwards).Nearest {
			if want := i % 8; i >= want+16 && at != want {
				t.Fatalf("the neighbour of %d is %d, want %d", i, at, want)
			}
		}
	}
}

// TestComputeOfReferences compares the fast form with whole matrix profiles of SCAMP, and with all references.
func TestComputeOfReferences(t *testing.T) {
	for _, ref := range references(t) {
		sameDiscords(t, ref.file, Compute(ref.x, ref.m, Options{}, detectors.Sequential).Top(ref.m, 3), ref.wanted)
	}
	at := shared(t)
	for _, c := range merlins {
		x := column(t, 1, at, "data", "discords", "dev", c.file)[:c.n]
		sameDiscords(t, c.file, Compute(x, c.m, Options{}, detectors.Sequential).Top(c.m, 1), []Discord{{At: c.at, Distance: c.distance}})
	}
	for _, v := range scampVectors[:2] {
		x := column(t, 1, at, "data", "scamp_vectors", v.series+".txt.gz")
		want := scampProfile(t, at, v.name)
		p := Compute(x, scampLength, Options{Exclusion: scampLength / 4}, detectors.Sequential)
		for i := range want.Distance {
			sameAsSCAMP(t, v.name, i, want, func() (float64, int) { return p.Distance[i], p.Nearest[i] })
		}
	}
}

// BenchmarkCompute is a full profile of 100,000 values, m = 100.
func BenchmarkCompute(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, v := make([]float64, 100_000), 0.0
	for i := range x {
		v += rng.NormFloat64()
		x[i] = v
	}
	for name, p := range map[string]detectors.Parallel{"core": detectors.Sequential, "cores": cores} {
		for single, precision := range map[bool]string{false: "float64", true: "float32"} {
			b.Run(name+"/"+precision, func(b *testing.B) {
				for b.Loop() {
					Compute(x, 100, Options{Single: single}, p)
				}
				pairs := float64(len(x)) * float64(len(x)) / 2
				b.ReportMetric(pairs*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gpairs/s")
			})
		}
	}
}

// cores is a detectors.Parallel with a goroutine for each core.
func cores(n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}
