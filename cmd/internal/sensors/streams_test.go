package sensors

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/record"
)

// report has the fields of a record of fleets or regions.
type report struct {
	Fleet, Region                        string
	Time, Seq                            int64
	Machine                              int
	Temperature, Pressure, Flow, Current float64
	X, Y, Events, Usual                  float64
}

// TestStreamRecords: records are JSON with the values of their model, and the same of one seed.
func TestStreamRecords(t *testing.T) {
	rng := seedtest.New(t)
	seed := rng.Uint64()
	for _, newStream := range []func(seed uint64) Stream{
		func(seed uint64) Stream { return &Vectors{Seed: seed, Fleets: 3, Machines: 5, OutlierEvery: 100} },
		func(seed uint64) Stream { return &Spots{Seed: seed, Regions: 3, Columns: 4, Rows: 3, SpotEvery: 8} },
	} {
		s := newStream(seed)
		for range 1000 {
			series, step := rng.IntN(3), rng.Int64N(1e6)
			us := rng.Int64N(1e15)
			text, ok := s.Append(nil, series, step, us)
			again, _ := newStream(seed).Append(nil, series, step, us)
			if other, _ := newStream(seed+1).Append(nil, series, step, us); !ok || !bytes.Equal(text, again) || bytes.Equal(text, other) {
				t.Fatalf("seed %d: %s, then %s; another seed: %s", seed, text, again, other)
			}
			var r report
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err, string(text))
			}
			if r.Seq != step || r.Time != us/1000 || r.Fleet+r.Region != string(s.Keys()[series]) {
				t.Fatalf("step %d of series %d at %d: %s", step, series, us, text)
			}
			switch m := s.(type) {
			case *Vectors:
				if want := m.At(series, step); want.Machine != r.Machine || want.Values != [...]float64{r.Temperature, r.Pressure, r.Flow, r.Current} {
					t.Fatalf("%+v: %s", want, text)
				}
			case *Spots:
				if want := m.At(series, step); want != [...]float64{r.X, r.Y, r.Events, r.Usual} {
					t.Fatalf("%+v: %s", want, text)
				}
			}
		}
	}
}

// TestVectors: an outlier is far from the curve of a fleet's samples, within their range, and nothing else is.
func TestVectors(t *testing.T) {
	m := &Vectors{Seed: seedtest.New(t).Uint64(), Fleets: 1, Machines: 7, OutlierEvery: 100}
	least, most := m.At(0, 0).Values, m.At(0, 0).Values
	const steps = 20_000
	for step := range int64(steps) {
		for i, v := range m.At(0, step).Values {
			least[i], most[i] = min(least[i], v), max(most[i], v)
		}
	}
	outliers := 0
	for step := range int64(steps) {
		v := m.At(0, step).Values
		// The loads that the four values say, by the inverse of their curves.
		loads := []float64{math.Sqrt(max(0, v[0]-40) / 50), (v[1] - 20) / 40, (v[2] - 15) * (v[2] - 15) / 3600, (v[3] - 10) / 60}
		slices.Sort(loads)
		_, planted := m.Label(0, step)
		if spread := max(loads[3]-loads[2], loads[1]-loads[0]); planted != (spread > 0.25) {
			t.Errorf("step %d, an outlier: %v; loads %.3f", step, planted, loads)
		}
		if planted {
			outliers++
			if at, ok := m.OutlierOf(0, step/100); !ok || at != step {
				t.Errorf("the outlier of slot %d is at %d, not %d", step/100, at, step)
			}
		}
	}
	if outliers != steps/100-vectorSlots {
		t.Errorf("%d outliers", outliers)
	}
	for i := range least {
		if want := [...][2]float64{{38, 92}, {18, 62}, {13, 77}, {7, 73}}[i]; least[i] < want[0] || most[i] > want[1] {
			t.Errorf("value %d is from %v to %v", i, least[i], most[i])
		}
	}
}

// TestSpots: counts are Poisson at the usual rate, and at Factor times it in the hot spot, which lies within the grid and
// moves by a cell a round.
func TestSpots(t *testing.T) {
	m := &Spots{Seed: seedtest.New(t).Uint64(), Regions: 2, Columns: 10, Rows: 8, SpotEvery: 12}
	var sum, usual, squares, hot, expected, spots float64
	for round := range int64(400) {
		for region := range m.Regions {
			s, on := m.spotAt(region, round)
			var box [4]float64
			if on {
				spots++
				box = s.Box(round)
				if box[0] < 0 || box[1] < 0 || box[2] > 10 || box[3] > 8 {
					t.Fatalf("box %v", box)
				}
				if last := s.Box(round - 1); round > s.From && math.Abs(last[0]-box[0])+math.Abs(last[1]-box[1]) != 1 {
					t.Fatalf("from %v to %v", last, box)
				}
			}
			for cell := range m.Round() {
				v := m.At(region, round*m.Round()+cell)
				if int64(v[0]) != cell%10 || int64(v[1]) != cell/10 || v[2] != math.Trunc(v[2]) || v[3] < 5 || v[3] > 20 {
					t.Fatalf("cell %d: %v", cell, v)
				}
				if on && v[0] >= box[0] && v[0] < box[2] && v[1] >= box[1] && v[1] < box[3] {
					hot, expected = hot+v[2], expected+s.Factor*v[3]
					continue
				}
				sum, usual, squares = sum+v[2], usual+v[3], squares+(v[2]-v[3])*(v[2]-v[3])/v[3]
			}
			if l, ok := m.Label(region, round*m.Round()+3); ok != on || on && (l.ToSeq-l.FromSeq != 79 || !slices.Equal(l.Box, box[:])) {
				t.Fatalf("label %+v, %v", l, ok)
			}
		}
	}
	if n := 800 * 80.0; math.Abs(sum-usual) > 6*math.Sqrt(usual) || math.Abs(hot-expected) > 6*math.Sqrt(expected) ||
		math.Abs(squares/n-1) > 0.05 || math.Abs(spots-2*32*6) > 12 {
		t.Errorf("%v events, usually %v, of a variance of %v times that; %v in spots of %v, %v rounds with one", sum, usual, squares/n,
			hot, expected, spots)
	}
}

// TestStreamLabels: a source writes the labels of what ends in its records, and, cut short, of what has begun.
func TestStreamLabels(t *testing.T) {
	m := &Spots{Seed: seedtest.New(t).Uint64(), Regions: 1, Columns: 2, Rows: 2, SpotEvery: 4}
	s, ok := m.SpotOf(0, 1)
	if !ok || s.From != 4 || s.To != 5 {
		t.Fatalf("%+v", s)
	}
	o := Options{Interval: time.Second, Start: time.Unix(0, 0)}
	for _, c := range []struct{ records, labels int64 }{{16, 0}, {17, 1}, {19, 1}, {20, 1}, {21, 2}, {32, 2}} {
		g := NewSource(o, m, 1)
		r := new(round)
		r.readings = []*record.Batches{record.NewBatches(1<<20, 0)}
		if err := g.fill(r, c.records, 0); err != nil {
			t.Fatal(err)
		}
		if err := g.finish(r); err != nil {
			t.Fatal(err)
		}
		if g.Labels != c.labels {
			t.Errorf("%d records have %d labels, want %d", c.records, g.Labels, c.labels)
		}
	}
}
