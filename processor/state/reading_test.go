package state

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/ar"
	"odradek/detectors/discord"
	"odradek/detectors/joint"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/scan"
	"odradek/detectors/season"
	"odradek/detectors/seedtest"
	"odradek/detectors/simple"
	"odradek/detectors/sst"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// plantedFaults change one value of a series from a row on.
var plantedFaults = map[string]struct {
	rows int                                                 // that the fault lasts, 1 or to the end
	at   func(rng *rand.Rand) func(i int, x float64) float64 // the value of its i-th row in place of x
}{
	"spike": {1, func(rng *rand.Rand) func(int, float64) float64 {
		by := 6 + 30*rng.Float64()
		return func(_ int, x float64) float64 { return x + by }
	}},
	"drop": {1, func(rng *rand.Rand) func(int, float64) float64 {
		by := 6 + 30*rng.Float64()
		return func(_ int, x float64) float64 { return x - by }
	}},
	"step": {70, func(rng *rand.Rand) func(int, float64) float64 {
		by := 4 + 10*rng.Float64()
		return func(_ int, x float64) float64 { return x + by }
	}},
	"shape": {70, func(rng *rand.Rand) func(int, float64) float64 {
		slow := 0.9 + 0.3*rng.Float64()
		return func(i int, x float64) float64 { return 20 + 1.5*math.Sin(slow*float64(i)) + 0.1*(x-20) }
	}},
	"stuck": {70, func(*rand.Rand) func(int, float64) float64 {
		held := math.NaN()
		return func(_ int, x float64) float64 {
			if held != held {
				held = x
			}
			return held
		}
	}},
}

