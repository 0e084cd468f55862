package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"odradek/detectors/scan"
	"odradek/detectors/seedtest"
)

// streamBegin is the time of the first sample of streamed, in milliseconds; the others follow second by second.
const streamBegin = 1_700_000_000_000

// streamed runs a backtest of one series, sample by sample, through one detector, and returns its scores by the number of the second
// since streamBegin that they are of. at has the seconds of the samples; nil: one each.
func streamed(t *testing.T, samples [][]float64, at []float64, settings ...string) map[int]float64 {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("sensor,time")
	fields := ""
	for f := range samples[0] {
		fields += fmt.Sprintf(",v%d", f)
	}
	b.WriteString(fields + "\n")
	for i, row := range samples {
		second := float64(i)
		if at != nil {
			second = at[i]
		}
		fmt.Fprintf(&b, "s,%d", streamBegin+int64(math.Round(1000*second)))
		for _, v := range row {
			b.WriteString("," + strconv.FormatFloat(v, 'g', -1, 64))
		}
		b.WriteByte('\n')
	}
	dir := t.TempDir()
	in, scores := filepath.Join(dir, "in.csv"), filepath.Join(dir, "scores.csv")
	must(t, os.WriteFile(in, b.Bytes(), 0o644))
	env := []string{"EXECUTOR=cpu", "KEY_FIELD=sensor", "TIME_FIELD=time", "VALUE_FIELDS=" + fields[1:], "DETECTORS=d"}
	for _, s := range settings {
		env = append(env, "DETECTOR_D_"+s)
	}
	runBacktest(t, env, "-in", in, "-scores", scores, "-anomalies", "", "-report", "", "-quiet")
	list := map[int]float64{}
	for _, r := range tableRows(t, scores) {
		if r["score"] != "" {
			v, err := strconv.ParseFloat(r["score"], 64)
			must(t, err)
			list[int((timeOf(t, r["event_time"])-streamBegin*1000)/1_000_000)] = v
		}
	}
	return list
}

// sameScores reports scores that differ by more than the tolerance, or are of other samples.
func sameScores(t *testing.T, got, want map[int]float64, tolerance float64) {
	t.Helper()
	for i, w := range want {
		if g, ok := got[i]; !ok || !(math.Abs(g-w) <= tolerance*max(1, math.Abs(w))) {
			t.Errorf("sample %d: score %v (%v), want %v", i, g, ok, w)
		}
	}
	for i, g := range got {
		if _, ok := want[i]; !ok {
			t.Errorf("sample %d has the score %v, want none", i, g)
		}
	}
}

// likelihoods have by model the log of the likelihood of cells with a count c and a baseline b, at the parameter with the highest,
// without what cancels (Pang et al. 2013, section 2.1, and Kulldorff 1997).
var likelihoods = []func(c, b float64) float64{
	func(c, b float64) float64 { return times(c, c/b) },
	func(c, b float64) float64 { return times(c, c/b) + times(b-c, 1-c/b) },
	func(c, b float64) float64 { return c * c / b / 2 / 3 }, // of the variance 3
	func(c, b float64) float64 { return times(b, b/c) },
}

// times returns x ln y, 0 for an x of 0.
func times(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x * math.Log(y)
}

// highestRatio returns the highest log-likelihood ratio of all rectangles of a map with counts above what is expected, below it, or
// both, each summed cell by cell.
func highestRatio(model int, direction string, counts, baselines []float64, columns int) (best float64) {
	sum := func(list []float64, y1, x1, y2, x2 int) (s float64) {
		for y := y1; y <= y2; y++ {
			for x := x1; x <= x2; x++ {
				s += list[y*columns+x]
			}
		}
		return s
	}
	likelihood := likelihoods[model]
	rows := len(counts) / columns
	all, base := sum(counts, 0, 0, rows-1, columns-1), sum(baselines, 0, 0, rows-1, columns-1)
	for y1 := range rows {
		for x1 := range columns {
			for y2 := y1; y2 < rows; y2++ {
				for x2 := x1; x2 < columns; x2++ {
					c, b := sum(counts, y1, x1, y2, x2), sum(baselines, y1, x1, y2, x2)
					if c*base > b*all && direction != "below" || c*base < b*all && direction != "above" {
						best = max(best, likelihood(c, b)+likelihood(all-c, base-b)-likelihood(all, base))
					}
				}
			}
		}
	}
	return best
}

