package series

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/simple"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
)

// scorer is a detector that scores full windows. Its carry is one word.
type scorer struct {
	window int
	bins   bool // it has a summary
}

func (s scorer) Op() detectors.Op        { return simple.OpZScore }
func (s scorer) Params() detectors.Words { return nil }
func (s scorer) Window() int             { return s.window }

func (s scorer) Size(v detectors.View) (detectors.Outputs, bool) {
	return detectors.Outputs{Scores: v.Fresh, Carry: 1}, v.Rows-v.Fresh+1 >= s.window
}

func (s scorer) AppendFindings(dst []detectors.Finding, _ detectors.Rows) []detectors.Finding {
	return dst
}

func (s scorer) Summary(columns int) *detectors.BinParams {
	if !s.bins {
		return nil
	}
	p := &detectors.BinParams{Dim: columns}
	if err := p.Defaults(); err != nil {
		panic(err)
	}
	return p
}

var params = threshold.Params{Kind: threshold.Fixed, Value: 2}

// setsOf makes the sets of two windows, of one and of two columns. Records are so small that
// the first has segments.
func setsOf(need int) *Sets {
	ev := &anomaly.Policy{OpenAfter: 1, CloseAfter: 1, Release: 1}
	return NewSets([]WindowConfig{{Columns: []int{0}, Fingerprint: 11}, {Columns: []int{0, 1}, Fingerprint: 12}},
		[]DetectorConfig{
			{Name: "a", Detector: scorer{window: need}, Stride: 3, Fingerprint: 21, Threshold: &params, Events: ev},
			{Name: "b", Detector: scorer{window: 4, bins: true}, Window: 1, Stride: 1, Fingerprint: 22},
		}, 600)
}

func newSeries(set *Set) *Series {
	k := new(Series)
	k.Init([]byte("a series"), set, make([]Window, len(set.Windows)), make([]Progress, set.Detectors))
	return k
}

// fold appends a sample's rows as the owner of a series does, and saves what they overwrite.
func fold(k *Series, time int64, values []float64) (overwritten [][]uint64) {
	k.LastTime, k.LastOffset = time, time
	for i := range k.Windows {
		w, sw := &k.Windows[i], &k.Set.Windows[i]
		var row []uint64
		if w.Rows == sw.Need {
			row = w.AppendOldest(nil, len(sw.Columns))
		}
		overwritten = append(overwritten, row)
		w.Reserve(sw)
		if len(sw.Columns) == 1 && time%2 == 0 {
			w.PushValue(sw, time, values[sw.Columns[0]])
		} else {
			w.PushRow(sw, time, values, false)
		}
		for j := range sw.Detectors {
			d := &sw.Detectors[j]
			if p := &k.Progress[d.Place]; p.Fresh+1 < d.Fresh {
				w.Fresh(sw, d)[p.Fresh] = uint64(time) << 1
				p.Fresh++
			} else {
				p.Fresh = 0
			}
		}
	}
	return overwritten
}

// content returns what Export has of a series.
func content(k *Series) string {
	var e changelog.Encoder
	e.Int(k.LastTime)
	Writer{&e}.Content(k)
	if !k.Alerts.Empty() {
		Writer{&e}.Alerts(k)
	}
	if k.Alerts.Summarised() {
		Writer{&e}.Summaries(k)
	}
	return string(e.B)
}

