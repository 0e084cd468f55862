package anomaly

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/detectors/threshold"
	"odradek/processor/state/changelog"
)

// TestLife: scores against a threshold of 10, one a second; the changes as kind
// and time, an open one with what it covers.
func TestLife(t *testing.T) {
	nan := float32(math.NaN())
	plain := Policy{OpenAfter: 1, CloseAfter: 1, Release: 1}
	with := func(f func(*Policy)) Policy {
		r := plain
		f(&r)
		return r
	}
	for _, c := range []struct {
		name   string
		policy Policy
		scores []float32
		want   string
	}{
		{"nothing", plain, []float32{1, 10, 9}, ""},
		{"one sample", plain, []float32{1, 11, 9}, "open@1 close@2[1-1]"},
		{"the bound is not over", plain, []float32{10, 11, 10}, "open@1 close@2[1-1]"},
		{"still open at the end", plain, []float32{11, 12}, "open@0"},
		{"twice", plain, []float32{11, 1, 11, 1}, "open@0 close@1[0-0] open@2 close@3[2-2]"},
		{"three in a row", with(func(r *Policy) { r.OpenAfter = 3 }), []float32{11, 11, 1, 11, 11, 11, 1}, "open@5 close@6[3-5]"},
		{"close after two", with(func(r *Policy) { r.CloseAfter = 2 }), []float32{11, 1, 11, 1, 1, 1}, "open@0 close@4[0-2]"},
		{"hysteresis", with(func(r *Policy) { r.Release = 0.5 }), []float32{11, 9, 6, 5, 11}, "open@0 close@3[0-0] open@4"},
		{"what lies between breaks both rows", with(func(r *Policy) { r.Release, r.OpenAfter, r.CloseAfter = 0.5, 2, 2 }),
			[]float32{11, 9, 11, 11, 1, 9, 1, 1}, "open@3 close@7[2-3]"},
		{"least duration", with(func(r *Policy) { r.MinDuration = 3 }), []float32{11, 11, 11, 1, 11, 11, 11, 11, 1}, "open@7 close@8[4-7]"},
		{"merged", with(func(r *Policy) { r.MergeGap = 3 }), []float32{11, 1, 1, 1, 11, 1, 1, 1, 1, 11}, "open@0 close@8[0-4] open@9"},
		{"not a number", with(func(r *Policy) { r.OpenAfter, r.CloseAfter = 2, 2 }), []float32{11, nan, 11, 1, nan, nan, 1, nan},
			"open@2 close@6[0-2]"},
		{"updates by count", with(func(r *Policy) { r.UpdateEvery = 2 }), []float32{11, 11, 11, 11, 11, 11, 1},
			"open@0 update@2 update@4 close@6[0-5]"},
		{"updates by band", plain, []float32{11, 12, 65, 66, 100, 50, 1}, "open@0 update@2 update@4 close@6[0-5]"},
		{"warming up again", with(func(r *Policy) { r.Release = 0.5 }), []float32{11, -1, -1, 1}, "open@0 close@3[0-0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s State
			var got []string
			revision := uint32(0)
			for i, x := range c.scores {
				in := Input{Time: int64(i), Offset: int64(100 + i), About: int64(i), Until: int64(i), Score: x, Threshold: 10, Exceeds: x > 10,
					Severity: uint8(max(0, x))}
				if x == -1 {
					in.Score, in.Threshold = 5, float32(math.Inf(1))
				}
				ch, ok := s.Step(&c.policy, &in, true)
				if !ok {
					continue
				}
				text := fmt.Sprintf("%s@%d", [...]string{"open", "update", "close"}[ch.Kind], ch.Time)
				if revision++; ch.Kind == Open {
					revision = 1
				}
				if ch.Kind == Close {
					text += fmt.Sprintf("[%d-%d]", ch.Anomaly.Start, ch.Anomaly.End)
				}
				if ch.Anomaly.Revision != revision || ch.Offset != int64(100+i) || ch.Reason != Recovered {
					t.Errorf("%s: %+v, want revision %d", text, ch, revision)
				}
				got = append(got, text)
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("got  %s\nwant %s", g, c.want)
			}
		})
	}
}

// naive is the definition: it keeps every score since the last close and looks
// through all of them each time.
type naive struct {
	r    Policy
	ins  []Input
	from int // of the row that opened; -1: nothing is open
	last int // index of the last change
	sev  uint8
	a    Anomaly
	left bool // the next score opens an anomaly, also below OpenAfter and MinDuration
}

