package anomaly

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
)

const (
	aMinute = int64(60e6)
	anHour  = 60 * aMinute
	aDay    = 24 * anHour
)

// fault is a row of scores over the threshold, one a minute.
type fault struct {
	start, minutes int64
	peak           float32
	severity       uint8
	member         string
}

// faults makes anomalies of faults, in the order of their starts.
type faults struct {
	t      *testing.T
	policy Policy
	s      State
	offset int64
}

// add returns what the open and the close of a fault's anomaly say, and its updates. The state is written and read before each score.
func (f *faults) add(x fault) (changes []Change) {
	f.t.Helper()
	step := func(time int64, score float32, severity uint8) {
		f.t.Helper()
		b := f.s.Append(nil)
		back, rest, err := decoded(b)
		if err != nil || len(rest) > 0 || !bytes.Equal(back.Append(nil), b) {
			f.t.Fatalf("the state is read otherwise: %v", err)
		}
		f.s = back
		in := Input{Time: time, About: time, Until: time, Offset: f.offset, Score: score, Threshold: 10, Exceeds: score > 10, Severity: severity,
			Expected: []float64{1}, Actual: []float64{2}, Contribution: []float64{1}}
		if x.member != "" && in.Exceeds {
			in.Members = []MemberScore{{Member: x.member, Time: time, Offset: f.offset, Until: time, Ratio: score / 10, Score: score, Threshold: 10,
				Expected: in.Expected, Actual: in.Actual, Contribution: in.Contribution}}
			in.Expected, in.Actual, in.Contribution = nil, nil, nil
		}
		f.offset++
		if c, ok := f.s.Leave(&in, true); ok {
			changes = append(changes, c)
		}
		if c, ok := f.s.Step(&f.policy, &in, true); ok {
			changes = append(changes, c)
		}
	}
	for i := range x.minutes { // the highest in the middle
		score := x.peak
		if i != x.minutes/2 {
			score = 10.5
		}
		severity := x.severity
		if i < x.minutes/2 {
			severity = min(severity, 50)
		}
		step(x.start+i*aMinute, score, severity)
	}
	for i := range int64(3) {
		step(x.start+(x.minutes+i)*aMinute, 1, 0)
	}
	return changes
}

// TestRecurs: of like anomalies at regular intervals the third and each later one recurs, from its first record on.
func TestRecurs(t *testing.T) {
	daily := func(n int, change func(day int, f *fault)) (list []fault) {
		for day := range n {
			f := fault{start: int64(day)*aDay + 2*anHour, minutes: 60, peak: 40, severity: 90}
			if change(day, &f); f.minutes > 0 {
				list = append(list, f)
			}
		}
		return list
	}
	const day = "1440"
	for _, c := range []struct {
		name   string
		faults []fault
		want   string // the period in minutes and the count at the open and the close of each
	}{
		{"daily", daily(6, func(int, *fault) {}), "- - " + day + "/3 " + day + "/4 " + day + "/5 " + day + "/6"},
		{"missed", daily(9, func(day int, f *fault) {
			if day == 4 || day == 6 || day == 7 {
				f.minutes = 0
			}
		}), "- - " + day + "/3 " + day + "/4 " + day + "/5 " + day + "/6"},
		{"missed three times in a row", daily(8, func(day int, f *fault) {
			if day >= 3 && day <= 5 {
				f.minutes = 0
			}
		}), "- - " + day + "/3 - -"},
		{"missed before the third", daily(5, func(day int, f *fault) {
			if day == 1 {
				f.minutes = 0
			}
		}), "- - - " + day + "/3"},
		{"an hour late each third day", daily(6, func(day int, f *fault) {
			if day%3 == 0 {
				f.start += anHour
			}
		}), "- - - - - -"},
		{"two hours late once", daily(7, func(day int, f *fault) {
			if day == 4 {
				f.start += 2 * anHour
			}
		}), "- - " + day + "/3 " + day + "/4 1455/5 1438/6 1438/7"},
		{"too high", daily(5, func(day int, f *fault) {
			if day == 3 {
				f.peak = 81
			}
		}), "- - " + day + "/3 " + day + "/4>- " + day + "/4"},
		{"too long", daily(5, func(day int, f *fault) {
			if day == 3 {
				f.minutes = 130
			}
		}), "- - " + day + "/3 " + day + "/4>- " + day + "/4"},
		{"lower and shorter: the next one is not like it when it has ended", daily(5, func(day int, f *fault) {
			if day == 3 {
				f.peak, f.minutes = 15, 20
			}
		}), "- - " + day + "/3 " + day + "/4 " + day + "/5>" + day + "/4"},
		{"of two members", daily(6, func(day int, f *fault) {
			f.member = []string{"near", "far"}[day%2]
		}), "- - - - 2880/3 2880/3"},
		{"one and three samples", daily(4, func(day int, f *fault) {
			f.minutes = int64(1 + day%3)
		}), "- - " + day + "/3 " + day + "/4"},
		{"one and four samples", daily(4, func(day int, f *fault) {
			f.minutes = int64(1 + 3*(day%2))
		}), "- - - -"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := faults{t: t, policy: Policy{OpenAfter: 1, CloseAfter: 2, Release: 1}}
			said := func(r *Recurrence) string {
				if r == nil {
					return "-"
				}
				return fmt.Sprintf("%d/%d", (r.Period+aMinute/2)/aMinute, r.Count)
			}
			var got []string
			for _, x := range c.faults {
				changes := f.add(x)
				open, last := &changes[0], &changes[len(changes)-1]
				if open.Kind != Open || last.Kind != Close {
					t.Fatalf("%+v", changes)
				}
				text := said(open.Anomaly.Recurs)
				if end := said(last.Anomaly.Recurs); end != text {
					text += ">" + end
				}
				got = append(got, text)
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("got  %s\nwant %s", g, c.want)
			}
		})
	}
}