// TestAnomalyShowsItsFault plants faults of several kinds for every op, and requires of the highest anomaly that its peak time is a
// reading of the fault, that its actual values are this reading's, and of a fault of one reading, where the op finds it, that
// the anomaly does not start before it. It does so for ensembles by each combination, too, of an anomaly that the ensemble makes.
func TestAnomalyShowsItsFault(t *testing.T) {
	rng := seedtest.New(t)
	exec := detectors.NewCPU(1)
	defer exec.Close()
	must := func(d detectors.Detector, err error) detectors.Detector {
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	all := []string{"spike", "drop", "step", "shape", "stuck"}
	run, both := []string{"spike", "drop", "shape"}, []string{"spike", "drop"}
	type setting struct {
		d      detectors.Detector
		stride int
		finds  []string
	}
	slow := []detectors.Op{lof.Op, knn.Op, knn.OpTopN, knn.OpSolvingSet, discord.Op} // both dimensions in a long run alone
	shows := func(t *testing.T, settings []setting, watch func(*setting) *watchedBy) {
		var all shown
		for n, set := range settings {
			for _, kind := range set.finds {
				dims := []int{1, 3}
				if set.d != nil && slices.Contains(slow, set.d.Op()) && os.Getenv("ODRADEK_LONG") == "" {
					dims = dims[rng.IntN(2):][:1]
				}
				for _, dim := range dims {
					one := showsFault(t, rng, exec, watch(&set), dim, kind)
					t.Logf("settings %d, %d values, %s: %+v", n, dim, kind, one)
					if one.found < one.planted/4 {
						t.Errorf("settings %d, %d values, %s: %d of %d were found", n, dim, kind, one.found, one.planted)
					}
					all.planted, all.found, all.places = all.planted+one.planted, all.found+one.found, all.places+one.places
					all.values, all.spikes, all.starts = all.values+one.values, all.spikes+one.spikes, all.starts+one.starts
				}
			}
		}
		if least := 0.95; all.share(all.places) < least || all.share(all.values) < least ||
			float64(all.starts) < least*float64(all.spikes) {
			t.Errorf("%+v", all)
		}
	}
	ops := map[detectors.Op][]setting{
		simple.OpZScore: {{must(simple.NewZScore(50)), 1, both}, {must(simple.NewZScore(50)), 7, both}},
		simple.OpValue: {
			{must(simple.NewValue(1, false)), 1, []string{"spike", "step"}},
			{must(simple.NewValue(1, true)), 3, []string{"drop"}},
		},
		simple.OpFlatline: {{must(simple.NewFlatline(0)), 1, []string{"stuck"}}, {must(simple.NewFlatline(0)), 4, []string{"stuck"}}},
		knn.Op: {
			{must(knn.New(knn.Params{Window: 256, Embed: 32})), 1, all[:4]},
			{must(knn.New(knn.Params{Window: 256, Embed: 16})), 16, all[:4]},
			{must(knn.New(knn.Params{Window: 256, Embed: 16, ZNorm: true})), 4, run},
			{must(knn.New(knn.Params{Window: 256, Embed: 4})), 1, both},
		},
		lof.Op: {
			{must(lof.New(lof.OpParams{Window: 256, K: 10, Embed: 16})), 2, run},
			{must(lof.New(lof.OpParams{Window: 256, K: 10, Embed: 16, ZNorm: true})), 2, run},
			{must(lof.New(lof.OpParams{Window: 256, K: 10})), 1, both},
		},
		knn.OpTopN: {
			{must(knn.NewTopN(knn.TopNParams{Window: 256, Top: 3, Embed: 8})), 7, run},
			{must(knn.NewTopN(knn.TopNParams{Window: 100, K: 5, Top: 1, Embed: 4, Tumbling: true})), 100, both},
		},
		knn.OpSolvingSet: {
			{must(knn.NewSolvingSet(knn.SolvingSetParams{Window: 256, Embed: 16})), 1, all[:4]},
			{must(knn.NewSolvingSet(knn.SolvingSetParams{Window: 256, Embed: 16, ZNorm: true})), 5, run},
		},
		ar.Op: {
			{must(ar.New(ar.OpParams{Order: 8, Memory: 400})), 1, all[:3]},
			{must(ar.New(ar.OpParams{Order: 8, Memory: 400, Novelty: true})), 3, both},
		},
		season.OpBand: {{must(season.NewBand(season.BandParams{})), 1, all[:3]}},
		joint.Op: {
			{must(joint.New(joint.OpParams{Window: 8, Guard: 64, Memory: 1000})), 1, all[:3]},
			{must(joint.New(joint.OpParams{Window: 32, Guard: 256, Memory: 1000})), 4, both},
		},
		season.Op: {{must(season.New(season.OpParams{Bins: 24, Memory: 30, MinPoints: 48})), 1, all[:3]}},
		discord.Op: {
			{must(discord.New(discord.Params{Window: 512, Length: 50, K: 2})), 16, []string{"spike", "drop", "shape", "stuck"}},
			{must(discord.New(discord.Params{Window: 512, Length: 24})), 1, all},
			{must(discord.New(discord.Params{Window: 512, Length: 20, MaxLength: 60, Lengths: 3, Every: 8, MinPoints: 120})), 8, run},
		},
		discord.OpTop: {
			{must(discord.NewTop(discord.TopParams{Window: 200, MinLength: 16, MaxLength: 24, Step: 8})), 50, run},
			{must(discord.NewTop(discord.TopParams{Window: 100, MinLength: 16, Tumbling: true})), 100, both},
		},
		sst.OpIKA: {{must(sst.NewIKA(sst.IKAOpParams{Window: 20})), 1, []string{"shape"}}},
		sst.OpSVD: {{must(sst.NewSVD(sst.SVDOpParams{Window: 20})), 3, []string{"shape"}}},
	}
	for _, op := range detectors.Ops() {
		if op == scan.Op {
			continue // its anomalies are of regions, of no reading
		}
		if len(ops[op]) == 0 {
			t.Errorf("op %v has no settings here", op)
		}
		t.Run(op.String(), func(t *testing.T) {
			shows(t, ops[op], func(set *setting) *watchedBy { return watchedByOne(set.d, set.stride) })
		})
	}
	near, past := must(knn.New(knn.Params{Window: 256, K: 9, Embed: 32})),
		must(discord.New(discord.Params{Window: 512, Length: 20, MaxLength: 60, Lengths: 3, Every: 8, MinPoints: 120}))
	jump, level := must(ar.New(ar.OpParams{Order: 8, Memory: 400})), must(simple.NewZScore(50))
	sum := series.Ensemble{Memory: 400, MinPoints: 16}
	weighted, aligned, either := sum, sum, series.Ensemble{Any: true}
	weighted.Weights, aligned.Align = []float64{1, 4}, true
	for name, combination := range map[string]struct {
		ensemble series.Ensemble
		members  []setting
		judged   bool // the members make anomalies of their own, too
		finds    []string
	}{
		"sum":          {sum, []setting{{d: near, stride: 16}, {d: past, stride: 8}}, false, run},
		"weighted":     {weighted, []setting{{d: near, stride: 16}, {d: past, stride: 8}}, true, run},
		"aligned":      {aligned, []setting{{d: near, stride: 1}, {d: jump, stride: 4}}, false, both},
		"single":       {sum, []setting{{d: jump, stride: 1}, {d: level, stride: 7}}, true, both},
		"any":          {either, []setting{{d: near, stride: 16}, {d: jump, stride: 1}}, true, both},
		"any in steps": {either, []setting{{d: past, stride: 8}, {d: level, stride: 7}}, true, both},
	} {
		t.Run(name, func(t *testing.T) {
			shows(t, []setting{{finds: combination.finds}}, func(*setting) *watchedBy {
				w := &watchedBy{stride: 1}
				own := combination.ensemble
				for i, m := range combination.members {
					c := watchedByOne(m.d, m.stride).detectors[0]
					if c.Name = string(rune('a' + i)); !combination.judged {
						c.Threshold, c.Events = nil, nil
					}
					c.Fingerprint += uint64(i)
					w.detectors, w.stride, own.Members = append(w.detectors, c), max(w.stride, m.stride), append(own.Members, i)
				}
				params := threshold.New(threshold.Fixed, 2.5)
				if own.Any {
					params = threshold.New(threshold.Fixed, 1)
				}
				w.detectors = append(w.detectors, series.DetectorConfig{Name: "both", Ensemble: &own, Fingerprint: 9, Threshold: &params,
					Events: &anomaly.Policy{OpenAfter: 1, CloseAfter: 3, Release: 1, UpdateEvery: 2}})
				return w
			})
		})
	}
}

// watchedBy are the detectors of a series, the last of which makes the anomalies that are looked at, and the largest stride.
type watchedBy struct {
	detectors []series.DetectorConfig
	stride    int
}

func watchedByOne(d detectors.Detector, stride int) *watchedBy {
	params := threshold.New(threshold.Quantile, 0.97)
	params.Warmup = 16
	switch d.Op() {
	case discord.OpTop, knn.OpTopN:
		params = threshold.New(threshold.Fixed, 0.1) // there are few scores above 0, all of discords or outliers
	}
	return &watchedBy{stride: stride, detectors: []series.DetectorConfig{{Name: "d", Detector: d, Stride: stride, Fingerprint: 1,
		Threshold: &params, Events: &anomaly.Policy{OpenAfter: 1, CloseAfter: 3, Release: 1, UpdateEvery: 2}}}}
}

// shown counts planted faults: found; of these, places with the peak in the fault and values with the actual values of the
// reading there; spikes of one reading, and how many of their anomalies do not start before it.
type shown struct{ planted, found, places, values, spikes, starts int }

func (s *shown) share(n int) float64 { return float64(n) / float64(s.found) }

func showsFault(t *testing.T, rng *rand.Rand, exec detectors.Executor, by *watchedBy, dim int, kind string) (counts shown) {
	const trials, hour = 20, int64(3600e6)
	stride, op := by.stride, detectors.Op(0)
	if len(by.detectors) == 1 {
		op = by.detectors[0].Detector.Op()
	}
	changes := op == sst.OpIKA || op == sst.OpSVD
	for range trials {
		counts.planted++
		planted := plantedFaults[kind]
		fault := 650 + rng.IntN(40)
		n := fault + planted.rows
		if planted.rows == 1 {
			n += stride + 60
		}
		n += (stride - n%stride) % stride
		if op == discord.OpTop || op == knn.OpTopN { // the window, or the last of several, with the fault
			n += stride
		}
		at, phase, wrong := rng.IntN(dim), 6*rng.Float64(), planted.at(rng)
		rows := make([][]float64, n)
		for i := range rows {
			rows[i] = make([]float64, dim)
			for c := range dim {
				rows[i][c] = 20 + math.Sin(2*math.Pi*float64(i)/24+phase+float64(c)) + 0.1*rng.NormFloat64()
			}
			if i == fault || i > fault && planted.rows > 1 {
				rows[i][at] = wrong(i-fault, rows[i][at])
			}
		}
		best := highestAnomaly(t, exec, by, dim, rows, hour)
		if best == nil {
			continue
		}
		first, last := int64(fault)*hour, int64(n-1)*hour
		if planted.rows == 1 {
			last = first
		}
		if changes { // the present, of 39 samples, need not be of the fault as a whole for the highest score
			first -= 39 * hour
		}
		ahead := int64(0) // a member of a sum that scores one of several samples scores those before, too
		if e := by.detectors[len(by.detectors)-1].Ensemble; e != nil && !e.Any {
			ahead = int64(stride) * hour
		}
		if best.OpenedAt < first-ahead || best.End < first || best.Start > last {
			continue // it has not found the fault
		}
		counts.found++
		if best.PeakTime < best.Start || best.PeakTime > best.End {
			t.Fatalf("peak %d of %d to %d", best.PeakTime, best.Start, best.End)
		}
		inside := best.PeakTime >= first && best.PeakTime <= last
		if inside {
			counts.places++
		}
		if row := rows[best.PeakTime/hour]; inside && best.Actual != nil && best.Actual[at] == row[at] &&
			(changes && dim > 1 || anomaly.Largest(best.Contribution) == at) {
			counts.values++
		}
		if planted.rows == 1 {
			counts.spikes++
			if best.Start == first {
				counts.starts++
			}
		}
	}
	return counts
}

// TestAnomalySaysItsSpread plants spikes in a sine with noise, and requires that the spread is the noise's where the method knows
// the sine, the spread of all readings where it does not, and between them with neighbours, of which some are apart in phase.
// The scale of the readings is the spread's, too.
func TestAnomalySaysItsSpread(t *testing.T) {
	rng := seedtest.New(t)
	exec := detectors.NewCPU(1)
	defer exec.Close()
	const noise, hour = 0.1, int64(3600e6)
	sine := math.Sqrt(0.5 + noise*noise) // its deviation, with the noise
	for _, c := range []struct {
		d         detectors.Detector
		stride    int
		low, high float64
	}{
		{detectors.Must(simple.NewZScore(50)), 1, 0.8 * sine, 1.25 * sine},
		{detectors.Must(ar.New(ar.OpParams{Order: 8, Memory: 400})), 1, 0.8 * noise, 2 * noise},
		{detectors.Must(season.New(season.OpParams{Bins: 24, Memory: 30, MinPoints: 48})), 1, 0.6 * noise, 2 * noise},
		{detectors.Must(knn.New(knn.Params{Window: 256, Embed: 32})), 4, 0.6 * noise, sine},
		{detectors.Must(knn.New(knn.Params{Window: 256, Embed: 32, ZNorm: true})), 4, 0.5 * noise, sine},
		{detectors.Must(lof.New(lof.OpParams{Window: 256, K: 10, Embed: 16})), 1, 0.5 * noise, sine},
		{detectors.Must(knn.NewTopN(knn.TopNParams{Window: 256, Top: 3, Embed: 16})), 7, 0.5 * noise, sine},
		{detectors.Must(discord.New(discord.Params{Window: 512, Length: 50, K: 2})), 16, 0.5 * noise, sine},
		{detectors.Must(simple.NewFlatline(0)), 1, 0, 0},
		{detectors.Must(simple.NewValue(1, false)), 1, 0, 0},
	} {
		for _, dim := range []int{1, 2} {
			var spreads []float64
			for range plantings {
				if a := spikeIn(t, rng, exec, c.d, c.stride, dim, noise, hour); a != nil {
					spreads = append(spreads, a.Spread/firstScale)
				}
			}
			if len(spreads) < plantings-1 {
				t.Errorf("%v of %d values: %d of %d spikes were found", c.d.Op(), dim, len(spreads), plantings)
				continue
			}
			slices.Sort(spreads)
			if s := spreads[len(spreads)/2]; !(s >= c.low && s <= c.high) {
				t.Errorf("%v of %d values: spread %v, want %v to %v", c.d.Op(), dim, s, c.low, c.high)
			}
		}
	}
}

// plantings is the number of spikes whose median spread is judged: a single spread is by chance outside of its bounds in one of a
// thousand series, or null where too few readings are left of a run.
const plantings = 9

// firstScale is the scale of the first value of spikeIn, which has the spike.
const firstScale = 1000

// spikeIn returns the highest anomaly that a detector finds in a sine with noise and a spike; nil where that is not the spike.
func spikeIn(
	t *testing.T,
	rng *rand.Rand,
	exec detectors.Executor,
	d detectors.Detector,
	stride, dim int,
	noise float64,
	hour int64,
) *anomaly.Anomaly {
	at, by := 700, 10+10*rng.Float64()
	scales := []float64{firstScale, 1}[:dim]
	rows := make([][]float64, at+120)
	for i := range rows {
		rows[i] = make([]float64, dim)
		for f := range rows[i] {
			rows[i][f] = scales[f] * (20 + math.Sin(2*math.Pi*float64(i)/24+float64(f)) + noise*rng.NormFloat64())
		}
		if i == at {
			rows[i][0] += scales[0] * by
		}
		if d.Op() == simple.OpFlatline && i > at {
			rows[i][0] = rows[at][0]
		}
	}
	a := highestAnomaly(t, exec, watchedByOne(d, stride), dim, rows, hour)
	if a == nil || a.PeakTime < int64(at)*hour {
		return nil
	}
	return a
}

// settled is the row from which on anomalies count: the first scores of a method that has seen little are high.
const settled = 600

// highestAnomaly returns the anomaly with the highest score of a series with a sample an hour; nil: there is none.
func highestAnomaly(t *testing.T, exec detectors.Executor, by *watchedBy, dim int, rows [][]float64, hour int64,
) (best *anomaly.Anomaly) {
	t.Helper()
	cfg := &Config{
		Dim: dim, Windows: []series.WindowConfig{{Columns: []int{0, 1, 2}[:dim], Fingerprint: 1}},
		Detectors: by.detectors,
	}
	s, b := New(cfg), exec.Batch()
	defer exec.Release(b)
	s.Mark(0)
	for i, row := range rows {
		s.Fold(&Sample{Key: []byte("a"), Time: int64(i) * hour, Offset: int64(i), Values: row}, b)
		if i%64 < 63 && s.Fits(b) && i < len(rows)-1 {
			continue
		}
		if err := exec.Execute(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		s.Apply(b)
		b.Reset()
		for i := range s.Events {
			a := &s.Events[i].Change.Anomaly
			if s.Events[i].Detector != int32(len(by.detectors)-1) || a.OpenedAt < settled*hour {
				continue
			}
			if best == nil || a.PeakScore >= best.PeakScore {
				own := *a
				best = &own
			}
		}
		s.Events = s.Events[:0]
	}
	return best
}
