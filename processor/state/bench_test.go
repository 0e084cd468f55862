package state

import (
	"fmt"
	"math"
	"runtime"
	"syscall"
	"testing"

	"odradek/detectors"
	"odradek/detectors/lof"
	"odradek/detectors/simple"
	"odradek/detectors/sst"
	"odradek/processor/state/series"
)

func benchConfig(window, stride int) *Config {
	return &Config{
		Dim:       1,
		Windows:   []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		Detectors: []series.DetectorConfig{{Name: "d", Detector: steady{plain(window)}, Stride: stride, Fingerprint: 1}},
	}
}

// plain is a detector that scores full windows, has no carry and covers the scored
// sample: the least a detector does. It does not say so (see steady).
type plain int

func (p plain) Op() detectors.Op        { return simple.OpZScore }
func (p plain) Params() detectors.Words { return nil }
func (p plain) Window() int             { return int(p) }
func (p plain) Size(v detectors.View) (detectors.Outputs, bool) {
	return detectors.Outputs{Scores: v.Fresh}, v.Rows-v.Fresh+1 >= int(p)
}

func (p plain) AppendFindings(dst []detectors.Finding, r detectors.Rows) []detectors.Finding {
	first := r.Len() - r.Fresh
	for i, s := range r.Scores {
		dst = append(dst, detectors.Finding{Fresh: i, From: first + i, To: first + i, Score: float64(s)})
	}
	return dst
}

type steady struct{ plain }

func (steady) Reach() (from, to int) { return 0, 0 }

func names(n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = fmt.Appendf(nil, "sensor-%06d", i)
	}
	return out
}

// cpu reports the CPU time of the process as well: the machine may be shared.
func cpu(b *testing.B, per int) func() {
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N)/float64(per), "cpu-ns/op") }
}

// drive folds n samples round the keys, with a mark and its commit every chunk.
type drive struct {
	s      *State
	b      *detectors.Batch
	names  [][]byte
	next   int
	offset int64
	v      [1]float64
}

func (d *drive) samples(n, chunk int) {
	sm := Sample{Values: d.v[:]}
	left := chunk
	for i := range n {
		if !d.s.Fits(d.b) {
			d.apply()
		}
		if d.next++; d.next == len(d.names) {
			d.next = 0
		}
		sm.Key = d.names[d.next]
		sm.Offset, sm.Time = d.offset, d.offset*1000
		d.v[0] = float64(d.offset & 1023)
		d.s.Fold(&sm, d.b)
		d.offset++
		if left--; left == 0 || i == n-1 {
			left = chunk
			d.apply()
			d.s.Mark(d.offset)
			if err := d.s.Snapshot(math.MinInt64, -1, func(k, v []byte) error { return nil }); err != nil {
				panic(err)
			}
			d.s.Committed(d.offset)
		}
	}
}

func (d *drive) apply() {
	d.s.Apply(d.b)
	d.b.Reset()
	d.s.Rows, d.s.Events = d.s.Rows[:0], d.s.Events[:0]
}

func newDrive(cfg *Config, keys int) *drive {
	return &drive{s: New(cfg), b: &detectors.Batch{MaxTasks: 1 << 14}, names: names(keys)}
}

// BenchmarkAggregate is BenchmarkFold of samples of which 60 become one.
func BenchmarkAggregate(b *testing.B) {
	for _, keys := range []int{10, 1000, 100000} {
		for _, what := range []string{"none", "mean", "stddev", "median"} {
			b.Run(fmt.Sprintf("keys=%d/%s", keys, what), func(b *testing.B) {
				cfg := benchConfig(8, 1)
				if cfg.Reading.Fields = []string{"value"}; what != "none" {
					cfg.Reading.Every, cfg.Reading.Aggregates = 60*1000*int64(keys), []string{what}
				}
				d := newDrive(cfg, keys)
				d.samples(20*keys, 8192)
				b.ReportAllocs()
				b.ResetTimer()
				used := cpu(b, 1)
				d.samples(b.N, 8192)
				used()
			})
		}
	}
}

