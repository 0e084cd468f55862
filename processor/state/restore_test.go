package state

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/processor/state/changelog"
	"odradek/processor/state/checkpoint"
	"odradek/processor/state/series"
)

// TestBrokenRestoreIsNoticed is the negative control: a restore that is wrong in
// one place must show in the state.
func TestBrokenRestoreIsNoticed(t *testing.T) {
	r := seedtest.New(t)
	for _, c := range []struct {
		name string
		f    func(f *Floor)
		log  func(log []record) []record
	}{
		{name: "floor one too high", f: func(f *Floor) { f.Offset++ }},
		{name: "floor far too high", f: func(f *Floor) { f.Offset += 20 }},
		{name: "time of the floor too late", f: func(f *Floor) { f.MaxTime += 150 }},
		{name: "evictions lost", log: func(log []record) []record {
			return slices.DeleteFunc(slices.Clone(log), func(r record) bool { return r.key[0] == changelog.Eviction })
		}},
		{name: "a head too old", log: func(log []record) []record {
			heads := map[string]int{}
			for i, r := range log {
				if r.key[0] == changelog.Head && r.value != nil && log[heads[string(r.key)]].value != nil {
					heads[string(r.key)] = i
				}
			}
			for _, i := range heads {
				return append(slices.Clone(log[:i]), log[i+1:]...)
			}
			return log
		}},
	} {
		noticed, tried := 0, 0
		for try := 0; try < 20 || noticed < 2 && try < 2000; try++ {
			w := newWorld(t, r, 400)
			x := newRun(t, rand.New(rand.NewPCG(r.Uint64(), 3)), w)
			for x.committed < w.end/2 && x.chunk(20, true) {
				c := x.cycle
				x.flight, x.cycle = &c, part{}
				x.land()
				x.tell()
			}
			f, _ := ParseFloor(x.floor)
			log := x.changelog
			if c.log != nil {
				if log = c.log(log); len(log) == len(x.changelog) {
					continue
				}
			} else if f.Offset+20 >= x.committed || f.MaxTime == NoTime {
				continue // little is replayed
			}
			tried++
			x.breakIt = c.f
			if x.breakIt == nil {
				x.breakIt = func(*Floor) {}
			}
			func() {
				defer func() { recover() }() // a panic is notice, too
				if s := x.restored(log); bytes.Equal(s.Export(nil), w.at(x.committed).export) {
					noticed--
				}
			}()
			noticed++
		}
		t.Logf("%s: noticed %d of %d", c.name, noticed, tried)
		if noticed == 0 {
			t.Errorf("%s: never noticed in %d restores", c.name, tried)
		}
	}
}

// ungrouped returns changes of anomalies without their groups.
func ungrouped(rows []EventRow) []flatEvent {
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].Change.Anomaly.Group = nil
	}
	return flattenEvents(rows)
}

