package ops

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cuda"
	"odradek/detectors"
)

// The shape of ops-window-cache: one fresh sample a task, a million keys.
const (
	cacheKeys = 1 << 20
	cacheWant = 60e6
)

// cacheOwner has the windows and carries of some keys as a partition has them: a
// ring of rows in float64, far more together than caches hold. Keys come in turn,
// each with one sample.
type cacheOwner struct {
	det     detectors.Detector
	params  detectors.Words
	rows    int
	carryN  int
	rings   []uint64 // rows of each key, float64 by their bits
	carries detectors.Words
	slots   []detectors.SlotRef
	count   int64 // rows that each key has had, but for those of this round that come later
	next    int   // the key that comes next
	tasks   int   // of a batch
	batch   *detectors.Batch
	pool    *detectors.WindowPool // nil: windows are copied with their tasks
	cache   *detectors.WindowCache

	pushed, packed, executed, taken time.Duration
	scored                          int
}

func newCacheOwner(det detectors.Detector, keys int) (*cacheOwner, error) {
	o := &cacheOwner{det: det, params: det.Params(), rows: det.Window()}
	size, ok := det.Size(detectors.View{Dim: 1, Rows: o.rows, Fresh: 1})
	if !ok {
		return nil, errors.New("too little history in the benchmark's task")
	}
	o.carryN = size.Carry
	o.rings = make([]uint64, keys*o.rows)
	o.carries = make(detectors.Words, keys*o.carryN)
	o.slots = make([]detectors.SlotRef, keys)
	return o, nil
}

// begin gives all keys their first window and carry.
func (o *cacheOwner) begin() {
	o.count, o.next = int64(o.rows), 0
	for k := range o.slots {
		ring := o.rings[k*o.rows:][:o.rows]
		for i := range ring {
			ring[i] = math.Float64bits(cacheSample(k, int64(i)))
		}
		copy(o.carries[k*o.carryN:][:o.carryN], o.params[len(o.params)-o.carryN:])
	}
	clear(o.slots)
}

// cacheSample is sample i of key k: a wave, and noise that is cheap to make.
func cacheSample(k int, i int64) float64 {
	noise := uint64(i)*0x9e3779b97f4a7c15 ^ uint64(k)*0xd1342543de82ef95
	noise ^= noise >> 29
	noise *= 0xbf58476d1ce4e5b9
	phase := (i + int64(k)) % 57
	return 20 + float64(phase*(57-phase))/800 + 0.1*float64(noise>>11)/(1<<53)
}

// push writes the next sample of n keys into their rings.
func (o *cacheOwner) push(n int) {
	at := int(o.count % int64(o.rows))
	for k := o.next; k < o.next+n; k++ {
		o.rings[k*o.rows+at] = math.Float64bits(cacheSample(k, o.count))
	}
}

// pack packs the tasks of n keys, as package state does.
func (o *cacheOwner) pack(n int) {
	b := o.batch
	b.Reset()
	params := b.Put(o.params)
	count := o.count + 1
	oldest := int(count % int64(o.rows)) // of the ring, which is full
	from, common := detectors.CenterRows(o.rows, count)
	var centers []float64
	for k := o.next; k < o.next+n; k++ {
		t := detectors.Task{Op: o.det.Op(), Dim: 1, Fresh: 1, Params: params}
		ring := o.rings[k*o.rows:][:o.rows]
		missing, cached := 0, false
		if o.pool != nil {
			missing, cached = o.pool.Missing(b, &o.slots[k], count)
		}
		if cached {
			span, raw := b.GrowF64(missing)
			for i := range raw {
				raw[i] = math.Float64frombits(ring[(oldest+o.rows-missing+i)%o.rows])
			}
			t.X = o.pool.Update(b, &o.slots[k], count, span, len(b.Tasks))
		} else {
			var p []float32
			t.X, p = b.GrowF32(o.rows)
			x, y := ring[oldest:], ring[:oldest]
			centers, _ = detectors.Centers(centers[:0], x, y, 1, from, common)
			detectors.Pack(p, x, y, centers)
		}
		t.Carry = b.Put(o.carries[k*o.carryN:][:o.carryN])
		t.Scores = b.GrowOut(1)
		t.Next = b.GrowOut(o.carryN)
		b.Tasks = append(b.Tasks, t)
	}
}

