package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/detectors/simple"
	"odradek/processor/state/changelog"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

const (
	window    = 60
	maxRecord = 400 // bytes: windows have segments, and heads fragments
)

// setsOf returns the sets of detectors on windows of one to three columns.
func setsOf(t *testing.T, fingerprint uint64) *series.Sets {
	z, err := simple.NewZScore(window)
	if err != nil {
		t.Fatal(err)
	}
	windows := []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}, {Columns: []int{0, 1, 2}, Fingerprint: 10}}
	detectors := []series.DetectorConfig{{Name: "z", Detector: z, Stride: 1, Fingerprint: fingerprint}}
	for i := range uint64(4) {
		windows = append(windows, series.WindowConfig{Columns: []int{1, 2}, Fingerprint: 11 + i})
	}
	for i := 1; i < len(windows); i++ {
		detectors = append(detectors, series.DetectorConfig{Name: string(rune('a' + i)), Detector: z, Window: i, Stride: 1, Fingerprint: 4})
	}
	return series.NewSets(windows, detectors, maxRecord)
}

// record is one of a changelog.
type record struct{ key, value []byte }

// newLoader returns a Loader, and what it fills.
func newLoader(sets *series.Sets, drops func([]byte) bool) (*Loader, *LoadTarget) {
	table, out := series.NewKeyTable(), NewWriter(HeldFormat{Layout: 1, Dim: 3}, maxRecord)
	to := LoadTarget{
		Keys:      &table,
		Records:   &out,
		Decisions: rules.NewDecisionLog(&rules.KindTable{}, func(rules.DecisionStep, *rules.Decision) {}),
	}
	return NewLoader(to, sets, false, drops), &to
}

// compacted returns the last record of each key, in the order of the log.
func compacted(log []record) (left []record) {
	last := map[string]int{}
	for i, r := range log {
		last[string(r.key)] = i
	}
	for i, r := range log {
		if last[string(r.key)] == i && r.value != nil {
			left = append(left, r)
		}
	}
	return left
}

// writer has the keys of a partition, and the changelog that it writes them to.
type writer struct {
	t    *testing.T
	sets *series.Sets
	keys []*series.Key
	out  Writer
	log  []record
	next int64
}

func newWriter(t *testing.T, n int) *writer {
	w := &writer{t: t, sets: setsOf(t, 2), out: NewWriter(HeldFormat{Layout: 1, Dim: 3}, maxRecord)}
	for i := range n {
		name := fmt.Appendf(nil, "key %d", i)
		k := series.NewKey(name, w.sets.For(name))
		k.Born = int64(i)
		w.keys = append(w.keys, k)
	}
	return w
}

// fold adds n rows to a key.
func (w *writer) fold(k *series.Key, n int) {
	for range n {
		for i := range k.Windows {
			win, sw := &k.Windows[i], &k.Set.Windows[i]
			win.Reserve(sw)
			v := float64(w.next)
			win.PushRow(sw, w.next*1000, []float64{v, v + 0.5, -v}, false)
		}
		k.LastTime, k.LastOffset = w.next*1000, w.next
		w.next++
	}
}

// emit writes a key.
func (w *writer) emit(k *series.Key) {
	c := changelog.Emitter{Emit: func(key, value []byte) error {
		w.log = append(w.log, record{bytes.Clone(key), bytes.Clone(value)})
		if len(key)+len(value) > maxRecord {
			w.t.Errorf("a record of %d bytes, the limit is %d", len(key)+len(value), maxRecord)
		}
		return nil
	}}
	w.out.Emit(&c, k, w.next)
}

// content returns what is remembered of a key.
func content(k *series.Key) []byte {
	var e changelog.Encoder
	e.Int(k.Born)
	e.Int(k.LastOffset)
	e.Int(k.LastTime)
	series.Writer{Encoder: &e}.Content(&k.Series)
	return e.B
}

// check loads a log and compares the keys with those that were written.
func (w *writer) check(what string, log []record) {
	w.t.Helper()
	l, to := newLoader(w.sets, nil)
	for _, r := range log {
		if err := l.Load(r.key, r.value); err != nil {
			w.t.Fatalf("%s: %v", what, err)
		}
	}
	if err := l.Finish(); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
	for _, k := range w.keys {
		got := to.Keys.Get(k.Name())
		if !k.InLog {
			if got != nil {
				w.t.Fatalf("%s: %s is loaded and was not written", what, k.Name())
			}
			continue
		}
		if got == nil || l.Incomplete(got) != nil || len(l.Mismatches(got)) > 0 || !bytes.Equal(content(got), content(k)) {
			w.t.Fatalf("%s: %s is not loaded as it was written (loaded: %v)", what, k.Name(), got != nil)
		}
	}
	var size int64
	for k := range to.Keys.All {
		size += k.Size()
	}
	if size != to.Keys.Bytes {
		w.t.Fatalf("%s: keys of %d bytes are counted as %d", what, size, to.Keys.Bytes)
	}
}

