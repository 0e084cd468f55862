package detectors

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"odradek/detectors/seedtest"
)

// defineChangesLevel is ChangesLevel by its definition.
func defineChangesLevel(wide Wide, x []float64, dim, fresh int, centers []float64) bool {
	rows := len(x) / dim
	if wide == WideAll || wide == WideCourse {
		fresh = rows
	}
	times := levelFar * max(1, levelRest/float64(rows))
	for c, center := range centers {
		column := make([]float64, rows)
		for i := range column {
			column[i] = x[i*dim+c]
		}
		if wide == WideCourse && rows >= levelEdge+levelBeside &&
			(defineLeaves(column[rows-1], column[rows-levelEdge-levelBeside:][:levelBeside]) ||
				defineLeaves(column[0], column[levelEdge:][:levelBeside])) {
			return true
		}
		for row := rows - 1; row >= rows-fresh; row -= levelEvery {
			far := math.Abs(column[row] - center)
			if !(far > 0 && far <= math.MaxFloat64 && far > times*defineDeviation(column, row)) {
				continue
			}
			found := 0
			for i := range uint64(sampled) {
				at := ((i + 1) * 0x9e3779b97f4a7c15 >> 32) * uint64(rows) >> 32
				if d := math.Abs(column[at] - center); d > far/4 && d < far*3/4 {
					found++
				}
			}
			if found <= between {
				return true
			}
		}
	}
	return false
}

func defineLeaves(v float64, beside []float64) bool {
	low, high := math.Inf(1), math.Inf(-1)
	for _, b := range beside {
		low, high = min(low, b), max(high, b)
	}
	far := max(v-high, low-v)
	return high > low && far <= math.MaxFloat64 && far > levelAway*(high-low)
}

func defineDeviation(x []float64, row int) float64 {
	v, near := x[row], [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}
	from := max(0, row-levelRows)
	for i := from; i < min(from+levelRows+1, len(x)); i++ {
		d := math.Abs(x[i] - v)
		if i == row || d != d {
			continue
		}
		for j := range near {
			if d < near[j] {
				near[j], d = d, near[j]
			}
		}
	}
	if near[2] > 0 {
		return near[2]
	}
	least := math.Inf(1)
	for i := row - 1; i >= max(0, row-levelBack); i-- {
		if d := math.Abs(x[i] - v); d > 0 {
			least = min(least, d)
		}
	}
	return least
}

// levelSamples returns a series of n samples that is made of pieces: what a sensor shows, and what is hard to tell from a change
// of level.
func levelSamples(rng *rand.Rand, n int) []float64 {
	x := make([]float64, 0, n)
	level, noise := 0.0, 1.0
	for len(x) < n {
		if rng.IntN(4) == 0 {
			level += math.Pow(10, 10*rng.Float64()) * noise * float64(1-2*rng.IntN(2))
		}
		if rng.IntN(10) == 0 {
			level = 0
		}
		period, step, kind := math.Pow(10, 3*rng.Float64()), math.Pow(10, 4*rng.Float64()-2), rng.IntN(10)
		amplitude, round := math.Pow(10, 4*rng.Float64()-1), 0.0
		if rng.IntN(3) == 0 {
			round = math.Pow(10, 2*rng.Float64()-1)
		}
		missing, spikes := 0.0, 0.0
		if rng.IntN(5) == 0 {
			missing = rng.Float64() / 4
		}
		if rng.IntN(5) == 0 {
			spikes = rng.Float64() / 20
		}
		v, length := level, 1+int(math.Pow(float64(n), rng.Float64()))
		for i := range length {
			switch kind {
			case 0, 1:
				v = level + noise*rng.NormFloat64()
			case 2:
				v = level + amplitude*math.Sin(float64(i)*2*math.Pi/period) + noise/10*rng.NormFloat64()
			case 3:
				v = level + amplitude*math.Mod(float64(i)/period, 1)
			case 4:
				v += step * rng.NormFloat64()
			case 5:
				v += step
			case 6: // stuck
			case 7:
				v = level + amplitude*float64(i/9%3)
			case 8:
				v = level + amplitude*rng.NormFloat64()/rng.NormFloat64()
			case 9:
				v = level + amplitude*float64(rng.IntN(2))
			}
			u := v
			if round > 0 {
				u = math.Round(v/round) * round
			}
			if rng.Float64() < missing {
				u = math.NaN()
			} else if rng.Float64() < spikes {
				u += 1e6 * rng.NormFloat64()
			}
			x = append(x, u)
		}
		if rng.IntN(2) == 0 && kind >= 4 && kind <= 6 {
			level = v
		}
	}
	return x[:n]
}

