package ensemble

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestRatio has ratios computed by hand, and requires that one is above 1 if and only if the score is above the threshold.
func TestRatio(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range [][3]float32{
		{3, 2, 1.5}, {1, 2, 0.5}, {-1, 2, 0}, {2, 2, 1}, {0, 0, 1}, {1e-40, 0, 1e6}, {-1, 0, 0}, {-1, -2, 1.5}, {-3, -2, 0.5}, {-9, -2, 0},
		{4, -2, 4}, {1e30, 1e-30, 1e6}, {-(1 - 1.0/(1<<24)), -1, aboveOne},
		{inf, 2, 1e6}, {-inf, 2, 0}, {-inf, -2, 0}, {nan, 2, nan}, {2, nan, nan}, {2, inf, nan}, {nan, inf, nan},
	} {
		if got := Ratio(c[0], c[1]); got != c[2] && (got == got || c[2] == c[2]) {
			t.Errorf("Ratio(%v, %v) is %v, want %v", c[0], c[1], got, c[2])
		}
	}
	r := seedtest.New(t)
	for range 100_000 {
		threshold := math.Float32frombits(r.Uint32())
		if threshold-threshold != 0 {
			continue
		}
		next, before := math.Nextafter32(threshold, inf), math.Nextafter32(threshold, -inf)
		for _, score := range []float32{threshold, next, before, float32(r.NormFloat64())} {
			if got := Ratio(score, threshold); (got > 1) != (score > threshold) || !(got >= 0 && got <= MaxRatio) {
				t.Fatalf("Ratio(%v, %v) is %v", score, threshold, got)
			}
		}
	}
}

// said is a member's row in the order of Add.
type said struct {
	member int
	row    Row
}

// anyWorld makes the rows of members with lags of their own, which leave some samples out. Ratios are often equal.
func anyWorld(r *rand.Rand) (p *Params, rows []said) {
	p = &Params{Members: 2 + r.IntN(4), Span: 1, Any: true}
	for range r.IntN(3) {
		p.Gates = append(p.Gates, float32(1+r.IntN(9)))
	}
	if p.Gates != nil || r.IntN(2) == 0 {
		for range p.Members {
			p.OnlyWith = append(p.OnlyWith, r.IntN(1+len(p.Gates)))
		}
	}
	type waiting struct{ rows []Row }
	n := p.inputs()
	lines, strides, after, skips, begins := make([]waiting, n), make([]int, n), make([]int, n), make([]int, n), make([]int, n)
	agrees := 1 + r.IntN(100) // one of so many scores opens a gate
	for m := range n {
		strides[m], after[m], skips[m], begins[m] = 1+r.IntN(8)*r.IntN(2), r.IntN(4), r.IntN(4)*r.IntN(2), r.IntN(30)
		p.Span = max(p.Span, strides[m])
	}
	for o := range int64(200) {
		for m := range n {
			if skips[m] > 0 && r.IntN(1+skips[m]) > 0 {
				continue
			}
			row := Row{Time: o / 2, Offset: o, About: o/2 - int64(m), Until: o/2 + int64(m), Imputed: r.IntN(9) == 0, OpenAfter: after[m],
				Score: []float32{0, 0.5, 1, 1.5, 2, 2, 1e6, float32(math.NaN()), float32(3 * r.Float64())}[r.IntN(9)]}
			if m >= p.Members {
				row.Score = []float32{0, 0.5, 1, float32(math.NaN())}[r.IntN(4)]
				if r.IntN(agrees) == 0 {
					row.Score = p.Gates[m-p.Members] + float32(r.IntN(2))
				}
			}
			if o < int64(begins[m]) {
				row.Score = float32(math.NaN())
			}
			if row.Score > 1 {
				row.Severity = uint8(r.IntN(101))
			}
			if lines[m].rows = append(lines[m].rows, row); len(lines[m].rows) == strides[m] {
				for _, row := range lines[m].rows {
					rows = append(rows, said{m, row})
				}
				lines[m].rows = nil
			}
		}
	}
	return p, rows
}

