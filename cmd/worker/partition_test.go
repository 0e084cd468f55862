package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// fleetSettings have one window for all machines of a partition, of samples of three values that depend on one load.
// Models are mined about once every 40 samples of a partition, shape's by event time. The points of mined and around
// are samples, the points of shape and curve are courses of four samples whose level does not count.
var fleetSettings = []string{
	"FORMAT=json", "KEY_FIELD=@partition", "TIME_FIELD=at", "VALUE_FIELDS=heat,flow[2]", "DETECTORS=mined,shape,around,curve",
	"DETECTOR_MINED_OP=solvingset", "DETECTOR_MINED_WINDOW=150", "DETECTOR_MINED_K=4", "DETECTOR_MINED_EMBED=1", "DETECTOR_MINED_TOP=6",
	"DETECTOR_MINED_MIN_POINTS=60", "DETECTOR_MINED_MODEL_POINTS=60", "DETECTOR_MINED_MINE_EVERY=37",
	"DETECTOR_SHAPE_OP=solvingset", "DETECTOR_SHAPE_WINDOW=80", "DETECTOR_SHAPE_K=2", "DETECTOR_SHAPE_EMBED=4", "DETECTOR_SHAPE_ZNORM=true",
	"DETECTOR_SHAPE_TOP=3", "DETECTOR_SHAPE_MODEL_POINTS=9", "DETECTOR_SHAPE_MIN_POINTS=8", "DETECTOR_SHAPE_STRIDE=3",
	"DETECTOR_SHAPE_MINE_INTERVAL=150s", "DETECTOR_SHAPE_MAX_AGE=4m",
	"DETECTOR_AROUND_OP=knn", "DETECTOR_AROUND_WINDOW=100", "DETECTOR_AROUND_K=4", "DETECTOR_AROUND_EMBED=1",
	"DETECTOR_CURVE_OP=knn", "DETECTOR_CURVE_WINDOW=60", "DETECTOR_CURVE_K=3", "DETECTOR_CURVE_EMBED=4", "DETECTOR_CURVE_ZNORM=true",
	"DETECTOR_CURVE_FIELDS=heat", "DETECTOR_CURVE_STRIDE=2",
}

// machines makes the samples of a fleet, which its partitions have in turn; a few are outliers, lack a value, or have two or
// four values of flow, or none.
type machines struct {
	rng      *rand.Rand
	topic    string
	n        int
	outliers map[kafkatest.TP]int
	missing  int // samples that lack a value
	bad      int // records whose flow has another length than two
}

func (m *machines) records(n int) (list []kafkatest.Record) {
	for range n {
		load := m.rng.Float64()
		heat, flow := 60+20*load, [2]float64{3 - load*load, 1e6 + 4*load}
		p := m.rng.Int32N(4)
		noise := func() float64 { return 0.02 * m.rng.NormFloat64() }
		values := fmt.Sprintf("%v,%v", flow[0]+noise(), flow[1]+noise())
		switch m.rng.IntN(120) {
		case 0:
			heat += 30
			m.outliers[kafkatest.TP{Topic: m.topic, Partition: p}]++
		case 1:
			values = fmt.Sprintf("%v,null", flow[0])
			m.missing++
		case 2:
			values = []string{"", "1", values + ",3", values + ",null"}[m.rng.IntN(4)]
			m.bad++
		}
		m.n++
		list = append(list, kafkatest.Record{Topic: m.topic, Partition: p, Key: fmt.Append(nil, "machine-", m.rng.IntN(30)),
			Value: fmt.Appendf(nil, `{"at":%d,"heat":%v,"flow":[%s]}`, 1_700_000_000_000+int64(m.n)*1000, heat+noise(), values)})
	}
	return list
}

// TestWindowOfAPartition: detectors with one window for all machines of a partition, and their mined models, give the
// scores and anomalies of an undisturbed run although their worker is killed and comes back, another joins, and one leaves.
// They find the planted outliers; records of other dimensions are dead letters, and those that lack a value are no samples.
func TestWindowOfAPartition(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		input := c.Topic(t, "in", 4)
		f := newFleet(t, c, input, input+"-g", fleetSettings...)
		source := &machines{rng: seedtest.New(t), topic: input, outliers: map[kafkatest.TP]int{}}
		produce := func() {
			_, err := c.ProduceAcked(context.Background(), source.records(400))
			must(t, err)
		}
		got := f.killJoinLeave(produce)
		still, offsets := undisturbedFleet(t, c, input, fleetSettings...)
		compare(t, "windows of partitions", original(t, still, offsets), got)
		changes := f.anomalies()
		if faults := lifeFaults(changes); len(faults) > 0 {
			t.Error(faults)
		}
		if want := still.anomalies(); len(want) != len(changes) {
			t.Errorf("%d changes of anomalies, the undisturbed run has %d", len(changes), len(want))
		}
		scores, high := map[string]int{}, map[kafkatest.TP]int{}
		for id, s := range got {
			if s.key != strconv.Itoa(int(id.partition)) {
				t.Fatalf("partition %d has a series %q", id.partition, s.key)
			}
			if v := s.value(); !math.IsNaN(v) {
				// An outlier is 10 away from other samples. Among 60 of these the coldest can have a weight of 3 and more.
				if scores[id.detector]++; id.detector == "mined" && v > 12 {
					high[kafkatest.TP{Topic: id.topic, Partition: id.partition}]++
				}
			}
		}
		for _, d := range []string{"mined", "shape", "around", "curve"} {
			if scores[d] < source.n/2 {
				t.Errorf("%d scores of %s in %d records", scores[d], d, source.n)
			}
		}
		planted, found := 0, 0
		for tp, n := range source.outliers {
			planted, found = planted+n, found+high[tp]
			if high[tp] > n {
				t.Errorf("%v has %d outliers, and %d scores of one", tp, n, high[tp])
			}
		}
		if 4*found < planted { // outliers among the first samples have no score, and for a while they are neighbours of the next
			t.Errorf("%d of %d outliers found", found, planted)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		letters, err := c.Admin().ReadAll(ctx, f.group+"-dlq", true)
		must(t, err)
		for _, l := range letters {
			field := ""
			for _, h := range l.Headers {
				if strings.HasSuffix(h.Key, "field") {
					field = string(h.Value)
				}
			}
			if field != "flow[2]" {
				t.Errorf("a dead letter for field %q, want flow[2]: %q", field, l.Value)
			}
		}
		if len(letters) != source.bad {
			t.Errorf("%d dead letters of %d records of other dimensions", len(letters), source.bad)
		}
	})
}