// TestWrittenAndLoaded writes keys that grow, undoes some of it, and loads the changelog, whole and compacted.
func TestWrittenAndLoaded(t *testing.T) {
	rng := seedtest.New(t)
	w := newWriter(t, 4)
	fragmented, segments := false, 0
	for range 60 {
		k := w.keys[rng.IntN(len(w.keys))]
		w.fold(k, rng.IntN(2*window))
		if rng.IntN(4) == 0 { // a cycle whose outcome is unknown: it is undone, and its records may be there
			k.SetDirty(0)
			words, stale, segments := w.out.AppendUndo(nil, k)
			before := len(w.log)
			if w.emit(k); rng.IntN(2) == 0 {
				w.log = w.log[:before]
			}
			w.out.Undo(k, words, stale, segments)
			w.fold(k, rng.IntN(window))
		}
		w.emit(k)
		fragmented = fragmented || k.Fragments > 0
		if k.Windows[0].Named.From < k.Windows[0].Named.To {
			segments++
		}
		w.check("whole", w.log)
		w.check("compacted", compacted(w.log))
	}
	if !fragmented || segments == 0 {
		t.Errorf("a head has had fragments: %v, %d have named segments: the test tests too little", fragmented, segments)
	}
	for _, r := range compacted(w.log) {
		kind, name, suffix, _ := changelog.SplitKey(r.key)
		k := w.keys[name[len(name)-1]-'0']
		if kind == changelog.Segment && !w.out.Named(k, Record{Kind: kind, Window: suffix[0], ID: suffix[1]}) {
			t.Errorf("a segment of %s is left that no head names", name)
		}
	}
	k := w.keys[0]
	w.out.Delete(&changelog.Emitter{Emit: func(key, _ []byte) error {
		w.log = append(w.log, record{bytes.Clone(key), nil})
		return nil
	}}, k)
	k.InLog = false
	w.check("deleted", w.log)
	if i := slices.IndexFunc(compacted(w.log), func(r record) bool { return bytes.Contains(r.key, k.Name()) }); i >= 0 {
		t.Errorf("%q is left of a deleted key", compacted(w.log)[i].key)
	}
}

// TestIncomplete takes records out of a changelog: what is not there is reported, and what no Writer has written is refused.
func TestIncomplete(t *testing.T) {
	w := newWriter(t, 1)
	w.fold(w.keys[0], 3*window)
	w.emit(w.keys[0])
	for i, r := range w.log {
		l, to := newLoader(w.sets, nil)
		for j, r := range w.log {
			if j != i {
				if err := l.Load(r.key, r.value); err != nil {
					t.Fatal(err)
				}
			}
		}
		k := to.Keys.Get(w.keys[0].Name())
		if head := r.key[0] == changelog.Head; (k == nil) != head || k != nil && l.Incomplete(k) == nil {
			t.Errorf("without record %q the key is %v", r.key, k)
		}
		if k == nil {
			continue
		}
		// What follows its head completes it.
		if err := errors.Join(l.Load(r.key, r.value), l.Finish()); err != nil || l.Incomplete(k) != nil {
			t.Errorf("record %q after its head: %v, %v", r.key, err, l.Incomplete(k))
		}
	}
	l, _ := newLoader(w.sets, nil)
	if err := l.Load([]byte("?k"), []byte{1}); !errors.Is(err, changelog.ErrNewer) {
		t.Errorf("a record of an unknown type: %v", err)
	}
	for value, want := range map[string]error{
		"\x0a": changelog.ErrNewer, "\x09\x02": changelog.ErrNewer, "\x08\x00\x01": changelog.ErrOlder, "\x01": changelog.ErrOlder,
		"": changelog.ErrCorrupt, "\x09\x00\x01": changelog.ErrCorrupt,
	} {
		if err := l.Load([]byte("Hk"), []byte(value)); !errors.Is(err, want) {
			t.Errorf("a head of % x: %v, want %v", value, err, want)
		}
	}
}

// TestOtherDetector loads keys that another detector's parameters made.
func TestOtherDetector(t *testing.T) {
	w := newWriter(t, 1)
	w.fold(w.keys[0], window)
	w.emit(w.keys[0])
	l, to := newLoader(setsOf(t, 3), nil)
	for _, r := range w.log {
		if err := l.Load(r.key, r.value); err != nil {
			t.Fatal(err)
		}
	}
	k := to.Keys.Get(w.keys[0].Name())
	want := Mismatch{Detector: "z", Window: 1, Params: 2}
	if got := l.Mismatches(k); len(got) != 1 || got[0] != want {
		t.Errorf("differences %+v, want %+v", got, want)
	}
	for range l.Rewritten {
		return
	}
	t.Error("the key is not to be written again")
}

// TestDropped loads of a key that there is no room for nothing but what its eviction needs.
func TestDropped(t *testing.T) {
	w := newWriter(t, 2)
	for _, k := range w.keys {
		w.fold(k, window)
		w.emit(k)
	}
	l, to := newLoader(w.sets, func(name []byte) bool { return bytes.Equal(name, w.keys[1].Name()) })
	for _, r := range w.log {
		if err := l.Load(r.key, r.value); err != nil {
			t.Fatal(err)
		}
	}
	whole, dropped := to.Keys.Get(w.keys[0].Name()), to.Keys.Get(w.keys[1].Name())
	if whole.Dropped || !dropped.Dropped || dropped.Size() >= whole.Size() || l.LeftOut != dropped.Size() {
		t.Errorf(
			"dropped %v and %v, of %d and %d bytes, %d left out",
			whole.Dropped,
			dropped.Dropped,
			whole.Size(),
			dropped.Size(),
			l.LeftOut,
		)
	}
	if l.Unload(dropped); to.Keys.Len() != 1 || l.LeftOut != 0 || to.Keys.Bytes != whole.Size() {
		t.Errorf("%d keys of %d bytes, %d left out", to.Keys.Len(), to.Keys.Bytes, l.LeftOut)
	}
}
