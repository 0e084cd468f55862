package executortest

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/sst"
)

// Series is a piece of a recording, or of a synthetic series like one.
type Series struct {
	Set  string // the data set; ceilings are by set
	Dim  int
	Rows []float64
}

// Len is the number of rows.
func (s *Series) Len() int { return len(s.Rows) / s.Dim }

// ReadSeries reads the file that detectors/executortest/recordings.go writes: of each series a line of
// the set, the values a row and the values.
func ReadSeries(path string) (all []Series, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("executortest: %w", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("executortest: %s: %w", path, err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 3 {
			return nil, fmt.Errorf("executortest: %s: line %d has no values", path, len(all)+1)
		}
		s := Series{Set: words[0]}
		if s.Dim, err = strconv.Atoi(words[1]); err != nil || s.Dim < 1 || len(words[2:])%s.Dim != 0 {
			return nil, fmt.Errorf("executortest: %s: line %d: %d values do not make rows of %s", path, len(all)+1, len(words)-2, words[1])
		}
		for _, word := range words[2:] {
			v, err := strconv.ParseFloat(word, 64)
			if err != nil {
				return nil, fmt.Errorf("executortest: %s: line %d: %w", path, len(all)+1, err)
			}
			s.Rows = append(s.Rows, v)
		}
		all = append(all, s)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("executortest: %s: %w", path, err)
	}
	return all, nil
}

// LikeRecordings returns synthetic series with the difficulties of recordings: equal or
// very few singular values for the SST, ties for the neighbours.
func LikeRecordings(rng *rand.Rand, each, rows int) (all []Series) {
	add := func(set string, dim int, series func() func(i int) float64) {
		for range each {
			at, s := series(), Series{Set: set, Dim: dim}
			for i := range rows {
				for range dim {
					s.Rows = append(s.Rows, at(i))
				}
			}
			all = append(all, s)
		}
	}
	for _, dim := range []int{1, 8} {
		add("noise", dim, func() func(int) float64 {
			return func(int) float64 { return rng.NormFloat64() }
		})
		add("steps", dim, func() func(int) float64 { // levels that hold for a while, and no noise
			level := 0.0
			return func(int) float64 {
				if rng.IntN(60) == 0 {
					level = rng.NormFloat64()
				}
				return level
			}
		})
		add("quantised", dim, func() func(int) float64 { // a gauge with tenths
			turn, v := 0.02+0.2*rng.Float64(), 0.0
			return func(i int) float64 {
				v = 0.9*v + 0.2*rng.NormFloat64()
				return math.Round(10*(2*math.Sin(turn*float64(i))+v)) / 10
			}
		})
		add("at rest", dim, func() func(int) float64 { // a counter that seldom changes
			return func(int) float64 {
				if rng.IntN(40) == 0 {
					return float64(1 + rng.IntN(5))
				}
				return 0
			}
		})
	}
	add("flat spectrum", 1, func() func(int) float64 { // all tones of a period with equal amplitude
		shape := make([]float64, 8+rng.IntN(24))
		for f := 1; f <= len(shape)/2; f++ {
			phase := 2 * math.Pi * rng.Float64()
			for i := range shape {
				shape[i] += math.Sin(2*math.Pi*float64(f*i)/float64(len(shape)) + phase)
			}
		}
		return func(i int) float64 { return shape[i%len(shape)] + 1e-4*rng.NormFloat64() }
	})
	add("low rank", 1, func() func(int) float64 { // two tones of nearly the same size, and hardly any noise
		a, b := 0.1+rng.Float64(), 0.1+rng.Float64()
		return func(i int) float64 {
			return math.Sin(a*float64(i)) + 0.99*math.Sin(b*float64(i)) + 1e-5*rng.NormFloat64()
		}
	})
	return all
}

// setting is a detector to score series with.
type setting struct {
	name     string // of the op with its parameters
	detector detectors.Detector
	dim      int
	fresh    int
}

// settings returns some for each op of float32 rows, its defaults where none are listed here.
func settings() (all []setting) {
	add := func(dim, fresh int, name string, d detectors.Detector, err error) {
		if err != nil {
			panic(err)
		}
		all = append(all, setting{fmt.Sprintf("%v %s, dim %d, fresh %d", d.Op(), name, dim, fresh), d, dim, fresh})
	}
	for _, w := range []int{20, 50, 100} {
		d, err := sst.NewSVD(sst.SVDOpParams{Window: w})
		add(1, 1, fmt.Sprintf("w=%d r=3", w), d, err)
	}
	d, err := sst.NewSVD(sst.SVDOpParams{Window: 100, Rank: 12, Negligible: 0.0032})
	add(1, 1, "w=100 r=12, negligible 0.0032", d, err)
	d, err = sst.NewSVD(sst.SVDOpParams{Window: 50})
	add(1, 16, "w=50 r=3", d, err)
	for _, w := range []int{20, 100} {
		d, err := sst.NewIKA(sst.IKAOpParams{Window: w})
		add(1, 16, fmt.Sprintf("w=%d r=3", w), d, err)
	}
	for _, dim := range []int{1, 8} {
		d, err = lof.New(lof.OpParams{Window: 256, K: 20})
		add(dim, 1, "N=256 k=20", d, err)
		d, err = knn.New(knn.Params{Window: 256, K: 10})
		add(dim, 16, "N=256 k=10", d, err)
		d, err = knn.New(knn.Params{Window: 256, K: 10, Tumbling: true})
		add(dim, 256, "N=256 k=10, tumbling", d, err)
	}
	d, err = knn.New(knn.Params{Window: 512, K: 27, Embed: 32})
	add(1, 1, "N=512 k=27 m=32", d, err)
	for _, op := range detectors.Ops() {
		own := slices.ContainsFunc(all, func(s setting) bool { return s.detector.Op() == op })
		if own || op.Elem() != detectors.F32 {
			continue
		}
		for _, dim := range []int{1, 8} {
			d, err := op.Spec().Build(nil, dim)
			add(dim, 16, "with its defaults", d, err)
		}
	}
	return all
}

// mostDeclined is the share of svdsst's tasks that its kernels may leave to the CPU. The
// other ops' kernels have to score every task.
const mostDeclined = 0.01

// Windows scores places of all series with every op for which the executor has a kernel. It
// logs how many tasks the kernels declined, how far the scores are from the CPU's and, of
// batches one after the other for the measured time, the rate, and requires the declined
// tasks to be below a ceiling.
func Windows(t *testing.T, e Placer, all []Series, places int, measured time.Duration) {
	var sets []string
	bySet := map[string][]*Series{}
	for i := range all {
		s := &all[i]
		if bySet[s.Set] == nil {
			sets = append(sets, s.Set)
		}
		bySet[s.Set] = append(bySet[s.Set], s)
	}
	for _, set := range sets {
		t.Run(set, func(t *testing.T) {
			for _, s := range settings() {
				if e.Takes(s.detector.Op()) {
					s.score(t, e, bySet[set], places, measured)
				}
			}
		})
	}
}

// score scores a task at each place of every series, in one batch.
func (s *setting) score(t *testing.T, e Placer, list []*Series, places int, measured time.Duration) {
	b := e.Batch()
	defer e.Release(b)
	op := s.detector.Op()
	params := b.Put(s.detector.Params())
	rows := s.detector.Window() + s.fresh - 1
	if s.fresh >= s.detector.Window() {
		rows = s.fresh // tumbling
	}
	scores := 0
	for _, series := range list {
		if series.Dim != s.dim || series.Len() < rows {
			continue
		}
		for place := range places {
			from := (series.Len() - rows) * place / places
			size, ok := s.detector.Size(detectors.View{Dim: s.dim, Rows: rows, Fresh: s.fresh})
			if !ok {
				t.Fatalf("%s: too little history", s.name)
			}
			task := detectors.Task{Op: op, Dim: uint32(s.dim), Fresh: uint32(s.fresh), Params: params}
			x := series.Rows[from*s.dim : (from+rows)*s.dim]
			var to []float32
			task.X, to = b.GrowF32(len(x))
			centred(to, x, s.dim)
			b.GrowOutputs(&task, size)
			b.Tasks = append(b.Tasks, task)
			scores += size.Scores
		}
	}
	if len(b.Tasks) == 0 {
		return
	}
	tasks, before := len(b.Tasks), e.Placed()
	runs, began := 0, time.Now()
	execute := func() {
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		runs++
	}
	execute()
	placed := e.Placed().less(before)
	if measured > 0 { // the first maps memory
		for runs, began = 0, time.Now(); time.Since(began) < measured; {
			execute()
		}
	}
	rate := float64(scores) * float64(runs) / time.Since(began).Seconds()
	compared, off, worst := 0, 0, 0.0
	for i := range b.Tasks {
		r := b.Rows(i)
		got, cpu := r.Scores, r
		cpu.Scores = make([]float32, len(r.Scores))
		cpu.Next, cpu.Detail = make(detectors.Words, len(r.Next)), make(detectors.Words, len(r.Detail))
		op.Spec().CPU(t.Context(), &cpu, detectors.Sequential)
		for k, want := range cpu.Scores {
			compared++
			d := math.Abs(float64(got[k] - want))
			if (got[k] != got[k]) != (want != want) {
				d = math.Inf(1)
			}
			if d > 0.01*max(1, math.Abs(float64(want))) {
				off++
			}
			if d == d {
				worst = max(worst, d)
			}
		}
		if op == sst.OpSVD { // some scores of other ops depend on rounding
			if err := op.Spec().Compare(&r, detectors.Result{Scores: got}, detectors.Result{Scores: cpu.Scores}); err != nil {
				t.Errorf("%s, task %d: %v", s.name, i, err)
			}
		}
	}
	t.Logf("%s: %d of %d tasks declined (%.1f %%); %d of %d scores differ from the CPU's by more than 0.01, the most by %.2g; %.3g scores/s",
		s.name, placed.Declined, tasks, 100*float64(placed.Declined)/float64(tasks), off, compared, worst, rate)
	most := 0.0
	if op == sst.OpSVD {
		most = mostDeclined
	}
	if placed.Device+placed.CPU != uint64(tasks) || float64(placed.CPU) > most*float64(tasks) {
		t.Errorf("%s: of %d tasks the device scored %d and the CPU %d, of them %d declined; %.0f %% are allowed", s.name, tasks, placed.Device,
			placed.CPU, placed.Declined, 100*most)
	}
}

// centred sets dst to rows less the mean of each value.
func centred(dst []float32, rows []float64, dim int) {
	for v := range dim {
		sum, n := 0.0, 0
		for i := v; i < len(rows); i += dim {
			if rows[i] == rows[i] {
				sum, n = sum+rows[i], n+1
			}
		}
		for i := v; i < len(rows); i += dim {
			dst[i] = float32(rows[i] - sum/float64(max(n, 1)))
		}
	}
}
