package page

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// TestShadow compares detectors in shadow mode with live ones by hand-counted anomalies: which series and times they have
// in common, which opened in the range, and which a detector reads at all.
func TestShadow(t *testing.T) {
	b := newBed(t, func(c *Config) {
		c.Shadow = "shadow"
		for i := range c.Detectors {
			c.Detectors[i].Judged = true
		}
		c.Detectors = append(c.Detectors, Detector{Name: "new", Judged: true, Shadow: true,
			Reads: func(key []byte) bool { return string(key) != "fan" }},
			Detector{Name: "calm", Judged: true, Shadow: true}, Detector{Name: "off"})
	})
	if s := b.Shadow(&ShadowQuery{}); s.Topic != "shadow" || len(s.Detectors) != 2 {
		t.Errorf("before anything is read: %+v", s)
	}
	b.topic("anomalies", 2)
	b.topic("shadow", 3)
	id := byte(0)
	var records []kafkatest.Record
	// add adds an anomaly from one second to another; to 0: it stays open.
	add := func(topic, detector, key string, from, to int, partition int32) {
		id++
		kind := uint8(0)
		if to > 0 {
			kind = 2
		}
		r := b.anomaly(id, 1, kind, key, from, func(a *output.Anomaly) {
			a.Detector, a.Partition = detector, partition
			if a.End = b.at(from); to > 0 {
				a.End, a.EventTime = b.at(to), b.at(to)
			}
		})
		r.Topic = topic
		records = append(records, r)
	}
	add("shadow", "new", "pump-1", 100, 110, 0) // near, at its end
	add("anomalies", "near", "pump-1", 110, 120, 0)
	add("shadow", "new", "pump-2", 100, 110, 1) // level, which is open
	add("anomalies", "level", "pump-2", 90, 0, 1)
	add("shadow", "new", "pump-3", 200, 210, 0) // both
	add("anomalies", "near", "pump-3", 205, 215, 0)
	add("anomalies", "level", "pump-3", 195, 200, 0)
	add("shadow", "new", "pump-4", 300, 310, 7) // another series only, in a partition of another worker
	add("anomalies", "near", "pump-5", 300, 310, 0)
	add("shadow", "new", "pump-5", 311, 320, 0) // just too late
	add("shadow", "new", "pump-6", 10, 60, 0)   // before the range, yet found by both
	add("anomalies", "near", "pump-6", 60, 70, 0)
	add("anomalies", "near", "fan", 100, 110, 0)   // not a series of new
	add("anomalies", "new", "pump-1", 100, 110, 0) // its own, of when it was live
	add("anomalies", "silence", "pump-1", 100, 110, 0)
	add("shadow", "new", "pump-7", 5000, 5010, 0) // after the range
	add("anomalies", "near", "pump-7", 5000, 5010, 0)
	add("shadow", "new", "pump-8", 70, 0, 0) // stays open
	b.write(records...)
	q := &ShadowQuery{From: b.start.Add(time.Minute), To: b.start.Add(time.Hour),
		Held: []HeldSeries{{Topic: "in", Partition: 0, Series: 9}, {Topic: "in", Partition: 1, Series: 3}}, Limit: 4}
	var got ShadowList
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got = b.Shadow(q)
		if n := b.Shadow(&ShadowQuery{From: b.start, To: b.start.Add(24 * time.Hour)}); len(n.Detectors) == 2 && n.Detectors[1].Opened == 8 &&
			n.Detectors[1].Live[0].Opened == 1+1 && n.Detectors[1].Live[1].Opened == 5 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not read after a minute: %+v", got)
		}
	}
	days := 59. / 60 / 24
	rate := func(n int) Number { return Number(float64(n) / (12 * days)) }
	want := []ShadowDetector{
		{Detector: "calm", OnlyLive: 8, PerSeriesDay: rate(0), Live: []LiveBeside{
			{Detector: "level", Opened: 2, PerSeriesDay: rate(2), OnlyLive: 2},
			{Detector: "near", Opened: 5, PerSeriesDay: rate(5), OnlyLive: 5},
			{Detector: "new", Opened: 1, PerSeriesDay: rate(1), OnlyLive: 1}}},
		{Detector: "new", Opened: 6, PerSeriesDay: rate(5), Both: 3, OnlyShadow: 3, OnlyLive: 1, Live: []LiveBeside{
			{Detector: "level", Opened: 2, PerSeriesDay: rate(2), Both: 2, OnlyShadow: 4},
			{Detector: "near", Opened: 4, PerSeriesDay: rate(4), Both: 2, OnlyShadow: 4, OnlyLive: 1}}},
	}
	g, _ := json.Marshal(got.Detectors)
	w, _ := json.Marshal(want)
	if !bytes.Equal(g, w) || got.Loading || got.Truncated || got.Fault != "" || got.Series != 12 {
		t.Errorf("%+v\n%s\nwant\n%s", got, g, w)
	}
	var listed []string
	for _, a := range got.Anomalies {
		listed = append(listed, a.Series+" "+a.Detector+" "+a.State)
	}
	// Of those that opened in the range, the open one first, then by their ends.
	const order = "pump-8 new open, pump-5 new closed, pump-4 new closed, pump-3 new closed"
	if text := strings.Join(listed, ", "); text != order || got.Open != 1 || got.Closed != 5 {
		t.Errorf("%d open, %d closed: %s", got.Open, got.Closed, text)
	}
	if a, err := b.Anomaly(got.Anomalies[0].ID); err != nil || a.Series != "pump-8" {
		t.Errorf("the anomaly in shadow mode by its id: %+v, %v", a, err)
	}
	if none := b.Shadow(&ShadowQuery{From: q.From, To: q.To}); !math.IsNaN(float64(none.Detectors[1].PerSeriesDay)) {
		t.Errorf("a rate without series: %v", none.Detectors[1].PerSeriesDay)
	}
	usual := b.Shadow(&ShadowQuery{Held: q.Held})
	if !usual.To.After(b.start.Add(5003*time.Second)) || usual.To.Sub(usual.From) != 24*time.Hour {
		t.Errorf("the usual range is from %v to %v", usual.From, usual.To)
	}
	if l := b.Anomalies(&AnomalyQuery{Limit: 100}); l.Open+l.Closed != 10 {
		t.Errorf("%d anomalies in the list, which has none in shadow mode", l.Open+l.Closed)
	}
}
