package state

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

func randomConfig(r *rand.Rand) *Config {
	cfg := &Config{Dim: 1 + r.IntN(3)}
	cfg.Reading.Hold, cfg.Reading.DropDuplicates = r.IntN(2) == 0, r.IntN(2) == 0
	for i := range 1 + r.IntN(2) {
		w := series.WindowConfig{Fingerprint: uint64(100 + i)}
		for range 1 + r.IntN(cfg.Dim) {
			w.Columns = append(w.Columns, r.IntN(cfg.Dim))
		}
		cfg.Windows = append(cfg.Windows, w)
	}
	for i := range 1 + r.IntN(4) {
		f := &fake{id: i, window: 1 + r.IntN(30), lag: r.IntN(4)}
		if r.IntN(3) == 0 {
			f.window = 100 + r.IntN(200)
		}
		f.least = 1 + r.IntN(min(f.window, 20))
		if r.IntN(2) == 0 {
			f.carry = 1 + r.IntN(5)
		}
		f.direct = r.IntN(3) == 0
		f.inPlace = f.direct && r.IntN(2) == 0
		if f.window > 1 && r.IntN(3) == 0 {
			f.bins = &detectors.BinParams{Dim: 1, Cells: 1 + r.IntN(9), Period: 1 + r.IntN(40), Max: 1 + r.IntN(10), Decay: 0.1 + 0.8*r.Float64()}
		}
		d := series.DetectorConfig{
			Name: fmt.Sprint("d", i), Detector: f, Window: r.IntN(len(cfg.Windows)),
			Stride: []int{1, 1, 3, 16}[r.IntN(4)], Fingerprint: uint64(i),
		}
		if r.IntN(3) == 0 {
			randomKeys(r, &d)
		}
		if r.IntN(3) > 0 {
			randomAlerts(r, &d)
			if r.IntN(3) == 0 {
				d.Guard = randomGuard(r, len(cfg.Windows[d.Window].Columns))
			}
		}
		if r.IntN(3) == 0 {
			d.Smooth = threshold.Smoothing(2 + r.IntN(12))
		}
		cfg.Detectors = append(cfg.Detectors, d)
	}
	for range r.IntN(3) {
		randomEnsemble(r, cfg)
	}
	for i := range cfg.Detectors {
		member := func(d series.DetectorConfig) bool {
			return d.Ensemble != nil && !d.Ensemble.Any && slices.Contains(d.Ensemble.Members, i)
		}
		if cfg.Detectors[i].Ensemble == nil && !slices.ContainsFunc(cfg.Detectors, member) && r.IntN(3) == 0 {
			cfg.Detectors[i].Until = int64(1 + r.IntN(30))
		}
	}
	if cfg.Dim > 1 && r.IntN(3) == 0 {
		for range 1 + r.IntN(2) {
			randomGrid(r, cfg)
		}
	}
	for i := range cfg.Windows {
		if cfg.Windows[i].Grid != nil {
			continue
		}
		whole := func(d series.DetectorConfig) bool {
			return d.Ensemble == nil && d.Window == i && d.Detector.(*fake).bins != nil
		}
		cfg.Windows[i].Incomplete = r.IntN(2) == 0 && !slices.ContainsFunc(cfg.Detectors, whole)
	}
	for i := range cfg.Detectors {
		if d := &cfg.Detectors[i]; d.Ensemble == nil {
			d.Scale = r.IntN(3) > 0 && series.Unscalable(d, &cfg.Windows[d.Window]) == ""
		}
	}
	if r.IntN(2) == 0 {
		cfg.Silence = int64(1 + r.IntN(1500))
	}
	if n := byte(1 + r.IntN(3)); r.IntN(2) == 0 {
		cfg.Grouping = &Grouping{Window: r.Int64N(3000), By: func(key []byte) []byte {
			if len(key) == 0 || key[0]%4 == n {
				return nil
			}
			return []byte{key[0] % n}
		}}
	}
	if r.IntN(2) == 0 {
		cfg.Reading.Lateness = int64(1 + r.IntN(200))
		if r.IntN(4) == 0 {
			cfg.Reading.Lateness = 1e6 // nothing but MaxHeld releases
		}
		cfg.Reading.BySeries = r.IntN(2) == 0
		cfg.Reading.BySeries = cfg.Reading.BySeries && cfg.Check() == nil
	}
	if r.IntN(2) == 0 {
		cfg.Reading.MaxHeld = 1 + r.IntN(150)
	}
	cfg.Reading.MaxGap = []int64{0, rules.OwnGap, 1 + r.Int64N(200)}[r.IntN(3)]
	if r.IntN(2) == 0 {
		cfg.TTL = int64(1 + r.IntN(3000))
	}
	if r.IntN(2) == 0 {
		cfg.MaxKeys = 1 + r.IntN(12)
	}
	if r.IntN(2) == 0 {
		cfg.Reading.MaxJump = int64(1 + r.IntN(5000))
		if r.IntN(3) == 0 {
			cfg.Reading.MaxJump = int64(1 + r.IntN(100))
		}
	}
	if r.IntN(2) == 0 {
		cfg.MaxRecord = 300 + r.IntN(1500)
	}
	if !slices.ContainsFunc(cfg.Windows, func(w series.WindowConfig) bool { return w.Grid != nil }) && r.IntN(2) == 0 {
		if randomTransforms(r, cfg); r.IntN(2) == 0 {
			randomIntervals(r, cfg)
		}
	}
	if err := cfg.Check(); err != nil {
		panic(err)
	}
	return cfg
}

