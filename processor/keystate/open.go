package keystate

// OpenAnomalies counts the anomalies that are open, by the name of their detector.
// It visits every key.
func (s *State) OpenAnomalies() map[string]int64 {
	n := map[string]int64{}
	for k := range s.keys.all {
		if k.alerts == nil {
			continue
		}
		for i := range k.set.wins {
			for j := range k.set.wins[i].dets {
				if d := &k.set.wins[i].dets[j]; d.judged && k.alerts.dets[d.alert].events.Open() {
					n[d.Name]++
				}
			}
		}
		if k.alerts.silent != nil {
			n[SilenceName]++
		}
		for i := range k.alerts.orphans {
			n[k.alerts.orphans[i].name]++
		}
	}
	return n
}

// NamesAfter lists the keys whose newest sample, folded or held, is later than t.
// It may be asked while the state is loaded.
func (s *State) NamesAfter(t int64) (names [][]byte) {
	for k := range s.keys.all {
		if k.newest() > t {
			names = append(names, k.name)
		}
	}
	return names
}