// TestWindow compares windows with lists of all rows, through growth, overwriting and undo.
func TestWindow(t *testing.T) {
	rng := seedtest.New(t)
	for _, need := range []int{1, 2, 7, 8, 9, 64, 100} {
		key := NewKey([]byte("a series"), setsOf(need).For([]byte("a series")))
		k := &key.Series
		type step struct {
			places []uint64
			rows   [][]uint64
			before string
		}
		var steps []step
		var samples [][]float64
		for range 400 {
			if n := rng.IntN(30); n == 0 {
				for range rng.IntN(len(steps) + 1) {
					last := steps[len(steps)-1]
					steps, samples = steps[:len(steps)-1], samples[:len(samples)-1]
					for i, row := range last.rows {
						if row != nil {
							k.Windows[i].RestoreRow(row)
						}
					}
					if key.RestorePlaces(last.places); content(k) != last.before {
						t.Fatalf("need %d: %d samples are not what they were", need, len(steps))
					}
				}
			}
			values := []float64{float64(rng.IntN(3)), rng.NormFloat64()}
			s := step{places: key.AppendPlaces(nil), before: content(k)}
			s.rows = fold(k, int64(len(samples)), values)
			steps, samples = append(steps, s), append(samples, values)
			for i := range k.Windows {
				w, sw := &k.Windows[i], &k.Set.Windows[i]
				n := min(len(samples), int(sw.Need))
				if int(w.Rows) != n || w.Count != int64(len(samples)) {
					t.Fatalf("window %d has %d rows of %d, want %d of %d", i, w.Rows, w.Count, n, len(samples))
				}
				a, b := w.Times(w.Rows, 0)
				x, y := w.Values(len(sw.Columns), w.Rows)
				times, rows := slices.Concat(a, b), slices.Concat(x, y)
				for j := range n {
					at := len(samples) - n + j
					if times[j] != int64(at) {
						t.Fatalf("window %d: row %d has the time %d, want %d", i, j, times[j], at)
					}
					for c, column := range sw.Columns {
						if got := math.Float64frombits(rows[j*len(sw.Columns)+c]); got != samples[at][column] {
							t.Fatalf("window %d: row %d has %v, want %v", i, j, got, samples[at][column])
						}
					}
				}
			}
		}
	}
}

// changelogOf writes a series' head and segments as its owner does, with all that the head names.
func changelogOf(k *Series, segments map[SegmentName][]byte) []byte {
	var e changelog.Encoder
	for i := range k.Windows {
		w, sw := &k.Windows[i], &k.Set.Windows[i]
		named, full := w.Full(sw)
		for first := range full.All(sw.SegmentRows) {
			e.Reset()
			Writer{&e}.Segment(k, i, first, first&^(sw.SegmentRows-1)+sw.SegmentRows)
			segments[SegmentName{sw.Fingerprint, SegmentID(sw.SegmentRows, first)}] = bytes.Clone(e.B)
		}
		w.Named = named
	}
	e.Reset()
	e.Int(k.LastOffset)
	e.Int(k.LastTime)
	Writer{&e}.Rows(k)
	Writer{&e}.Progress(k)
	Writer{&e}.Alerts(k)
	Writer{&e}.Summaries(k)
	return e.B
}

func stored(t *testing.T, segments map[SegmentName][]byte) (list []StoredSegment) {
	for name, value := range segments {
		g, err := ReadSegment(value, name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b StoredSegment) int { return int(a.Name.ID) - int(b.Name.ID) })
	return list
}

// read reads a head into a series without samples.
func read(r *Reader, head []byte, set *Set, list []StoredSegment) (*Series, error) {
	k := newSeries(set)
	r.Start(head)
	k.LastOffset, k.LastTime = r.Int(), r.Int()
	if err := r.Rows(k, list); err != nil {
		return k, err
	}
	r.Progress(k)
	r.Alerts(k)
	r.Summaries(k)
	if r.Bad || len(r.B) > 0 {
		return k, changelog.ErrCorrupt
	}
	return k, r.Missing
}

// TestThresholdIsTheOwn: the history that a head holds is of the threshold that wrote it, where the settings are the same. Of
// another threshold the counts of clear faults would begin again.
func TestThresholdIsTheOwn(t *testing.T) {
	for _, kind := range []threshold.Kind{threshold.Fixed, threshold.Mean, threshold.Quantile, threshold.MAD, threshold.Conformal,
		threshold.PerDay} {
		for _, bounded := range []bool{false, true} {
			for _, span := range []int64{0, 1e9, -1} { // -1: late admission
				set := setsOf(50).For([]byte("a series"))
				det := &set.Windows[0].Detectors[0]
				params := threshold.New(kind, 0.1)
				if params.Bounded, params.Span, params.Decluster = bounded, max(0, span), 5; span < 0 {
					params.Late = threshold.Late{Open: 1, Close: 3}
				}
				det.Threshold = &params
				k := newSeries(set)
				a := &k.Alerts.Detectors[0]
				a.Threshold, a.History = det.Threshold, make([]float32, params.Size())
				for i := range 700 {
					params.JudgeAt(a.History, float32(i%97)/100, int64(i)*1e7, true)
				}
				highest := float32(1)
				if !bounded {
					highest = 1e6
				}
				params.JudgeAt(a.History, highest, 7e9, true)
				segments := map[SegmentName][]byte{}
				got, err := read(&Reader{Silence: true}, changelogOf(k, segments), set, stored(t, segments))
				if err != nil {
					t.Fatal(err)
				}
				b, n := &got.Alerts.Detectors[0], params.Stored()
				if waiting := params.Waiting(a.History); span < 0 && len(waiting) == 0 {
					t.Errorf("kind %d: no score waits", kind)
				}
				if b.Threshold != det.Threshold || !slices.Equal(b.History[:n], a.History[:n]) ||
					!slices.Equal(params.Waiting(b.History), params.Waiting(a.History)) {
					t.Errorf("kind %d, bounded %t, span %d: read as a history of %+v", kind, bounded, span, *b.Threshold)
				}
			}
		}
	}
}

