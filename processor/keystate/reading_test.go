package keystate

import (
	"math"
	"math/rand/v2"
	"testing"

	"odradek/detectors"
	"odradek/detectors/ops/ar"
	"odradek/detectors/ops/discord"
	"odradek/detectors/ops/discords"
	"odradek/detectors/ops/flatline"
	"odradek/detectors/ops/ikasst"
	"odradek/detectors/ops/knn"
	"odradek/detectors/ops/lof"
	"odradek/detectors/ops/scan"
	"odradek/detectors/ops/season"
	"odradek/detectors/ops/solvingset"
	"odradek/detectors/ops/svdsst"
	"odradek/detectors/ops/topn"
	"odradek/detectors/ops/value"
	"odradek/detectors/ops/zscore"
	"odradek/detectors/seedtest"
	"odradek/detectors/threshold"
	"odradek/processor/events"
	"odradek/processor/keystate/series"
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
// reading of the fault, that its actual values are those of this reading, and of a fault of one reading, where the op finds it, that
// the anomaly does not start before it.
func TestAnomalyShowsItsFault(t *testing.T) {
	rng := seedtest.New(t)
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
	ops := map[detectors.Op][]setting{
		zscore.Op:   {{must(zscore.New(50)), 1, both}, {must(zscore.New(50)), 7, both}},
		value.Op:    {{must(value.New(1, false)), 1, []string{"spike", "step"}}, {must(value.New(1, true)), 3, []string{"drop"}}},
		flatline.Op: {{must(flatline.New(0)), 1, []string{"stuck"}}, {must(flatline.New(0)), 4, []string{"stuck"}}},
		knn.Op: {
			{must(knn.New(knn.Params{Window: 256, Embed: 32})), 1, all[:4]},
			{must(knn.New(knn.Params{Window: 256, Embed: 16})), 16, all[:4]},
			{must(knn.New(knn.Params{Window: 256, Embed: 16, ZNorm: true})), 4, run},
			{must(knn.New(knn.Params{Window: 256, Embed: 4})), 1, both},
		},
		lof.Op: {
			{must(lof.New(lof.Params{Window: 256, K: 10, Embed: 16})), 2, run},
			{must(lof.New(lof.Params{Window: 256, K: 10, Embed: 16, ZNorm: true})), 2, run},
			{must(lof.New(lof.Params{Window: 256, K: 10})), 1, both},
		},
		topn.Op: {
			{must(topn.New(topn.Params{Window: 256, Top: 3, Embed: 8})), 7, run},
			{must(topn.New(topn.Params{Window: 100, K: 5, Top: 1, Embed: 4, Tumbling: true})), 100, both},
		},
		solvingset.Op: {
			{must(solvingset.New(solvingset.Params{Window: 256, Embed: 16})), 1, all[:4]},
			{must(solvingset.New(solvingset.Params{Window: 256, Embed: 16, ZNorm: true})), 5, run},
		},
		ar.Op: {
			{must(ar.New(ar.Params{Order: 8, Memory: 400})), 1, all[:3]},
			{must(ar.New(ar.Params{Order: 8, Memory: 400, Novelty: true})), 3, both},
		},
		season.Op: {{must(season.New(season.Params{Bins: 24, Memory: 30, MinPoints: 48})), 1, all[:3]}},
		discord.Op: {
			{must(discord.New(discord.Params{Window: 512, Length: 50, K: 2})), 16, []string{"spike", "drop", "shape", "stuck"}},
			{must(discord.New(discord.Params{Window: 512, Length: 24})), 1, all},
			{must(discord.New(discord.Params{Window: 512, Length: 20, MaxLength: 60, Lengths: 3, Every: 8, MinPoints: 120})), 8, run},
		},
		discords.Op: {
			{must(discords.New(discords.Params{Window: 200, MinLength: 16, MaxLength: 24, Step: 8})), 50, run},
			{must(discords.New(discords.Params{Window: 100, MinLength: 16, Tumbling: true})), 100, both},
		},
		ikasst.Op: {{must(ikasst.New(ikasst.Params{Window: 20})), 1, []string{"shape"}}},
		svdsst.Op: {{must(svdsst.New(svdsst.Params{Window: 20})), 3, []string{"shape"}}},
	}
	exec := detectors.NewCPU(1)
	defer exec.Close()
	for _, op := range detectors.Ops() {
		if op == scan.Op {
			continue // its anomalies are of regions, of no reading
		}
		if len(ops[op]) == 0 {
			t.Errorf("op %v has no settings here", op)
		}
		t.Run(op.String(), func(t *testing.T) {
			var of shown
			for n, set := range ops[op] {
				for _, dim := range []int{1, 3} {
					for _, kind := range set.finds {
						one := showsFault(t, rng, exec, set.d, set.stride, dim, kind)
						t.Logf("settings %d, %d values, %s: %+v", n, dim, kind, one)
						if one.found < one.planted/4 {
							t.Errorf("settings %d, %d values, %s: %d of %d were found", n, dim, kind, one.found, one.planted)
						}
						of.planted, of.found, of.places = of.planted+one.planted, of.found+one.found, of.places+one.places
						of.values, of.spikes, of.starts = of.values+one.values, of.spikes+one.spikes, of.starts+one.starts
					}
				}
			}
			if least := 0.95; of.share(of.places) < least || of.share(of.values) < least || float64(of.starts) < least*float64(of.spikes) {
				t.Errorf("%+v", of)
			}
		})
	}
}

// shown counts planted faults: those that were found, those of them whose peak is in the fault, whose actual values are those of the
// reading there, those of one reading, and those of these that do not start before it.
type shown struct{ planted, found, places, values, spikes, starts int }

func (s *shown) share(n int) float64 { return float64(n) / float64(s.found) }

func showsFault(t *testing.T, rng *rand.Rand, exec detectors.Executor, d detectors.Detector, stride, dim int, kind string) (of shown) {
	const trials, hour = 20, int64(3600e6)
	changes := d.Op() == ikasst.Op || d.Op() == svdsst.Op
	for range trials {
		of.planted++
		planted := plantedFaults[kind]
		fault := 650 + rng.IntN(40)
		n := fault + planted.rows
		if planted.rows == 1 {
			n += stride + 60
		}
		n += (stride - n%stride) % stride
		if d.Op() == discords.Op || d.Op() == topn.Op { // the window, or the last of several, with the fault
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
		best := highestAnomaly(t, exec, d, stride, dim, rows, hour)
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
		if best.OpenedAt < first || best.End < first || best.Start > last {
			continue // it has not found the fault
		}
		of.found++
		if best.PeakTime < best.Start || best.PeakTime > best.End {
			t.Fatalf("peak %d of %d to %d", best.PeakTime, best.Start, best.End)
		}
		inside := best.PeakTime >= first && best.PeakTime <= last
		if inside {
			of.places++
		}
		if row := rows[best.PeakTime/hour]; inside && best.Actual != nil && best.Actual[at] == row[at] &&
			(changes && dim > 1 || events.Largest(best.Contribution) == at) {
			of.values++
		}
		if planted.rows == 1 {
			of.spikes++
			if best.Start == first {
				of.starts++
			}
		}
	}
	return of
}

// highestAnomaly returns the anomaly with the highest score of a series with a sample an hour; nil: there is none.
func highestAnomaly(t *testing.T, exec detectors.Executor, d detectors.Detector, stride, dim int, rows [][]float64, hour int64,
) (best *events.Anomaly) {
	t.Helper()
	rule := threshold.New(threshold.Quantile, 0.97)
	rule.Warmup = 16
	switch d.Op() {
	case discords.Op, topn.Op:
		rule = threshold.New(threshold.Fixed, 0.1) // there are few scores above 0, all of discords or outliers
	}
	cfg := &Config{
		Dim: dim, Windows: []series.WindowConfig{{Columns: []int{0, 1, 2}[:dim], Fingerprint: 1}},
		Detectors: []series.DetectorConfig{{Name: "d", Detector: d, Stride: stride, Fingerprint: 1, Threshold: &rule,
			Events: &events.Rule{OpenAfter: 1, CloseAfter: 3, Release: 1, UpdateEvery: 2}}},
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
			if a := &s.Events[i].Change.Anomaly; best == nil || a.PeakScore >= best.PeakScore {
				own := *a
				best = &own
			}
		}
		s.Events = s.Events[:0]
	}
	return best
}