// take copies the carries to the owner.
func (o *cacheOwner) take(n int) {
	for i := range n {
		next := o.batch.Tasks[i].Next
		copy(o.carries[(o.next+i)*o.carryN:][:o.carryN], o.batch.Out[next.Off:])
	}
	if o.next += n; o.next == len(o.slots) {
		o.next = 0
		o.count++
	}
}

// round scores the next keys.
func (o *cacheOwner) round(ctx context.Context, e detectors.Executor) error {
	n := min(o.tasks, len(o.slots)-o.next)
	t0 := time.Now()
	o.push(n)
	t1 := time.Now()
	o.pack(n)
	t2 := time.Now()
	if err := e.Execute(ctx, o.batch); err != nil {
		return err
	}
	t3 := time.Now()
	o.take(n)
	o.pushed += t1.Sub(t0)
	o.packed += t2.Sub(t1)
	o.executed += t3.Sub(t2)
	o.taken += time.Since(t3)
	o.scored += n
	return nil
}

// WindowCache compares windows that the device caches with windows copied with each task.
func (b *Bench) WindowCache(ctx context.Context) (rows []testbed.Row, err error) {
	keys, n := b.Scale(cacheKeys), b.Owners
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	shape := shapeNamed(latencyShape)
	det, err := shape.det()
	if err != nil {
		return nil, err
	}
	if _, err := b.GPU.Program(); err != nil {
		return nil, err
	}
	owners := make([]*cacheOwner, n)
	for i := range owners {
		if owners[i], err = newCacheOwner(det, (keys+n-1-i)/n); err != nil {
			return nil, err
		}
		owners[i].tasks = b.Tasks
	}
	window := int64(8*det.Window()+255) &^ 255
	var base, first []float32
	for i, c := range []struct {
		name string
		room int64 // windows on the device
	}{
		{"windows copied", 0},
		{"window cache", int64(keys) * 5 / 4},
		{"window cache for half", int64(keys) / 2},
	} {
		if !b.wants(c.name) {
			continue
		}
		e, err := b.GPU.Open(cuda.Options{WindowCache: c.room * window})
		if err != nil {
			return rows, err
		}
		b.Say("%s", c.name)
		r, scores, err := b.windowCacheForm(ctx, e, owners, c.room > 0, fmt.Sprint("window-cache-", i))
		info := e.Stats().Devices[0]
		e.Close()
		if err == nil && info.Faults > 0 {
			err = fmt.Errorf("the device had %d faults, the last: %s", info.Faults, info.LastFault)
		}
		if err != nil {
			return rows, fmt.Errorf("%s: %w", c.name, err)
		}
		r.Case, r.Device = fmt.Sprintf("%s, %d keys, %s", shape.name, keys, c.name), info.Name
		if base == nil {
			base, first = scores, []float32{float32(r.Value)}
		} else {
			for i := range base {
				if math.Float32bits(base[i]) != math.Float32bits(scores[i]) {
					return rows, fmt.Errorf("%s: score %d is %v, with copied windows %v", c.name, i, scores[i], base[i])
				}
			}
			r = r.Against("windows copied", float64(first[0]), false).Noted("the first %d scores have the same bits", len(base))
			if c.room > int64(keys) {
				r = r.Want(">= "+testbed.Figure(cacheWant), r.Value >= cacheWant)
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// windowCacheForm returns the rate of pushing, packing, executing and copying the carries, by
// all owners at once, and the scores of each owner's first rounds.
func (b *Bench) windowCacheForm(ctx context.Context, e *cuda.Executor, owners []*cacheOwner, cached bool,
	name string) (r testbed.Row, scores []float32, err error) {
	all := func(f func(o *cacheOwner) error) error {
		faults := make([]error, len(owners))
		var wait sync.WaitGroup
		for i, o := range owners {
			wait.Go(func() { faults[i] = f(o) })
		}
		wait.Wait()
		return errors.Join(faults...)
	}
	first := make([][]float32, len(owners))
	for _, o := range owners {
		o.batch, o.pool, o.cache = e.Batch(), nil, nil
		if cached {
			o.cache = e.WindowCache()
			if o.pool = o.cache.Pool(o.det, 1, 1); o.pool == nil {
				return r, nil, errors.New("the executor keeps no windows")
			}
		}
	}
	at := map[*cacheOwner]int{}
	for i, o := range owners {
		at[o] = i
	}
	// Twice round all keys: the windows get where they stay, the batches' memory
	// grows to its size.
	err = all(func(o *cacheOwner) error {
		o.begin()
		for o.count < int64(o.rows)+2 {
			if err := o.round(ctx, e); err != nil {
				return err
			}
			if o.count == int64(o.rows)+1 && len(first[at[o]]) < 1<<14 {
				for i := range o.batch.Tasks {
					first[at[o]] = append(first[at[o]], o.batch.Out.Float32(int(o.batch.Tasks[i].Scores.Off)))
				}
			}
		}
		return nil
	})
	if err != nil {
		return r, nil, err
	}
	for _, f := range first {
		scores = append(scores, f...)
	}
	var rates []float64
	for _, o := range owners {
		o.pushed, o.packed, o.executed, o.taken, o.scored = 0, 0, 0, 0, 0
	}
	total := 0
	stop, err := b.profileOps(name)
	if err != nil {
		return r, nil, err
	}
	spent, child := testbed.ProcessCPU(os.Getpid()), testbed.ProcessCPU(e.Stats().Devices[0].Pid)
	for range b.Repeat {
		began := time.Now()
		end := began.Add(b.Span(time.Second))
		if err := all(func(o *cacheOwner) error {
			for time.Now().Before(end) {
				if err := o.round(ctx, e); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return r, nil, err
		}
		took, sum := time.Since(began).Seconds(), 0
		for _, o := range owners {
			sum += o.scored
		}
		rates = append(rates, float64(sum-total)/took)
		total = sum
	}
	stop()
	spent, child = testbed.ProcessCPU(os.Getpid())-spent, testbed.ProcessCPU(e.Stats().Devices[0].Pid)-child
	rate, spread := testbed.Median(rates)
	r = testbed.NewRow("", rate, "scores/s")
	var pushed, packed, executed, taken time.Duration
	var hits, misses uint64
	for _, o := range owners {
		pushed, packed, executed, taken = pushed+o.pushed, packed+o.packed, executed+o.executed, taken+o.taken
		if cached {
			hits, misses = hits+o.pool.Hits, misses+o.pool.Misses
		}
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(total) }
	r = r.Noted("%d goroutines; ns of one of them a task: %.0f pushing the sample, %.0f packing, %.0f in Execute, %.0f taking the carry; "+
		"%.1fM/s of packing and Execute alone; median of %d, spread %.0f%%",
		len(owners), each(pushed), each(packed), each(executed), each(taken),
		1e3*float64(len(owners))/(each(packed)+each(executed)), b.Repeat, spread)
	r = r.Noted("%.0f ns a task of this process's processor time, %.0f of the child's", each(spent), each(child))
	if cached {
		r = r.Noted("%.1f%% of the windows were there, of those after the first round %.1f%%",
			100*float64(hits)/float64(hits+misses), 100*min(1, float64(hits)/float64(hits+misses-uint64(b.Scale(cacheKeys)))))
	}
	m, err := b.windowCacheKernels(ctx, e, owners[0])
	if err != nil {
		return r, nil, err
	}
	r = r.Noted("%s", m)
	for _, o := range owners {
		if cached {
			o.cache.Close()
		}
		e.Release(o.batch)
	}
	return r, scores, nil
}

// profileOps begins a CPU profile of this process where -profile names a folder.
func (b *Bench) profileOps(name string) (stop func(), err error) {
	if b.Profile == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(b.Profile, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(b.Profile, name+".cpu"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}

// windowCacheKernels returns the rate of the launches alone, of a batch of all keys of one
// owner.
func (b *Bench) windowCacheKernels(ctx context.Context, e *cuda.Executor, o *cacheOwner) (string, error) {
	for o.next != 0 {
		if err := o.round(ctx, e); err != nil {
			return "", err
		}
	}
	n := len(o.slots)
	for range 3 { // the memory grows
		o.push(n)
		o.pack(n)
		if err := e.Execute(ctx, o.batch); err != nil {
			return "", err
		}
		o.take(n)
	}
	m, err := e.Measure(ctx, o.batch, 20, 2)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("launches alone %.1fM/s (%d tasks in %v)", float64(n)/m.Median.Seconds()/1e6, n, m.Median.Round(time.Microsecond)), nil
}