// TestHead writes and reads series at random, all windows' segments included: what is read is
// what was written. A head that is cut off is refused, and one that names a segment that is
// not there says so.
func TestHead(t *testing.T) {
	rng := seedtest.New(t)
	missing := 0
	for round := range 30 {
		need := 40 + rng.IntN(100)
		sets := setsOf(need)
		set := sets.For([]byte("a series"))
		k := newSeries(set)
		segments := map[SegmentName][]byte{}
		if set.Windows[0].SegmentRows == 0 {
			t.Fatal("the window has no segments")
		}
		for i := range int64(rng.IntN(400)) {
			fold(k, i, []float64{rng.NormFloat64(), float64(rng.IntN(3))})
			if rng.IntN(50) == 0 {
				changelogOf(k, segments)
			}
		}
		for i := range k.Progress {
			k.Progress[i].Carry = detectors.Words{rng.Uint32()}
		}
		if round%2 == 0 {
			a := &k.Alerts.Detectors[0]
			a.Threshold = set.Windows[0].Detectors[0].Threshold
			a.History = make([]float32, a.Threshold.Size())
			if params := threshold.New(threshold.Fixed, 2); round%4 == 0 {
				params.Late = threshold.Late{Open: 1, Close: 3}
				a.Threshold, a.History = &params, make([]float32, params.Size())
				for range rng.IntN(400) {
					params.JudgeAt(a.History, float32(rng.ExpFloat64()), 0, true)
				}
			}
			k.Alerts.Silent = &anomaly.Anomaly{ID: [16]byte{1}, Revision: 1, Start: 5, OpenedAt: 6, End: 9, PeakTime: 7}
			m := new(Summary)
			k.SetSummary(1, m)
			if d := &set.Windows[1].Detectors[0]; d.Gone(&k.Windows[1]) > 0 {
				m.Fold(&k.Windows[1], d, d.Gone(&k.Windows[1]), nil)
			}
		}
		head := changelogOf(k, segments)
		r := &Reader{Silence: true}
		got, err := read(r, head, set, stored(t, segments))
		if err != nil {
			t.Fatal(err)
		}
		if a, b := content(got), content(k); a != b {
			i := 0
			for i < min(len(a), len(b)) && a[i] == b[i] {
				i++
			}
			t.Fatalf("round %d: from byte %d on, %q is read, %q was written", round, i, a[i:], b[i:])
		}
		if r.Rewrite || len(r.Stale)+len(r.Differences) > 0 {
			t.Fatalf("round %d: %v, %d stale segments, differences %v", round, r.Rewrite, len(r.Stale), r.Differences)
		}
		for range 50 {
			if _, err := read(r, head[:rng.IntN(len(head))], set, stored(t, segments)); err == nil {
				t.Fatal("a head that is cut off is not refused")
			}
		}
		for first := range k.Windows[0].Named.All(set.Windows[0].SegmentRows) {
			if !k.Windows[0].Named.Has(set.Windows[0].SegmentRows, first) {
				t.Fatalf("%+v does not have %d", k.Windows[0].Named, first)
			}
			delete(segments, SegmentName{11, SegmentID(set.Windows[0].SegmentRows, first)})
			if _, err := read(r, head, set, stored(t, segments)); err == nil {
				t.Fatal("a missing segment is not noticed")
			}
			missing++
			break
		}
	}
	if missing == 0 {
		t.Error("no head had a segment")
	}
}