// TestChangesLevelAsDefined compares ChangesLevel and ChangesLevelNext with the definition, on windows that move over series, by any number
// of rows, with what earlier windows have shown or without.
func TestChangesLevelAsDefined(t *testing.T) {
	rng := seedtest.New(t)
	for range 400 {
		rows, dim := 1+rng.IntN(40), 1
		switch rng.IntN(4) {
		case 0:
			rows = 40 + rng.IntN(500)
		case 1:
			dim = 1 + rng.IntN(3)
		case 2:
			rows = 1 << (3 + rng.IntN(7))
		}
		n := 3*rows + 300
		x := make([]float64, n*dim)
		for c := range dim {
			for i, v := range levelSamples(rng, n) {
				x[i*dim+c] = v
			}
		}
		levels := map[Wide][]Level{WideAll: make([]Level, dim), WideCourse: make([]Level, dim)}
		for end := rows; end <= n; end++ {
			if rng.IntN(200) == 0 {
				end = min(n, end+rng.IntN(2*rows))
			}
			window := x[(end-rows)*dim : end*dim]
			bits, cut := floatBits(window...), dim*rng.IntN(rows+1)
			from, count := CenterRows(CenterRun(rows), rows, int64(end))
			centers, ok := Centers(nil, bits[:cut], bits[cut:], dim, from, count)
			if !ok {
				centers, _ = Centers(nil, bits[:cut], bits[cut:], dim, 0, rows)
			}
			for _, wide := range [...]Wide{WideFresh, WideAll, WideCourse} {
				fresh := 1
				if rng.IntN(10) == 0 {
					fresh = 1 + rng.IntN(rows)
				}
				want := defineChangesLevel(wide, window, dim, fresh, centers)
				if got := ChangesLevel(wide, bits[:cut], bits[cut:], dim, fresh, centers); got != want {
					t.Fatalf("%d rows to %d of %d fields, wide %d, %d fresh: %v, want %v", rows, end, dim, wide, fresh, got, want)
				}
				if wide == WideFresh || rng.IntN(50) == 0 {
					continue
				}
				if got := ChangesLevelNext(levels[wide], wide, bits[:cut], bits[cut:], dim, int64(end), centers); got != want {
					t.Fatalf("%d rows to %d of %d fields, wide %d, after other windows: %v, want %v", rows, end, dim, wide, got, want)
				}
			}
		}
	}
}

// TestLevelGap requires that isContinuous looks at one of any levelGap consecutive rows of a window.
func TestLevelGap(t *testing.T) {
	for rows := 1; rows < 3000; rows++ {
		seen := make([]bool, rows)
		for i := range sampled {
			seen[sampleOf(i, rows)] = true
		}
		apart := 0
		for _, s := range seen {
			if apart++; s {
				apart = 0
			}
			if apart >= levelGap(rows) {
				t.Fatalf("%d rows: none of %d is looked at", rows, apart)
			}
		}
	}
}

// BenchmarkChangesLevelNext is a window that moves on by one row.
func BenchmarkChangesLevelNext(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name string
		at   func(i int) float64
	}{
		{"constant", func(int) float64 { return 1 }},
		{"noise", func(int) float64 { return rng.NormFloat64() }},
		{"rounded", func(int) float64 { return math.Round(4 * rng.NormFloat64()) }},
		{"wave", func(i int) float64 { return math.Sin(float64(i)/50) + rng.NormFloat64()/20 }},
		{"teeth", func(i int) float64 { return float64(i % 102) }},
		{"steps", func(i int) float64 { return float64(i / 100 % 5) }},
	} {
		const rows = 406
		x := make([]float64, 50*rows)
		for i := range x {
			x[i] = c.at(i)
		}
		bits := floatBits(x...)
		centers := make([]float64, 0, 1)
		for _, known := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/known=%v", c.name, known), func(b *testing.B) {
				level, at, changes := make([]Level, 1), 0, 0
				for range b.N {
					if at++; at+rows > len(x) || !known {
						clear(level)
						at %= len(x) - rows
					}
					window := bits[at : at+rows]
					from, n := CenterRows(128, rows, int64(at+rows))
					centers, _ = Centers(centers[:0], window, nil, 1, from, n)
					if known && ChangesLevelNext(level, WideCourse, window, nil, 1, int64(at+rows), centers) ||
						!known && ChangesLevel(WideCourse, window, nil, 1, 1, centers) {
						changes++
					}
				}
				b.ReportMetric(float64(changes)/float64(b.N), "changes/op")
			})
		}
	}
}