// mapRows and mapColumns are the size of the maps of these tests.
const mapRows, mapColumns, mapCells = 6, 8, 48

// drawMaps returns the cells of n maps: counts, of which some have a cluster at a random place, and baselines.
func drawMaps(rng *rand.Rand, n int) (counts, baselines []float64) {
	for range n {
		y, x, more := rng.IntN(mapRows), rng.IntN(mapColumns), rng.IntN(20)
		for cell := range mapCells {
			c := rng.IntN(8)
			if dy, dx := cell/mapColumns-y, cell%mapColumns-x; dy >= 0 && dy < 4 && dx >= 0 && dx < 2 {
				c += more
			}
			counts, baselines = append(counts, float64(c)), append(baselines, float64(1+rng.IntN(5)))
		}
	}
	return counts, baselines
}

// TestScanSearchesWholeMaps streams maps, cell by cell and as events, and holds the scores to the scores of all rectangles of each map.
func TestScanSearchesWholeMaps(t *testing.T) {
	rng := seedtest.New(t)
	const maps = 6
	settings := func(more ...string) []string {
		return append([]string{"OP=scan", "WINDOW=48", "COLUMNS=8", "REPLICATES=0", "THRESHOLD=fixed:1e9"}, more...)
	}
	ones := slices.Repeat([]float64{1}, maps*mapCells)
	for _, stride := range []int{0, 1, 2, 5, mapColumns, 3 * mapColumns, mapCells, 2 * mapCells} {
		t.Run(fmt.Sprint("rows, STRIDE ", stride), func(t *testing.T) {
			counts, baselines := drawMaps(rng, maps)
			var samples [][]float64
			for i := range counts {
				samples = append(samples, []float64{counts[i], baselines[i]})
			}
			step, own := stride, settings("STRIDE="+fmt.Sprint(stride))
			if stride == 0 { // the default
				step, own = mapCells, settings()
			}
			want := map[int]float64{}
			for end := max(step, mapCells); end <= len(counts); end += step {
				want[end-1] = highestRatio(0, "above", counts[end-mapCells:end], baselines[end-mapCells:end], mapColumns)
			}
			sameScores(t, streamed(t, samples, nil, own...), want, 1e-5)
			if stride == 0 { // without a baseline
				for i := range samples {
					samples[i] = samples[i][:1]
				}
				for end := range want {
					want[end] = highestRatio(0, "above", counts[end-mapCells+1:end+1], ones[:mapCells], mapColumns)
				}
				sameScores(t, streamed(t, samples, nil, own...), want, 1e-5)
			}
		})
	}
	for _, parts := range []int{1, 3} { // strides of a window
		t.Run(fmt.Sprint("GRID of ", parts, " strides"), func(t *testing.T) {
			// Each part of 10 s has the events of a map: of each cell one with its count. The last sample ends the others.
			counts, baselines := drawMaps(rng, maps)
			var samples [][]float64
			var at []float64
			for i := range counts {
				samples = append(samples, []float64{float64(i % mapColumns), float64(i % mapCells / mapColumns), counts[i], baselines[i]})
				at = append(at, float64(i/mapCells*10)+0.2*float64(i%mapCells)+0.1)
			}
			want := map[int]float64{}
			for part := range maps - 1 {
				c, b := make([]float64, mapCells), make([]float64, mapCells)
				for i := max(0, part-parts+1) * mapCells; i < (part+1)*mapCells; i++ {
					c[i%mapCells] += counts[i]
					b[i%mapCells] += baselines[i]
				}
				want[10*part+9] = highestRatio(0, "above", c, b, mapColumns)
			}
			got := streamed(t, samples, at, settings(fmt.Sprintf("GRID=%ds", 10*parts), "GRID_STRIDE=10s", "MAX_P=1")...)
			delete(got, 10*maps-1)
			sameScores(t, got, want, 1e-5)
		})
	}
}

