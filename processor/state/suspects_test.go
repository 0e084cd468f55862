package state

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/processor/state/checkpoint"
)

// partitionLog folds samples of a partition at offsets 0, 1, ...
type partitionLog struct {
	*State
	b    *detectors.Batch
	next int64
	log  []Sample
}

func newPartitionLog(cfg *Config) *partitionLog {
	return &partitionLog{State: New(cfg), b: &detectors.Batch{}}
}

func (p *partitionLog) flush() {
	execute(p.b)
	p.Apply(p.b)
	p.b.Reset()
}

func (p *partitionLog) add(key string, times ...int64) {
	for _, at := range times {
		p.addSample(Sample{Key: []byte(key), Time: at})
	}
}

// addSample adds a sample of the next offset.
func (p *partitionLog) addSample(sm Sample) {
	sm.Offset, sm.Values = p.next, []float64{float64(p.next)}
	p.next++
	p.log = append(p.log, sm)
	for !p.Fits(p.b) {
		p.flush()
	}
	p.Fold(&sm, p.b)
	for !p.Fits(p.b) {
		p.flush()
	}
	p.flush()
}

// folded returns the times of the samples that were folded, in their order.
func (p *partitionLog) folded() (times []int64) {
	for _, r := range p.Rows {
		times = append(times, r.Time)
	}
	return times
}

func jumpConfig(jump int64) *Config {
	cfg := one(&fake{window: 4, least: 1}, 1)
	cfg.Reading.MaxJump = jump
	return cfg
}

const (
	second = int64(1e6)
	hour   = 3600 * second
	year   = 365 * 24 * hour
)

// timesFrom are n times from from on, one each step.
func timesFrom(from, step int64, n int) (times []int64) {
	for i := range n {
		times = append(times, from+int64(i)*step)
	}
	return times
}

// TestSuspects: which samples are folded, in which order, and which are rejected.
func TestSuspects(t *testing.T) {
	const far = 900 * year
	calm := timesFrom(0, second, 10)
	week := timesFrom(7*24*hour, second, 10)
	hourly := timesFrom(0, hour, 50)
	for _, c := range []struct {
		name     string
		add      func(f *partitionLog)
		folded   []int64
		rejected []int64 // offsets
		held     int
	}{
		{"nothing is far", func(f *partitionLog) { f.add("a", calm...) }, calm, nil, 0},
		{"one bad clock", func(f *partitionLog) { f.add("a", calm[:5]...); f.add("bad", far); f.add("a", calm[5:]...) }, calm, []int64{5}, 0},
		{"a bad clock in a key that goes on", func(f *partitionLog) {
			f.add("a", calm[:5]...)
			f.add("a", far)
			f.add("a",
				calm[5:]...)
		}, calm, []int64{5}, 0},
		{"a bad clock twice in a row", func(f *partitionLog) { f.add("a", calm[:5]...); f.add("bad", far, far+1); f.add("a", calm[5:]...) },
			calm, []int64{5, 6}, 0},
		{"a bad clock again and again", func(f *partitionLog) {
			for _, at := range calm {
				f.add("a", at)
				f.add("b", at)
				f.add("bad", far+at)
			}
		}, nil, []int64{2, 5, 8, 11, 14, 17, 20, 23, 26}, 1},
		{"a week without a record", func(f *partitionLog) { f.add("a", calm...); f.add("a", week...) }, slices.Concat(calm, week), nil, 0},
		{"a week without a record, then one", func(f *partitionLog) { f.add("a", calm...); f.add("a", week[0]) }, calm, nil, 1},
		{"a week without a record, several keys", func(f *partitionLog) {
			f.add("a", calm...)
			f.add("a", week[0])
			f.add("b", week[1])
			f.add("c", week[2])
		}, slices.Concat(calm, week[:3]), nil, 0},
		{"a week, and a straggler between", func(f *partitionLog) {
			f.add("a", calm...)
			f.add("a", week[0])
			f.add("b", 9*second)
			f.add("a", week[1:]...)
		},
			slices.Concat(calm, []int64{9 * second}, week), nil, 0},
		{"a record an hour", func(f *partitionLog) { f.add("a", hourly...) }, hourly[:48], nil, 2},
		{"in reach of the next ones", func(f *partitionLog) { f.add("a", calm...); f.add("b", 700*second); f.add("a", 300*second) },
			slices.Concat(calm, []int64{300 * second, 700 * second}), nil, 0},
		{"the first is of the year 2999", func(f *partitionLog) { f.add("bad", far); f.add("a", calm...) }, calm, []int64{0}, 0},
		{"the first two are", func(f *partitionLog) { f.add("bad", far, far+1); f.add("a", calm...) }, calm, []int64{0, 1}, 0},
		{"the first is of 1970", func(f *partitionLog) { f.add("bad", -50*year); f.add("a", calm...) },
			slices.Concat([]int64{-50 * year}, calm), nil, 0},
		{"two records in all", func(f *partitionLog) { f.add("a", calm[:2]...) }, nil, nil, 2},
		{"the ends of time", func(f *partitionLog) {
			f.add("a", calm...)
			f.add("a", math.MaxInt64)
			f.add("a", math.MinInt64+1)
			f.add("b", math.MinInt64+1)
		}, slices.Concat(calm, []int64{math.MinInt64 + 1}), []int64{10}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newPartitionLog(jumpConfig(600 * second))
			c.add(f)
			if got := f.folded(); c.folded != nil && !slices.Equal(got, c.folded) {
				t.Errorf("folded %v, want %v", got, c.folded)
			}
			var rejected []int64
			for _, r := range f.Suspects.Refused {
				rejected = append(rejected, r.Offset)
			}
			if !slices.Equal(rejected, c.rejected) || f.Suspects.Len() != c.held || f.Held() != c.held {
				t.Errorf("rejected %v and %d held, want %v and %d", rejected, f.Suspects.Len(), c.rejected, c.held)
			}
			var sum int64
			for _, n := range f.Tally.Counts {
				sum += n
			}
			if sum+int64(f.Held()) != f.next || f.Tally.Counts[Rejected] != int64(len(c.rejected)) {
				t.Errorf("%d samples are counted as %v and %d held", f.next, f.Tally.Counts, f.Held())
			}
		})
	}
}

