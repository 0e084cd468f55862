package keystate

import "odradek/processor/keystate/series"

// OpenAnomalies counts the anomalies that are open, by the name of their detector.
// It visits every key.
func (s *State) OpenAnomalies() map[string]int64 {
	n := map[string]int64{}
	for k := range s.keys.All {
		if k.Alerts == nil {
			continue
		}
		for d := range k.Set.All {
			if d.Judged && k.Alerts.Detectors[d.Alert].Events.Open() {
				n[d.Name]++
			}
		}
		if k.Alerts.Silent != nil {
			n[series.SilenceName]++
		}
		for i := range k.Alerts.Orphans {
			n[k.Alerts.Orphans[i].Name]++
		}
	}
	return n
}

// NamesAfter lists the keys whose newest sample, folded or held, is later than t.
// It may be asked while the state is loaded.
func (s *State) NamesAfter(t int64) (names [][]byte) {
	for k := range s.keys.All {
		if k.Newest() > t {
			names = append(names, k.Name())
		}
	}
	return names
}