// BenchmarkFold is Fold, Apply, Mark and Committed of one sample; no executor.
func BenchmarkFold(b *testing.B) {
	for _, c := range []struct{ keys, window, stride int }{{10, 8, 1}, {1000, 8, 1}, {1000, 256, 16}, {100000, 8, 1}} {
		b.Run(fmt.Sprintf("keys=%d/window=%d/stride=%d", c.keys, c.window, c.stride), func(b *testing.B) {
			d := newDrive(benchConfig(c.window, c.stride), c.keys)
			d.samples(c.keys*(c.window+2*c.stride), 10000)
			b.ReportAllocs()
			b.ResetTimer()
			defer cpu(b, 1)()
			d.samples(b.N, 10000)
		})
	}
}

// BenchmarkFoldWide is BenchmarkFold with IKA-SST of 406 and LOF of 1,024 samples for
// each: what a worker with a GPU does itself of a record. The windows of 1,250 keys
// are 20 MB.
func BenchmarkFoldWide(b *testing.B) {
	sst, err := sst.NewIKA(sst.IKAOpParams{Window: 100, Rank: 3, PowerSteps: 2, Epsilon: 1e-3})
	if err != nil {
		b.Fatal(err)
	}
	lof, err := lof.New(lof.OpParams{Window: 1024, K: 20})
	if err != nil {
		b.Fatal(err)
	}
	cfg := benchConfig(8, 1)
	cfg.Detectors = []series.DetectorConfig{{Name: "change", Detector: sst, Stride: 1, Fingerprint: 1},
		{Name: "rare", Detector: lof, Stride: 1, Fingerprint: 2}}
	for _, keys := range []int{10, 1250} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			d := newDrive(cfg, keys)
			d.b.MaxIn = 4 << 20
			d.samples(keys*1200, 10000)
			b.ReportAllocs()
			b.ResetTimer()
			defer cpu(b, 1)()
			d.samples(b.N, 10000)
		})
	}
}

// BenchmarkFoldTasks is BenchmarkFold with IKA-SST of 406 samples for each, by how
// many tasks of a key come into a batch. The windows of 1,024 keys are 6.6 MB.
func BenchmarkFoldTasks(b *testing.B) {
	sst, err := sst.NewIKA(sst.IKAOpParams{Window: 100, Rank: 3, PowerSteps: 2, Epsilon: 1e-3})
	if err != nil {
		b.Fatal(err)
	}
	cfg := benchConfig(8, 1)
	cfg.Detectors[0].Detector = sst
	for _, tasks := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("tasks=%d", tasks), func(b *testing.B) {
			const keys = 1024
			d := newDrive(cfg, keys)
			d.b.MaxTasks, d.b.MaxIn = 1<<18, 1<<26
			d.samples(keys*500, keys*tasks)
			b.ReportAllocs()
			b.ResetTimer()
			defer cpu(b, 1)()
			d.samples(b.N, keys*tasks)
		})
	}
}

// BenchmarkFoldLate is Fold with samples held for order.
func BenchmarkFoldLate(b *testing.B) {
	for _, most := range []int{0, 1 << 20, 2500} { // no bound, one that is far, one that releases
		b.Run(fmt.Sprintf("most=%d", most), func(b *testing.B) {
			cfg := benchConfig(8, 1)
			cfg.Reading.Lateness, cfg.Reading.MaxHeld = 5_000_000, most // 5 samples of each key
			d := newDrive(cfg, 1000)
			d.samples(20000, 10000)
			b.ReportAllocs()
			b.ResetTimer()
			defer cpu(b, 1)()
			d.samples(b.N, 10000)
		})
	}
}

// BenchmarkRollback undoes 10,000 samples of 1,000 keys; time a sample.
func BenchmarkRollback(b *testing.B) {
	for _, keys := range []int{1000, 100000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			d := newDrive(benchConfig(8, 1), keys)
			d.samples(10*keys, 10000)
			if err := d.s.Snapshot(math.MaxInt64, 0, func(k, v []byte) error { return nil }); err != nil {
				b.Fatal(err)
			}
			d.s.Committed(d.offset)
			base := d.offset
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				sm := Sample{Values: d.v[:]}
				for i := range 10000 {
					sm.Key, sm.Offset, sm.Time = d.names[i%1000], base+int64(i), (base+int64(i))*1000
					d.s.Fold(&sm, d.b)
				}
				d.apply()
				d.s.Mark(base + 10000)
				b.StartTimer()
				if err := d.s.Rollback(base); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10000, "ns/sample")
		})
	}
}

