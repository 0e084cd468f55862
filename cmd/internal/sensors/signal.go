// Package sensors makes records with planted faults, and the labels of these faults, for `worker generate`
// and the demo: readings of sensors (Model), samples of machines (Vectors) and counts at places (Spots).
//
// Everything is a function of (seed, series, step), so any part of a run can be
// made again, in any order.
//
// A healthy sensor is a level, a sine and noise:
//
//	x(n) = level + amplitude * sin(2*pi*n/period + phase) + sigma * gauss(n)
//
// The time line of a sensor is cut into slots of Model.FaultEvery steps. Each slot
// but the first has one fault of a kind drawn from the list, somewhere in its middle
// half, so that before and after it the sensor is healthy for a while.
package sensors

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Kind is a kind of planted fault.
type Kind uint8

// The kinds of faults.
const (
	Spike      Kind = iota // one sample far off
	LevelShift             // another level for a while
	Frequency              // the sine runs faster for a while
	Stuck                  // the same reading again and again
	Drift                  // a ramp away from the level, then back at once
	Dropout                // no value
	Kinds                  // number of kinds
)

// KindNames are the names of the kinds in flags and labels.
var KindNames = [Kinds]string{"spike", "level_shift", "frequency", "stuck", "drift", "dropout"}

func (k Kind) String() string { return KindNames[k] }

// ParseKinds reads a comma-separated list of kinds; all and none are allowed.
func ParseKinds(list string) ([]Kind, error) {
	switch list {
	case "all":
		all := make([]Kind, Kinds)
		for i := range all {
			all[i] = Kind(i)
		}
		return all, nil
	case "none", "":
		return nil, nil
	}
	var kinds []Kind
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(KindNames[:], strings.TrimSpace(name))
		if i < 0 {
			return nil, fmt.Errorf("no fault is called %q; use some of %s, or all, or none", name, strings.Join(KindNames[:], ","))
		}
		kinds = append(kinds, Kind(i))
	}
	return kinds, nil
}

// Model is the model of all sensors of a run.
type Model struct {
	Seed       uint64
	FaultEvery int64 // steps a slot; at least MinFaultEvery where there are faults
	Faults     []Kind
}

// MinFaultEvery is the least Model.FaultEvery.
const MinFaultEvery = 100

// Sensor is one sensor's constants and the slot it is in.
type Sensor struct {
	model                           *Model
	seed                            uint64
	level, amplitude, period, phase float64
	sigma                           float64
	slot                            int64 // that fault belongs to; -1 for none yet
	fault                           Fault
}

// Fault is one fault of a sensor: steps From to To, both included.
type Fault struct {
	Kind     Kind
	From, To int64
	Size     float64 // in units of the value; for frequency the factor; unused for stuck and dropout
	none     bool
}

// Sensor returns sensor i of the run.
func (m *Model) Sensor(i int) Sensor {
	s := Sensor{model: m, seed: mix(m.Seed ^ mix(uint64(i)+0x5e)), slot: -1}
	r := s.seed
	s.level = 20 + 60*unit(&r)
	s.amplitude = 2 + 6*unit(&r)
	s.period = 24 + 72*unit(&r)
	s.phase = 2 * math.Pi * unit(&r)
	s.sigma = 0.02 * s.amplitude * (1 + 2*unit(&r))
	return s
}

// At returns the reading of step n; ok is false where the sensor gives none. The
// steps may be asked for in any order; in order is fastest.
func (s *Sensor) At(n int64) (value float64, ok bool) {
	f := s.faultAt(n)
	if f == nil {
		return s.healthy(n), true
	}
	switch f.Kind {
	case Spike, LevelShift:
		return s.healthy(n) + f.Size, true
	case Frequency:
		// The phase continues from the healthy sine's, f.Size times as fast.
		angle := s.angle(f.From) + 2*math.Pi*f.Size*float64(n-f.From)/s.period
		return s.level + s.amplitude*math.Sin(angle) + s.noise(n), true
	case Stuck:
		return s.healthy(f.From), true
	case Drift:
		return s.healthy(n) + f.Size*float64(n-f.From+1)/float64(f.To-f.From+1), true
	default: // Dropout
		return 0, false
	}
}

func (s *Sensor) healthy(n int64) float64 {
	return s.level + s.amplitude*math.Sin(s.angle(n)) + s.noise(n)
}

func (s *Sensor) angle(n int64) float64 {
	// The whole periods are taken off first: sin is slow and inexact far out.
	turns := float64(n) / s.period
	return s.phase + 2*math.Pi*(turns-math.Floor(turns))
}

// noise is sigma times a sum of four uniform numbers scaled to variance 1:
// bell-shaped, within 3.5 sigma, and cheap.
func (s *Sensor) noise(n int64) float64 {
	h := mix(s.seed + uint64(n)*0x9e3779b97f4a7c15)
	sum := float64(h&0xffff) + float64(h>>16&0xffff) + float64(h>>32&0xffff) + float64(h>>48)
	return s.sigma * (sum/65536 - 2 + 2.0/65536) * sqrt3
}

// sqrt3 scales a sum of four uniform numbers, of variance 1/3, to variance 1.
const sqrt3 = 1.7320508075688772

// faultAt returns the fault at step n, nil for none.
func (s *Sensor) faultAt(n int64) *Fault {
	if len(s.model.Faults) == 0 {
		return nil
	}
	if slot := n / s.model.FaultEvery; slot != s.slot {
		s.slot, s.fault = slot, s.plant(slot)
	}
	if f := &s.fault; !f.none && n >= f.From && n <= f.To {
		return f
	}
	return nil
}

// plant makes the fault of a slot.
func (s *Sensor) plant(slot int64) Fault {
	if slot < 1 {
		return Fault{none: true}
	}
	every := s.model.FaultEvery
	r := mix(s.seed ^ mix(uint64(slot)+0xfa))
	f := Fault{Kind: s.model.Faults[next(&r)%uint64(len(s.model.Faults))]}
	length := every/8 + int64(next(&r)%uint64(every/8)) // at most a quarter
	f.From = slot*every + every/4 + int64(next(&r)%uint64(every/4))
	sign := 1.0
	if next(&r)&1 == 1 {
		sign = -1
	}
	switch f.Kind {
	case Spike:
		length = 1
		f.Size = sign * s.amplitude * (3 + 3*unit(&r))
	case LevelShift:
		f.Size = sign * s.amplitude * (2 + 2*unit(&r))
	case Frequency:
		f.Size = 2 + 1.5*unit(&r)
	case Drift:
		length = every / 4
		f.Size = sign * s.amplitude * (3 + 2*unit(&r))
	}
	f.To = f.From + length - 1
	return f
}

// FaultsUntil lists the faults that begin before step end, in order.
func (s *Sensor) FaultsUntil(end int64) []Fault {
	var list []Fault
	if len(s.model.Faults) == 0 {
		return nil
	}
	for slot := int64(1); slot*s.model.FaultEvery < end; slot++ {
		if f := s.plant(slot); f.From < end {
			f.To = min(f.To, end-1)
			list = append(list, f)
		}
	}
	return list
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection
// whose output bits all depend on all input bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func next(r *uint64) uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(*r)
}

// unit draws from [0, 1).
func unit(r *uint64) float64 { return float64(next(r)>>11) / (1 << 53) }
