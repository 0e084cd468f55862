package scan

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"odradek/detectors"
)

// scanned scores one task on rows of dim values, by the definition and by the CPU form.
func scanned(t *testing.T, p OpParams, x []int64, dim, fresh int) (detectors.Detector, [2]detectors.Rows) {
	t.Helper()
	d, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	n, ok := d.Size(detectors.View{Dim: dim, Rows: len(x) / dim, Fresh: fresh})
	if !ok {
		t.Fatal("too little history")
	}
	var forms [2]detectors.Rows
	for i := range forms {
		r := &forms[i]
		*r = detectors.Rows{Dim: dim, Fresh: fresh, Params: d.Params(), XI: x, Scores: slices.Repeat([]float32{7}, n.Scores),
			Detail: make(detectors.Words, n.Detail)}
		for j := range r.Detail {
			r.Detail.SetInt(j, 7)
		}
		if i == 0 {
			score(*r)
		} else {
			cpu(t.Context(), r, detectors.Sequential)
		}
	}
	return d, forms
}

// regionsOf returns the regions of a task's block.
func regionsOf(t *testing.T, d detectors.Detector, r detectors.Rows) []FoundRegion {
	t.Helper()
	mediaType, block := d.(detectors.Blocker).Block(r)
	if block == nil && mediaType == "" {
		return nil
	}
	var regions []FoundRegion
	if err := json.Unmarshal(block, &regions); err != nil || mediaType != MediaType {
		t.Fatalf("%s %s: %v", mediaType, block, err)
	}
	return regions
}

// The map of TestScanRegions, of 4 rows and 7 columns: 2 x 2 cells of 9 counts and one of 6
// among ones. before samples of many counts come before it.
const (
	before  = 4
	mapRows = 4
	mapCols = 7
)

// cellsMap returns the map in samples of dim fields: a count, a baseline, and others.
func cellsMap(dim int, baseline int64) []int64 {
	x := slices.Repeat([]int64{1000}, before*dim)
	for i := range mapRows * mapCols {
		count := int64(1)
		switch y, x := i/mapCols, i%mapCols; {
		case (y == 1 || y == 2) && (x == 4 || x == 5):
			count = 9
		case y == 3 && x == 0:
			count = 6
		}
		x = append(x, []int64{count, baseline, 77 * int64(i)}[:dim]...)
	}
	return x
}

// TestScanRegions checks the cells of the samples that a region names, in a finding and in a block.
func TestScanRegions(t *testing.T) {
	const counts = 23 + 4*9 + 6
	llr := func(c, e float64) float64 { return c*math.Log(c/e) + (counts-c)*math.Log((counts-c)/(counts-e)) }
	for _, dim := range []int{1, 2, 3} {
		baseline := int64(1)
		if dim > 1 {
			baseline = 3
		}
		const fresh = before + 1
		d, forms := scanned(t, OpParams{Cells: mapRows * mapCols, Columns: mapCols, Top: 2}, cellsMap(dim, baseline), dim, fresh)
		for form, r := range forms {
			findings, regions := d.AppendFindings(nil, r), regionsOf(t, d, r)
			if len(findings) != 2 || len(regions) != 2 {
				t.Fatalf("dim %d, form %d: findings %+v, regions %+v", dim, form, findings, regions)
			}
			for i, want := range []struct {
				first, last  [2]int // y, x
				count, cells int64
			}{{[2]int{1, 4}, [2]int{2, 5}, 36, 4}, {[2]int{3, 0}, [2]int{3, 0}, 6, 1}} {
				expected := float64(want.cells) / (mapRows * mapCols) * counts
				ratio := llr(float64(want.count), expected)
				row := func(at [2]int) int { return before + at[0]*mapCols + at[1] }
				f, v := findings[i], regions[i]
				if f.Fresh != fresh-1 || f.From != row(want.first) || f.To != row(want.last) || f.Rank != i+1 || f.Region == nil ||
					!slices.Equal(f.Region.From, want.first[:]) || !slices.Equal(f.Region.To, want.last[:]) || math.Abs(f.Score-ratio) > 1e-5 {
					t.Errorf("dim %d, form %d: finding %+v, region %+v, want %+v with the ratio %v", dim, form, f, f.Region, want, ratio)
				}
				if v.Rows != [2]int{want.first[0], want.last[0]} || v.Columns != [2]int{want.first[1], want.last[1]} ||
					v.Count != want.count || v.Baseline != want.cells*baseline || math.Abs(v.Expected-expected) > 1e-9 ||
					math.Abs(v.Ratio-ratio) > 1e-9 || v.P != nil {
					t.Errorf("dim %d, form %d: block %+v, want %+v of the baseline %d with the ratio %v", dim, form, v, want, baseline, ratio)
				}
			}
			for i, s := range r.Scores {
				if last := i == fresh-1; last && float64(s) != findings[0].Score || !last && s == s {
					t.Errorf("dim %d, form %d: score %v of fresh row %d of %d", dim, form, s, i, fresh)
				}
			}
		}
	}
}

