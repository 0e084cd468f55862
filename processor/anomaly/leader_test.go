package anomaly

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"odradek/detectors/seedtest"
)

// TestVoiceIsItsMember: an anomaly of an ensemble that hears one member alone, some samples later, has what an anomaly of that member
// has, through encodings. Of the range that is the lowest and the highest value, and without a delay all.
func TestVoiceIsItsMember(t *testing.T) {
	rng := seedtest.New(t)
	changes, ranges := 0, 0
	for range 300 {
		policy := randomPolicy(rng)
		values := make([]float64, 200)
		for i := range values {
			values[i] = math.Round(3 * rng.NormFloat64())
		}
		var alone, both State
		var want, got []Change
		var later []Input
		step := func(s *State, in *Input, to *[]Change) {
			if c, ok := s.Step(&policy, in, true); ok {
				*to = append(*to, c)
			}
		}
		lag := rng.IntN(2) * rng.IntN(17)
		for i := range values {
			in := Input{Time: int64(i), Offset: int64(i), About: int64(i - 3), Until: int64(i), Score: float32(math.Round(20 * rng.Float64())),
				Threshold: 10, Detector: "d", Severity: uint8(rng.IntN(100))}
			in.Exceeds = in.Score > in.Threshold
			ratio := in
			ratio.Score, ratio.Threshold = in.Score/in.Threshold, 1
			if later = append(later, ratio); in.Exceeds {
				in.Expected, in.Actual, in.Contribution = []float64{rng.Float64()}, values[i:i+1], []float64{1}
				in.Deviation = &Deviation{From: int64(i - 2), At: int64(i - 1)}
				in.Values = func(field int, last *Range) Range {
					return Cover(field, max(0, i-40), max(0, i-3), i, func(row int) float64 { return values[row] }, last)
				}
				both.KeepMember(&MemberScore{Member: "a", Time: in.Time, Offset: in.Offset, Until: in.Until, Ratio: ratio.Score, Score: in.Score,
					Threshold: in.Threshold, Expected: in.Expected, Actual: in.Actual, Contribution: in.Contribution,
					Deviation: in.Deviation}, in.Values)
			}
			step(&alone, &in, &want)
			for len(later) > lag || i == len(values)-1 && len(later) > 0 {
				now := &later[0]
				now.Members = both.MembersUntil(now.Time, now.Offset)
				step(&both, now, &got)
				later = later[1:]
				b := both.Append(nil)
				back, rest, err := decoded(b)
				if err != nil || len(rest) > 0 || !bytes.Equal(back.Append(nil), b) {
					t.Fatal(err, rest)
				}
				both = back
			}
		}
		if both.Waiting() || len(got) != len(want) {
			t.Fatalf("%d changes, want %d; waiting %t", len(got), len(want), both.Waiting())
		}
		for i := range want {
			a, w := &got[i].Anomaly, &want[i].Anomaly
			own := Leader{Member: "a", Samples: w.Samples, Score: w.PeakScore, Threshold: w.Threshold, PeakTime: w.PeakTime}
			if a.Leader == nil || *a.Leader != own || a.Start != w.Start || a.End != w.End || a.Severity != w.Severity {
				t.Fatalf("%+v, leader %+v; want %+v", a, a.Leader, own)
			}
			for _, l := range [...][2][]float64{{a.Expected, w.Expected}, {a.Actual, w.Actual}, {a.Contribution, w.Contribution}} {
				if !reflect.DeepEqual(l[0], l[1]) {
					t.Fatalf("%v, want %v", l[0], l[1])
				}
			}
			if lag == 0 && !reflect.DeepEqual(a.Range, w.Range) || a.Range.Low != w.Range.Low || a.Range.High != w.Range.High {
				t.Fatalf("range %+v, want %+v", a.Range, w.Range)
			}
			if changes++; w.Range.Held > 0 && lag == 0 {
				ranges++
			}
		}
	}
	if changes < 1000 || ranges < 200 {
		t.Errorf("%d changes, %d with a level", changes, ranges)
	}
}