// TestAlternatingFaults: two faults a day of different heights recur each by itself.
func TestAlternatingFaults(t *testing.T) {
	f := faults{t: t, policy: Policy{OpenAfter: 1, CloseAfter: 2, Release: 1}}
	for day := range int64(9) {
		for i, x := range []fault{{start: 2 * anHour, minutes: 60, peak: 100}, {start: 9 * anHour, minutes: 60, peak: 30}} {
			x.start += day * aDay
			changes := f.add(x)
			r := changes[len(changes)-1].Anomaly.Recurs
			if day < 2 && r != nil || day >= 2 && (r == nil || *r != Recurrence{aDay, uint32(day + 1)}) {
				t.Errorf("day %d, fault %d: %+v", day, i, r)
			}
		}
	}
	if n := len(*f.s.recent); n != Remembered {
		t.Errorf("%d anomalies are remembered", n)
	}
}

// TestRandomFaults: of anomalies at random times few recur.
func TestRandomFaults(t *testing.T) {
	r := seedtest.New(t)
	f := faults{t: t, policy: Policy{OpenAfter: 1, CloseAfter: 2, Release: 1}}
	const n = 3000
	recur, third, start := 0, 0, int64(0)
	for range n {
		start += anHour + int64(r.ExpFloat64()*float64(8*anHour))
		if v := f.add(fault{start: start, minutes: 5, peak: 20})[0].Anomaly.Recurs; v != nil {
			if recur++; v.Count == 3 {
				third++
			}
		}
	}
	t.Logf("%d of %d recur, %d of them for the third time", recur, n, third)
	if float64(recur) > 0.04*n || recur == 0 {
		t.Errorf("%d of %d recur", recur, n)
	}
}

// TestRecurringSeverity: an anomaly that recurs has at most the severity that its policy says, until it is higher than the ones
// before: then it has its scores' severity, in an update.
func TestRecurringSeverity(t *testing.T) {
	for most, want := range map[uint8]uint8{0: 90, 49: 49, 66: 66, 95: 90} {
		f := faults{t: t, policy: Policy{OpenAfter: 1, CloseAfter: 2, Release: 1, Recurring: most}}
		for day := range int64(4) {
			x := fault{start: day * aDay, minutes: 61, peak: 40, severity: 90}
			if day == 3 {
				x.peak = 100
			}
			changes := f.add(x)
			last := &changes[len(changes)-1].Anomaly
			switch {
			case day == 2 && (last.Severity != want || last.Recurs == nil || want < 50 && (len(changes) > 2 || last.Escalation != nil)):
				t.Errorf("at most %d: severity %d, %d changes, %+v", most, last.Severity, len(changes), last)
			case day < 2 && last.Severity != 90:
				t.Errorf("at most %d: severity %d on day %d", most, last.Severity, day)
			case day == 3:
				update := changes[1]
				if most == 0 {
					continue
				}
				if open := changes[0].Anomaly; open.Recurs == nil || open.Severity != min(50, most) {
					t.Errorf("at most %d: opens with severity %d, %+v", most, open.Severity, open.Recurs)
				}
				if a := &update.Anomaly; update.Kind != Update || a.Severity != 90 || a.Recurs != nil || a.Escalation == nil ||
					a.Escalation.Since != x.start+30*aMinute {
					t.Errorf("at most %d: %+v", most, update)
				}
			}
		}
	}
}

// TestRegionsDoNotRecur: an anomaly of a grid is somewhere else each time.
func TestRegionsDoNotRecur(t *testing.T) {
	var s State
	s.remember(&Anomaly{Region: &Region{}})
	if s.Remembers() || s.recurrence(&Anomaly{Region: &Region{}}) != nil {
		t.Error("an anomaly of a region is remembered")
	}
	s.remember(&Anomaly{Start: math.MinInt64})
	if s.recurrence(&Anomaly{Region: &Region{}}) != nil {
		t.Error("an anomaly of a region recurs")
	}
}
