package sensors

import (
	"fmt"
	"math"
)

// Vectors is the model of fleets of machines: each sample of a fleet has the four values of one of its
// machines, which take turns. All depend on the machine's load, so samples lie around a curve:
//
//	temperature = 40 + 50 load^2    pressure = 20 + 40 load    flow = 15 + 60 sqrt(load)    current = 10 + 60 load
//
// and normal noise of a hundredth of each range. The samples of a fleet are cut into slots of
// OutlierEvery. Each slot but the first four has one outlier: one of its values belongs to a very different
// load, so it is within its range but does not fit the others.
type Vectors struct {
	Seed         uint64
	Fleets       int
	Machines     int   // of a fleet
	OutlierEvery int64 // samples of a slot; 0: there are no outliers
}

// VectorFields are the names of the values.
var VectorFields = [...]string{"temperature", "pressure", "flow", "current"}

// VectorKey is the field of the key.
const VectorKey = "fleet"

// Outlier is the name of what is planted in the samples of fleets.
const Outlier = "outlier"

// vectorSlots is the number of slots without an outlier.
const vectorSlots = 4

// Sample is a sample of a fleet.
type Sample struct {
	Machine int
	Values  [len(VectorFields)]float64
}

// Keys implements Stream.
func (v *Vectors) Keys() [][]byte {
	keys := make([][]byte, v.Fleets)
	for i := range keys {
		keys[i] = v.key(i)
	}
	return keys
}

func (v *Vectors) key(fleet int) []byte { return fmt.Appendf(nil, "fleet-%02d", fleet) }

// OutlierOf returns the step of the outlier of a slot.
func (v *Vectors) OutlierOf(fleet int, slot int64) (step int64, ok bool) {
	if v.OutlierEvery == 0 || slot < vectorSlots {
		return 0, false
	}
	r := mix(v.seed(fleet) ^ mix(uint64(slot)+0x07))
	return slot*v.OutlierEvery + v.OutlierEvery/4 + int64(next(&r)%uint64(v.OutlierEvery/2)), true
}

func (v *Vectors) seed(fleet int) uint64 { return mix(v.Seed ^ mix(uint64(fleet)+0xf1ee7)) }

// At returns a fleet's sample at a step.
func (v *Vectors) At(fleet int, step int64) Sample {
	s := Sample{Machine: int(step % int64(v.Machines))}
	constants := mix(v.seed(fleet) ^ mix(uint64(s.Machine)+0x3ac))
	period, phase := 200+400*unit(&constants), unit(&constants)
	turns := float64(step/int64(v.Machines))/period + phase
	r := mix(v.seed(fleet) + uint64(step)*0x9e3779b97f4a7c15)
	load := 0.5 + 0.4*math.Sin(2*math.Pi*(turns-math.Floor(turns))) + 0.1*(unit(&r)-0.5)
	other := load - 0.5
	if load < 0.5 {
		other = load + 0.5
	}
	loads := [...]float64{load, load, load, load}
	if at, ok := v.OutlierOf(fleet, step/max(1, v.OutlierEvery)); ok && at == step {
		loads[next(&r)%uint64(len(loads))] = other
	}
	s.Values = [...]float64{40 + 50*loads[0]*loads[0], 20 + 40*loads[1], 15 + 60*math.Sqrt(loads[2]), 10 + 60*loads[3]}
	for i, spread := range [...]float64{0.5, 0.4, 0.6, 0.6} {
		// Three decimals: what an instrument says.
		s.Values[i] = math.Round((s.Values[i]+spread*gauss(&r))*1000) / 1000
	}
	return s
}

// Append implements Stream.
func (v *Vectors) Append(dst []byte, fleet int, step, time int64) (value []byte, ok bool) {
	s := v.At(fleet, step)
	fields := [...]field{{"machine", float64(s.Machine)}, {}, {}, {}, {}}
	for i, name := range VectorFields {
		fields[1+i] = field{name, s.Values[i]}
	}
	return appendRecord(dst, VectorKey, v.key(fleet), time, fields[:], step), true
}

// Label implements Stream.
func (v *Vectors) Label(fleet int, step int64) (l Label, ok bool) {
	at, ok := v.OutlierOf(fleet, step/max(1, v.OutlierEvery))
	return Label{Series: string(v.key(fleet)), Fault: Outlier, FromSeq: at, ToSeq: at}, ok && at == step
}

// gauss draws from a sum of four uniform numbers scaled to variance 1.
func gauss(r *uint64) float64 {
	return (unit(r) + unit(r) + unit(r) + unit(r) - 2) * sqrt3
}
