package series

// OpenAnomalies counts the anomalies that are open, by the name of their detector, without those in shadow mode.
// It visits every key.
func (t *KeyTable) OpenAnomalies() map[string]int64 {
	n := map[string]int64{}
	for k := range t.All {
		if k.Alerts == nil {
			continue
		}
		for d := range k.Set.All {
			if !d.Judged {
				continue
			}
			if a := k.Alerts.Detectors[d.Alert].Events.Anomaly(); a != nil && !a.Shadow {
				n[d.Name]++
			}
		}
		if k.Alerts.Silent != nil {
			n[SilenceName]++
		}
		for i := range k.Alerts.Orphans {
			if o := &k.Alerts.Orphans[i]; !o.Anomaly.Shadow {
				n[o.Name]++
			}
		}
	}
	return n
}

// NamesAfter lists the keys whose newest sample, folded or held, is later than a time.
// It may be called while the state is loaded.
func (t *KeyTable) NamesAfter(time int64) (names [][]byte) {
	for k := range t.All {
		if k.Newest() > time {
			names = append(names, k.Name())
		}
	}
	return names
}
