package ensemble

import (
	"math"
	"slices"
	"testing"
)

// TestTerms has figures computed by hand: three members, the last of which is late.
func TestTerms(t *testing.T) {
	p := &Params{Members: 3, Memory: 2, MinPoints: 2, Span: 2}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	nan := float32(math.NaN())
	state := make([]uint64, p.Size())
	terms := make([]float64, 3)
	var got []Row
	var parts [][]float64
	add := func(member int, offset int64, score float32) {
		p.Add(state, member, &Row{Time: 10 * offset, Offset: offset, About: 10 * (offset - int64(member)), Until: 10 * offset, Score: score})
		for r := (Row{}); p.Next(state, &r, terms); {
			got, parts = append(got, r), append(parts, slices.Clone(terms))
		}
		if !p.Valid(state) {
			t.Fatalf("state %v is not valid", state)
		}
	}
	scores := [3][]float32{{2, 4, 6, 9, 0}, {1, 1, nan, 3, 0}, {0, 0, 5, 0, nan}}
	for o := range int64(5) {
		add(0, o, scores[0][o])
		add(1, o, scores[1][o])
		if o%2 == 1 {
			add(2, o-1, scores[2][o-1])
			add(2, o, scores[2][o])
		}
	}
	if len(got) != 4 {
		t.Fatalf("%d samples are scored before the last member has the last one", len(got))
	}
	add(2, 4, scores[2][4])
	// Means before the third sample: 3, 1, 0; before the fourth 4.5, 1, 2.5; before the fifth 6.75, 2, 1.25.
	want := [][]float64{nil, nil, {math.Log(6. / 3), 0, math.Log(1e6)}, {math.Log(9 / 4.5), math.Log(3), math.Log(0.1)},
		{math.Log(0.1), math.Log(0.1), 0}}
	for i, w := range want {
		r := &got[i]
		if r.Offset != int64(i) || r.Time != 10*r.Offset || r.WarmingUp != (w == nil) || (r.Score != r.Score) != (w == nil) {
			t.Fatalf("row %d is %+v", i, *r)
		}
		if w == nil {
			continue
		}
		if !slices.Equal(parts[i], w) || r.Score != float32(w[0]+w[1]+w[2]) {
			t.Errorf("sample %d has the terms %v and the score %v, want %v", i, parts[i], r.Score, w)
		}
		from := int64(2)
		if i == 4 {
			from = 1 // the last member has no score
		}
		if r.About != 10*(int64(i)-from) || r.Until != 10*int64(i) {
			t.Errorf("sample %d is about %d to %d", i, r.About, r.Until)
		}
	}
	shares := make([]float64, 3)
	if !p.Shares(shares, []float64{1, -2, 3}) || !slices.Equal(shares, []float64{0.25, 0, 0.75}) || p.Shares(shares, []float64{0, -1, 0}) {
		t.Errorf("shares %v", shares)
	}
}

// TestStragglers requires that with more samples than may wait the first is scored without the missing
// member, whose later score of it only updates its mean.
func TestStragglers(t *testing.T) {
	p := &Params{Members: 2, Memory: 10, MinPoints: 1, Span: 2}
	state := make([]uint64, p.Size())
	terms := make([]float64, 2)
	var got []Row
	add := func(member int, offset int64, score float32) {
		p.Add(state, member, &Row{Time: offset, Offset: offset, About: offset, Until: offset, Score: score})
		for r := (Row{}); p.Next(state, &r, terms); {
			got = append(got, r)
		}
	}
	add(0, 0, 1)
	add(1, 0, 4)
	for o := range int64(3) {
		add(0, 1+o, 2)
	}
	if len(got) != 2 || got[1].Offset != 1 || got[1].Score != float32(math.Log(2)) {
		t.Fatalf("%+v", got)
	}
	add(1, 1, 8) // late: the mean is 6 now
	add(1, 2, 12)
	want := float32(math.Log(2/1.5) + math.Log(2))
	if len(got) != 3 || got[2].Offset != 2 || got[2].Score != want {
		t.Fatalf("%+v, want %v", got, want)
	}
	add(1, 9, 1) // its next score passes 3, which it lacks
	if len(got) != 4 || got[3].Offset != 3 {
		t.Fatalf("%+v", got)
	}
}

func TestCheck(t *testing.T) {
	for _, p := range []Params{{Members: 1, Memory: 9, MinPoints: 1, Span: 1},
		{Members: 65, Memory: 9, MinPoints: 1, Span: 1}, {Members: 2, MinPoints: 1, Span: 1}, {Members: 2, Memory: 9, MinPoints: 10, Span: 1},
		{Members: 2, Memory: 9, Span: 1}, {Members: 2, Memory: 9, MinPoints: 1}, {Members: 2, Memory: 9, MinPoints: 1, Span: MaxSpan + 1},
		{Members: 2, Any: true}, {Members: 1, Span: 1, Any: true}} {
		if p.Check() == nil {
			t.Errorf("%+v is taken", p)
		}
	}
	p := Params{Members: 2, Memory: 3, MinPoints: 1, Span: 2}
	for _, bad := range [][2]uint64{{0, 2}, {atWaiting, 3}, {atMembers, 2}, {atMembers + memberCount, 4},
		{atMembers + memberMean, math.MaxUint64}} {
		state := make([]uint64, p.Size())
		if state[bad[0]] = bad[1]; p.Valid(state) {
			t.Errorf("word %d is %d, and taken", bad[0], bad[1])
		}
	}
	if p.Valid(make([]uint64, p.Size()-1)) || !p.Valid(make([]uint64, p.Size())) {
		t.Error("the length")
	}
}