// TestOtherConfiguration reads a head with another detector of the same name, without another
// one and with its window gone.
func TestOtherConfiguration(t *testing.T) {
	k := newSeries(setsOf(64).For(nil))
	for i := range int64(100) {
		fold(k, i, []float64{1, 2})
	}
	k.Alerts.Silent = &anomaly.Anomaly{Start: 5}
	segments := map[SegmentName][]byte{}
	head := changelogOf(k, segments)
	other := NewSets([]WindowConfig{{Columns: []int{0}, Fingerprint: 12}},
		[]DetectorConfig{{Name: "a", Detector: scorer{window: 64}, Stride: 3, Fingerprint: 21}}, 600).For(nil)
	r := new(Reader)
	got, err := read(r, head, other, stored(t, segments))
	if err != nil {
		t.Fatal(err)
	}
	want := []Difference{{"a", true, 11, 21}}
	if !r.Rewrite || len(r.Stale) != len(segments) || !reflect.DeepEqual(r.Differences, want) {
		t.Errorf("%d stale of %d, differences %v", len(r.Stale), len(segments), r.Differences)
	}
	if o := got.Alerts.Orphans; len(o) != 1 || !o[0].Silence || got.Windows[0].Rows != 0 {
		t.Errorf("orphans %v, %d rows", o, got.Windows[0].Rows)
	}
}

func TestSegmentRows(t *testing.T) {
	for _, c := range []struct {
		need      int64
		cols, max int
		want      int64
	}{
		{8, 1, 512 << 10, 0}, {127, 1, 512 << 10, 0}, {128, 1, 512 << 10, 64}, {1024, 1, 512 << 10, 128},
		{1 << 20, 1, 512 << 10, 16384}, {1000, 3, 512 << 10, 128}, {100, 10000, 512 << 10, 2},
		{100, 60000, 512 << 10, 1}, {300, 1, 600, 16}, {1500, 1, 512 << 10, 128}, {1600, 1, 512 << 10, 256},
	} {
		if got := segmentRows(c.need, c.cols, c.max); got != c.want {
			t.Errorf("%d rows of %d values: %d, want %d", c.need, c.cols, got, c.want)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		v    any
		want int
	}{{Window{}, windowBytes}, {even{}, evenBytes}, {Progress{}, progressBytes}, {Alerts{}, alertsBytes}, {Alert{}, alertBytes},
		{ScoreState{}, ScoreStateBytes}, {levels{}, levelsBytes}, {detectors.Level{}, levelBytes}, {Former{}, formerBytes},
		{formerValue{}, formerValueBytes}, {Interval{}, intervalBytes}, {aggregated{}, aggregatedBytes}} {
		if got := int(reflect.TypeOf(c.v).Size()); got != c.want {
			t.Errorf("%T has %d bytes, want %d", c.v, got, c.want)
		}
	}
}

// TestSets gives keys that the same detectors read the same set.
func TestSets(t *testing.T) {
	dets := make([]DetectorConfig, 20)
	for i := range dets {
		dets[i] = DetectorConfig{Name: fmt.Sprint(i), Detector: scorer{window: 3 + i}, Stride: 1 + i%3,
			Keys: func(key []byte) bool { return int(key[0])>>(i%4)&1 != 0 }}
	}
	sets := NewSets([]WindowConfig{{Columns: []int{0}}}, dets, 1<<10)
	for key := range 16 {
		set := sets.For([]byte{byte(key)})
		if key == 0 {
			if set != nil {
				t.Error("a set of no detector")
			}
			continue
		}
		n := 0
		for i := range dets {
			if dets[i].Keys([]byte{byte(key)}) {
				if got := set.Windows[0].Detectors[n]; got.Index != int32(i) || got.Place != n {
					t.Errorf("key %d: place %d is of detector %d, want %d", key, got.Place, got.Index, i)
				}
				n++
			}
		}
		if set.Detectors != n || sets.For([]byte{byte(key) | 16}) != set {
			t.Errorf("key %d: %d detectors, want %d", key, set.Detectors, n)
		}
	}
}