// TestAtLeastOnce: the changelog is written before the offset and may be cut off
// anywhere. Nothing is refused, and no score is missing. An anomaly may be in another group
// than without a crash: series whose state is ahead of the offset remember later groups.
func TestAtLeastOnce(t *testing.T) {
	r := seedtest.New(t)
	crashes := 0
	for range 60 {
		w := newWorld(t, r, 200+r.IntN(800))
		exact := w.cfg.MaxKeys == 0 && w.cfg.TTL == 0 // evictions may come twice
		var (
			s         = New(w.cfg)
			b         = &detectors.Batch{MaxTasks: 1 + r.IntN(50)}
			changelog []record
			committed = w.log[0].Offset
			floor     string
			rows      = map[flat]bool{}
			known     = map[flatEvent]bool{}
		)
		flush := func() { execute(b); s.Apply(b); b.Reset() }
		s.Mark(committed)
		for i := 0; i < len(w.log); {
			n := min(i+1+r.IntN(100), len(w.log))
			for ; i < n; i++ {
				for !s.Fits(b) {
					flush()
				}
				s.Fold(&w.log[i], b)
			}
			for !s.Fits(b) {
				flush()
			}
			flush()
			for _, f := range flatten(s.Rows) { // outputs first
				rows[f] = true
			}
			for _, f := range ungrouped(s.Events) {
				known[f] = true
			}
			s.Rows, s.Events = s.Rows[:0], s.Events[:0]
			next := w.log[n-1].Offset + 1
			s.Mark(next)
			var log []record
			if err := s.Snapshot(next-int64(r.IntN(100)), r.IntN(5000), func(k, v []byte) error {
				log = append(log, record{bytes.Clone(k), bytes.Clone(v)})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if r.IntN(4) > 0 {
				changelog = append(changelog, log...)
				committed, floor = next, s.Floor().String()
				s.Committed(next)
				continue
			}
			crashes++
			changelog = append(changelog, log[:r.IntN(len(log)+1)]...)
			if r.IntN(2) == 0 { // the process lives on
				if err := s.Rollback(committed); err != nil {
					t.Fatal(err)
				}
				i = w.from(committed)
				continue
			}
			s, b = New(w.cfg), &detectors.Batch{}
			if floor == "" { // nothing committed: the changelog is given up
				changelog = nil
				s.Mark(committed)
			} else {
				for _, rec := range compact(changelog, changelog, r.IntN(2) == 0) {
					if err := s.Load(rec.key, rec.value); err != nil {
						t.Fatal(err)
					}
				}
				f, _ := ParseFloor(floor)
				if err := s.BeginReplay(f, committed, true); err != nil {
					t.Fatal(err)
				}
				for j := w.from(f.From()); j < w.from(committed); j++ {
					if w.log[j].Offset < f.Offset {
						s.Recall(&w.log[j])
						continue
					}
					for !s.Fits(b) {
						flush()
					}
					s.Fold(&w.log[j], b)
				}
				for !s.Fits(b) {
					flush()
				}
				flush()
				s.EndReplay()
			}
			i = w.from(committed)
		}
		for _, f := range w.rows {
			if exact && !rows[f] {
				t.Fatalf("row %+v is missing", f)
			}
		}
		for _, f := range ungrouped(w.fold(w.end).Events) {
			if exact && !known[f] {
				t.Fatalf("change %+v is missing", f)
			}
		}
	}
	t.Logf("%d crashes", crashes)
}

// twoWindows returns a configuration of two detectors on each of two windows.
func twoWindows() *Config {
	cfg := &Config{
		Dim:     2,
		Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 10}, {Columns: []int{0, 1}, Fingerprint: 20}},
	}
	for i := range 4 {
		cfg.Detectors = append(cfg.Detectors, series.DetectorConfig{
			Name: fmt.Sprint("d", i), Detector: &fake{id: i, window: 150, least: 5, carry: 2}, Window: i / 2,
			Stride: 1 + 3*(i%2), Fingerprint: uint64(i),
		})
	}
	return cfg
}