// TestLeader: the member with the highest ratio until the anomaly opens leads it from then on, however high others become.
func TestLeader(t *testing.T) {
	policy := Policy{OpenAfter: 2, CloseAfter: 2, Release: 1}
	var s State
	at := int64(0)
	var last Change
	say := func(said ...MemberScore) (changed bool) {
		t.Helper()
		at++
		in := Input{Time: at, Offset: at, About: at, Until: at, Threshold: 1, Exceeds: len(said) > 0, Score: 0.5}
		for i := range said {
			w := &said[i]
			w.Time, w.Offset, w.Until, w.Threshold = at, at, at, 10
			w.Score, w.Expected, w.Contribution = 10*w.Ratio, []float64{float64(w.Ratio)}, []float64{1}
			s.KeepMember(w, func(int, *Range) Range { return Range{Low: -float64(w.Ratio), High: 0} })
			in.Score = max(in.Score, w.Ratio)
		}
		in.Members = s.MembersUntil(at, at)
		s.Leave(&in, true)
		c, changed := s.Step(&policy, &in, true)
		if changed {
			last = c
		}
		return changed
	}
	say(MemberScore{Member: "a", Ratio: 2}, MemberScore{Member: "b", Ratio: 1.5})
	if !say(MemberScore{Member: "a", Ratio: 1.25}, MemberScore{Member: "b", Ratio: 3}) ||
		*last.Anomaly.Leader != (Leader{Member: "b", Samples: 1, Score: 30, Threshold: 10, PeakTime: 2}) ||
		last.Anomaly.Expected[0] != 3 || last.Anomaly.Range.Width() != 3 || last.Anomaly.PeakScore != 3 || last.Anomaly.Samples != 2 {
		t.Fatalf("%+v, leader %+v, range %+v", last.Anomaly, last.Anomaly.Leader, last.Anomaly.Range)
	}
	say(MemberScore{Member: "a", Ratio: 8})
	say(MemberScore{Member: "b", Ratio: 2})
	say(MemberScore{Member: "b", Ratio: 4}, MemberScore{Member: "a", Ratio: 1.5})
	say()
	if !say() || *last.Anomaly.Leader != (Leader{Member: "b", Samples: 3, Score: 40, Threshold: 10, PeakTime: 5}) ||
		last.Anomaly.Expected[0] != 4 || last.Anomaly.Range.Width() != 4 ||
		last.Anomaly.PeakScore != 8 || last.Anomaly.PeakTime != 3 || last.Anomaly.Samples != 5 {
		t.Fatalf("%+v, leader %+v, range %+v", last.Anomaly, last.Anomaly.Leader, last.Anomaly.Range)
	}
}

// TestLeaderLike: an anomaly that is like false alarms of its leader ends with a score of the leader that is not like theirs, and
// with no score of another member.
func TestLeaderLike(t *testing.T) {
	policy := Policy{OpenAfter: 1, CloseAfter: 2, Release: 1}
	like := &Like{Bounds: NoBounds(25), Count: 3}
	var s State
	var kinds []Kind
	all := []MemberScore{{Member: "a", Ratio: 2}, {Member: "b", Ratio: 90}, {Member: "a", Ratio: 2.5}, {Member: "a", Ratio: 2.6}}
	for at, said := range all {
		said.Time, said.Offset, said.Score, said.Threshold = int64(at), int64(at), 10*said.Ratio, 10
		s.KeepMember(&said, nil)
		in := Input{Time: said.Time, Offset: said.Offset, Threshold: 1, Score: said.Ratio, Exceeds: true, Severity: 50,
			Members: s.MembersUntil(said.Time, said.Offset), Like: func(a *Anomaly) *Like {
				if a.Own().Member != "a" || a.Own().Score != 20 {
					t.Errorf("like what %+v says", a.Own())
				}
				return like
			}}
		if c, ok := s.Leave(&in, true); ok {
			kinds = append(kinds, c.Kind)
		}
		if c, ok := s.Step(&policy, &in, true); ok {
			kinds = append(kinds, c.Kind)
		}
		if at == 2 && s.Anomaly().Like == nil {
			t.Error("it was like false alarms until then")
		}
	}
	if !reflect.DeepEqual(kinds, []Kind{Open, Close, Open}) || s.Anomaly().Severity != 50 {
		t.Errorf("%v, severity %d", kinds, s.Anomaly().Severity)
	}
}
