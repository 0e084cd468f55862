package ensemble

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
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
		for r := (Row{}); p.Next(state, &r, terms, nil); {
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

// TestMax requires the highest term of the members that have a score, also where all are below 0 and where one has none.
func TestMax(t *testing.T) {
	p := &Params{Members: 3, Memory: 10, MinPoints: 1, Span: 1, Max: true}
	nan := float32(math.NaN())
	state, terms := make([]uint64, p.Size()), make([]float64, 3)
	var got []float32
	for o, scores := range [][3]float32{{2, 8, nan}, {4, 2, nan}, {1.5, 1, nan}, {nan, 11. / 6, 1e6}, {nan, nan, nan}} {
		for m, s := range scores {
			p.Add(state, m, &Row{Time: int64(o), Offset: int64(o), Score: s})
		}
		for r := (Row{}); p.Next(state, &r, terms, nil); {
			got = append(got, r.Score)
		}
	}
	// The last member has no score before its second. Means of the others before the second sample: 2, 8; before the third
	// 3, 5; before the fourth 2.5, 11/3.
	want := []float32{nan, float32(math.Log(2)), float32(math.Log(0.5)), float32(math.Log(0.5)), nan}
	if !slices.EqualFunc(got, want, func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-6 || a != a && b != b }) {
		t.Errorf("scores %v, want %v", got, want)
	}
	if err := (&Params{Members: 2, Span: 1, Any: true, Max: true}).Check(); err == nil {
		t.Error("any and the highest term together are no fault")
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
		for r := (Row{}); p.Next(state, &r, terms, nil); {
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
		{Members: 2, Any: true}, {Members: 1, Span: 1, Any: true}, {Members: 2, Span: 1, Any: true, Lags: []int{0, 1}},
		{Members: 2, Span: 1, Any: true, Gates: []float32{0}, OnlyWith: []int{1, 0}},
		{Members: 2, Memory: 9, MinPoints: 1, Span: 1, Gates: []float32{1}},
		{Members: 2, Span: 1, Any: true, Gates: []float32{1}, OnlyWith: []int{2, 0}}, {Members: 2, Span: 1, Any: true, OnlyWith: []int{0}}} {
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

// TestLags requires that an ensemble with lags scores as one without whose members' scores are of as many samples before.
func TestLags(t *testing.T) {
	r := seedtest.New(t)
	nan := float32(math.NaN())
	for range 50 {
		plain := &Params{Members: 2 + r.IntN(3), Memory: 5 + r.IntN(20), MinPoints: 1 + r.IntN(5), Span: 1 + r.IntN(8)}
		late := *plain
		for range late.Members {
			late.Lags = append(late.Lags, r.IntN(2)*r.IntN(30))
		}
		late.Lags[r.IntN(late.Members)] = 0
		if err := late.Check(); err != nil {
			t.Fatal(err)
		}
		score := func(p *Params, scores [][]float32) (all []Row) {
			state := make([]uint64, p.Size())
			terms := make([]float64, p.Members)
			from := make([]int, p.Members)
			for slices.Min(from) < len(scores[0]) {
				m := slices.Index(from, slices.Min(from)) // none waits for more than Span samples
				for range 1 + r.IntN(p.Span) {
					if o := int64(from[m]); from[m] < len(scores[m]) {
						p.Add(state, m, &Row{Time: o, Offset: o, About: o - 2, Until: o, Score: scores[m][o]})
						from[m]++
					}
					for row := (Row{}); p.Next(state, &row, terms, nil); {
						all = append(all, row)
					}
				}
				if !p.Valid(state) {
					t.Fatalf("a state of %+v is not valid", p)
				}
			}
			return all
		}
		scores, moved := make([][]float32, late.Members), make([][]float32, late.Members)
		for m := range scores {
			for range 200 {
				s := float32(r.ExpFloat64())
				if r.IntN(9) == 0 {
					s = nan
				}
				scores[m] = append(scores[m], s)
			}
			moved[m] = append(slices.Repeat([]float32{nan}, late.Lags[m]), scores[m]...)[:200]
		}
		got, want := score(&late, scores), score(plain, moved)
		if len(got) != 200 || len(want) != 200 {
			t.Fatalf("%d and %d samples", len(got), len(want))
		}
		for i := range got {
			g, w := &got[i], &want[i]
			if g.Offset != w.Offset || g.WarmingUp != w.WarmingUp || math.Float32bits(g.Score) != math.Float32bits(w.Score) {
				t.Fatalf("%+v, %v: %+v, want %+v", late, late.Lags, *g, *w)
			}
		}
	}
	p := Params{Members: 2, Memory: 3, MinPoints: 1, Span: 2, Lags: []int{0, 3}}
	for _, bad := range [][2]uint64{{0, 4}, {1, 3}, {1, 1}, {2, math.MaxUint64}} {
		state := make([]uint64, p.Size())
		if state[p.delays()+int(bad[0])] = bad[1]; p.Valid(state) {
			t.Errorf("word %d of a delay is %d, and taken", bad[0], bad[1])
		}
	}
	for _, lags := range [][]int{{1}, {0, -1}, {MaxLag + 1, 0}} {
		if p.Lags = lags; p.Check() == nil {
			t.Errorf("lags of %v are taken", lags)
		}
	}
}

// TestEvery requires that a member that scores one sample of several has its score count for the samples before it, too, and
// that weights multiply the terms, as computed from all scores at once.
func TestEvery(t *testing.T) {
	r := seedtest.New(t)
	nan := float32(math.NaN())
	for range 60 {
		p := &Params{Members: 2 + r.IntN(3), Memory: 5 + r.IntN(20), MinPoints: 1 + r.IntN(4), Span: 1}
		for m := range p.Members {
			every := 1 + min(m, r.IntN(2))*r.IntN(40) // the first scores all
			p.Every, p.Weights, p.Span = append(p.Every, every), append(p.Weights, 0.1+4*r.Float64()), max(p.Span, every)
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		const n = 300
		phase, scores := r.IntN(p.Span), make([][]float32, p.Members)
		for m, every := range p.Every {
			for o := range n {
				s := float32(r.ExpFloat64())
				if (o-phase%every+every)%every != 0 || every == 1 && r.IntN(9) == 0 {
					s = nan
				}
				scores[m] = append(scores[m], s)
			}
		}
		state, terms := make([]uint64, p.Size()), make([]float64, p.Members)
		var got []Row
		for o := range int64(n) { // a member that scores one of several has a row with the last of them alone
			for m := range scores {
				if s := scores[m][o]; s == s || p.Every[m] == 1 {
					p.Add(state, m, &Row{Time: o, Offset: o, About: o - 100, Until: o, Score: s})
				}
				for row := (Row{}); p.Next(state, &row, terms, nil); {
					got = append(got, row)
				}
			}
			if !p.Valid(state) {
				t.Fatalf("a state of %+v is not valid", p)
			}
		}
		if len(got) < n-p.Span {
			t.Fatalf("%+v: %d rows of %d samples", p, len(got), n)
		}
		counts, means := make([]int, p.Members), make([]float64, p.Members)
		for i := range got {
			g := &got[i]
			sum, scored, about, warm := 0.0, false, g.Offset, false
			for m := range scores {
				warm = warm || counts[m] < p.MinPoints
				for at := g.Offset; at < min(n, g.Offset+int64(p.Every[m])); at++ {
					if s := scores[m][at]; s == s {
						sum, scored, about = sum+p.Weights[m]*term(float64(s), means[m]), true, min(about, at-100)
						break
					}
				}
				if s := scores[m][g.Offset]; s == s {
					counts[m] = min(counts[m]+1, p.Memory)
					means[m] += (float64(s) - means[m]) / float64(counts[m])
				}
			}
			want := nan
			if scored && !warm {
				want = float32(sum)
			}
			if g.WarmingUp != warm || (g.Score == g.Score) != (want == want) || math.Abs(float64(g.Score-want)) > 1e-5*(1+math.Abs(sum)) ||
				g.About != about && scored {
				t.Fatalf("%+v, phase %d: %+v, want %v about %d", p, phase, *g, want, about)
			}
		}
	}
	for _, p := range []Params{{Every: []int{1}}, {Every: []int{0, 1}}, {Every: []int{1, 9}}, {Weights: []float64{1}},
		{Weights: []float64{0, 1}}, {Weights: []float64{1, math.NaN()}}, {Weights: []float64{1, MaxWeight + 1}},
		{Any: true, Weights: []float64{1, 1}}, {Any: true, Every: []int{1, 1}}} {
		p.Members, p.Memory, p.MinPoints, p.Span = 2, 3, 1, 8
		if p.Check() == nil {
			t.Errorf("%+v is taken", p)
		}
	}
}

// TestReach requires that no sum exceeds the reach of the member with the largest term, from when it scored, by more than the means have
// moved since; and a reach computed by hand.
func TestReach(t *testing.T) {
	r := seedtest.New(t)
	const n, learnt = 5400, 5000
	for range 20 {
		p := &Params{Members: 2 + r.IntN(2), Memory: MaxMemory, MinPoints: 1, Span: 1}
		strides := make([]int, p.Members)
		for m := range strides {
			strides[m] = 1 + r.IntN(20)
			every := 1
			if m > 0 && r.IntN(2) == 0 {
				every = strides[m]
			}
			p.Every, p.Weights, p.Span = append(p.Every, every), append(p.Weights, 0.5+3*r.Float64()), max(p.Span, strides[m])
			p.Lags = append(p.Lags, min(m, r.IntN(2))*r.IntN(40))
			if every > 1 {
				p.Lags[m] = 0
			}
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		state, terms, counted := make([]uint64, p.Size()), make([]float64, p.Members), make([]float32, p.Members)
		reach := make([]map[float32]float64, p.Members) // by score
		for m := range reach {
			reach[m] = map[float32]float64{}
		}
		for o := range int64(n) {
			for m := range p.Members {
				if (int(o)+1)%strides[m] != 0 {
					continue
				}
				for at := o + 1 - int64(strides[m]); at <= o; at++ {
					if p.Every[m] > 1 && at < o {
						continue
					}
					row := &Row{Time: at, Offset: at, About: at, Until: at, Score: float32(0.2 + 1.6*r.Float64())}
					reach[m][row.Score] = p.Reach(state, m, row)
					p.Add(state, m, row)
					for out := (Row{}); p.Next(state, &out, terms, counted); {
						first := 0
						for i := range terms {
							if terms[i] > terms[first] {
								first = i
							}
						}
						if out.Offset <= learnt || !(terms[first] > 0) {
							continue
						}
						if most := reach[first][counted[first]]; float64(out.Score) > most+0.2 {
							t.Fatalf("%+v, strides %v: sample %d has the sum %v, terms %v; member %d reached %v", p, strides, out.Offset,
								out.Score, terms, first, most)
						}
					}
				}
			}
		}
	}
	// A member that scores one sample of 32, beside one whose delayed scores are known but for its last seven samples' own.
	p := &Params{Members: 2, Memory: MaxMemory, MinPoints: 1, Span: 32, Lags: []int{40, 0}, Every: []int{1, 32}, Weights: []float64{1, 4}}
	state := make([]uint64, p.Size())
	for o := range int64(320) {
		score := float32(1)
		if o == 320-41 {
			score = 2 // counts with the last sample
		}
		if o < 313 {
			p.Add(state, 0, &Row{Time: o, Offset: o, Score: score})
		}
		row := &Row{Time: o, Offset: o, Score: 1}
		switch {
		case o == 319:
			row.Score = 3
			want := 4*math.Log(3) + p.weighted(0, 2, state[atMembers:])
			if got := p.Reach(state, 1, row); got != want {
				t.Errorf("a reach of %v, want %v", got, want)
			}
			fallthrough
		case o%32 == 31:
			p.Add(state, 1, row)
			for p.Next(state, &Row{}, make([]float64, 2), nil) {
			}
		}
	}
}
