package state

import (
	"slices"
	"testing"

	"odradek/detectors"
)

// TestHeldSamplesAreBounded: a clock that stands still releases nothing, and yet no
// more than MaxHeld samples are held, none is lost and their order is kept.
func TestHeldSamplesAreBounded(t *testing.T) {
	const most, n = 1000, 200_000
	cfg := benchConfig(8, 1)
	cfg.Reading.Lateness, cfg.Reading.MaxHeld, cfg.MaxKeys = 60e6, most, 10
	s, b := New(cfg), &detectors.Batch{MaxTasks: 64}
	key := names(3)
	s.Mark(0)
	peak, size := 0, int64(0)
	for i := range int64(n) {
		for !s.Fits(b) {
			s.Apply(b)
			b.Reset()
			s.Rows = s.Rows[:0]
		}
		s.Fold(&Sample{Key: key[i%3], Time: 1e15, Offset: i, Values: []float64{1}}, b)
		peak, size = max(peak, s.Held()), max(size, s.Bytes())
	}
	for !s.Fits(b) {
		s.Apply(b)
		b.Reset()
	}
	if peak > most+1 || s.Held() > most {
		t.Errorf("%d samples are held and %d were at most, the limit is %d", s.Held(), peak, most)
	}
	if size > 200<<10 {
		t.Errorf("the state has grown to %d bytes", size)
	}
	if sum := s.Tally.Counts[Scored] + s.Tally.Counts[WarmingUp] + int64(s.Held()); sum != n || s.Tally.Counts[Late] != 0 {
		t.Errorf("%d samples became %v and %d held", n, s.Tally.Counts, s.Held())
	}
}

// TestOverdue: what a sample that has waited for MaxHeld offsets takes with it, and
// what is late after it.
func TestOverdue(t *testing.T) {
	late := func(c *Config) { c.Reading.Lateness, c.Reading.MaxHeld = 100, 3 }
	for _, c := range []struct {
		name    string
		cfg     func(*Config)
		samples string
		outs    []Outcome
		rows    string
		early   int64
		held    int
	}{
		{"the sample itself", nil, "a 1 1,b 2 1,b 3 1,b 4 1", []Outcome{Held, Held, Held, Held}, "a0@1w", 1, 3},
		{"what its key has of before, too", nil, "a 5 1,b 9 1,a 3 1,a 7 1", []Outcome{Held, Held, Held, Held}, "a2@3w a0@5w", 2, 2},
		{"and of the same time", nil, "a 5 1,a 5 1,b 9 1,b 9 1", []Outcome{Held, Held, Held, Held}, "a0@5w a1@5w", 2, 2},
		{"older ones of its key are late, others not", nil, "a 5 1,b 9 1,b 9 1,b 9 1,a 4 1,c 4 1,a 6 1",
			[]Outcome{Held, Held, Held, Held, Late, Held, Held}, "a0@5w b1@9w b2@9w b3@9s", 4, 2},
		{"one of the same time follows at once", nil, "a 5 1,b 9 1,b 9 1,b 9 1,a 5 1",
			[]Outcome{Held, Held, Held, Held, WarmingUp}, "a0@5w a4@5w b1@9w b2@9w b3@9s", 4, 0},
		{"or is a duplicate", func(c *Config) { late(c); c.Reading.DropDuplicates = true }, "a 5 1,b 8 1,b 9 1,b 10 1,a 5 1",
			[]Outcome{Held, Held, Held, Held, Duplicate}, "a0@5w b1@8w", 2, 2},
		{"late and filtered records count", func(c *Config) { late(c); c.Detectors[0].Keys = func(k []byte) bool { return k[0] != 'x' } },
			"a 500 1,b 1 1,x 500 1,x 500 1", []Outcome{Held, Late, Filtered, Filtered}, "a0@500w", 1, 0},
		{"the watermark is first", nil, "a 1 1,b 2 1,b 300 1,b 300 1,b 300 1,b 300 1,b 300 1", nil,
			"a0@1w b1@2w b2@300w b3@300s b4@300s b5@300s b6@300s", 4, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := one(&fake{window: 4, least: 3}, 1)
			late(cfg)
			if c.cfg != nil {
				c.cfg(cfg)
			}
			s, outs, rows := feed(t, cfg, c.samples)
			if c.outs != nil && !slices.Equal(outs, c.outs) {
				t.Errorf("outcomes %v, want %v", outs, c.outs)
			}
			if got := brief(rows); got != c.rows {
				t.Errorf("rows %s\nwant %s", got, c.rows)
			}
			if s.Tally.Early != c.early || s.Held() != c.held {
				t.Errorf("%d released early and %d held, want %d and %d", s.Tally.Early, s.Held(), c.early, c.held)
			}
		})
	}
}

// TestOverdueDoesNotDependOnMarks: offsets behind the last sample, such as
// transaction markers', release nothing until a sample comes, so that a replay, which
// has no marks there, releases the same.
func TestOverdueDoesNotDependOnMarks(t *testing.T) {
	cfg := one(&fake{window: 4, least: 3}, 1)
	cfg.Reading.Lateness, cfg.Reading.MaxHeld = 100, 5
	s, b := New(cfg), &detectors.Batch{}
	s.Mark(0)
	s.Fold(&Sample{Key: []byte("a"), Time: 9, Offset: 0, Values: []float64{1}}, b)
	s.Mark(50)
	if !s.Fits(b) || s.Held() != 1 {
		t.Fatalf("%d held after the mark", s.Held())
	}
	out := s.Fold(&Sample{Key: []byte("a"), Time: 3, Offset: 60, Values: []float64{1}}, b)
	if out != Held || s.Held() != 0 || s.Tally.Early != 2 {
		t.Errorf("the next sample is %v, %d held", out, s.Held())
	}
	if err := s.Rollback(50); err != nil || !s.Fits(b) || s.Held() != 1 {
		t.Fatalf("%d held after a rollback: %v", s.Held(), err)
	}
	if err := s.Rollback(0); err != nil {
		t.Fatal(err)
	}
	s.Fold(&Sample{Key: []byte("a"), Time: 9, Offset: 0, Values: []float64{1}}, b)
	if s.Held() != 1 || s.Tally.Early != 0 {
		t.Errorf("%d held and %d released early after a rollback", s.Held(), s.Tally.Early)
	}
}
