package config

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/processor/state"
)

// TestRemaining: a row of each op, and of ensembles, that is warming up says how many samples come until the first with a
// score. In a series of random values the number is exact, unless the first score needs more than samples. In one that is constant, and
// in one that lacks values, the score comes after as many samples at the least.
func TestRemaining(t *testing.T) {
	r := seedtest.New(t)
	settings := map[string]string{
		"ar": "ORDER=4 MIN_POINTS=8 MEMORY=50", "band": "MIN_POINTS=40", "discord": "WINDOW=24 LENGTH=4 MAX_LENGTH=8 K=2 MIN_POINTS=18",
		"discords": "WINDOW=24 MIN_LENGTH=6 MAX_LENGTH=10 LENGTH_STEP=2 TOP=2", "ikasst": "WINDOW=8", "knn": "WINDOW=24 K=4 MIN_POINTS=11",
		"joint": "WINDOW=8 GUARD=16 MEMORY=100", "lof": "WINDOW=24 K=4 MIN_POINTS=13", "scan": "WINDOW=24 COLUMNS=6 MODEL=normal",
		"season":     "BINS=3 MIN_POINTS=9",
		"solvingset": "WINDOW=24 K=2 EMBED=3 TOP=1 MODEL_POINTS=8 MINE_EVERY=13 MIN_POINTS=7", "svdsst": "WINDOW=8",
		"topn": "WINDOW=24 K=4 TOP=3", "value": "WINDOW=3", "zscore": "WINDOW=16",
	}
	env := minimal("ODRADEK_VALUE_FIELDS=x")
	var names []string
	add := func(name, list string) {
		names = append(names, name)
		for _, s := range strings.Fields(list) {
			env = append(env, "ODRADEK_DETECTOR_"+strings.ToUpper(name)+"_"+s)
		}
	}
	for _, op := range detectors.Ops() {
		name := op.Spec().Name
		add(name, "OP="+name+" STRIDE=1 "+settings[name])
		add(name+"3", "OP="+name+" STRIDE=3 "+settings[name])
	}
	add("past", "OP=discord WINDOW=60 LENGTH=4 MAX_LENGTH=8 EVERY=3 STRIDE=6")
	add("bounded", "OP=knn WINDOW=24 K=4 MIN_POINTS=11 STRIDE=4 SMOOTH=5 THRESHOLD=mad:9 HISTORY=32 WARMUP=20")
	add("likely", "OP=zscore WINDOW=16 THRESHOLD=conformal:0.01 HISTORY=64 WARMUP=4")
	add("learning", "OP=ar ORDER=4 MIN_POINTS=30 MEMORY=50 STRIDE=5 SMOOTH=3")
	add("sum", "OP=ensemble MEMBERS=knn3,zscore,learning MIN_POINTS=4")
	add("aligned", "OP=ensemble MEMBERS=knn,ikasst3,bounded MIN_POINTS=6 ALIGN=true")
	add("sparse", "OP=ensemble MEMBERS=zscore,past MIN_POINTS=4")
	add("any", "OP=ensemble MEMBERS=bounded,likely COMBINE=any")
	// A task of scan has one score, the first samples of season have no level, and a member of sparse scores one sample of three.
	bounds := []string{"joint", "joint3", "scan3", "season", "season3", "sparse"}
	c, faults, _ := Parse(append(env, "ODRADEK_DETECTORS="+strings.Join(names, ",")))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	ks, err := c.KeystateConfig()
	if err != nil || ks.Check() != nil {
		t.Fatal(err, ks.Check())
	}
	exec := detectors.NewCPU(1)
	defer exec.Close()
	s, b := state.New(ks), exec.Batch()
	defer exec.Release(b)
	flush := func() {
		if err := exec.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		s.Apply(b)
		b.Reset()
	}
	keys := []string{"random", "constant", "gaps"}
	const n = 300
	for i := range int64(n * len(keys)) {
		v := r.NormFloat64()
		switch key := keys[i%3]; {
		case key == "constant":
			v = 7
		case key == "gaps" && r.IntN(4) == 0:
			v = math.NaN()
		}
		if !s.Fits(b) || r.IntN(40) == 0 {
			flush()
		}
		s.Fold(&state.Sample{Key: []byte(keys[i%3]), Time: i / 3 * 600e6, Offset: i, Values: []float64{v}}, b)
	}
	flush()
	type series struct {
		key      string
		detector int32
	}
	rows := map[series][]state.Row{}
	for _, row := range s.Rows {
		id := series{string(row.Key.Name()), row.Detector}
		rows[id] = append(rows[id], row)
	}
	if len(rows) != len(names)*len(keys) {
		t.Fatalf("rows of %d series and detectors, want %d", len(rows), len(names)*len(keys))
	}
	for id, list := range rows {
		name := ks.Detectors[id.detector].Name
		first := slices.IndexFunc(list, func(row state.Row) bool { return row.Score == row.Score })
		if id.key == "random" && first < 1 && name != "flatline" && name != "flatline3" {
			t.Errorf("%s: no score, or no sample before it", name)
		}
		for i, row := range list {
			if (row.Remaining > 0) != (row.State == state.RowWarmingUp) || row.Remaining > 0 && row.Score == row.Score {
				t.Fatalf("%s of %s: sample %d has the state %d, the score %v, and %d remain", name, id.key, row.Offset/3, row.State, row.Score,
					row.Remaining)
			}
			if first < 0 || i >= first {
				continue
			}
			want := int32(list[first].Offset-row.Offset) / 3
			if row.Remaining > want || id.key == "random" && row.Remaining != want && !slices.Contains(bounds, name) {
				t.Fatalf("%s of %s: %d samples before the first score remain %d", name, id.key, want, row.Remaining)
			}
		}
	}
}
