package state

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// cacher is an executor with a window cache, which it loses now and then.
type cacher struct {
	t                  *testing.T
	r                  *rand.Rand
	cache              *detectors.WindowCache
	memory             *cachedRings
	hits, misses, lost int
}

// cachedRings is rings by address.
type cachedRings struct {
	next  uint64
	room  int // windows
	gone  bool
	rings map[uint64][]float64
}

func (m *cachedRings) Extend(bytes int) (first uint64, n int) {
	first, n = m.next+256, min(m.room, 4)
	m.next += uint64(n*bytes) + 256
	m.room -= n
	return first, n
}
func (m *cachedRings) Release()   { m.rings = nil }
func (m *cachedRings) Gone() bool { return m.gone }

// serve makes a state use the cache.
func (k *cacher) serve(s *State) {
	k.cache.Close()
	k.cache = detectors.NewWindowCache(func() detectors.CacheMemory {
		if k.r.IntN(20) == 0 {
			return nil
		}
		k.memory = &cachedRings{room: 1 + k.r.IntN(40), rings: map[uint64][]float64{}}
		return k.memory
	}, func(detectors.Detector, int, int) bool { return true })
	s.SetWindowCache(k.cache)
}

func (k *cacher) execute(s *State, b *detectors.Batch) {
	if len(b.Updates) > 0 && k.r.IntN(6) == 0 {
		k.memory.gone = true
		k.lost++
		s.Repack(b)
		if len(b.Updates) > 0 {
			k.t.Fatal("updates are left after Repack")
		}
	}
	c := *b
	c.Tasks, c.In = slices.Clone(b.Tasks), slices.Clone(b.In)
	for i := range b.Updates {
		r := &b.Updates[i]
		t := &c.Tasks[r.Task]
		n, dim := int(t.X.Len), int(t.Dim)
		ring := k.memory.rings[r.At]
		if len(ring) != n {
			ring = make([]float64, n)
			for j := range ring {
				ring[j] = math.NaN()
			}
			k.memory.rings[r.At] = ring
		}
		if r.Rows.Len == t.X.Len {
			k.misses++
		} else {
			k.hits++
		}
		brought := b.In[2*r.Rows.Off:][:2*r.Rows.Len].F64()
		first, old := int(r.First)*dim, n-int(r.Rows.Len)
		for j := old; j < n; j++ {
			ring[(first+j)%n] = brought[j-old]
		}
		rows := make([]uint64, n)
		for j := range rows {
			rows[j] = math.Float64bits(ring[(first+j)%n])
		}
		var x []float32
		t.X, x = c.GrowF32(n)
		centers, ok := detectors.Centers(nil, rows, nil, dim, int(r.Common.Off), int(r.Common.Len))
		if !ok {
			centers, _ = detectors.Centers(nil, rows, nil, dim, 0, n/dim)
		}
		detectors.Pack(x, rows, nil, centers)
	}
	execute(&c)
	b.Updated()
	if k.memory != nil && k.r.IntN(40) == 0 {
		k.memory.gone = true
	}
}

// steadyFake is a fake whose windows may be cached: it explains and summarises nothing.
type steadyFake struct{ f *fake }

func (s steadyFake) Op() detectors.Op                                { return s.f.Op() }
func (s steadyFake) Params() detectors.Words                         { return s.f.Params() }
func (s steadyFake) Window() int                                     { return s.f.Window() }
func (s steadyFake) Size(v detectors.View) (detectors.Outputs, bool) { return s.f.Size(v) }
func (s steadyFake) Reach() (from, to int)                           { return 0, 0 }
func (s steadyFake) Incomplete()                                     {}
func (s steadyFake) AppendFindings(dst []detectors.Finding, r detectors.Rows) []detectors.Finding {
	return s.f.AppendFindings(dst, r)
}

// TestWindowCache: rows, state and anomalies are those of windows that travel, whatever is
// cached, invalidated and lost, through rollbacks and restores.
func TestWindowCache(t *testing.T) {
	r := seedtest.New(t)
	hits, misses, lost := 0, 0, 0
	for range 20 {
		cfg := randomConfig(r)
		for i := range cfg.Detectors {
			if cfg.Detectors[i].Ensemble != nil {
				continue
			}
			f := cfg.Detectors[i].Detector.(*fake)
			if f.lag = 0; r.IntN(4) > 0 {
				cfg.Detectors[i].Detector = steadyFake{f}
			}
		}
		w := newWorldOf(t, r, cfg, 300+r.IntN(1500))
		for range 4 {
			x := newRun(t, rand.New(rand.NewPCG(r.Uint64(), 2)), w)
			x.cacher = &cacher{t: t, r: x.r}
			x.cacher.serve(x.s)
			x.all([]int{0, 2, 10}[r.IntN(3)])
			compareRows(t, x.rows, w.rows)
			compareEvents(t, x.events, w.told)
			x.check("end", x.s)
			hits, misses, lost = hits+x.cacher.hits, misses+x.cacher.misses, lost+x.cacher.lost
		}
	}
	t.Logf("%d hits, %d misses, %d batches packed again", hits, misses, lost)
	if hits < 1000 || misses < 100 || lost < 50 {
		t.Error("that is too few to tell")
	}
}
