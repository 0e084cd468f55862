package joint

import (
	"math"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// TestDistance compares with the examples of SciPy's documentation of spatial.distance.mahalanobis: the inverse of the covariance has 1 on
// its diagonal and 0.5 elsewhere.
func TestDistance(t *testing.T) {
	p := &Params{Window: 8, Guard: 8, Memory: 100}
	const dim = 3
	c := p.at(make(detectors.Words, p.Words(dim)), 0, dim)
	// The covariance is 1.5, and -0.5 beside the diagonal. decompose adds the least deviation and shrinks correlations.
	for i := range dim {
		c.setBounds(i, 0, 1)
		for j := range i + 1 {
			if c.c[i*(i+1)/2+j] = float32(-0.5 / (1 - shrink)); i == j {
				c.c[i*(i+1)/2+j] = 1.5 - floor*floor
			}
		}
	}
	var m scratch
	m.grow(dim)
	c.decompose(m.w)
	for _, x := range []struct {
		v, u []float64
		want float64
	}{
		{[]float64{1, 0, 0}, []float64{0, 1, 0}, 1},
		{[]float64{0, 2, 0}, []float64{0, 1, 0}, 1},
		{[]float64{2, 0, 0}, []float64{0, 1, 0}, 1.7320508075688772},
	} {
		for j := range dim {
			m.y[j], c.mean[j] = x.v[j], float32(x.u[j])
		}
		q, known := m.distance(&c)
		if got := math.Sqrt(q); math.Abs(got-x.want) > 1e-6 || known != dim {
			t.Errorf("%v and %v: %v of %d fields, want %v", x.v, x.u, got, known, x.want)
		}
	}
}

// scores scores rows of dim fields one by one, and returns the fields of the last one, too.
func scores(p *Params, rows []float64, dim int) (scores []float64, last []field) {
	state := make(detectors.Words, p.Words(dim))
	var m scratch
	for i := range len(rows) / dim {
		scores = append(scores, m.Step(p, state, rows, dim, i))
	}
	return scores, append([]field(nil), m.fields...)
}

// pair is a load and a current that follows it, and a third field of its own.
func pair(r interface{ NormFloat64() float64 }, i int) []float64 {
	load := math.Sin(float64(i)*0.02) + 0.5*math.Sin(float64(i)*0.057)
	return []float64{load, 100 + 7*load + 0.1*r.NormFloat64(), r.NormFloat64()}
}

// TestBrokenRelation: where a field leaves the relation to another one for some samples, within its own range, the score is above all
// others, and the explanation names the field and the value that the other one leads to expect.
func TestBrokenRelation(t *testing.T) {
	r := seedtest.New(t)
	p := &Params{Window: 32, Guard: 256, Memory: 10000}
	var rows []float64
	for i := range 3000 {
		rows = append(rows, pair(r, i)...)
	}
	at := 3 * 2999
	expected := rows[at+1]
	for i := range 24 {
		rows[at-3*i+1] -= 5
	}
	all, fields := scores(p, rows, 3)
	before := 0.0
	for _, v := range all[1500:2970] {
		before = max(before, v)
	}
	if !(all[2999] > 1.2*before) {
		t.Errorf("a broken relation scores %v, the highest before is %v", all[2999], before)
	}
	// The current's square is the larger one: the third field has nothing to do with it.
	if f := fields[1]; !(f.Score > 1.5*fields[2].Score) || math.Abs(rows[at+1]+f.Off-expected) > 1.5 {
		t.Errorf("%+v: expects %v of the current, which was to be %v", fields, rows[at+1]+f.Off, expected)
	}
}

// TestUnits: fields in other units have the same scores.
func TestUnits(t *testing.T) {
	r := seedtest.New(t)
	p := &Params{Window: 16, Guard: 32, Memory: 500}
	var rows, others []float64
	for i := range 900 {
		x := pair(r, i)
		rows = append(rows, x...)
		others = append(others, x[0]*1024, x[1]/4096, x[2]*1e6-5e5)
	}
	a, _ := scores(p, rows, 3)
	b, _ := scores(p, others, 3)
	for i := range a {
		if !(math.Abs(a[i]-b[i]) <= 1e-3*a[i]) && (a[i] == a[i] || b[i] == b[i]) {
			t.Fatalf("sample %d: %v, in other units %v", i, a[i], b[i])
		}
	}
}

// TestLasting: a state that lasts has high scores for the guard at least, and is learnt in the end.
func TestLasting(t *testing.T) {
	r := seedtest.New(t)
	p := &Params{Window: 32, Guard: 256, Memory: 1000}
	var rows []float64
	for i := range 9000 {
		x := []float64{r.NormFloat64(), r.NormFloat64()}
		if i >= 3000 {
			x[0] += 6
		}
		rows = append(rows, x...)
	}
	all, _ := scores(p, rows, 2)
	for i := 3032; i < 3256; i++ {
		if all[i] < 3 {
			t.Fatalf("sample %d of a change scores %v", i-3000, all[i])
		}
	}
	mean := 0.0
	for _, v := range all[8500:] {
		mean += v / 500
	}
	if mean > 2 {
		t.Errorf("5,500 samples after a change the scores are %v in the mean", mean)
	}
}

// TestMissing: without a value a sample is scored by its other fields, and nothing of it is learnt.
func TestMissing(t *testing.T) {
	r := seedtest.New(t)
	p := &Params{Window: 8, Guard: 16, Memory: 1000}
	var rows []float64
	for i := range 1200 {
		x := pair(r, i)
		if i%3 == 1 {
			x[r.IntN(3)] = math.NaN()
		}
		rows = append(rows, x...)
	}
	copy(rows[3*1199:], []float64{math.NaN(), rows[3*1199+1], 40})
	all, fields := scores(p, rows, 3)
	for i, v := range all[300:1199] {
		if !(v > 0 && v < 30) {
			t.Fatalf("sample %d scores %v", 300+i, v)
		}
	}
	if !(all[1199] > 5) || !(fields[2].Score > fields[1].Score) {
		t.Errorf("a value far off scores %v, fields %+v", all[1199], fields)
	}
	clear(rows[3*600:])
	for i := 3 * 600; i < len(rows); i++ {
		rows[i] = math.NaN()
	}
	if all, _ = scores(p, rows, 3); all[1199] == all[1199] {
		t.Errorf("a sample without values scores %v", all[1199])
	}
}

func TestFaults(t *testing.T) {
	_, err := New(OpParams{Window: 64, Guard: 32, Memory: 3})
	for _, want := range []string{"guard is 32 samples, use 64", "memory is 3"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not say %q", err, want)
		}
	}
}