// leave closes an anomaly below major at a critical score that follows one under the threshold.
func (n *naive) leave(in Input) (c Change, left bool) {
	if n.from < 0 || in.Score != in.Score || !in.Exceeds || in.Severity < 83 || !n.under(&n.ins[len(n.ins)-1]) {
		return c, false
	}
	for _, o := range n.ins[n.from:] {
		if o.Exceeds && o.Severity >= 67 {
			return c, false
		}
	}
	c = n.change(Close, in)
	n.ins, n.from, n.left = nil, -1, true
	return c, true
}

func (n *naive) under(in *Input) bool {
	return !in.Exceeds && float64(in.Score) <= float64(in.Threshold)-(1-n.r.Release)*math.Abs(float64(in.Threshold))
}

// samples counts the scores over the threshold up to the one at an index.
func (n *naive) samples(until int) (count int) {
	for _, o := range n.ins[n.from : until+1] {
		if o.Exceeds {
			count++
		}
	}
	return count
}

func (n *naive) start() int64 {
	start := int64(math.MaxInt64)
	for _, o := range n.ins[n.from:] {
		switch {
		case !o.Exceeds:
		case o.Deviation != nil:
			start = min(start, o.Deviation.From)
		case !o.Located || start == math.MaxInt64:
			start = min(start, o.About)
		}
	}
	return start
}

func (n *naive) step(in Input) (Change, bool) {
	if in.Score != in.Score {
		return Change{}, false
	}
	n.ins = append(n.ins, in)
	i := len(n.ins) - 1
	row := func(is func(*Input) bool) int {
		k := i
		for k >= 0 && is(&n.ins[k]) {
			k--
		}
		return i - k
	}
	over := row(func(in *Input) bool { return in.Exceeds })
	if n.from < 0 {
		if !n.left && (over < n.r.OpenAfter || over == 0 || in.Time-n.ins[i-over+1].Time < n.r.MinDuration) {
			return Change{}, false
		}
		n.left = false
		n.from = i - over + 1
		id := ID(in.Detector, in.Key, in.Source, in.Time, in.Offset)
		n.a = Anomaly{ID: id, Fault: id, OpenedAt: in.Time}
		return n.change(Open, in), true
	}
	under := row(n.under)
	end := int64(math.MinInt64)
	for _, o := range n.ins[n.from:] {
		if o.Exceeds {
			end = max(end, o.Until)
		}
	}
	if under >= n.r.CloseAfter && (n.r.MergeGap == 0 || in.About > end+n.r.MergeGap) {
		c := n.change(Close, in)
		n.ins, n.from = nil, -1
		return c, true
	}
	sev := uint8(0)
	for _, o := range n.ins[n.from:] {
		if o.Exceeds {
			sev = max(sev, o.Severity)
		}
	}
	old, all := n.samples(n.last), n.samples(i)
	due := n.r.UpdateAfter > 0 && all > old && in.Exceeds && end-n.a.End >= n.r.UpdateAfter && (n.r.UpdateShare == 0 ||
		float64(end-n.a.End) >= n.r.UpdateShare*float64(end-n.start()) || float64(all-old) >= n.r.UpdateShare*float64(all))
	if due || n.r.UpdateEvery > 0 && i-n.last >= n.r.UpdateEvery || sev > n.sev && threshold.Band(sev) != threshold.Band(n.sev) {
		return n.change(Update, in), true
	}
	return Change{}, false
}

func (n *naive) change(k Kind, in Input) Change {
	a := &n.a
	a.Revision++
	a.Escalation = nil
	a.Samples, a.Severity, a.PeakScore, a.End = 0, 0, float32(math.Inf(-1)), math.MinInt64
	for _, o := range n.ins[n.from:] {
		if !o.Exceeds {
			continue
		}
		a.Samples++
		part := Deviation{From: o.About, At: o.Until}
		if o.Deviation != nil {
			part = *o.Deviation
		}
		if was := threshold.Band(a.Severity); a.Samples > 1 && o.Severity > a.Severity && threshold.Band(o.Severity) != was {
			a.Escalation = &Escalation{part.From, part.At, o.Time}
		} else if e := a.Escalation; e != nil && o.Score > a.PeakScore {
			a.Escalation = &Escalation{e.Start, part.At, e.Since}
		}
		a.Severity, a.End = max(a.Severity, o.Severity), max(a.End, o.Until)
		if o.Score > a.PeakScore {
			a.PeakScore, a.PeakTime, a.Threshold, a.Rank, a.Expected, a.Actual, a.Contribution = o.Score, part.At, o.Threshold, o.Rank, o.Expected,
				o.Actual, o.Contribution
			a.Spread, a.Carrier = part.Spread, o.Carrier
		}
	}
	a.Start = n.start()
	n.last, n.sev = len(n.ins)-1, a.Severity
	return Change{Kind: k, Time: in.Time, Offset: in.Offset, Anomaly: *a}
}

