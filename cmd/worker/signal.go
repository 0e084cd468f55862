package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The signal model of `generate`: what a sensor says at each step, and where
// its faults are. Everything is a function of (seed, sensor, step), so any part
// of a run can be made again, in any order.
//
// A healthy sensor is a level, a sine and noise:
//
//	x(n) = level + amplitude * sin(2*pi*n/period + phase) + sigma * gauss(n)
//
// The time line of a sensor is cut into slots of faultEvery steps. Each slot but
// the first has one fault of a kind drawn from the list, somewhere in its middle
// half, so that before and after it the sensor is healthy for a while.

// faultKind is a kind of planted fault.
type faultKind uint8

const (
	spike      faultKind = iota // one sample far off
	levelShift                  // another level for a while
	frequency                   // the sine runs faster for a while
	stuck                       // the same reading again and again
	drift                       // a ramp away from the level, then back at once
	dropout                     // no value
	faultKinds
)

var faultNames = [faultKinds]string{"spike", "level_shift", "frequency", "stuck", "drift", "dropout"}

func (k faultKind) String() string { return faultNames[k] }

// parseFaults reads a comma-separated list of kinds; all and none are allowed.
func parseFaults(list string) ([]faultKind, error) {
	switch list {
	case "all":
		all := make([]faultKind, faultKinds)
		for i := range all {
			all[i] = faultKind(i)
		}
		return all, nil
	case "none", "":
		return nil, nil
	}
	var kinds []faultKind
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(faultNames[:], strings.TrimSpace(name))
		if i < 0 {
			return nil, fmt.Errorf("no fault is called %q; use some of %s, or all, or none", name, strings.Join(faultNames[:], ","))
		}
		kinds = append(kinds, faultKind(i))
	}
	return kinds, nil
}

// signalModel is the model of all sensors of a run.
type signalModel struct {
	seed       uint64
	faultEvery int64 // steps a slot; at least minFaultEvery where there are faults
	faults     []faultKind
}

const minFaultEvery = 100

// sensor is one sensor's constants and the slot it is in.
type sensor struct {
	model                           *signalModel
	seed                            uint64
	level, amplitude, period, phase float64
	sigma                           float64
	slot                            int64 // that fault belongs to; -1 for none yet
	fault                           plantedFault
}

// plantedFault is one fault of a sensor: steps from..to, both included.
type plantedFault struct {
	kind     faultKind
	from, to int64
	size     float64 // in units of the value; for frequency the factor; unused for stuck and dropout
	none     bool
}

func (m *signalModel) sensor(i int) sensor {
	s := sensor{model: m, seed: mix(m.seed ^ mix(uint64(i)+0x5e)), slot: -1}
	r := s.seed
	s.level = 20 + 60*unit(&r)
	s.amplitude = 2 + 6*unit(&r)
	s.period = 24 + 72*unit(&r)
	s.phase = 2 * math.Pi * unit(&r)
	s.sigma = 0.02 * s.amplitude * (1 + 2*unit(&r))
	return s
}

// at is the reading of step n; ok is false where the sensor gives none. The
// steps may be asked for in any order; in order is fastest.
func (s *sensor) at(n int64) (value float64, ok bool) {
	f := s.faultAt(n)
	if f == nil {
		return s.healthy(n), true
	}
	switch f.kind {
	case spike, levelShift:
		return s.healthy(n) + f.size, true
	case frequency:
		// The phase goes on where the healthy sine was, f.size times as fast.
		angle := s.angle(f.from) + 2*math.Pi*f.size*float64(n-f.from)/s.period
		return s.level + s.amplitude*math.Sin(angle) + s.noise(n), true
	case stuck:
		return s.healthy(f.from), true
	case drift:
		return s.healthy(n) + f.size*float64(n-f.from+1)/float64(f.to-f.from+1), true
	default: // dropout
		return 0, false
	}
}

func (s *sensor) healthy(n int64) float64 {
	return s.level + s.amplitude*math.Sin(s.angle(n)) + s.noise(n)
}

func (s *sensor) angle(n int64) float64 {
	// The whole periods are taken off first: sin is slow and inexact far out.
	turns := float64(n) / s.period
	return s.phase + 2*math.Pi*(turns-math.Floor(turns))
}

// noise is sigma times a sum of four uniform numbers scaled to variance 1:
// bell-shaped, within 3.5 sigma, and cheap.
func (s *sensor) noise(n int64) float64 {
	h := mix(s.seed + uint64(n)*0x9e3779b97f4a7c15)
	sum := float64(h&0xffff) + float64(h>>16&0xffff) + float64(h>>32&0xffff) + float64(h>>48)
	return s.sigma * (sum/65536 - 2 + 2.0/65536) * sqrt3
}

// sqrt3 scales a sum of four uniform numbers, of variance 1/3, to variance 1.
const sqrt3 = 1.7320508075688772

// faultAt is the fault that step n is in, nil for none.
func (s *sensor) faultAt(n int64) *plantedFault {
	if len(s.model.faults) == 0 {
		return nil
	}
	if slot := n / s.model.faultEvery; slot != s.slot {
		s.slot, s.fault = slot, s.plant(slot)
	}
	if f := &s.fault; !f.none && n >= f.from && n <= f.to {
		return f
	}
	return nil
}

// plant makes the fault of a slot.
func (s *sensor) plant(slot int64) plantedFault {
	if slot < 1 {
		return plantedFault{none: true}
	}
	every := s.model.faultEvery
	r := mix(s.seed ^ mix(uint64(slot)+0xfa))
	f := plantedFault{kind: s.model.faults[next(&r)%uint64(len(s.model.faults))]}
	length := every/8 + int64(next(&r)%uint64(every/8)) // at most a quarter
	f.from = slot*every + every/4 + int64(next(&r)%uint64(every/4))
	sign := 1.0
	if next(&r)&1 == 1 {
		sign = -1
	}
	switch f.kind {
	case spike:
		length = 1
		f.size = sign * s.amplitude * (3 + 3*unit(&r))
	case levelShift:
		f.size = sign * s.amplitude * (2 + 2*unit(&r))
	case frequency:
		f.size = 2 + 1.5*unit(&r)
	case drift:
		length = every / 4
		f.size = sign * s.amplitude * (3 + 2*unit(&r))
	}
	f.to = f.from + length - 1
	return f
}

// faultsUntil lists the faults that begin before step end, in order.
func (s *sensor) faultsUntil(end int64) []plantedFault {
	var list []plantedFault
	if len(s.model.faults) == 0 {
		return nil
	}
	for slot := int64(1); slot*s.model.faultEvery < end; slot++ {
		if f := s.plant(slot); f.from < end {
			f.to = min(f.to, end-1)
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