// direct is the definition of any: what is scored after all of rows, in order, with the terms. It knows no state.
func direct(p *Params, rows []said) (out []Row, terms [][]float64) {
	type place struct{ time, offset int64 }
	compare := func(a, b place) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.offset, b.offset)) }
	nan := float32(math.NaN())
	var line []place
	scored, run, begun := place{-1, -1}, make([]int, p.Members), make([]bool, p.Members)
	ratios, late := map[place][]Row{}, make([][]Row, p.Members)
	last, opens, lateOpens := make([]place, p.inputs()), make([]int, len(p.Gates)), make([]bool, len(p.Gates)) // samples since one that opens
	for g := range opens {
		opens[g] = 1 << 20
	}
	for m := range last {
		last[m] = place{-1, -1}
	}
	for _, s := range rows {
		at, row := place{s.row.Time, s.row.Offset}, s.row
		last[s.member] = at
		gate := s.member - p.Members
		switch {
		case gate >= 0:
		case row.Score > 1:
			if run[s.member]++; run[s.member] < row.OpenAfter {
				row.Score, row.Severity = 1, 0
			}
		case row.Score == row.Score:
			run[s.member] = 0
		}
		row.OpenAfter = s.member // of the definition: who said it
		switch {
		case compare(at, scored) <= 0 && gate >= 0:
			lateOpens[gate] = lateOpens[gate] || row.Score > p.Gates[gate]
		case compare(at, scored) <= 0:
			begun[s.member] = begun[s.member] || row.Score == row.Score
			if row.Score > 1 {
				late[s.member] = append(late[s.member], row)
			}
		default:
			if ratios[at] == nil {
				line = append(line, at)
				slices.SortFunc(line, compare)
			}
			ratios[at] = append(ratios[at], row)
		}
		for len(line) > 0 {
			at := line[0]
			behind := slices.ContainsFunc(last, func(l place) bool { return compare(l, at) < 0 })
			if behind && len(line) <= p.Span {
				break
			}
			line, scored = line[1:], at
			r := Row{Time: at.time, Offset: at.offset, About: at.time, Until: at.time, Score: nan}
			highest, above := make([]float64, p.Members), []Row{}
			shut := make([]bool, 1+len(p.Gates)) // the first stands for no gate
			for g, number := range p.Gates {
				row := slices.IndexFunc(ratios[at], func(r Row) bool { return r.OpenAfter == p.Members+g })
				opens[g]++
				if row >= 0 && ratios[at][row].Score > number || lateOpens[g] {
					opens[g] = 0
				}
				lateOpens[g] = false
				shut[1+g] = row >= 0 && ratios[at][row].Score == ratios[at][row].Score && opens[g] >= 48
			}
			turned := func(m int) bool { return p.OnlyWith != nil && shut[p.OnlyWith[m]] }
			var some []Row
			for _, row := range ratios[at] {
				if row.OpenAfter >= p.Members {
					continue
				}
				r.Imputed = r.Imputed || row.Imputed
				if row.Score == row.Score {
					begun[row.OpenAfter] = true
					some = append(some, row)
				}
				if row.Score > 1 {
					above = append(above, row)
				}
			}
			if chosen := above; len(some) > 0 {
				if len(chosen) == 0 {
					chosen = some
				}
				r.About, r.Until = chosen[0].About, chosen[0].Until
				for _, row := range chosen {
					r.About, r.Until = min(r.About, row.About), max(r.Until, row.Until)
				}
			}
			for m := range late {
				for _, row := range late[m] {
					some, r.About = append(some, row), min(r.About, row.About)
				}
				late[m] = nil
			}
			for _, row := range some {
				if turned(row.OpenAfter) && row.Score > 1 {
					row.Score, row.Severity = 1, 0
					r.TurnedAway |= 1 << row.OpenAfter
				}
				highest[row.OpenAfter] = max(highest[row.OpenAfter], float64(row.Score))
				if !(r.Score > row.Score) {
					r.Score = row.Score
				}
				if row.Score > 1 {
					r.Severity = max(r.Severity, row.Severity)
				}
			}
			r.WarmingUp = !slices.Contains(begun, true)
			out, terms = append(out, r), append(terms, highest)
		}
	}
	return out, terms
}

// TestAny compares what is scored with the definition: with ties, missing scores, members that begin later, lags, samples left
// out, scores that come too late, and gates.
func TestAny(t *testing.T) {
	rnd := seedtest.New(t)
	exceed, overdue, warming, turned := 0, 0, 0, 0
	for world := range 300 {
		p, rows := anyWorld(rnd)
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		state, terms := make([]uint64, p.Size()), make([]float64, p.Members)
		var got []Row
		var parts [][]float64
		for i := range rows {
			if reached(state[atScored:], rows[i].row.Time, rows[i].row.Offset) && rows[i].row.Score > 1 {
				overdue++
			}
			p.Add(state, rows[i].member, &rows[i].row)
			for r := (Row{}); p.Next(state, &r, terms, nil); {
				got, parts = append(got, r), append(parts, slices.Clone(terms))
			}
			if !p.Valid(state) {
				t.Fatalf("world %d: after row %d the state %x is not valid", world, i, state)
			}
		}
		want, whole := direct(p, rows)
		if len(got) != len(want) {
			t.Fatalf("world %d: %d rows, want %d", world, len(got), len(want))
		}
		for i := range want {
			a, b := got[i], want[i]
			if math.Float32bits(a.Score) != math.Float32bits(b.Score) && (a.Score == a.Score || b.Score == b.Score) {
				t.Fatalf("world %d: score %d is %v, want %v", world, i, a.Score, b.Score)
			}
			if (a.Remaining > 0) != b.WarmingUp {
				t.Fatalf("world %d: row %d says that %d samples remain", world, i, a.Remaining)
			}
			a.Remaining = 0 // see TestRemaining
			if a.Score, b.Score = 0, 0; a != b || !slices.Equal(parts[i], whole[i]) {
				t.Fatalf("world %d: row %d is\n%+v %v, want\n%+v %v", world, i, a, parts[i], b, whole[i])
			}
			if got[i].Score > 1 {
				exceed++
			}
			if b.WarmingUp {
				warming++
			}
			if b.TurnedAway != 0 {
				turned++
			}
		}
	}
	t.Logf("%d scores above 1, %d that came late, %d samples while warming up, %d with a score turned away", exceed, overdue, warming, turned)
	if exceed == 0 || overdue == 0 || warming == 0 || turned == 0 {
		t.Error("something did not happen")
	}
}

