package state

import (
	"bytes"
	"testing"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
)

// fuzzConfig has everything a head can hold.
func fuzzConfig() *Config {
	cfg := twoWindows()
	cfg.Reading.Lateness, cfg.DropMismatched, cfg.MaxRecord, cfg.Silence = 500, true, 600, 3000
	for i := range cfg.Detectors[:3] {
		params := threshold.New(threshold.Quantile, 0.8)
		params.History = 32
		cfg.Detectors[i].Threshold = &params
		cfg.Detectors[i].Events = &anomaly.Policy{OpenAfter: 1, CloseAfter: 2, Release: 1, UpdateEvery: 3}
	}
	return cfg
}

// FuzzLoad: any bytes are refused or give a state that works, and that is the
// same again after a snapshot and a restore.
func FuzzLoad(f *testing.F) {
	_, log := saved(f, fuzzConfig(), 1000)
	for _, r := range log[max(0, len(log)-40):] {
		f.Add(r.key, r.value, []byte(nil), []byte(nil))
	}
	heads := map[string]record{}
	for _, r := range log {
		_, name, _, _ := changelog.SplitKey(r.key)
		if r.value == nil {
			continue
		}
		if r.key[0] == changelog.Head && heads[string(name)].key != nil {
			old := heads[string(name)]
			f.Add(old.key, old.value, r.key, r.value)
		}
		if r.key[0] == changelog.Fragment || r.key[0] == changelog.Segment || r.key[0] == changelog.Held {
			heads[string(name)] = r
		}
	}
	f.Add([]byte("Ek"), []byte{changelog.Version, 5}, []byte("Hk"), []byte(nil))
	f.Add(changelog.AppendKey(nil, changelog.Decision, []byte{byte(MissingSchema), 'x'}, 5), []byte{changelog.Version, 1, 'n'},
		changelog.AppendKey(nil, changelog.Decision, []byte{byte(MissingSchema), 'x'}, 6), []byte{changelog.Version, 1})
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 []byte) {
		const end = 1 << 61
		cfg := fuzzConfig()
		s, b := New(cfg), &detectors.Batch{}
		if s.Load(k1, v1) != nil || k2 != nil && s.Load(k2, v2) != nil {
			return
		}
		if s.BeginReplay(Floor{Offset: end, MaxTime: 1000}, end, false) != nil {
			return
		}
		s.EndReplay()
		var names [][]byte
		for k := range s.Keys.All {
			names = append(names, k.Name())
		}
		for i := range int64(20) {
			name := []byte("other")
			if i > 0 && len(names) > 0 {
				name = names[int(i)%len(names)]
			}
			for !s.Fits(b) {
				execute(b)
				s.Apply(b)
				b.Reset()
			}
			s.Fold(&Sample{Key: name, Time: 2000 + i, Offset: end + i, Values: []float64{1, float64(i)}}, b)
		}
		execute(b)
		s.Apply(b)
		for k := range s.Keys.All {
			if k.Unit != uint32(s.journal.Number) {
				s.touch(k)
			}
		}
		s.Mark(end + 20)
		again := New(cfg)
		if err := s.Snapshot(end+20, 0, func(k, v []byte) error { return again.Load(bytes.Clone(k), bytes.Clone(v)) }); err != nil {
			t.Fatal(err)
		}
		if err := again.BeginReplay(s.Floor(), end+20, false); err != nil {
			t.Fatal(err)
		}
		again.EndReplay()
		if !bytes.Equal(s.Export(nil), again.Export(nil)) {
			t.Fatal("the state is another one after snapshot and restore")
		}
	})
}