func randomPolicy(r *rand.Rand) Policy {
	policy := Policy{OpenAfter: 1 + r.IntN(4), CloseAfter: 1 + r.IntN(4), Release: 1, UpdateEvery: r.IntN(3) * r.IntN(10)}
	switch r.IntN(3) {
	case 0:
		policy.UpdateAfter, policy.UpdateShare = 1+r.Int64N(20), 0.3*r.Float64()
	case 1:
		policy.UpdateAfter = 1 + r.Int64N(50)
	}
	if r.IntN(2) == 0 {
		policy.Release = 0.2 + 0.8*r.Float64()
	}
	if r.IntN(2) == 0 {
		policy.MinDuration = r.Int64N(20)
	}
	if r.IntN(2) == 0 {
		policy.MergeGap = r.Int64N(40)
	}
	return policy
}

// TestDefinition: on random scores, a State says what the definition says,
// through encodings, clones and replays of what changed nothing.
func TestDefinition(t *testing.T) {
	r := seedtest.New(t)
	changes, replayed, left := 0, 0, 0
	for range 400 {
		policy := randomPolicy(r)
		if err := policy.Check(); err != nil {
			t.Fatal(err)
		}
		def := &naive{r: policy, from: -1}
		var s, at State   // at: after the last change, or later
		var since []Input // and what has come since
		time, high, lag := r.Int64N(1000)-500, r.Float64(), r.Int64N(30)
		sign, located := float32(1), r.IntN(2) == 0
		if r.IntN(4) == 0 {
			sign = -1
		}
		for i := range 300 {
			if r.IntN(20) == 0 {
				high = r.Float64()
			}
			time += r.Int64N(6)
			in := Input{Time: time, Offset: int64(i), About: time - lag, Until: time - lag/2, Threshold: sign * (1 + r.Float32()), Detector: "d",
				Key: []byte("k"), Source: []byte("s")}
			in.Score = in.Threshold + in.Threshold*float32(r.NormFloat64()/4)
			if r.Float64() < high {
				in.Score = in.Threshold + float32(r.ExpFloat64())
			}
			switch r.IntN(30) {
			case 0:
				in.Score = float32(math.NaN())
			case 1:
				in.Score = in.Threshold // a tie
			}
			in.Exceeds = in.Score > in.Threshold
			in.Severity, in.Rank = uint8(r.IntN(101)), float32(r.IntN(3))/2
			if r.IntN(10) > 0 {
				in.Severity = uint8(r.IntN(30))
			}
			in.Located = located
			if in.Exceeds && s.Peak(in.Score) {
				in.Actual = []float64{float64(in.Score) / 3}
				if located && r.IntN(4) > 0 {
					in.Deviation = &Deviation{From: in.About + (in.Until-in.About)/3, At: in.Until - (in.Until-in.About)/3, Spread: float64(r.IntN(3)) / 2}
					in.Carrier = []string{"", "near"}[r.IntN(2)]
				}
			}
			closed, gone := def.leave(in)
			got, ok := s.Leave(&in, true)
			got.Anomaly.Recurs = nil // TestRecurs compares it
			if ok != gone || !reflect.DeepEqual(got, closed) {
				t.Fatalf("sample %d of policy %+v:\nleft %+v %v, the definition says\n%+v %v", i, policy, got, ok, closed, gone)
			}
			if gone {
				left++
			}
			want, wanted := def.step(in)
			got, ok = s.Step(&policy, &in, true)
			got.Anomaly.Recurs = nil
			if ok != wanted || !reflect.DeepEqual(got, want) {
				t.Fatalf("sample %d of policy %+v:\n%+v %v, the definition says\n%+v %v", i, policy, got, ok, want, wanted)
			}
			if def.from >= 0 != s.Open() {
				t.Fatalf("open: %v", s.Open())
			}
			if since = append(since, in); ok {
				changes++
				at, since = s.Clone(), nil
			}
			if r.IntN(10) == 0 { // a restore
				b := at.Append([]byte{1, 2})
				back, rest, err := decoded(append(b, 9)[2:])
				if err != nil || len(rest) != 1 || !reflect.DeepEqual(back, at) {
					t.Fatalf("decoded %+v, %v, want %+v", back, err, at)
				}
				for _, in := range since {
					if c, ok := back.Leave(&in, false); ok {
						t.Fatalf("replay says %+v", c)
					}
					if c, ok := back.Step(&policy, &in, false); ok {
						t.Fatalf("replay says %+v", c)
					}
				}
				if !bytes.Equal(back.Append(nil), s.Append(nil)) {
					t.Fatal("replay leads to another state")
				}
				replayed += len(since)
				if s = back; r.IntN(2) == 0 {
					at, since = s.Clone(), nil
				}
			}
		}
	}
	t.Logf("%d changes, %d of them of anomalies that a critical score left, %d samples replayed", changes, left, replayed)
	if left == 0 {
		t.Error("no anomaly is left")
	}
}