// TestSharesOfAny: the members above 1 share by the logarithms of their ratios; if there are none, the first of the highest has all.
func TestSharesOfAny(t *testing.T) {
	p := &Params{Members: 3, Span: 1, Any: true}
	shares := make([]float64, 3)
	for _, c := range []struct{ terms, want []float64 }{
		{[]float64{4, 0.9, 2}, []float64{2. / 3, 0, 1. / 3}}, {[]float64{0.5, 0.9, 0.9}, []float64{0, 1, 0}}, {[]float64{0, 0, 0}, nil},
		{[]float64{1, 0, 1}, []float64{1, 0, 0}},
	} {
		ok := p.Shares(shares, c.terms)
		if ok != (c.want != nil) {
			t.Errorf("%v: %v", c.terms, ok)
		}
		for i, w := range c.want {
			if math.Abs(shares[i]-w) > 1e-15 {
				t.Errorf("shares of %v are %v, want %v", c.terms, shares, c.want)
			}
		}
	}
}

// TestGate has a gate that opens for 48 samples with a score above its number, and stays open without a score; the first member alone
// has it.
func TestGate(t *testing.T) {
	p := &Params{Members: 2, Span: 1, Any: true, Gates: []float32{8}, OnlyWith: []int{1, 0}}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	nan := float32(math.NaN())
	state, terms := make([]uint64, p.Size()), make([]float64, 2)
	for o := range int64(200) {
		gate, want := float32(8), float32(1)
		switch {
		case o < 20 || o >= 150:
			gate, want = nan, 3 // no season
		case o == 100:
			gate, want = 8.5, 3
		case o > 100 && o < 148:
			want = 3
		}
		p.Add(state, 0, &Row{Time: o, Offset: o, Score: 3, Severity: 70})
		p.Add(state, 1, &Row{Time: o, Offset: o, Score: 0.5})
		p.Add(state, 2, &Row{Time: o, Offset: o, Score: gate})
		var r Row
		if !p.Next(state, &r, terms, nil) || r.Score != want || (r.TurnedAway == 1) != (want == 1) || (r.Severity == 70) != (want == 3) {
			t.Fatalf("sample %d: %+v, want %v", o, r, want)
		}
	}
}

// TestStatesOfAny requires that words that no state has are refused.
func TestStatesOfAny(t *testing.T) {
	p := Params{Members: 2, Span: 2, Any: true}
	above := word(2, 50)
	for _, bad := range [][2]uint64{{atMembers, 2 + maxRun}, {atMembers + memberLate, word(1, 0)}, {atMembers + memberLate, word(2, 101)},
		{atMembers + memberLate, word(float32(math.Inf(1)), 0)}} {
		state := make([]uint64, p.Size())
		if state[bad[0]] = bad[1]; p.Valid(state) {
			t.Errorf("word %d is %x, and taken", bad[0], bad[1])
		}
	}
	gated := Params{Members: 2, Span: 2, Any: true, Gates: []float32{8}, OnlyWith: []int{1, 0}}
	for _, bad := range [][2]uint64{{memberPlace, 2}, {gateOpen, GateSpan + 1}, {gateEmpty, 1}} {
		state := make([]uint64, gated.Size())
		if state[atMembers+2*memberSize+int(bad[0])] = bad[1]; gated.Valid(state) {
			t.Errorf("word %d of a gate is %x, and taken", bad[0], bad[1])
		}
	}
	for word, ok := range map[uint64]bool{above: true, none: true, word(0.5, 0): true, word(0.5, 50): false, word(2, 101): false} {
		state := make([]uint64, p.Size())
		state[atWaiting], state[p.queue()+sampleScores], state[p.queue()+sampleScores+1] = 1, word, none
		if p.Valid(state) != ok {
			t.Errorf("score %x: %v", word, !ok)
		}
		sum := Params{Members: 2, Span: 2, Memory: 1, MinPoints: 1}
		if word == above && sum.Valid(state) {
			t.Error("a severity in the state of a sum is taken")
		}
	}
}
