package sensors

import (
	"math"
	"math/rand/v2"
	"testing"

	"odradek/detectors/seedtest"
)

func testModel(t *testing.T) *Model {
	all, _ := ParseKinds("all")
	return &Model{Seed: seedtest.New(t).Uint64(), FaultEvery: 800, Faults: all}
}

// A step's reading is a function of seed, sensor and step: regardless of what is asked
// before, in any order.
func TestSignalIsAFunctionOfTheStep(t *testing.T) {
	m := testModel(t)
	for i := range 20 {
		a, b := m.Sensor(i), m.Sensor(i)
		values := make([]float64, 5000)
		for n := range values {
			v, ok := a.At(int64(n))
			if !ok {
				v = math.NaN()
			}
			values[n] = v
		}
		for range 5000 {
			n := rand.IntN(len(values))
			v, ok := b.At(int64(n))
			if ok != !math.IsNaN(values[n]) || ok && v != values[n] {
				t.Fatalf("sensor %d step %d: %v %v, in order %v", i, n, v, ok, values[n])
			}
		}
	}
	a, b := m.Sensor(1), m.Sensor(2)
	other := &Model{Seed: m.Seed + 1}
	c := other.Sensor(1)
	if va, _ := a.At(7); func() bool { vb, _ := b.At(7); vc, _ := c.At(7); return va == vb || va == vc }() {
		t.Error("sensors or seeds share their signal")
	}
}

// Each labelled fault shows in the readings as what its label says, and the
// readings outside of labels are healthy.
func TestFaultsAreWhatTheLabelsSay(t *testing.T) {
	m := testModel(t)
	healthy := &Model{Seed: m.Seed}
	seen := map[Kind]int{}
	const end = 40_000
	for i := range 40 {
		s, h := m.Sensor(i), healthy.Sensor(i)
		labels := s.FaultsUntil(end)
		at := 0
		for n := int64(0); n < end; n++ {
			for at < len(labels) && labels[at].To < n {
				at++
			}
			if at < len(labels) && n >= labels[at].From {
				continue
			}
			v, ok := s.At(n)
			want, _ := h.At(n)
			if !ok || v != want {
				t.Fatalf("sensor %d step %d is not healthy and has no label", i, n)
			}
			if d := math.Abs(v - s.level); d > s.amplitude+3.5*s.sigma {
				t.Fatalf("sensor %d step %d: healthy reading %v is %v from the level", i, n, v, d)
			}
		}
		for j, f := range labels {
			seen[f.Kind]++
			if f.To < f.From || j > 0 && f.From <= labels[j-1].To+m.FaultEvery/4 {
				t.Fatalf("sensor %d: fault %+v too near to the one before", i, f)
			}
			checkFault(t, &s, &h, f)
		}
	}
	for k := range Kinds {
		if seen[k] < 100 {
			t.Errorf("%d faults of kind %v", seen[k], k)
		}
	}
}

func checkFault(t *testing.T, s, h *Sensor, f Fault) {
	t.Helper()
	length := float64(f.To - f.From + 1)
	var sum, shift float64
	crossings := 0
	last := 0.0
	first, _ := s.At(f.From)
	for n := f.From; n <= f.To; n++ {
		v, ok := s.At(n)
		base, _ := h.At(n)
		if ok == (f.Kind == Dropout) {
			t.Fatalf("%v: ok is %v", f.Kind, ok)
		}
		sum += v
		shift += v - base
		if n > f.From && (v-s.level)*(last-s.level) < 0 {
			crossings++
		}
		last = v
		switch f.Kind {
		case Stuck:
			if v != first {
				t.Fatalf("stuck, but %v follows %v", v, first)
			}
		case Drift:
			want := f.Size * float64(n-f.From+1) / length
			if math.Abs(v-base-want) > 1e-9 {
				t.Fatalf("drift at step %d is %v, want %v", n-f.From, v-base, want)
			}
		}
	}
	shift /= length
	switch f.Kind {
	case Spike:
		if length != 1 || math.Abs(shift) < 3*s.amplitude-1e-9 {
			t.Fatalf("spike of %v for %v steps, amplitude %v", shift, length, s.amplitude)
		}
	case LevelShift:
		if math.Abs(shift-f.Size) > 1e-9 || math.Abs(shift) < 2*s.amplitude-1e-9 {
			t.Fatalf("level shift of %v, label says %v", shift, f.Size)
		}
	case Frequency:
		// Two zero crossings a period; noise adds some near the crossings.
		want := 2 * length * f.Size / s.period
		if float64(crossings) < want-2 {
			t.Fatalf("%d crossings in %v steps, want about %v", crossings, length, want)
		}
	}
}

func TestNoiseIsWhatItSays(t *testing.T) {
	m := &Model{Seed: rand.Uint64()}
	s := m.Sensor(0)
	var sum, sq float64
	const n = 200_000
	for i := range int64(n) {
		v := s.noise(i) / s.sigma
		sum += v
		sq += v * v
	}
	if mean, sd := sum/n, math.Sqrt(sq/n); math.Abs(mean) > 0.02 || math.Abs(sd-1) > 0.02 {
		t.Errorf("seed %d: mean %v, standard deviation %v", m.Seed, mean, sd)
	}
}

func TestParseFaults(t *testing.T) {
	if k, err := ParseKinds("spike, stuck"); err != nil || len(k) != 2 || k[1] != Stuck {
		t.Errorf("%v %v", k, err)
	}
	if k, err := ParseKinds("none"); err != nil || len(k) != 0 {
		t.Errorf("%v %v", k, err)
	}
	if _, err := ParseKinds("spike,explosion"); err == nil {
		t.Error("no error")
	}
}

func BenchmarkSignal(b *testing.B) {
	m := &Model{Seed: 1, FaultEvery: 1000, Faults: []Kind{Spike, LevelShift, Frequency, Stuck, Drift, Dropout}}
	s := m.Sensor(1)
	var sum float64
	for i := range b.N {
		v, _ := s.At(int64(i))
		sum += v
	}
	sink = sum
}

var sink float64
