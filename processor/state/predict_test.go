package state

import (
	"math"
	"math/rand/v2"
	"testing"

	"odradek/detectors"
	"odradek/detectors/ar"
	"odradek/detectors/season"
	"odradek/detectors/seedtest"
	"odradek/detectors/threshold"
	"odradek/processor/state/series"
)

// TestRowsPredict: rows of detectors that predict have what was expected, which a spike does not change, and how far readings usually are
// from that; rows of samples in warm-up have neither.
func TestRowsPredict(t *testing.T) {
	rng := seedtest.New(t)
	exec := detectors.NewCPU(1)
	defer exec.Close()
	for name, op := range map[string]detectors.Detector{
		"band":   detectors.Must(season.NewBand(season.BandParams{})),
		"season": detectors.Must(season.New(season.OpParams{Memory: 10})),
		"ar":     detectors.Must(ar.New(ar.OpParams{Order: 8, Memory: 500, MinPoints: 64})),
	} {
		testRowsPredict(t, exec, rng, name, series.DetectorConfig{Name: "d", Detector: op, Stride: 4, Fingerprint: 1})
		bound := threshold.New(threshold.Fixed, 1e9)
		testRowsPredict(t, exec, rng, name+", judged",
			series.DetectorConfig{Name: "d", Detector: op, Stride: 4, Fingerprint: 1, Threshold: &bound})
	}
}

func testRowsPredict(t *testing.T, exec detectors.Executor, rng *rand.Rand, name string, dc series.DetectorConfig) {
	cfg := benchConfig(8, 4)
	cfg.Detectors = []series.DetectorConfig{dc}
	d := newDrive(cfg, 1)
	const noise, every = 0.5, 240e6 // 360 samples a day
	base := func(i int64) float64 { return 1e6 + 20*math.Sin(2*math.Pi*float64(i)/360) }
	spiked := func(i int64) bool { return i > 4000 && i%500 == 250 }
	predicted, near, spreads, spikes := 0, 0, 0, 0
	look := func() {
		for i := range d.s.Rows {
			r := &d.s.Rows[i]
			if r.Predicted != (r.Score == r.Score) {
				t.Fatalf("%s: row %+v", name, *r)
			}
			if !r.Predicted || r.Offset < 4000 {
				continue
			}
			predicted++
			if math.Abs(r.Expected-base(r.Offset)) < 4*noise {
				near++
				if spiked(r.Offset) {
					spikes++
				}
			}
			if r.Spread > noise/3 && r.Spread < 40*noise { // ar learns from the spikes
				spreads++
			}
		}
	}
	for i := range int64(8000) {
		x := base(i) + noise*rng.NormFloat64()
		if spiked(i) {
			x += 200
		}
		d.s.Fold(&Sample{Key: d.names[0], Offset: i, Time: i * every, Values: []float64{x}}, d.b)
		if i%64 == 63 {
			if err := exec.Execute(t.Context(), d.b); err != nil {
				t.Fatal(err)
			}
			d.s.Apply(d.b)
			look()
			d.apply()
		}
	}
	if predicted < 3900 || near < predicted*8/10 || spreads < predicted*8/10 || spikes < 5 {
		t.Errorf("%s: of %d predictions %d are near and %d have the usual spread; of 8 spikes %d", name, predicted, near, spreads, spikes)
	}
}