// TestScanDirections streams maps with a cluster and a hole through each model, and holds the scores of each direction to all
// rectangles of each map.
func TestScanDirections(t *testing.T) {
	rng := seedtest.New(t)
	const maps = 4
	for model := range likelihoods {
		for _, direction := range []string{"", "above", "below", "both"} {
			t.Run(fmt.Sprint("MODEL ", model, " ", direction), func(t *testing.T) {
				var samples [][]float64
				want := map[int]float64{}
				for n := range maps {
					counts, baselines := drawMaps(rng, 1)
					y, x := rng.IntN(mapRows-2), rng.IntN(mapColumns-2)
					for i := range counts {
						baselines[i] *= 10 // trials enough for Bernoulli's model
						counts[i] += 20
						if dy, dx := i/mapColumns-y, i%mapColumns-x; n%2 == 0 && dy >= 0 && dy < 2 && dx >= 0 && dx < 3 {
							counts[i] = 1
						}
						counts[i] = min(counts[i], baselines[i])
						samples = append(samples, []float64{counts[i], baselines[i]})
					}
					side := direction
					if side == "" { // the default
						side = "above"
					}
					want[len(samples)-1] = highestRatio(model, side, counts, baselines, mapColumns)
				}
				own := []string{"OP=scan", "WINDOW=48", "COLUMNS=8", "REPLICATES=0", "THRESHOLD=fixed:1e9", "VARIANCE=3", "MODEL=" + scan.Models[model]}
				if direction != "" {
					own = append(own, "DIRECTION="+direction)
				}
				sameScores(t, streamed(t, samples, nil, own...), want, 1e-5)
			})
		}
	}
}

// neighbours returns the distances of a point to the others, ascending, and the others' numbers in that order.
func neighbours(points [][]float64, i int) (distances []float64, others []int) {
	distance := func(j int) (d float64) {
		for f := range points[i] {
			d += (points[i][f] - points[j][f]) * (points[i][f] - points[j][f])
		}
		return math.Sqrt(d)
	}
	for j := range points {
		if j != i {
			others = append(others, j)
		}
	}
	slices.SortFunc(others, func(a, b int) int {
		if distance(a) < distance(b) {
			return -1
		}
		return 1
	})
	for _, j := range others {
		distances = append(distances, distance(j))
	}
	return distances, others
}

// weights returns the sum of the distances of each point to its k nearest others.
func weights(points [][]float64, k int) (list []float64) {
	for i := range points {
		d, _ := neighbours(points, i)
		sum := 0.0
		for _, v := range d[:k] {
			sum += v
		}
		list = append(list, sum)
	}
	return list
}

// outlierFactors returns the local outlier factor of each point (Breunig et al.).
func outlierFactors(points [][]float64, k int) (list []float64) {
	density := make([]float64, len(points))
	near := make([][]int, len(points))
	for i := range points {
		d, others := neighbours(points, i)
		near[i] = others[:k]
		reach := 0.0
		for n, j := range near[i] {
			other, _ := neighbours(points, j)
			reach += max(d[n], other[k-1])
		}
		density[i] = float64(k) / reach
	}
	for i := range points {
		sum := 0.0
		for _, j := range near[i] {
			sum += density[j]
		}
		list = append(list, sum/float64(k)/density[i])
	}
	return list
}