// TestSuspectsMoveNothing: while it is held, and after it is rejected, a time that is
// far ahead makes no sample late, releases none, evicts no key and opens no silence.
func TestSuspectsMoveNothing(t *testing.T) {
	cfg := jumpConfig(600 * second)
	cfg.Reading.Lateness, cfg.TTL, cfg.Silence = 15*second, hour, 60*second
	f := newPartitionLog(cfg)
	f.add("quiet", timesFrom(0, second, 10)...)
	f.add("a", timesFrom(10*second, second, 30)...)
	largest, held := f.MaxTime(), f.Held()
	f.add("bad", largest+59*60*second)
	if f.MaxTime() != largest || f.Held() != held+1 {
		t.Errorf("the largest time is %d, %d are held; they were %d and %d", f.MaxTime(), f.Held(), largest, held)
	}
	f.add("a", timesFrom(40*second, second, 30)...)
	if f.Tally.Counts[Late] > 0 || f.Tally.EvictedKeys > 0 || len(f.Events) > 0 || f.Tally.Counts[Rejected] != 1 || f.Keys.Len() != 2 {
		t.Errorf("%v, %d keys evicted, %d changes of anomalies, %d keys", f.Tally.Counts, f.Tally.EvictedKeys, len(f.Events), f.Keys.Len())
	}
}

// TestSuspectsAreBounded: at most three are held, regardless of the times.
func TestSuspectsAreBounded(t *testing.T) {
	r := seedtest.New(t)
	f := newPartitionLog(jumpConfig(10))
	for range 20000 {
		f.add(fmt.Sprint(r.IntN(5)), r.Int64N(1000)*[]int64{1, 1e6, 1e12}[r.IntN(3)])
		if n := f.Suspects.Len(); n > voters {
			t.Fatalf("%d suspects are held", n)
		}
	}
	t.Logf("%+v, %d rejected", f.Suspects.Counts, f.Tally.Counts[Rejected])
}

// commit marks and commits with snapshots or without, and returns the log of them.
func (p *partitionLog) commit(t *testing.T, snapshots bool) (log []record, floor Floor) {
	t.Helper()
	if snapshots {
		return p.commitBytes(t, 0)
	}
	return p.commitBytes(t, -1)
}