// filled returns a state of keys whose windows are full, and its changelog.
func filled(keys, rows, window int) (*State, []record, int64) {
	d := newDrive(benchConfig(window, 1), keys)
	d.b.MaxTasks = 1 << 10
	d.samples(keys*rows, 10000)
	var log []record
	bytes := int64(0)
	d.s.Snapshot(math.MaxInt64, 0, func(k, v []byte) error {
		log = append(log, record{append([]byte(nil), k...), append([]byte(nil), v...)})
		bytes += int64(len(k) + len(v))
		return nil
	})
	return d.s, log, bytes
}

// BenchmarkRestore loads 100,000 keys of 1,024 rows.
func BenchmarkRestore(b *testing.B) {
	s, log, bytes := filled(100000, 1024, 1024)
	end := s.next
	s = nil //nolint:wastedassign // for the collector
	runtime.GC()
	b.SetBytes(bytes)
	b.ResetTimer()
	defer cpu(b, 100000)()
	for range b.N {
		s := New(benchConfig(1024, 1))
		for _, r := range log {
			if err := s.Load(r.key, r.value); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.BeginReplay(Floor{Offset: end}, end, false); err != nil {
			b.Fatal(err)
		}
		s.EndReplay()
		if s.Keys.Len() != 100000 {
			b.Fatal("keys are missing")
		}
	}
}

// BenchmarkSnapshot writes all keys, dirty by one row.
func BenchmarkSnapshot(b *testing.B) {
	d := newDrive(benchConfig(256, 1), 10000)
	d.samples(10000*300, 10000)
	bytes := 0
	emit := func(k, v []byte) error { bytes += len(k) + len(v); return nil }
	d.s.Snapshot(math.MaxInt64, 0, emit)
	d.s.Committed(d.offset)
	bytes = 0
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		d.samples(10000, 10000)
		b.StartTimer()
		if err := d.s.Snapshot(math.MaxInt64, 0, emit); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10000, "ns/key")
	b.ReportMetric(float64(bytes)/float64(b.N)/10000, "B/key")
}

// BenchmarkReplay folds a log in replay; a detector without carry.
func BenchmarkReplay(b *testing.B) {
	s := New(benchConfig(8, 1))
	if err := s.BeginReplay(Floor{MaxTime: NoTime}, math.MaxInt64, false); err != nil {
		b.Fatal(err)
	}
	batch := &detectors.Batch{}
	keys := names(1000)
	v := [1]float64{}
	b.ReportAllocs()
	b.ResetTimer()
	defer cpu(b, 1)()
	for i := range b.N {
		v[0] = float64(i & 1023)
		s.Fold(&Sample{Key: keys[i%1000], Offset: int64(i), Time: int64(i), Values: v[:]}, batch)
	}
}

// TestMemoryOfAKey measures the heap of 20,000 keys with full windows of 256.
// The batch and the rows of a chunk are the caller's.
func TestMemoryOfAKey(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred megabytes")
	}
	for _, stride := range []int{1, 16} {
		const keys = 20_000
		heap := func() int64 {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		d := newDrive(benchConfig(256, stride), keys)
		before := heap()
		d.samples(keys*(256+stride+15), 10000)
		d.b, d.s.Rows = nil, nil
		rows := int64(256 + stride - 1)
		over := (heap()-before)/keys - rows*16
		// What a chunk in flight takes is no matter of keys.
		d.s.journal, d.s.tasks, d.s.judge.finds = newJournal(d.s.undoOwner()), newTaskQueue(d.s.dets, &d.s.newest, false), nil
		flight := over
		over = (heap()-before)/keys - rows*16
		t.Logf("stride %d: %d bytes a key beyond %d rows of 16 bytes, and %d for chunks of 10,000 samples; Bytes says %d",
			stride, over, rows, flight-over, d.s.Bytes()/keys-rows*16)
		if over > 512 {
			t.Errorf("%d bytes a key beyond its rows, at most 512", over)
		}
		runtime.KeepAlive(d)
	}
}
