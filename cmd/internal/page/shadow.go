package page

import (
	"math"
	"slices"
	"time"

	"odradek/processor/state/series"
)

// shadowDay is the time that a comparison is of where none is asked for.
const shadowDay = 24 * time.Hour

// Shadow implements DataSource.
func (e *Explorer) Shadow(q *ShadowQuery) ShadowList {
	e.ask()
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.comparison(q)
	out := ShadowList{
		From: timeOf(c.from), To: timeOf(c.to), Series: c.series, Detectors: []ShadowDetector{}, Topic: e.c.Shadow, Fault: e.fault,
		Loading: e.c.Shadow != "" && !e.ready, Truncated: e.store.truncated || e.shadow.truncated,
	}
	var open, closed counted
	out.Anomalies, open, closed = e.shadow.listed(c.counted, q.Limit, &e.labels)
	out.Open, out.Closed = open.anomalies, closed.anomalies
	shadow, live := c.byDetector(&e.shadow), c.byDetector(&e.store)
	all := e.c.detectors()
	for i := range all {
		d := &all[i]
		if _, there := shadow[d.Name]; d.Shadow && !there {
			shadow[d.Name] = nil
		} else if _, there := live[d.Name]; !d.Shadow && d.Judged && !there {
			live[d.Name] = nil
		}
	}
	delete(live, series.SilenceName)
	for _, name := range sorted(shadow) {
		out.Detectors = append(out.Detectors, c.beside(name, e.reads(name, all), shadow, live))
	}
	return out
}

// reads returns whether a detector reads the series of an anomaly; one that is not configured any more reads all.
func (e *Explorer) reads(detector string, all []Detector) func(*storedAnomaly) bool {
	if !slices.ContainsFunc(all, func(d Detector) bool { return d.Name == detector }) {
		return func(*storedAnomaly) bool { return true }
	}
	return func(anomaly *storedAnomaly) bool {
		d := e.c.input(anomaly.a.Topic).detector(detector)
		return d != nil && (d.Reads == nil || d.Reads(anomaly.key))
	}
}

// comparison is what the anomalies of detectors are compared in.
type comparison struct {
	from, to int64 // event time in microseconds
	series   int64
	held     map[place]bool
}

// place is a partition of an input topic.
type place struct {
	topic     string
	partition int32
}

// comparison returns the range of a query, and what rates are related to.
func (e *Explorer) comparison(q *ShadowQuery) *comparison {
	c := &comparison{held: map[place]bool{}}
	var latest time.Time
	for _, h := range q.Held {
		c.series += h.Series
		c.held[place{h.Topic, h.Partition}] = true
		if h.Watermark.After(latest) {
			latest = h.Watermark
		}
	}
	for _, s := range []*store{&e.store, &e.shadow} {
		for _, stored := range s.byID {
			if at := timeOf(stored.a.EventTime); at.After(latest) {
				latest = at
			}
		}
	}
	if latest.IsZero() {
		latest = time.Now()
	}
	to := q.To
	if to.IsZero() {
		to = latest.Add(time.Microsecond) // including it
	}
	from := q.From
	if from.IsZero() {
		from = to.Add(-shadowDay)
	}
	c.from, c.to = from.UnixMicro(), to.UnixMicro()
	return c
}

// counted reports whether an anomaly opened in the range.
func (c *comparison) counted(e *storedAnomaly) bool {
	return e.a.OpenedAt >= c.from && e.a.OpenedAt < c.to
}

// byDetector returns the anomalies of a store by detector.
func (c *comparison) byDetector(s *store) map[string][]*storedAnomaly {
	by := map[string][]*storedAnomaly{}
	for _, e := range s.byID {
		by[e.a.Detector] = append(by[e.a.Detector], e)
	}
	return by
}

// beside compares a detector in shadow mode with the live ones. Anomalies of its own before it was in shadow mode, or
// after, are no other detector's.
func (c *comparison) beside(name string, reads func(*storedAnomaly) bool, shadow, live map[string][]*storedAnomaly) ShadowDetector {
	own := shadow[name]
	out := ShadowDetector{Detector: name, Live: []LiveBeside{}}
	out.Opened, out.PerSeriesDay = c.count(own)
	var all []*storedAnomaly
	for _, other := range sorted(live) {
		if other == name {
			continue
		}
		var list []*storedAnomaly
		for _, e := range live[other] {
			if reads(e) {
				list = append(list, e)
			}
		}
		all = append(all, list...)
		l := LiveBeside{Detector: other}
		l.Opened, l.PerSeriesDay = c.count(list)
		l.Both = c.found(own, list)
		l.OnlyShadow = out.Opened - l.Both
		l.OnlyLive = l.Opened - c.found(list, own)
		out.Live = append(out.Live, l)
		out.OnlyLive += l.OnlyLive
	}
	out.Both = c.found(own, all)
	out.OnlyShadow = out.Opened - out.Both
	return out
}

// count returns the number of anomalies that opened in the range, and the rate in the held partitions, per series and day.
func (c *comparison) count(list []*storedAnomaly) (opened int, perSeriesDay Number) {
	ofHeld := 0
	for _, e := range list {
		if !c.counted(e) {
			continue
		}
		opened++
		if c.held[place{e.a.Topic, e.a.Partition}] {
			ofHeld++
		}
	}
	if c.series == 0 || c.to <= c.from {
		return opened, Number(math.NaN())
	}
	days := float64(c.to-c.from) / float64(shadowDay.Microseconds())
	return opened, Number(float64(ofHeld) / (float64(c.series) * days))
}

// found returns how many anomalies of a list that opened in the range have an event time in common with one of the others,
// of the same series, whenever that opened.
func (c *comparison) found(list, others []*storedAnomaly) (n int) {
	type series struct {
		place
		key string
	}
	idOf := func(e *storedAnomaly) series { return series{place{e.a.Topic, e.a.Partition}, string(e.key)} }
	by := map[series][]*storedAnomaly{}
	for _, e := range others {
		by[idOf(e)] = append(by[idOf(e)], e)
	}
	for _, e := range list {
		if c.counted(e) && slices.ContainsFunc(by[idOf(e)], func(o *storedAnomaly) bool {
			return e.a.Start <= o.end() && o.a.Start <= e.end()
		}) {
			n++
		}
	}
	return n
}

// end returns the event time of the anomaly's last sample; an open one goes on.
func (s *storedAnomaly) end() int64 {
	if s.closed() {
		return s.a.End
	}
	return math.MaxInt64
}

// sorted returns the names of detectors in order.
func sorted(by map[string][]*storedAnomaly) (names []string) {
	for name := range by {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
