package discord

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"odradek/detectors/quality"
	"odradek/detectors/seedtest"
)

// singleSeries are series of n values by name.
func singleSeries(rng *rand.Rand, n int) (names []string, series [][]float64) {
	walk := 0.0
	add := func(name string, f func(i int) float64) {
		x := make([]float64, n)
		for i := range x {
			x[i] = f(i)
		}
		names, series = append(names, name), append(series, x)
	}
	tones := func(i int) float64 {
		return math.Sin(float64(i)*0.05) + 0.5*math.Sin(float64(i)*0.13) + 0.05*rng.NormFloat64()
	}
	add("random walk", func(int) float64 { walk += rng.NormFloat64(); return walk })
	add("noise", func(int) float64 { return rng.NormFloat64() })
	add("two sines and noise", tones)
	add("two sines of amplitude 0.001 at 1e6", func(i int) float64 { return 1e6 + 1e-3*tones(i) })
	add("noise of 1e-3 at 1e9", func(int) float64 { return 1e9 + 1e-3*rng.NormFloat64() })
	add("flat stretches", func(i int) float64 {
		if i/300%4 == 0 {
			return 5
		}
		return tones(i)
	})
	add("noise, a hundredth of it in stretches", func(i int) float64 {
		if i/500%3 == 0 {
			return 0.01 * rng.NormFloat64()
		}
		return rng.NormFloat64()
	})
	add("noise, a millionth of it in stretches", func(i int) float64 {
		if i/500%3 == 0 {
			return 1e-6 * rng.NormFloat64()
		}
		return rng.NormFloat64()
	})
	level := 0.0
	add("steps by 1e6 in noise", func(i int) float64 {
		if i%3000 == 0 {
			level = 1e6 * float64(rng.IntN(5))
		}
		return level + rng.NormFloat64()
	})
	return names, series
}

// singleRow is a row of the table.
type singleRow struct {
	series              int
	absolute, relative  float64 // of a distance of a profile by float32
	others              int     // series whose first three discords by that profile are others
	discord             float64 // error of a discord's distance
	otherDiscords, anew int     // series with others than in float64; with all neighbours found in float64
	settled, all        int     // subsequences that were compared with all others in float64
}

// add measures a series. The float64 profile replaces the definition, with which TestCompute compares
// it.
func (r *singleRow) add(t *testing.T, name string, x []float64, m int) {
	t.Helper()
	const count = 3
	want, got := Compute(x, m, Options{}, cores), Compute(x, m, Options{Single: true}, cores)
	r.series++
	for i, w := range want.Distance {
		g := got.Distance[i]
		if g-w < -1e-6 && Normalised(w, m, 1)-Normalised(g, m, 1) > 1e-9 || (g != g) != (w != w) {
			t.Errorf("%s: subsequence %d is %v by float32, %v by float64", name, i, g, w)
		}
		if w != w {
			continue
		}
		r.absolute = max(r.absolute, g-w)
		if w > 0.01*math.Sqrt(2*float64(m)) { // roots enlarge the error of similar subsequences
			r.relative = max(r.relative, (g-w)/w)
		}
	}
	exact := want.Top(m, count)
	same := func(found []Discord) bool {
		for i, d := range found {
			if d.At != exact[i].At {
				return false
			}
		}
		return len(found) == len(exact)
	}
	if !same(got.Top(m, count)) {
		r.others++
	}
	s := search{from: lanes, exclusion: m, parallel: cores}
	s.series.load(x, m, false)
	s.findAll(true)
	found := s.discords(count)
	if !same(found) {
		r.otherDiscords++
	}
	if differDiscords(found, exact, want, 1) {
		t.Errorf("%s: got %v, want %v", name, found, exact)
	}
	for i, d := range found {
		r.discord = max(r.discord, math.Abs(d.Distance-exact[i].Distance))
	}
	settled, all := 0, 0
	for i := range s.series.starts {
		if s.series.usual(i) {
			all++
			if s.exact[i] {
				settled++
			}
		}
	}
	if settled == all && all > 0 {
		r.anew++
	}
	r.settled, r.all = r.settled+settled, r.all+all
}

// TestSinglePrecision measures the error of distances to neighbours that were found in float32, and
// that discords by them are float64's. With -v it writes a table of the errors. With ODRADEK_LONG its series are
// longer, and it reads all of the UCR archive instead of one series in twelve.
func TestSinglePrecision(t *testing.T) {
	rng := seedtest.New(t)
	n, every := 6000, 12
	if os.Getenv("ODRADEK_LONG") != "" {
		n, every = 30_000, 1
	}
	const m, shorter = 128, 10_000
	t.Log("| series | largest error | relative | other discords | compared again | error of a discord | other discords then | all of it |")
	row := func(name string, r singleRow) {
		t.Logf("| %s | %.1e | %.1e | %d of %d | %.2f %% | %.0e | %d | %d |", name, r.absolute, r.relative, r.others, r.series,
			100*float64(r.settled)/float64(r.all), r.discord, r.otherDiscords, r.anew)
	}
	names, series := singleSeries(rng, n)
	for i, x := range series {
		var r singleRow
		r.add(t, names[i], x, m)
		row(names[i], r)
	}
	if testing.Short() {
		return
	}
	at := shared(t)
	var nab, ucr singleRow
	files, err := filepath.Glob(filepath.Join(at, "data", "nab", "dev", "*", "*.csv.gz"))
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	for _, f := range files {
		var x []float64
		for line := range strings.Lines(unzip(t, f)) {
			var v float64
			if _, value, _ := strings.Cut(strings.TrimSpace(line), ","); value != "value" {
				if _, err := fmt.Sscan(value, &v); err != nil {
					t.Fatal(f, err)
				}
				x = append(x, v)
			}
		}
		nab.add(t, filepath.Base(f), x, m)
	}
	row(fmt.Sprintf("%d series of NAB", nab.series), nab)
	dir := filepath.Join(at, "data", "ucr", "dev")
	if _, err := os.Stat(dir); err != nil {
		t.Skip(err)
	}
	_, set, err := quality.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(set); i += every {
		ucr.add(t, set[i].Name, set[i].Values[:min(shorter, len(set[i].Values))], m)
	}
	row(fmt.Sprintf("the first %d samples of %d series of the UCR archive", shorter, ucr.series), ucr)
}