// saved folds n samples of three keys and returns all of the changelog.
func saved(t testing.TB, cfg *Config, n int) (*State, []record) {
	t.Helper()
	s, b := New(cfg), &detectors.Batch{}
	var log []record
	for i := range n {
		v := make([]float64, cfg.Dim)
		for j := range v {
			v[j] = float64(i*i%17 + j)
		}
		s.Fold(&Sample{Key: []byte{'k', byte('0' + i%3)}, Time: int64(10 * i), Offset: int64(i), Values: v}, b)
		if i%100 == 99 || i == n-1 {
			for !s.Fits(b) {
			}
			execute(b)
			s.Apply(b)
			b.Reset()
			s.Mark(int64(i + 1))
			if err := s.Snapshot(math.MaxInt64, 0, func(k, v []byte) error {
				log = append(log, record{bytes.Clone(k), bytes.Clone(v)})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			s.Committed(int64(i + 1))
		}
	}
	return s, log
}

func loaded(cfg *Config, log []record, end int64) (*State, error) {
	s := New(cfg)
	for _, r := range log {
		if err := s.Load(r.key, r.value); err != nil {
			return nil, err
		}
	}
	err := s.BeginReplay(Floor{Offset: end, MaxTime: 10 * (end - 1)}, end, false)
	if err == nil {
		s.EndReplay()
	}
	return s, err
}

func TestChangedConfiguration(t *testing.T) {
	const n = 1000
	old, log := saved(t, twoWindows(), n)
	same, err := loaded(twoWindows(), log, n)
	if err != nil || !bytes.Equal(same.Export(nil), old.Export(nil)) {
		t.Fatalf("the same configuration: %v", err)
	}
	rows := func(s *State, w int) int32 {
		k := s.Keys.Get([]byte("k1"))
		return k.Windows[w].Rows
	}
	carry := func(s *State, d int) int { return len(s.Keys.Get([]byte("k1")).Progress[d].Carry) }

	for _, c := range []struct {
		name   string
		change func(*Config)
		refuse string // what the error says without DropMismatched; "" for none
		rows   [2]bool
		marks  [4]bool
	}{
		{"nothing", func(*Config) {}, "", [2]bool{true, true}, [4]bool{true, true, true, true}},
		{"window", func(c *Config) { c.Windows[0].Fingerprint = 11 }, "fields of detector d0", [2]bool{false, true},
			[4]bool{false, false, true, true}},
		{"columns", func(c *Config) { c.Windows[1].Columns = []int{1}; c.Windows[1].Fingerprint = 21 }, "fields of detector d2",
			[2]bool{true, false}, [4]bool{true, true, false, false}},
		{"parameters", func(c *Config) { c.Detectors[1].Fingerprint = 77 }, "parameters of detector d1", [2]bool{true, true},
			[4]bool{true, false, true, true}},
		{"moved", func(c *Config) { c.Detectors[3].Window = 0 }, "fields of detector d3", [2]bool{true, true}, [4]bool{true, true, true, false}},
		{"renamed", func(c *Config) { c.Detectors[0].Name = "new" }, "", [2]bool{true, true}, [4]bool{false, true, true, true}},
		{"order of windows", func(c *Config) {
			c.Windows[0], c.Windows[1] = c.Windows[1], c.Windows[0]
			for i := range c.Detectors {
				c.Detectors[i].Window = 1 - c.Detectors[i].Window
			}
		}, "", [2]bool{true, true}, [4]bool{true, true, true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := twoWindows()
			c.change(cfg)
			_, err := loaded(cfg, log, n)
			if c.refuse == "" && err != nil || c.refuse != "" && (!errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), c.refuse)) {
				t.Fatalf("err = %v, want one with %q", err, c.refuse)
			}
			cfg.DropMismatched = true
			s, err := loaded(cfg, log, n)
			if err != nil {
				t.Fatal(err)
			}
			listed := 0
			for _, m := range s.Restore.Mismatched {
				if m.Keys != s.Keys.Len() || m.Detector == "" || m.Window == 0 {
					t.Errorf("%+v of %d keys", m, s.Keys.Len())
				}
				listed++
			}
			changed := 0
			for i, want := range c.marks {
				if !want && cfg.Detectors[i].Name != "new" {
					changed++
				}
			}
			if listed != changed {
				t.Errorf("%d differences are told of, want %d: %v", listed, changed, s.Restore.Mismatched)
			}
			for w, want := range c.rows {
				if got := rows(s, w); (got > 0) != want {
					t.Errorf("window %d has %d rows", w, got)
				}
			}
			set := s.Keys.Get([]byte("k1")).Set
			for i := range set.Windows {
				for _, d := range set.Windows[i].Detectors {
					if got := carry(s, d.Place); (got > 0) != c.marks[d.Index] {
						t.Errorf("detector %d has a carry of %d", d.Index, got)
					}
				}
			}
			// It goes on, is written again, and can then be restored without
			// being asked again.
			b := &detectors.Batch{}
			for i := int64(n); i < n+300; i++ {
				s.Fold(&Sample{Key: []byte{'k', byte('0' + i%3)}, Time: 10 * i, Offset: i, Values: []float64{1, float64(i)}}, b)
			}
			execute(b)
			s.Apply(b)
			s.Mark(n + 300)
			after := slices.Clone(log)
			if err := s.Snapshot(math.MaxInt64, 0, func(k, v []byte) error {
				after = append(after, record{bytes.Clone(k), bytes.Clone(v)})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			cfg.DropMismatched = false
			again, err := loaded(cfg, compact(after, after, false), n+300)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again.Export(nil), s.Export(nil)) {
				t.Error("restored state differs")
			}
			for _, r := range compact(after, after, false) {
				kind, name, suffix, _ := changelog.SplitKey(r.key)
				segment := kind == changelog.Segment || kind == changelog.Held
				if segment && !again.records.Named(again.Keys.Get(name), checkpoint.Record{Kind: kind, Window: suffix[0], ID: suffix[1]}) {
					t.Errorf("segment %d of window %d is left over", suffix[1], suffix[0])
				}
			}
		})
	}
}

// TestResizedWindow: a detector with a larger or smaller window keeps the rows
// that are there.
func TestResizedWindow(t *testing.T) {
	const n = 3000
	_, log := saved(t, twoWindows(), n)
	for _, window := range []int{20, 100, 150, 151, 400, 1000} {
		cfg := twoWindows()
		for i := range cfg.Detectors {
			cfg.Detectors[i].Detector = &fake{id: i, window: window, least: 5, carry: 2}
		}
		s, err := loaded(cfg, log, n)
		if err != nil {
			t.Fatal(err)
		}
		b := &detectors.Batch{}
		for i := int64(n); i < n+900; i++ {
			s.Fold(&Sample{Key: []byte{'k', byte('0' + i%3)}, Time: 10 * i, Offset: i, Values: []float64{float64(i), 2}}, b)
		}
		execute(b)
		s.Apply(b)
		s.Mark(n + 900)
		after := slices.Clone(log)
		s.Snapshot(math.MaxInt64, 0, func(k, v []byte) error {
			after = append(after, record{bytes.Clone(k), bytes.Clone(v)})
			return nil
		})
		w := &s.Keys.Get([]byte("k2")).Windows[0]
		if want := min(window+3, 153+300); int(w.Rows) != want || w.Count != 1300 {
			t.Errorf("window %d: %d rows of %d, want %d", window, w.Rows, w.Count, want)
		}
		ts, more := w.Times(w.Rows, 0)
		ts = append(slices.Clone(ts), more...)
		for i, at := range ts {
			if want := int64(10 * (n + 900 - 1 - 3*(len(ts)-1-i))); at != want {
				t.Fatalf("window %d: row %d has time %d, want %d", window, i, at, want)
			}
		}
		again, err := loaded(cfg, compact(after, after, false), n+900)
		if err != nil || !bytes.Equal(again.Export(nil), s.Export(nil)) {
			t.Errorf("window %d: restored state differs: %v", window, err)
		}
	}
}

func TestRestoreErrors(t *testing.T) {
	const n = 1000
	cfg := twoWindows()
	_, log := saved(t, cfg, n)
	full := compact(log, log, false)
	if _, err := loaded(cfg, full, n-1); !errors.Is(err, ErrAhead) {
		t.Errorf("heads above the committed offset: %v", err)
	}
	i := slices.IndexFunc(full, func(r record) bool { return r.key[0] == changelog.Segment })
	if _, err := loaded(cfg, slices.Delete(slices.Clone(full), i, i+1), n); !errors.Is(err, ErrCorrupt) ||
		!strings.Contains(err.Error(), "rows") {
		t.Errorf("a segment is missing: %v", err)
	}
	if err := New(cfg).BeginReplay(Floor{Offset: 5}, 4, false); err == nil {
		t.Error("a floor above the committed offset")
	}
	s := New(cfg)
	s.Mark(0)
	if err := s.Load(full[0].key, full[0].value); err == nil {
		t.Error("Load after the beginning")
	}
	if err := s.BeginReplay(Floor{}, 0, false); err == nil {
		t.Error("BeginReplay after the beginning")
	}
	for _, key := range []string{"", "S", "Sname", "P", "P1234567"} {
		if err := New(cfg).Load([]byte(key), []byte{1}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("key %q: %v", key, err)
		}
	}
	for _, key := range []string{"X", "Xa", "\x00", "h12345678"} { // types of a later version
		if err := New(cfg).Load([]byte(key), []byte{1}); !errors.Is(err, ErrNewer) || errors.Is(err, ErrCorrupt) {
			t.Errorf("key %q: %v", key, err)
		}
		if err := New(cfg).Load([]byte(key), nil); err != nil {
			t.Errorf("deletion of key %q: %v", key, err)
		}
	}
	for i, r := range full {
		for cut := 0; cut < len(r.value); cut += 1 + cut/20 {
			bad := slices.Clone(full)
			bad[i].value = r.value[:cut]
			if _, err := loaded(cfg, bad, n); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%q cut off at %d of %d: %v", r.key, cut, len(r.value), err)
			}
		}
	}
}

