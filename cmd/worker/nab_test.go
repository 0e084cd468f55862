package main

import (
	"compress/gzip"
	"context"
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/detectors/sst"
	"odradek/processor/kafkatest"
)

// nabSeries is one stream of the Numenta Anomaly Benchmark.
type nabSeries struct {
	name   string
	times  []time.Time
	values []float64
}

// readNAB reads the streams from data that lies beside the repository; nil
// without it.
func readNAB(t *testing.T) []nabSeries {
	t.Helper()
	root := filepath.Join("..", "..", "..", "shared", "data", "nab", "dev")
	files, _ := filepath.Glob(filepath.Join(root, "*", "*.csv.gz"))
	var all []nabSeries
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(z).ReadAll()
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := nabSeries{name: strings.TrimSuffix(filepath.Base(name), ".csv.gz")}
		for _, r := range rows[1:] {
			at, err := time.Parse("2006-01-02 15:04:05", r[0])
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			v, err := strconv.ParseFloat(r[1], 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			s.times, s.values = append(s.times, at), append(s.values, v)
		}
		all = append(all, s)
	}
	return all
}

// drawnSeries stands in for NAB where its data is not there.
func drawnSeries(rng *rand.Rand) []nabSeries {
	start := time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC)
	var all []nabSeries
	for i := range 12 {
		s := nabSeries{name: "drawn-" + strconv.Itoa(i)}
		level := 100 * rng.NormFloat64()
		for j := range 1500 {
			if rng.IntN(300) == 0 {
				level += 10 * rng.NormFloat64()
			}
			s.times = append(s.times, start.Add(time.Duration(j)*5*time.Minute))
			s.values = append(s.values, level+math.Sin(float64(j)/(3+float64(i)))+0.2*rng.NormFloat64())
		}
		all = append(all, s)
	}
	return all
}

const (
	nabSST    = 6 // w of the change detector
	nabZScore = 16
)

// someSeries draws series of at least the given number of samples in all, others each time;
// a long run has all 262,000.
func someSeries(t *testing.T, samples int, series []nabSeries, want []defined) (some []nabSeries, theirs []defined) {
	t.Helper()
	for _, i := range seedtest.New(t).Perm(len(series)) {
		if samples > 0 {
			some, theirs = append(some, series[i]), append(theirs, want[i])
			samples -= len(series[i].values)
		}
	}
	return some, theirs
}

// defined is what the definitions say of one series: scores by sample, NaN
// while warming up.
type defined struct {
	change, level []float64
	late          []bool
	params        sst.Params
	x             []float64   // the samples in order
	nth           []int       // which of x a sample is
	feedback      [][]float64 // before each of x; nil while warming up
}

// inexact returns how far the change score of a sample moves when the definition
// itself is computed with the rounding errors of float32: far, where the current
// has no single leading direction or the past has directions of equal weight.
func (d *defined) inexact(sample int) float64 {
	const run = 96 // samples over which the feedback may have carried errors on
	newest := d.nth[sample]
	first := newest
	for first > 0 && newest-first < run && d.feedback[first-1] != nil {
		first--
	}
	x := d.x[first-d.params.Reads()+1 : newest+1]
	scores, _ := sst.Spread(&d.params, x, newest-first+1, d.feedback[first], sst.FewErrors, rand.New(rand.NewPCG(1, 2)))
	return scores[len(scores)-1]
}

// define computes the definitions, with no code of the worker's path: the
// papers' in float64 for the change score, the textbook's for the z-score.
func (s *nabSeries) define() defined {
	p := sst.Params{Window: nabSST}
	if err := p.Defaults(); err != nil {
		panic(err)
	}
	p.A0 = sst.Start(0, nabSST)
	a := make([]float64, nabSST)
	for i := range a {
		a[i] = float64(p.A0[i])
	}
	d := defined{params: p}
	x := d.x
	last := time.Time{}
	for i, v := range s.values {
		late := s.times[i].Before(last)
		d.late, d.nth = append(d.late, late), append(d.nth, len(x))
		if late {
			d.change, d.level = append(d.change, math.NaN()), append(d.level, math.NaN())
			continue
		}
		last = s.times[i]
		x = append(x, v)
		change, level := math.NaN(), math.NaN()
		d.feedback = append(d.feedback, nil)
		if n := len(x); n >= p.Reads() {
			d.feedback[n-1] = slices.Clone(a)
			scores, _ := sst.Define(&p, packed(x[n-p.Reads():]), 1, a)
			for i := range a {
				a[i] = float64(float32(a[i])) // carries are float32
			}
			change = scores[0]
		}
		if n := len(x); n >= nabZScore {
			rows := packed(x[n-nabZScore:])
			level = nabScore(rows[:nabZScore-1], rows[nabZScore-1])
		}
		d.change, d.level = append(d.change, change), append(d.level, level)
	}
	d.x = x
	return d
}

// packed returns what a detector is given: rows centred on the median of the first,
// the middle and the last of them, as float32.
func packed(x []float64) []float64 {
	three := []float64{x[0], x[len(x)/2], x[len(x)-1]}
	slices.Sort(three)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(float32(v - three[1]))
	}
	return out
}

