package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// TestLargeWindow: the windows of a partition have thousands of points, a million in a long run. Mined models
// and the points of largest weight are as in an undisturbed run, to the bit, although their worker is killed and comes
// back, another joins, and one leaves; and the points of largest weight are the definition's.
func TestLargeWindow(t *testing.T) { eachCluster(t, testLargeWindow) }

func testLargeWindow(t *testing.T, c *kafkatest.Cluster) {
	window := short(8_000, 1_000_000)
	const dim, top, k = 2, 12, 10
	stride := min(window/8, 65_536) // the most there is
	env := append(slices.Clone(fleetSettings[:3]), "VALUE_FIELDS=v[2]", "DETECTORS=mined,largest")
	for name, settings := range map[string]string{
		"MINED": fmt.Sprintf("OP=solvingset WINDOW=%d EMBED=1 TOP=%d MINE_INTERVAL=%ds", window, top, window/4),
		// Each task searches the whole window.
		"LARGEST": fmt.Sprintf("OP=topn WINDOW=%d K=%d TOP=%d STRIDE=%d", window, k, top, stride),
	} {
		for _, s := range strings.Fields(settings) {
			env = append(env, "DETECTOR_"+name+"_"+s)
		}
	}
	input := c.Topic(t, "in", 2)
	f := newFleet(t, c, input, input+"-g", env...)
	rng := seedtest.New(t)
	var rows []float64 // of partition 0
	produce := func() {
		var list []kafkatest.Record
		for range window/4 + window/100 {
			v := fmt.Sprintf("%.4f,%.4f", 100+rng.NormFloat64(), 20+rng.NormFloat64()*math.Exp(rng.NormFloat64()))
			p := int32(0)
			if rng.IntN(30) == 0 {
				p = 1
			} else {
				var x, y float64
				_, err := fmt.Sscanf(v, "%g,%g", &x, &y)
				must(t, err)
				rows = append(rows, x, y)
			}
			list = append(list, kafkatest.Record{Topic: input, Partition: p, Key: fmt.Append(nil, "machine-", rng.IntN(30)),
				Value: fmt.Appendf(nil, `{"at":%d,"v":[%s]}`, 1_700_000_000_000+int64(len(rows)/dim)*1000, v)})
		}
		_, err := c.ProduceAcked(context.Background(), list)
		must(t, err)
	}
	calls := 0
	got := f.killJoinLeave(func() {
		if produce(); calls < 5 {
			calls++
			return
		}
		f.waitDone() // before the shorter wait of killJoinLeave
	})
	still, offsets := undisturbedFleet(t, c, input, env...)
	compare(t, "large windows", original(t, still, offsets), got)
	high, judged, to := map[int]float64{}, 0, 0 // to: where the last task of topn ends
	for id, s := range got {
		switch v := s.value(); {
		case id.partition != 0 || math.IsNaN(v):
		case id.detector == "mined":
			judged++
		default:
			high[int(id.offset)] = v
			to = max(to, int(id.offset)+1)
		}
	}
	n := len(rows) / dim
	if judged < n*9/10 {
		t.Errorf("%d scores by models in %d records", judged, n)
	}
	// The definition in float64; SolvingSet, which is equal to it, where all pairs take minutes.
	from := to - window
	largest, err := knn.Algorithms[short(0, 2)].Find(rows[from*dim:to*dim], dim, knn.TopParams{N: top, K: k})
	must(t, err)
	want := map[int]float64{}
	for _, o := range largest.Outliers {
		if from+o.At >= to-stride { // with a score of this task
			want[from+o.At] = o.Weight
		}
	}
	for i := to - stride; i < to; i++ {
		if w, g := want[i], high[i]; math.Abs(g-w) > 1e-6*w {
			t.Errorf("record %d has the score %v, the definition gives %v", i, g, w)
		}
	}
}