// randomTransforms has some values transformed.
func randomTransforms(r *rand.Rand, cfg *Config) {
	for c := range cfg.Dim {
		field := fmt.Sprint("f", c)
		cfg.Reading.Fields = append(cfg.Reading.Fields, field)
		if name := []string{"", "rate", "difference", "log", "abs"}[r.IntN(5)]; name != "" {
			cfg.Reading.Transforms = append(cfg.Reading.Transforms, field+"="+name)
		}
	}
}

// randomIntervals has the values of intervals aggregated.
func randomIntervals(r *rand.Rand, cfg *Config) {
	cfg.Reading.Every, cfg.Reading.EmptyZero = 1+r.Int64N(100), r.IntN(2) == 0
	for _, field := range cfg.Reading.Fields {
		if i := r.IntN(1 + len(rules.AggregateNames)); i > 0 {
			cfg.Reading.Aggregates = append(cfg.Reading.Aggregates, field+"="+rules.AggregateNames[i-1])
		}
	}
}

// randomKeys has a detector not read the series whose names have a length of some, nor the one without a name. Names of
// random logs may be any bytes, which a pattern in a reading cannot be.
func randomKeys(r *rand.Rand, d *series.DetectorConfig) {
	d.Patterns = []string{"?*"}
	for n := range 21 {
		if r.IntN(4) == 0 && n > 0 {
			d.Patterns = append(d.Patterns, without(n))
		}
	}
	d.Keys, _ = rules.Selection(d.Patterns)
}

// without returns a pattern that leaves out the series whose names have that length.
func without(length int) string { return "!" + strings.Repeat("?", length) }