// TestScanNothing requires the score 0 of a map without any region, and no score of a map that the
// model excludes.
func TestScanNothing(t *testing.T) {
	p := OpParams{Cells: 6, Columns: 3, Top: 2}
	for _, c := range []struct {
		x    []int64
		want float32
	}{{slices.Repeat([]int64{5}, 7), 0}, {[]int64{5, 5, 5, 5, 5, 5, -1}, float32(math.NaN())}} {
		d, forms := scanned(t, p, c.x, 1, 2)
		for form, r := range forms {
			got := fmt.Sprint(r.Scores, d.AppendFindings(nil, r), regionsOf(t, d, r))
			var finds []detectors.Finding
			if c.want == 0 {
				finds = []detectors.Finding{{Fresh: 1, From: 1, To: 6}}
			}
			if want := fmt.Sprint([]float32{float32(math.NaN()), c.want}, finds, []FoundRegion(nil)); got != want {
				t.Errorf("%v, form %d: %s, want %s", c.x, form, got, want)
			}
		}
	}
}

// TestScanPValues requires that the p-values of a block are package scan's for the parameters of
// the op.
func TestScanPValues(t *testing.T) {
	x := cellsMap(2, 20)[2*before:]
	for _, p := range []OpParams{{Replicates: 99, Seed: 3}, {Replicates: 99, Seed: 1 << 20}, {Replicates: 57, Seed: 3},
		{Replicates: 99, Seed: 3, Model: ModelBernoulli}, {Replicates: 99, Seed: 3, MaxRows: 1, MaxColumns: 3},
		{Replicates: 99, Seed: 3, Direction: Below}, {Replicates: 99, Seed: 3, Direction: Both, Learnt: true}} {
		p.Cells, p.Columns, p.Top = mapRows*mapCols, mapCols, 3
		d, forms := scanned(t, p, x, 2, 1)
		g := &Grid{Rows: mapRows, Cols: mapCols}
		for c := range slices.Chunk(x, 2) {
			g.Count, g.Baseline = append(g.Count, c[0]), append(g.Baseline, c[1])
		}
		f := []Family{Poisson{}, Bernoulli{}}[p.Model]
		o := Options{Top: p.Top, MaxRows: p.MaxRows, MaxCols: p.MaxColumns, Direction: p.Direction}
		found := Define(g, f, o)
		null, err := NewReplicates(g, f, uint64(p.Seed), p.Learnt)
		if err != nil {
			t.Fatal(err)
		}
		want := null.DefinePValues(f, o, found, p.Replicates)
		for form, r := range forms {
			var got []float64
			for _, v := range regionsOf(t, d, r) {
				if v.P != nil {
					got = append(got, *v.P)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v, form %d: p %v, want %v", p, form, got, want)
			}
		}
		t.Logf("%+v: p %v", p, want)
	}
}

// TestScanHole: a hole of 4 x 2 cells with 1 instead of 20 is the region below what is expected, and in both directions, and no null
// map reaches its ratio; above, another is found.
func TestScanHole(t *testing.T) {
	x := make([]int64, 6*8)
	for i := range x {
		if x[i] = 20; i/8 >= 1 && i/8 <= 4 && i%8 >= 2 && i%8 <= 3 {
			x[i] = 1
		}
	}
	const counts, c, e = 40*20 + 8, 8, 808.0 * 8 / 48
	ratio := c*math.Log(c/e) + (counts-c)*math.Log((counts-c)/(counts-e)) // 115.3
	for _, direction := range []Direction{Above, Below, Both} {
		d, forms := scanned(t, OpParams{Cells: 48, Columns: 8, Replicates: 99, Seed: 1, Direction: direction}, x, 1, 48)
		for form, r := range forms {
			f := d.AppendFindings(nil, r)
			if len(f) != 1 || f[0].Region == nil {
				t.Fatalf("direction %d, form %d: %+v", direction, form, f)
			}
			g := f[0].Region
			found := slices.Equal(g.From, []int{1, 2}) && slices.Equal(g.To, []int{4, 3}) && math.Abs(g.Ratio-ratio) < 1e-9 && g.Observed == c &&
				math.Abs(g.Expected-e) < 1e-9 && g.P == 0.01
			if found != (direction != Above) || direction == Above && float64(g.Observed) <= g.Expected {
				t.Errorf("direction %d, form %d: %+v, want the hole with the ratio %v", direction, form, g, ratio)
			}
		}
	}
}

// TestScanShares requires that all cores share the null maps, and that a task has the same bits in any
// order.
func TestScanShares(t *testing.T) {
	const side, replicates = 24, 60
	x := make([]int64, side*side)
	for i := range x {
		x[i] = int64(i * i % 11 * (i % 3))
	}
	p := OpParams{Cells: side * side, Columns: side, Top: 2, Replicates: replicates, Seed: 5}
	_, forms := scanned(t, p, x, 1, 1)
	r := forms[1]
	r.Scores, r.Detail = make([]float32, len(r.Scores)), make(detectors.Words, len(r.Detail))
	var shares []int
	cpu(t.Context(), &r, func(n int, f func(int)) {
		shares = append(shares, n)
		for i := range n {
			f(n - 1 - i)
		}
	})
	if !slices.Equal(shares, []int{side, side, replicates}) {
		t.Errorf("shares %v", shares)
	}
	for form, want := range forms {
		if !slices.Equal(r.Scores, want.Scores) || !slices.Equal(r.Detail, want.Detail) {
			t.Errorf("done backwards it has the regions %v, in form %d %v", foundRegions(&r), form, foundRegions(&want))
		}
	}
}