// commitBytes is commit with snapshots of a number of bytes, as Snapshot has it.
func (p *partitionLog) commitBytes(t *testing.T, limit int) (log []record, floor Floor) {
	t.Helper()
	p.Mark(p.next)
	err := p.Snapshot(p.next, limit, func(k, v []byte) error {
		log = append(log, record{bytes.Clone(k), bytes.Clone(v)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Committed(p.next)
	floor, err = ParseFloor(p.Floor().String())
	if err != nil {
		t.Fatal(err)
	}
	return log, floor
}

// restored restores from a changelog and the log of p, of which from is the first
// offset that is there.
func (p *partitionLog) restored(t *testing.T, cfg *Config, log []record, floor Floor, from int64) *partitionLog {
	t.Helper()
	g := &partitionLog{State: New(cfg), b: &detectors.Batch{}, next: p.next, log: p.log}
	for _, r := range log {
		if err := g.Load(r.key, r.value); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.BeginReplay(floor, p.next, false); err != nil {
		t.Fatal(err)
	}
	for i := max(from, floor.From()); i < p.next; i++ {
		for !g.Fits(g.b) {
			g.flush()
		}
		if sm := p.log[i]; sm.Offset < floor.Offset {
			g.Recall(&sm)
		} else {
			g.Fold(&sm, g.b)
		}
	}
	g.EndInput(g.b)
	for !g.Fits(g.b) {
		g.flush()
	}
	g.flush()
	g.EndReplay()
	return g
}

// TestLostSuspect: a suspect that the input does not have any more is gone and
// counted; what follows is as if it had not been.
func TestLostSuspect(t *testing.T) {
	cfg := jumpConfig(600 * second)
	f := newPartitionLog(cfg)
	f.add("a", timesFrom(0, second, 10)...)
	f.add("bad", year)
	log, floor := f.commit(t, true)
	if want := "1;11;9000000;suspects=10:0:0"; floor.String() != want {
		t.Fatalf("the floor is %s, want %s", floor, want)
	}
	g := f.restored(t, cfg, log, floor, 11)
	if g.Suspects.Lost != 1 || g.Suspects.Len() != 0 {
		t.Errorf("%d lost, %d held", g.Suspects.Lost, g.Suspects.Len())
	}
	g.add("a", timesFrom(10*second, second, 10)...)
	if len(g.Suspects.Refused) > 0 || g.Tally.Counts[Late] > 0 || g.MaxTime() != 19*second {
		t.Errorf("%d refused, %v, largest time %d", len(g.Suspects.Refused), g.Tally.Counts, g.MaxTime())
	}
	if g = f.restored(t, cfg, log, floor, 0); g.Suspects.Lost != 0 || g.Suspects.Len() != 1 || !bytes.Equal(g.Export(nil), f.Export(nil)) {
		t.Errorf("with the record: %d lost, %d held, or another state", g.Suspects.Lost, g.Suspects.Len())
	}
}

// TestChangedMaxJump: a replay judges every sample by the setting under which it was
// live, also one of a version that had none.
func TestChangedMaxJump(t *testing.T) {
	for _, jumps := range [][2]int64{{0, 600 * second}, {600 * second, 0}, {600 * second, 60 * second}, {60 * second, 600 * second}} {
		t.Run(fmt.Sprint(jumps), func(t *testing.T) {
			old, cfg := jumpConfig(jumps[0]), jumpConfig(jumps[1])
			f := newPartitionLog(old)
			f.add("a", timesFrom(0, second, 10)...)
			f.add("b", 300*second)
			f.add("a", timesFrom(10*second, second, 10)...)
			f.add("c", 2000*second)
			log, floor := f.commit(t, false) // all is replayed
			g := f.restored(t, cfg, log, floor, 0)
			if want := f.Export(nil); !bytes.Equal(g.Export(nil), want) {
				t.Fatalf("restored with floor %s the state is another", floor)
			}
			g.add("b", 400*second)
			g.add("a", timesFrom(2010*second, second, 2)...)
			g.add("c", 3000*second)
			g.add("a", 2012*second)
			more, floor := g.commit(t, false)
			h := g.restored(t, cfg, append(log, more...), floor, 0)
			if !bytes.Equal(h.Export(nil), g.Export(nil)) {
				t.Fatalf("restored again with floor %s the state is another", floor)
			}
		})
	}
}

// TestRefusedInTheTurnOfAnEviction: the turn of suspects that let a key expire, or take its place, is also the turn of a sample that the
// key refuses. A replay, for which the key may not be there any more, refuses it as well.
func TestRefusedInTheTurnOfAnEviction(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*Config)
		time    int64 // of the sample
		outcome Outcome
	}{
		{"late, TTL", func(c *Config) { c.TTL = hour }, 5 * second, Late},
		{"duplicate, TTL", func(c *Config) { c.TTL, c.Reading.DropDuplicates = hour, true }, 9 * second, Duplicate},
		{"late, key limit", func(c *Config) { c.MaxKeys = 2 }, 5 * second, Late},
		{"duplicate, key limit", func(c *Config) { c.MaxKeys, c.Reading.DropDuplicates = 2, true }, 9 * second, Duplicate},
		{"late for the watermark, TTL", func(c *Config) { c.TTL, c.Reading.Lateness = hour, 2*second }, 5 * second, Late},
	} {
		first := func() (cfg *Config, f *partitionLog) {
			cfg = jumpConfig(600 * second)
			c.change(cfg)
			f = newPartitionLog(cfg)
			f.add("a", timesFrom(0, second, 10)...)
			f.add("other", timesFrom(9*second, second, 2)...)
			return cfg, f
		}
		check := func(t *testing.T, cfg *Config, f *partitionLog, log []record) {
			t.Helper()
			if n := f.Tally.Counts[c.outcome]; n != 1 {
				t.Fatalf("%d samples are refused, want 1: the test tests nothing", n)
			}
			more, floor := f.commit(t, false)
			g := f.restored(t, cfg, append(log, more...), floor, 0)
			if !bytes.Equal(g.Export(nil), f.Export(nil)) {
				t.Errorf("restored with floor %s the state is another", floor)
			}
			if f.add("b", timesFrom(5*hour, second, 3)...); c.outcome == Late && f.Tally.EvictedKeys == 0 {
				t.Error("no key is evicted later")
			}
		}
		t.Run(c.name+", a record that leaps", func(t *testing.T) {
			cfg, f := first()
			f.addSample(Sample{Key: []byte("a"), Time: c.time, Ahead: 2*hour - c.time})
			log, _ := f.commit(t, true)
			f.add("b", 2*hour, 2*hour+second)
			check(t, cfg, f, log)
		})
		t.Run(c.name+", no limit of jumps any more", func(t *testing.T) {
			cfg, f := first()
			f.add("b", 2*hour)
			log, floor := f.commit(t, true)
			after := *cfg
			after.Reading.MaxJump = 0
			f = f.restored(t, &after, log, floor, 0)
			f.add("a", c.time)
			check(t, &after, f, log)
		})
	}
}

// TestSuspectThatIsOverdueInAReplay: another reading accepts a suspect, which is then held and written with its key. A replay from
// below reads by the former reading, by which the sample has waited long enough, and leaves it held.
func TestSuspectThatIsOverdueInAReplay(t *testing.T) {
	cfg := jumpConfig(600 * second)
	cfg.Reading.Lateness, cfg.Reading.MaxHeld = hour, 1
	f := newPartitionLog(cfg)
	f.add("a", timesFrom(0, second, 10)...)
	log, _ := f.commit(t, false)
	f.add("b", 10*second)
	f.add("a", 2000*second) // the suspect
	f.add("b", 11*second)
	more, floor := f.commit(t, false)
	log = append(log, more...)
	after := *cfg
	after.Reading.MaxJump, after.Reading.MaxHeld = 0, 0
	f = f.restored(t, &after, log, floor, 0)
	f.add("b", 12*second)
	more, _ = f.commit(t, false) // the decision
	log = append(log, more...)
	f.add("b", 13*second)
	more, floor = f.commitBytes(t, 1) // the key that is dirty since the lowest offset
	if k := f.Keys.Get([]byte("a")); floor.Offset > 11 || k.Held.Len() != 1 || k.Held.First() != 2000*second {
		t.Fatalf("the floor is %s, and the key holds %d samples: the test tests nothing", floor, k.Held.Len())
	}
	g := f.restored(t, &after, append(log, more...), floor, 0)
	if k := g.Keys.Get([]byte("a")); k.AsOf != f.next {
		t.Fatalf("the key is restored as of offset %d, want %d: the test tests nothing", k.AsOf, f.next)
	}
	if !bytes.Equal(g.Export(nil), f.Export(nil)) {
		t.Errorf("%d samples are held after a restore, %d before", g.Held(), f.Held())
	}
}

// TestSuspectBehindAHeldSegment: a suspect is accepted after samples behind it have been
// written to the changelog, in segments that are in order of offset.
func TestSuspectBehindAHeldSegment(t *testing.T) {
	cfg := jumpConfig(600 * second)
	cfg.Reading.Lateness, cfg.MaxRecord = hour, 400
	f := newPartitionLog(cfg)
	n := (&checkpoint.HeldFormat{Dim: cfg.Dim}).Size(cfg.MaxRecord)
	f.add("a", timesFrom(0, second, n-1)...)
	f.add("a", 1000*second) // the suspect
	f.add("a", int64(n)*second)
	log, _ := f.commit(t, true)
	if n := len(f.records.Stale(f.Keys.Get([]byte("a")))); n != 1 {
		t.Fatalf("the key has %d segments, want 1: the test tests nothing", n)
	}
	f.add("b", 1000*second, 1001*second)
	if f.Suspects.Counts.Accepted != 4 || f.Suspects.Len() > 0 { // the first two of the partition, it, and the first of b
		t.Fatalf("%+v, want 4 accepted", f.Suspects.Counts)
	}
	more, floor := f.commit(t, true)
	g := f.restored(t, cfg, compact(append(log, more...), append(log, more...), false), floor, 0)
	if !bytes.Equal(g.Export(nil), f.Export(nil)) {
		t.Errorf("%d samples are held after a restore, %d before", g.Held(), f.Held())
	}
}