func TestEvictionIsDeletedFromTheLog(t *testing.T) {
	cfg := benchConfig(3, 1)
	cfg.MaxKeys = 2
	s, b := New(cfg), &detectors.Batch{}
	s.Mark(0)
	log := map[string][]byte{}
	for i := range int64(60) {
		key := []byte{'a', byte(i % 2)}
		if i == 10 {
			key = []byte("once") // evicts a/0 or a/1, and is evicted by its return
		}
		s.Fold(&Sample{Key: key, Time: i, Offset: i, Values: []float64{1}}, b)
		s.Apply(b)
		b.Reset()
		s.Mark(i + 1)
		if err := s.Snapshot(i-2, 0, func(k, v []byte) error {
			if log[string(k)] = bytes.Clone(v); v == nil {
				delete(log, string(k))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		s.Committed(i + 1)
	}
	if s.Tally.EvictedKeys < 2 || s.Subjects(Eviction) != 0 {
		t.Errorf("%d keys evicted, %d evictions remembered", s.Tally.EvictedKeys, s.Subjects(Eviction))
	}
	for k := range log {
		if k[0] == changelog.Eviction || strings.Contains(k, "once") {
			t.Errorf("%q is left in the changelog", k)
		}
	}
}

// TestUndoneKey: at least once, the head of a key whose creation was undone is in the changelog. The fragments of the key's
// next head, of which the last is missing, do not overwrite the fragments of that head.
func TestUndoneKey(t *testing.T) {
	cfg := twoWindows()
	cfg.MaxRecord = 1 // as small as it can be
	for i := range 20 {
		cfg.Detectors = append(cfg.Detectors, series.DetectorConfig{
			Name: fmt.Sprint("more", i), Detector: &fake{id: i, window: 150, least: 5, carry: 2}, Stride: 1, Fingerprint: uint64(10 + i),
		})
	}
	s, b := New(cfg), &detectors.Batch{}
	s.Mark(0)
	var changelog []record
	fragments := 0
	for cycle := range 12 {
		var log []record
		n := 120 + cycle
		for i := range n {
			for !s.Fits(b) {
			}
			s.Fold(&Sample{Key: []byte("k"), Time: int64(10 * i), Offset: int64(i), Values: []float64{float64(i), float64(cycle)}}, b)
			execute(b)
			s.Apply(b)
			b.Reset()
		}
		s.Mark(int64(n))
		if err := s.Snapshot(math.MaxInt64, 0, func(k, v []byte) error {
			log = append(log, record{bytes.Clone(k), bytes.Clone(v)})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if cycle%4 > 0 { // of the others all is in the changelog
			last := slices.IndexFunc(log, func(r record) bool { return r.key[0] == 'P' })
			for log[last+1].key[0] == 'P' {
				last++
				fragments++
			}
			log = log[:last]
		}
		changelog = append(changelog, log...)
		if err := s.Rollback(0); err != nil {
			t.Fatal(err)
		}
		again := New(cfg)
		for _, r := range compact(changelog, changelog, true) {
			if err := again.Load(r.key, r.value); err != nil {
				t.Fatal(err)
			}
		}
		if err := again.BeginReplay(Floor{Offset: 0, MaxTime: NoTime}, 0, true); err != nil {
			t.Fatalf("cycle %d: %v", cycle, err)
		}
	}
	if fragments == 0 {
		t.Error("no head has several fragments")
	}
}