// highest leaves the n highest of a list, and 0 of the others.
func highest(list []float64, n int) []float64 {
	sorted := slices.Sorted(slices.Values(list))
	for i, v := range list {
		if v < sorted[len(list)-n] {
			list[i] = 0
		}
	}
	return list
}

// discordOf returns the subsequence of length m that is farthest from its nearest neighbour without a common value, after both are
// brought to mean 0 and deviation 1, and half of the mean squared distance.
func discordOf(x []float64, m int) (at int, score float64) {
	shape := func(i int) []float64 {
		var sum, squares float64
		for _, v := range x[i : i+m] {
			sum += v
		}
		for _, v := range x[i : i+m] {
			squares += (v - sum/float64(m)) * (v - sum/float64(m))
		}
		var z []float64
		for _, v := range x[i : i+m] {
			z = append(z, (v-sum/float64(m))/math.Sqrt(squares/float64(m)))
		}
		return z
	}
	for i := 0; i+m <= len(x); i++ {
		a, nearest := shape(i), math.Inf(1)
		for j := 0; j+m <= len(x); j++ {
			if i-j >= m || j-i >= m {
				d := 0.0
				for f, v := range shape(j) {
					d += (v - a[f]) * (v - a[f])
				}
				nearest = min(nearest, d)
			}
		}
		if v := nearest / float64(2*m); nearest < math.Inf(1) && v > score {
			at, score = i, v
		}
	}
	return at, score
}

// TestTumblingScoresWholeWindows streams windows that do not overlap through each op that scores them as a unit, and holds the scores
// to the definitions on each window alone.
func TestTumblingScoresWholeWindows(t *testing.T) {
	rng := seedtest.New(t)
	const window, windows, k = 40, 4, 3
	draw := func(dim int) (samples [][]float64) {
		for range window * windows {
			row := make([]float64, dim)
			for f := range row {
				row[f] = rng.NormFloat64()
			}
			samples = append(samples, row)
		}
		return samples
	}
	for _, c := range []struct {
		name     string
		settings []string
		score    func(points [][]float64) []float64
	}{
		{"topn", []string{"OP=topn", "TOP=5"}, func(p [][]float64) []float64 { return highest(weights(p, k), 5) }},
		{"knn", []string{"OP=knn"}, func(p [][]float64) []float64 { return weights(p, k) }},
		{"lof", []string{"OP=lof"}, func(p [][]float64) []float64 { return outlierFactors(p, k) }},
	} {
		for _, embed := range []int{1, 2} {
			t.Run(fmt.Sprint(c.name, " of points of ", embed), func(t *testing.T) {
				samples := draw(2)
				var points [][]float64 // by their last sample
				for i := embed - 1; i < len(samples); i++ {
					points = append(points, slices.Concat(samples[i-embed+1:i+1]...))
				}
				want := map[int]float64{}
				for from := 0; from+window <= len(points); from += window {
					for i, v := range c.score(points[from:][:window]) {
						want[from+i+embed-1] = v
					}
				}
				sameScores(t, streamed(t, samples, nil, append([]string{"TUMBLING=true", "K=3", "WINDOW=40", "STRIDE=40", "THRESHOLD=fixed:1e9",
					fmt.Sprint("EMBED=", embed)}, c.settings...)...), want, 1e-4)
			})
		}
	}
	t.Run("discords", func(t *testing.T) {
		const m = 8
		samples := draw(1)
		var x []float64
		for _, s := range samples {
			x = append(x, s[0])
		}
		want := map[int]float64{}
		for from := 0; from < len(x); from += window {
			at, score := discordOf(x[from:][:window], m)
			want[from+at+m-1] = score
		}
		sameScores(t, streamed(t, samples, nil, "OP=discords", "TUMBLING=true", "WINDOW=40", "MIN_LENGTH=8", "MAX_LENGTH=8", "TOP=1",
			"THRESHOLD=fixed:1e9"), want, 1e-4)
	})
}
