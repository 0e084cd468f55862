package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func testModel(t *testing.T) *signalModel {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	all, _ := parseFaults("all")
	return &signalModel{seed: seed, faultEvery: 800, faults: all}
}

// A step's reading is a function of seed, sensor and step: whatever is asked
// before, in whatever order.
func TestSignalIsAFunctionOfTheStep(t *testing.T) {
	m := testModel(t)
	for i := range 20 {
		a, b := m.sensor(i), m.sensor(i)
		values := make([]float64, 5000)
		for n := range values {
			v, ok := a.at(int64(n))
			if !ok {
				v = math.NaN()
			}
			values[n] = v
		}
		for range 5000 {
			n := rand.IntN(len(values))
			v, ok := b.at(int64(n))
			if ok != !math.IsNaN(values[n]) || ok && v != values[n] {
				t.Fatalf("sensor %d step %d: %v %v, in order %v", i, n, v, ok, values[n])
			}
		}
	}
	a, b := m.sensor(1), m.sensor(2)
	other := &signalModel{seed: m.seed + 1}
	c := other.sensor(1)
	if va, _ := a.at(7); func() bool { vb, _ := b.at(7); vc, _ := c.at(7); return va == vb || va == vc }() {
		t.Error("sensors or seeds share their signal")
	}
}

// Each labelled fault shows in the readings as what its label says, and the
// readings outside of labels are healthy.
func TestFaultsAreWhatTheLabelsSay(t *testing.T) {
	m := testModel(t)
	healthy := &signalModel{seed: m.seed}
	seen := map[faultKind]int{}
	const end = 40_000
	for i := range 40 {
		s, h := m.sensor(i), healthy.sensor(i)
		labels := s.faultsUntil(end)
		at := 0
		for n := int64(0); n < end; n++ {
			for at < len(labels) && labels[at].to < n {
				at++
			}
			if at < len(labels) && n >= labels[at].from {
				continue
			}
			v, ok := s.at(n)
			want, _ := h.at(n)
			if !ok || v != want {
				t.Fatalf("sensor %d step %d is not healthy and has no label", i, n)
			}
			if d := math.Abs(v - s.level); d > s.amplitude+3.5*s.sigma {
				t.Fatalf("sensor %d step %d: healthy reading %v is %v from the level", i, n, v, d)
			}
		}
		for j, f := range labels {
			seen[f.kind]++
			if f.to < f.from || j > 0 && f.from <= labels[j-1].to+m.faultEvery/4 {
				t.Fatalf("sensor %d: fault %+v too near to the one before", i, f)
			}
			checkFault(t, &s, &h, f)
		}
	}
	for k := range faultKinds {
		if seen[k] < 100 {
			t.Errorf("%d faults of kind %v", seen[k], k)
		}
	}
}

func checkFault(t *testing.T, s, h *sensor, f plantedFault) {
	t.Helper()
	length := float64(f.to - f.from + 1)
	var sum, shift float64
	crossings := 0
	last := 0.0
	first, _ := s.at(f.from)
	for n := f.from; n <= f.to; n++ {
		v, ok := s.at(n)
		base, _ := h.at(n)
		if ok == (f.kind == dropout) {
			t.Fatalf("%v: ok is %v", f.kind, ok)
		}
		sum += v
		shift += v - base
		if n > f.from && (v-s.level)*(last-s.level) < 0 {
			crossings++
		}
		last = v
		switch f.kind {
		case stuck:
			if v != first {
				t.Fatalf("stuck, but %v follows %v", v, first)
			}
		case drift:
			want := f.size * float64(n-f.from+1) / length
			if math.Abs(v-base-want) > 1e-9 {
				t.Fatalf("drift at step %d is %v, want %v", n-f.from, v-base, want)
			}
		}
	}
	shift /= length
	switch f.kind {
	case spike:
		if length != 1 || math.Abs(shift) < 3*s.amplitude-1e-9 {
			t.Fatalf("spike of %v for %v steps, amplitude %v", shift, length, s.amplitude)
		}
	case levelShift:
		if math.Abs(shift-f.size) > 1e-9 || math.Abs(shift) < 2*s.amplitude-1e-9 {
			t.Fatalf("level shift of %v, label says %v", shift, f.size)
		}
	case frequency:
		// Two zero crossings a period; noise adds some near the crossings.
		want := 2 * length * f.size / s.period
		if float64(crossings) < want-2 {
			t.Fatalf("%d crossings in %v steps, want about %v", crossings, length, want)
		}
	}
}

func TestNoiseIsWhatItSays(t *testing.T) {
	m := &signalModel{seed: rand.Uint64()}
	s := m.sensor(0)
	var sum, sq float64
	const n = 200_000
	for i := range int64(n) {
		v := s.noise(i) / s.sigma
		sum += v
		sq += v * v
	}
	if mean, sd := sum/n, math.Sqrt(sq/n); math.Abs(mean) > 0.02 || math.Abs(sd-1) > 0.02 {
		t.Errorf("seed %d: mean %v, standard deviation %v", m.seed, mean, sd)
	}
}

func TestParseFaults(t *testing.T) {
	if k, err := parseFaults("spike, stuck"); err != nil || len(k) != 2 || k[1] != stuck {
		t.Errorf("%v %v", k, err)
	}
	if k, err := parseFaults("none"); err != nil || len(k) != 0 {
		t.Errorf("%v %v", k, err)
	}
	if _, err := parseFaults("spike,explosion"); err == nil {
		t.Error("no error")
	}
}

func BenchmarkSignal(b *testing.B) {
	m := &signalModel{seed: 1, faultEvery: 1000, faults: []faultKind{spike, levelShift, frequency, stuck, drift, dropout}}
	s := m.sensor(1)
	var sum float64
	for i := range b.N {
		v, _ := s.at(int64(i))
		sum += v
	}
	sink = sum
}

var sink float64