// randomEnsemble adds an ensemble of the detectors that there are, if they are two, at any place.
func randomEnsemble(r *rand.Rand, cfg *Config) {
	var members []int
	for _, i := range r.Perm(len(cfg.Detectors)) {
		if cfg.Detectors[i].Ensemble == nil && (len(members) < 2 || r.IntN(2) == 0) {
			members = append(members, i)
		}
	}
	if len(members) < 2 {
		return
	}
	least := 1 + r.IntN(20)
	d := series.DetectorConfig{
		Name: fmt.Sprint("e", len(cfg.Detectors)), Fingerprint: uint64(1000 + len(cfg.Detectors)),
		Ensemble: &series.Ensemble{Members: members, MinPoints: least, Memory: least + r.IntN(50)},
	}
	switch r.IntN(3) {
	case 0:
		d.Ensemble.Any = true
	case 1:
		d.Ensemble.Align = true
	}
	for i := range d.Ensemble.Members {
		if !d.Ensemble.Any || r.IntN(2) == 0 {
			continue
		}
		if d.Ensemble.OnlyWith == nil {
			d.Ensemble.OnlyWith = make([]int, len(members))
		}
		if r.IntN(3) > 0 || len(d.Ensemble.Gates) == 0 {
			gate := series.Gate{Detector: r.IntN(len(cfg.Detectors)), Above: float32(20 * (0.1 + r.Float64()))}
			if cfg.Detectors[gate.Detector].Ensemble != nil {
				gate.Detector = members[0]
			}
			d.Ensemble.Gates = append(d.Ensemble.Gates, gate)
		}
		d.Ensemble.OnlyWith[i] = 1 + r.IntN(len(d.Ensemble.Gates))
	}
	d.Ensemble.Max = !d.Ensemble.Any && r.IntN(2) == 0
	if r.IntN(3) == 0 {
		d.Smooth = threshold.Smoothing(2 + r.IntN(5))
	}
	if r.IntN(3) == 0 {
		randomKeys(r, &d)
	}
	if r.IntN(4) > 0 {
		if randomAlerts(r, &d); d.Ensemble.Any && r.IntN(2) == 0 {
			*d.Threshold = threshold.New(threshold.Fixed, 1)
		}
	}
	at := r.IntN(len(cfg.Detectors) + 1)
	for _, e := range append(cfg.Detectors, d) {
		if e.Ensemble != nil {
			for i, m := range e.Ensemble.Members {
				if m >= at {
					e.Ensemble.Members[i]++
				}
			}
			for i := range e.Ensemble.Gates {
				if g := &e.Ensemble.Gates[i]; g.Detector >= at {
					g.Detector++
				}
			}
		}
	}
	cfg.Detectors = slices.Insert(cfg.Detectors, at, d)
}

// randomGrid adds a grid and detectors of it.
func randomGrid(r *rand.Rand, cfg *Config) {
	g := &series.Grid{Columns: 1 + r.IntN(6), Rows: 1 + r.IntN(6), X: 0, Y: 1, Count: -1, Baseline: -1, Span: int64(1 + r.IntN(300)),
		Box: [4]float64{1e6 - 15, 1e6 - 15, 1e6 + 15, 1e6 + 25}, Learn: r.IntN(2) * r.IntN(4)}
	if r.IntN(2) == 0 {
		g.Stride = g.Span
		g.Span *= int64(1 + r.IntN(5))
	}
	w := len(cfg.Windows)
	cfg.Windows = append(cfg.Windows, series.WindowConfig{Columns: []int{0, 1}, Fingerprint: uint64(100 + w), Grid: g})
	for range 1 + r.IntN(2) {
		i := len(cfg.Detectors)
		d := series.DetectorConfig{
			Name: fmt.Sprint("d", i), Window: w, Stride: 1, Fingerprint: uint64(i),
			Detector: &fake{id: i, window: g.Cells(), least: g.Cells(), lag: r.IntN(2), counts: true, direct: r.IntN(3) == 0},
		}
		if r.IntN(3) == 0 {
			randomKeys(r, &d)
		}
		if r.IntN(3) > 0 {
			randomAlerts(r, &d)
		}
		cfg.Detectors = append(cfg.Detectors, d)
	}
}