// TestLike: an anomaly like false alarms has severity 0, in every record and through encodings. A score that is higher than
// theirs ends it and begins another; in a replay it does neither, and the next live score does.
func TestLike(t *testing.T) {
	policy := Policy{OpenAfter: 2, CloseAfter: 2, Release: 1}
	var s State
	asked := 0
	for i, c := range []struct {
		score float32
		emit  bool
		want  string // kind, revision, severity
	}{
		{11, true, ""}, {12, true, "0 1 0"}, {20, true, ""}, {1, true, ""}, {21, false, ""}, {15, true, "0 1 15"}, {70, true, "1 2 70"},
		{1, true, ""},
		{1, true, "2 3 70"},
		{15, true, ""}, {12, true, "0 1 0"}, {20, true, ""}, {21, true, "0 1 21"}, {1, true, ""}, {11, true, ""},
	} {
		in := Input{Score: c.score, Threshold: 10, Exceeds: c.score > 10, Severity: uint8(c.score), Like: func(a *Anomaly) *Like {
			asked++
			if a.PeakScore > 20 {
				return nil
			}
			return &Like{Bounds: NoBounds(20), Count: 3, Labels: [][16]byte{{1}, {2}}}
		}}
		got := ""
		if ch, ok := s.Leave(&in, c.emit); ok {
			got = fmt.Sprint(ch.Kind, ch.Anomaly.Revision, ch.Anomaly.Severity)
		}
		if ch, ok := s.Step(&policy, &in, c.emit); ok {
			got = fmt.Sprint(ch.Kind, ch.Anomaly.Revision, ch.Anomaly.Severity)
			if (ch.Anomaly.Like != nil) != (ch.Anomaly.Severity == 0) {
				t.Errorf("step %d: %+v with severity %d", i, ch.Anomaly.Like, ch.Anomaly.Severity)
			}
		}
		if got != c.want {
			t.Errorf("step %d: %q, want %q", i, got, c.want)
		}
		back, rest, err := decoded(s.Append(nil))
		if err != nil || len(rest) != 0 || !reflect.DeepEqual(back, s) {
			t.Fatalf("step %d: decoded %+v, %v, want %+v", i, back, err, s)
		}
		s = back
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

// TestCourse: an anomaly like false alarms ends where its course leaves theirs, and another opens with the same score, which is
// like none though the policy still covers it, however many scores opening one takes.
func TestCourse(t *testing.T) {
	policy := Policy{OpenAfter: 3, CloseAfter: 2, Release: 1, MinDuration: 2}
	const soon = 100 // near when it opens, and far with the next score
	wide := func(b *Bounds) { b.Wide, b.Narrow, b.After, b.Steep = 8, 6, 5, 4 }
	long := func(b *Bounds) { b.Long, b.Short, b.After = 8, 6, 5 }
	bounds := Bounds{Most: 20, Least: 15, After: 100, Samples: 1000, First: 2, Apart: 4}
	for _, c := range []struct {
		name   string
		change func(*Bounds)
		scores []float32 // from the one after that which opens it, one a microsecond
		// The deviation at each highest score, and from the first score after the opening on the width of the values and how many are held.
		far  float64
		ends int // the score with which it is like none any more; -1: none
	}{
		{"as they were", nil, []float32{16, 12, 12, 12, 12, 12, 12}, 5, -1},
		{"higher", nil, []float32{16, 21}, 5, 1},
		{"longer", func(b *Bounds) { b.Samples = 5 }, []float32{16, 12, 12}, 5, 2},
		{"of any length", func(b *Bounds) { b.Samples = 0 }, []float32{16, 12, 12, 12, 12, 12, 12, 12}, 5, -1},
		{"low", func(b *Bounds) { b.After = 7 }, []float32{14, 12, 12, 12, 12, 12, 12, 12, 12}, 5, 7},
		{"low, and soon over", func(b *Bounds) { b.After = 7 }, []float32{14, 12, 12, 12, 12, 12, 12}, 5, -1},
		{"high in time", func(b *Bounds) { b.After = 7 }, []float32{14, 12, 12, 12, 12, 12, 12, 15, 12}, 5, -1},
		{"near", nil, []float32{16, 12, 12, 12, 12, 12}, 1, 4},
		{"near, and soon over", nil, []float32{16, 12, 12, 12}, 1, -1},
		{"near later", func(b *Bounds) { b.After = 5 }, []float32{16, 12, 12, 12, 12, 12, 12}, 3, 5},
		{"nowhere known", func(b *Bounds) { b.After = 5 }, []float32{16, 12, 12, 12, 12, 12, 12}, -1, -1},
		{"too far", func(b *Bounds) { b.Far = 4.5 }, []float32{16, 16, 12}, 5, 0},
		{"too far soon after", func(b *Bounds) { b.Far = 4.5 }, []float32{16, 16, 12}, soon, 1},
		{"too far, nowhere known", func(b *Bounds) { b.Far = 4.5 }, []float32{16, 16, 12}, -1, -1},
		{"wide", wide, []float32{16, 12, 12, 12, 12, 12, 12}, 7, -1},
		{"too wide", wide, []float32{16, 12, 12}, 9, 0},
		{"too narrow", wide, []float32{16, 12, 12, 12, 12, 12, 12}, 5, 5},
		{"too narrow, and soon over", wide, []float32{16, 12, 12, 12, 12}, 5, -1},
		{"too steep", func(b *Bounds) { b.Steep = 2 }, []float32{11, 12, 14, 16}, 7, 3},
		{"long", long, []float32{16, 12, 12, 12, 12, 12, 12}, 7, -1},
		{"too long", long, []float32{16, 12, 12}, 9, 0},
		{"too short", long, []float32{16, 12, 12, 12, 12, 12, 12}, 5, 5},
		{"too short, and soon over", long, []float32{16, 12, 12, 12, 12}, 5, -1},
		{"short, nothing is held", long, []float32{16, 12, 12, 12, 12, 12, 12}, -1, -1},
		{"of any width", nil, []float32{16, 12, 12, 12, 12, 12, 12}, 1000, -1},
		{"far soon after", func(b *Bounds) { b.After = 5 }, []float32{16, 12, 12, 12, 12, 12, 12}, soon, -1},
	} {
		b := bounds
		if c.change != nil {
			c.change(&b)
		}
		var s State
		at, ended := int64(0), -1
		for i, score := range append([]float32{11, 12, 13}, c.scores...) {
			at++
			in := Input{Score: score, Threshold: 10, Exceeds: true, Severity: 50, Time: at, Like: func(a *Anomaly) *Like {
				return &Like{Bounds: b, Since: a.Samples, Deviation: a.Deviation(0)}
			}}
			if c.far >= 0 && c.far != soon {
				in.Values = func(field int, last *Range) Range {
					if field != 0 || (last == nil) != (s.Anomaly() == nil && i == 0) && last != nil && last.Level != 7 {
						t.Errorf("the values of field %d, after %+v", field, last)
					}
					if i < 3 {
						return Range{Low: 1, High: 4, Level: 7, Held: 2}
					}
					return Range{Low: 0.5, High: 0.5 + c.far, Level: 7, Held: uint32(c.far)}
				}
			}
			if s.Peak(score) && c.far >= 0 {
				in.Contribution = []float64{1}
				in.Expected, in.Actual = []float64{1}, []float64{1 - c.far}
				if c.far == soon && i < 3 {
					in.Actual[0] = 0
				}
			}
			left, gone := s.Leave(&in, true)
			ch, opened := s.Step(&policy, &in, true)
			if gone {
				ended = i - 3
				if left.Kind != Close || left.Anomaly.Like == nil || !opened || ch.Kind != Open || ch.Anomaly.Like != nil ||
					ch.Anomaly.Severity != 50 ||
					ch.Anomaly.Samples != 1 || ch.Anomaly.ID == left.Anomaly.ID && left.Anomaly.OpenedAt == at {
					t.Errorf("%s: %+v, then %+v", c.name, left, ch)
				}
			}
			back, _, err := decoded(s.Append(nil))
			if err != nil || !reflect.DeepEqual(back, s) {
				t.Fatalf("%s: decoded %+v, %v, want %+v", c.name, back, err, s)
			}
			s = back
		}
		if ended != c.ends {
			t.Errorf("%s: is like none from score %d on, want %d", c.name, ended, c.ends)
		}
	}
}

// TestCover: the range of what a score covers, with the values that are farther from the median of those before than half of the
// farthest, and the level of the scores before; what is not known is none of them.
func TestCover(t *testing.T) {
	rng := seedtest.New(t)
	for range 500 {
		values := make([]float64, 2+rng.IntN(2*History))
		for i := range values {
			if values[i] = math.Round(8 * rng.NormFloat64()); rng.IntN(9) == 0 {
				values[i] = math.NaN()
			}
		}
		from := rng.IntN(len(values))
		to := from + rng.IntN(len(values)-from)
		first := max(0, from-rng.IntN(2*History))
		level, known := math.NaN(), 0
		var before, covered []float64
		for i, v := range values {
			switch {
			case v != v:
			case i >= max(first, from-History) && i < from:
				before = append(before, v)
			case i >= from && i <= to:
				covered = append(covered, v)
			}
		}
		var last *Range
		if rng.IntN(2) == 0 {
			last = &Range{Held: uint32(rng.IntN(3)), Level: 3}
			if last.Held > 0 {
				level = last.Level
			}
		} else if len(before) > 0 {
			slices.Sort(before)
			level = before[len(before)/2]
		}
		want := Range{Field: 2, Low: math.Inf(1), High: math.Inf(-1)}
		far := 0.0
		for _, v := range covered {
			want.Low, want.High, far = min(want.Low, v), max(want.High, v), max(far, math.Abs(v-level))
		}
		for _, v := range covered {
			if math.Abs(v-level) > far/2 {
				known++
			}
		}
		if want.Held = uint32(known); known > 0 {
			want.Level = level
		}
		if got := Cover(2, first, from, to, func(row int) float64 { return values[row] }, last); got != want {
			t.Fatalf("%+v, want %+v of %v from %d to %d, first %d, after %+v", got, want, values, from, to, first, last)
		}
	}
}

// TestReplayThatDisagrees: another executor's scores cross a threshold that the
// first run's did not. Nothing is said of it before the next live score.
func TestReplayThatDisagrees(t *testing.T) {
	policy := Policy{OpenAfter: 2, CloseAfter: 2, Release: 1}
	var s State
	step := func(score float32, emit bool) string {
		in := Input{Score: score, Threshold: 10, Exceeds: score > 10, Severity: uint8(score)}
		if c, ok := s.Step(&policy, &in, emit); ok {
			return fmt.Sprint(c.Kind, c.Anomaly.Revision, c.Anomaly.Samples)
		}
		return ""
	}
	for i, c := range []struct {
		score float32
		emit  bool
		want  string
	}{
		{11, false, ""}, {11, false, ""}, {11, false, ""}, {11, true, "0 1 4"}, // opens late
		{95, false, ""}, {1, true, "1 2 5"}, // the band that was not told
		{1, false, ""}, {1, false, ""}, {1, true, "2 3 5"}, // closes late
		{11, false, ""}, {11, false, ""}, {1, true, ""}, // and one that was never published
	} {
		if got := step(c.score, c.emit); got != c.want {
			t.Errorf("step %d: %q, want %q", i, got, c.want)
		}
	}
}

func TestEnd(t *testing.T) {
	policy := Policy{OpenAfter: 2, CloseAfter: 2, Release: 1}
	var s State
	in := Input{Time: 5, Score: 2, Threshold: 1, Exceeds: true}
	if _, ok := s.End(Evicted, 9, 9); ok {
		t.Error("nothing was closed")
	}
	s.Step(&policy, &in, true)
	if _, ok := s.End(Evicted, 9, 9); ok || !s.Idle() {
		t.Error("what is pending was closed")
	}
	s.Step(&policy, &in, true)
	s.Step(&policy, &in, true)
	open := s.Clone()
	c, ok := s.End(Expired, 9, 8)
	if !ok || c.Kind != Close || c.Reason != Expired || c.Time != 9 || c.Offset != 8 || c.Anomaly.Revision != 2 || !s.Idle() {
		t.Errorf("%+v", c)
	}
	if a := open.Anomaly(); a == nil || a.Revision != 1 {
		t.Error("a clone changes with the original")
	}
}

func TestIDs(t *testing.T) {
	seen := map[[16]byte]bool{}
	for _, v := range []struct {
		d, k, s string
		t, o    int64
	}{{"d", "k", "s", 1, 2}, {"dk", "", "s", 1, 2}, {"d", "ks", "", 1, 2}, {"d", "k", "s", 2, 2}, {"d", "k", "s", 1, 3},
		{"", "dk", "s", 1, 2}} {
		seen[ID(v.d, []byte(v.k), []byte(v.s), v.t, v.o)] = true
	}
	if len(seen) != 6 || ID("a", nil, nil, 0, 0) != ID("a", nil, nil, 0, 0) {
		t.Errorf("%d different ids", len(seen))
	}
}

func TestRuleCheck(t *testing.T) {
	bad := Policy{Release: 1.5, MinDuration: -1, UpdateEvery: -1, Recurring: 101}
	err := fmt.Sprint(bad.Check())
	for _, want := range []string{"to open", "to close", "release", "duration", "update", "recurs"} {
		if !strings.Contains(err, want) {
			t.Errorf("%q is not in %s", want, err)
		}
	}
}

// TestAnomalyParts: an anomaly with any of its parts is decoded as it was, nothing that is cut off is, and a part that only a newer
// version knows is refused as such.
func TestAnomalyParts(t *testing.T) {
	all := Anomaly{
		ID: [16]byte{1, 2}, Fault: [16]byte{1, 2}, Revision: 3, Severity: 50, Samples: 7, Start: -5, End: 20, PeakTime: 6,
		OpenedAt: 8, PeakScore: 12, Threshold: 9, Rank: 0.5,
		Expected: []float64{1, 0.5}, Actual: []float64{1e8 + 0.1, -2}, Contribution: []float64{1. / 3, 2. / 3},
	}
	parts := []func(a *Anomaly){
		func(a *Anomaly) { a.Shadow = true },
		func(a *Anomaly) { a.Region = &Region{ColumnFrom: 1, ColumnTo: 2, X1: 3.5, Observed: 9, P: 0.1} },
		func(a *Anomaly) { a.Group = &Group{ID: [16]byte{9}, Since: -7} },
		func(a *Anomaly) {
			a.Like = &Like{Count: 3, Labels: [][16]byte{{4}}, Field: -1, Since: 2, Deviation: math.Inf(1), Bounds: Bounds{
				Most: 20, Least: math.Inf(-1), After: -6, Samples: 5, First: 1, Apart: 2, Far: 3, Narrow: 4, Wide: 5, Steep: 6, Short: 7, Long: 8,
			}}
		},
		func(a *Anomaly) { a.Range = &Range{Field: 1, Low: -1, High: 2, Level: 0.5, Held: 4} },
		func(a *Anomaly) { a.Leader = &Leader{Member: "near", Samples: 2, Score: 3, Threshold: 2, PeakTime: 11} },
		func(a *Anomaly) { a.Escalation = &Escalation{1, 2, 3} },
		func(a *Anomaly) { a.Spread, a.Carrier = 0.25, "near" },
		func(a *Anomaly) { a.Fault = [16]byte{5} },
		func(a *Anomaly) { a.Recurs = &Recurrence{86400e6, 12} },
	}
	for set := range 1 << len(parts) {
		a := all
		for i, part := range parts {
			if set>>i&1 != 0 {
				part(&a)
			}
		}
		b := a.Append(nil)
		d := changelog.Decoder{B: append(slices.Clip(b), 7)}
		if back := DecodeAnomaly(&d); !bytes.Equal(d.B, []byte{7}) || !reflect.DeepEqual(back, a) {
			t.Fatalf("decoded %+v, %v, want %+v", back, d.Err(), a)
		}
		if set == 0 || set == 1<<len(parts)-1 {
			for n := range b {
				d := changelog.Decoder{B: b[:n]}
				if DecodeAnomaly(&d); !errors.Is(d.Err(), changelog.ErrCorrupt) {
					t.Fatalf("cut off at %d of %d bytes: %v", n, len(b), d.Err())
				}
			}
		}
	}
	for _, b := range [][]byte{binary.AppendUvarint(nil, anomalyFlags+1), binary.AppendUvarint(nil, 1<<60)} {
		d := changelog.Decoder{B: append(b, make([]byte, 100)...)}
		if DecodeAnomaly(&d); !errors.Is(d.Err(), changelog.ErrNewer) {
			t.Errorf("flags % x: %v", b, d.Err())
		}
		d = changelog.Decoder{B: append(b, make([]byte, 100)...)}
		if Decode(&d); !errors.Is(d.Err(), changelog.ErrNewer) {
			t.Errorf("flags % x of a state: %v", b, d.Err())
		}
	}
}

// decoded returns the state at the front of b, and the rest.
func decoded(b []byte) (s State, rest []byte, err error) {
	d := changelog.Decoder{B: b}
	s = Decode(&d)
	return s, d.B, d.Err()
}

// FuzzDecode: any bytes are refused or written again as they were read.
func FuzzDecode(f *testing.F) {
	s := State{life: &life{open: true, anomaly: Anomaly{Revision: 3, Expected: []float64{1, 2}}}}
	f.Add(s.Append(nil))
	s.life.anomaly.Like = &Like{Bounds: NoBounds(2), Count: 3, Labels: [][16]byte{{1}}}
	f.Add(s.Append(nil))
	s.remember(&s.life.anomaly)
	f.Add(s.Append(nil))
	g := State{group: &Group{Since: -5}}
	f.Add(g.Append(nil))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, rest, err := decoded(b)
		if err != nil {
			return
		}
		again := s.Append(nil)
		two, rest2, err := decoded(again)
		if err != nil || len(rest2) != 0 || !bytes.Equal(two.Append(nil), again) || len(rest) > len(b) {
			t.Fatalf("%v", err)
		}
	})
}