func nabScore(past []float64, v float64) float64 {
	if slices.Max(past) == slices.Min(past) { // no rounding of a mean is meant
		if v == past[0] {
			return 0
		}
		return 1e6
	}
	mean, ss := 0.0, 0.0
	for _, p := range past {
		mean += p / float64(len(past))
	}
	for _, p := range past {
		ss += (p - mean) * (p - mean)
	}
	sd := math.Sqrt(ss / float64(len(past)))
	return min(math.Abs(v-mean)/sd, 1e6)
}

var nabOnce struct {
	sync.Once
	series  []nabSeries
	defined []defined
}

// TestNAB: the streams are written by an independent producer, scored by three
// workers of one group, and read back by an independent consumer: every input is
// scored once by each detector, with the definition's values.
func TestNAB(t *testing.T) {
	nabOnce.Do(func() {
		if nabOnce.series = readNAB(t); nabOnce.series == nil {
			t.Log("no NAB data beside the repository: drawn series instead")
			nabOnce.series = drawnSeries(seedtest.New(t))
		}
		for i := range nabOnce.series {
			nabOnce.defined = append(nabOnce.defined, nabOnce.series[i].define())
		}
	})
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		series, want := nabOnce.series, nabOnce.defined
		if !kafkatest.Long() {
			samples := 100_000
			if c.Real() {
				samples = 30_000
			}
			series, want = someSeries(t, samples, series, want)
		}
		input := c.Topic(t, "nab", 6)
		m := newMeasurements(t, c.RegistryURL(t), input)
		// The streams are of different years, and the definitions know no gap.
		f := newFleet(t, c, input, input+"-g", "MAX_JUMP=0s", "MAX_GAP=none",
			"DETECTOR_CHANGE_WINDOW="+strconv.Itoa(nabSST), "DETECTOR_CHANGE_STRIDE=1",
			"DETECTOR_LEVEL_WINDOW="+strconv.Itoa(nabZScore))
		for _, name := range []string{"w0", "w1", "w2"} {
			f.start(name)
		}
		// By time over all streams, as sensors would send them.
		type at struct{ series, i int }
		var order []at
		for s := range series {
			for i := range series[s].values {
				order = append(order, at{s, i})
			}
		}
		slices.SortStableFunc(order, func(a, b at) int { return a.i - b.i })
		var recs []kafkatest.Record
		for _, o := range order {
			s := &series[o.series]
			recs = append(recs, m.record(t, input, s.name, s.times[o.i], s.values[o.i]))
		}
		acked, err := c.ProduceAcked(context.Background(), recs)
		if err != nil {
			t.Fatal(err)
		}
		f.waitDone()
		got, doubled := f.scores()
		if len(doubled) > 0 {
			t.Errorf("%d scores doubled, such as %v", len(doubled), doubled[0])
		}
		// The ledger: acknowledged records by series, in order of offset.
		next := map[string]int{}
		index := map[string]int{}
		for i := range series {
			index[series[i].name] = i
		}
		var within [3]int
		checked, ill, worstChange, worstLevel, expected := 0, 0, 0.0, 0.0, 0
		for i := range acked {
			r := &acked[i]
			name := string(r.Key)
			k := next[name]
			next[name]++
			d := &want[index[name]]
			if d.late[k] {
				continue
			}
			for _, det := range []struct {
				name  string
				want  float64
				worst *float64
				tol   float64
			}{{"change", d.change[k], &worstChange, 1e-5}, {"level", d.level[k], &worstLevel, 1e-6}} {
				expected++
				g, ok := got[scoreID{r.Topic, r.Partition, r.Offset, det.name, "", 0, 0}]
				if !ok {
					t.Fatalf("%s sample %d at offset %d has no score of %s", name, k, r.Offset, det.name)
				}
				if g.key != name || g.eventTime != series[index[name]].times[k].UnixMicro() {
					t.Fatalf("%s sample %d: score is of %s at %d", name, k, g.key, g.eventTime)
				}
				if (g.state == "warming_up") != math.IsNaN(det.want) || math.IsNaN(g.value()) != math.IsNaN(det.want) {
					t.Fatalf("%s sample %d %s: state %s score %v, definition %v", name, k, det.name, g.state, g.value(), det.want)
				}
				if math.IsNaN(det.want) {
					continue
				}
				checked++
				diff := math.Abs(g.value()-det.want) / max(1, math.Abs(det.want))
				for j, bound := range []float64{1e-6, 1e-5, 1e-4} {
					if diff <= bound {
						within[j]++
					}
				}
				if det.name == "change" && diff > det.tol {
					// Allowed where the definition in float32 is as far off.
					ill++
					if diff <= 32*d.inexact(k) {
						continue
					}
				}
				*det.worst = max(*det.worst, diff)
				if diff > det.tol {
					t.Errorf("%s sample %d %s: score %v, definition %v", name, k, det.name, g.value(), det.want)
				}
			}
		}
		if len(got) != expected {
			t.Errorf("%d scores, want %d", len(got), expected)
		}
		t.Logf("%d series, %d records, %d scores, %d compared with the definition: worst difference change %.2g but for %d ill-conditioned, "+
			"level %.2g; within 1e-6, 1e-5, 1e-4: %v",
			len(series), len(acked), len(got), checked, worstChange, ill, worstLevel, within)
	})
}