// randomAlerts gives a detector a threshold and, mostly, events. Scores of fakes
// are about as large as the noise of the log, 10, around 0. Whether they are bounded is a property of the op, which does not change.
func randomAlerts(r *rand.Rand, d *series.DetectorConfig) {
	kinds := []struct {
		kind  threshold.Kind
		value float64
	}{{threshold.Fixed, 20 * r.Float64()}, {threshold.Mean, 1 + 2*r.Float64()}, {threshold.Quantile, 0.8 + 0.19*r.Float64()},
		{threshold.MAD, 1 + r.Float64()}, {threshold.Conformal, 0.05},
		{threshold.PerDay, 1e8 * (1 + 9*r.Float64())}}
	k := kinds[r.IntN(len(kinds))]
	params := threshold.New(k.kind, k.value)
	params.History, params.Warmup, params.Decluster = 32+r.IntN(20), r.IntN(20), r.IntN(5)
	bounded := r.IntN(3) == 0
	if d.Threshold != nil {
		bounded = d.Threshold.Bounded
	}
	if r.IntN(3) == 0 {
		params.Span = 1 + r.Int64N(20000)
	}
	long := r.IntN(3) == 0 // anomalies are open most of the time
	if long {
		params = threshold.New(threshold.Quantile, 0.6)
		params.History, params.Warmup, params.Decluster = 32, 2, 1
	}
	if params.Bounded = bounded; params.Span == 0 && r.IntN(3) == 0 {
		params.Late = threshold.Late{Open: 1 + r.IntN(2), Close: 1 + r.IntN(10)}
	}
	d.Threshold, d.Shadow = &params, r.IntN(3) == 0
	if long {
		d.Events = &anomaly.Policy{OpenAfter: 1, CloseAfter: 20 + r.IntN(20), Release: 1, UpdateEvery: r.IntN(2) * r.IntN(10)}
		return
	}
	if r.IntN(4) > 0 {
		d.Events = &anomaly.Policy{
			OpenAfter: 1 + r.IntN(3), CloseAfter: 1 + r.IntN(5), Release: 0.5 + 0.5*r.Float64(),
			MinDuration: int64(
				r.IntN(2) * r.IntN(30),
			), MergeGap: int64(r.IntN(2) * r.IntN(300)), UpdateEvery: r.IntN(2) * r.IntN(10), UpdateAfter: r.Int64N(2) * r.Int64N(200),
			Recurring: uint8(r.IntN(2) * r.IntN(101)),
		}
	}
}

// randomGuard returns a guard that turns some scores away. Values of the log are about 1e6.
func randomGuard(r *rand.Rand, fields int) *rules.Guard {
	g := &rules.Guard{Direction: rules.Direction(r.IntN(3)), Least: float64(r.IntN(2)) * 10 * r.Float64(),
		Share: float64(r.IntN(2)) * 1e-5 * r.Float64()}
	for range r.IntN(3) {
		g.Gates = append(g.Gates, rules.Gate{Field: r.IntN(fields), Below: r.IntN(2) == 0, Bound: 1e6 + 10*r.NormFloat64()})
	}
	return g
}

func randomLog(r *rand.Rand, cfg *Config, n int) []Sample {
	names := [][]byte{{}, {0}, {0, 0}, []byte("a"), []byte("ab"), bytes.Repeat([]byte{7}, 300)}
	for range r.IntN(30) {
		name := make([]byte, 1+r.IntN(20))
		for j := range name {
			name[j] = byte(r.Uint32())
		}
		if !slices.ContainsFunc(names, func(o []byte) bool { return bytes.Equal(o, name) }) {
			names = append(names, name)
		}
	}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:1+r.IntN(len(names))]
	var (
		log    []Sample
		offset = int64(r.IntN(1000))
		now    = int64(r.IntN(5000)) - 2500
		few    = 1 + r.IntN(len(names))
		jitter = []int{1, 3, 50, 400}[r.IntN(4)]
		nan    = []float64{0, 0.02, 0.3}[r.IntN(3)]
		ahead  = 0 // samples that a bad clock has yet to send
	)
	for range n {
		switch r.IntN(200) {
		case 0:
			now += int64(r.IntN(4000)) // a gap
		case 1:
			few = 1 + r.IntN(len(names)) // other keys are busy
		case 2:
			offset += int64(r.IntN(50)) // dead letters
		}
		now += int64(r.IntN(4))
		name := names[r.IntN(few)]
		if r.IntN(10) == 0 {
			name = names[r.IntN(len(names))]
		}
		s := Sample{Key: name, Time: now - int64(r.IntN(jitter)), Offset: offset}
		if cfg.Reading.MaxJump > 0 && r.IntN(60) == 0 {
			ahead = 1 + r.IntN(2)
		}
		if ahead > 0 && r.IntN(3) > 0 {
			ahead--
			s.Time += cfg.Reading.MaxJump*int64(r.IntN(4)) + int64(r.IntN(2)*r.IntN(1e9))
		}
		for range cfg.Dim {
			v := 1e6 + r.NormFloat64()*10
			if r.Float64() < nan {
				v = math.NaN()
			}
			s.Values = append(s.Values, v)
		}
		log = append(log, s)
		offset += 1 + int64(r.IntN(2)*r.IntN(2))
	}
	return log
}