func BenchmarkStep(b *testing.B) {
	for name, score := range map[string]float32{"idle": 1, "open": 3} {
		b.Run(name, func(b *testing.B) {
			policy := Policy{OpenAfter: 2, CloseAfter: 2, Release: 0.9}
			var s State
			in := Input{Score: score, Threshold: 2, Exceeds: score > 2}
			b.ReportAllocs()
			for b.Loop() {
				in.Time++
				s.Step(&policy, &in, true)
			}
		})
	}
}

// TestUpdatesKeepUp: with the default updates the last record of an anomaly that has been open for more than ten minutes has its duration
// and its samples to within a tenth, regardless of the rate of the samples and of scores over the threshold, with no more records than
// the logarithm of its age asks for.
func TestUpdatesKeepUp(t *testing.T) {
	r := seedtest.New(t)
	for range 60 {
		policy := Policy{OpenAfter: 1, CloseAfter: 1 << 20, Release: 1, UpdateAfter: DefaultUpdateAfter, UpdateShare: DefaultUpdateShare}
		every := int64(1e6) << r.IntN(9) // 1 s to 4 min
		often := 0.05 + 0.95*r.Float64()
		var s State
		var last Change
		changes, samples, end := 0, 0, int64(0)
		now := int64(0)
		for n := range 10_000 {
			now = int64(n) * every
			if n == 5_000 {
				often = 0.05 + 0.95*r.Float64()
			}
			in := Input{Time: now, Offset: int64(n), About: now, Until: now, Score: 1, Threshold: 10, Detector: "d"}
			if in.Exceeds = n == 0 || r.Float64() < often; in.Exceeds {
				in.Score = 11
				samples, end = samples+1, now
			}
			if c, ok := s.Step(&policy, &in, true); ok {
				last = c
				changes++
			}
			a := &last.Anomaly
			if now < 600e6 || now < 40*every {
				continue
			}
			if lag := float64(end - a.End); lag > 0.1*float64(now) {
				t.Fatalf("every %d: at %d the end is %d, published %d", every, now, end, a.End)
			}
			if float64(samples)-float64(a.Samples) > 0.1*float64(samples)+float64(60e6/every)+1 {
				t.Fatalf("every %d: at %d there are %d samples, published %d", every, now, samples, a.Samples)
			}
		}
		if most := 40 + 30*math.Log2(float64(now)/60e6+2); float64(changes) > most {
			t.Errorf("%d records of an anomaly of %d minutes", changes, now/60e6)
		}
	}
}
