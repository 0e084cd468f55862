package metrics

import (
	"slices"
	"sync"
	"time"

	"odradek/processor/state"
)

// Work holds what a partition has done, which is counted once it is committed.
type Work struct {
	Counts  Counts
	Held    int64   // samples that are held for order after the last record
	Samples []int64 // event times (us) of a sample of the rows, for the latency
	Recent  []RecentAnomaly
	Fetched time.Time
}

// latencyRows is the approximate number of rows of a Work whose latency is observed.
const latencyRows = 256

// Add adds the work that follows.
func (w *Work) Add(next *Work) {
	w.Held = next.Held
	w.Counts.add(&next.Counts)
	w.Recent = append(w.Recent, next.Recent...)
	if over := len(w.Recent) - MaxRecent; over > 0 {
		w.Recent = w.Recent[over:]
	}
	if len(w.Samples) < latencyRows {
		w.Samples = append(w.Samples, next.Samples...)
	}
}

// Counts is a partition's part of the accounting equation (see Metrics).
type Counts struct {
	Consumed, Bytes, Dead, Forwarded int64
	Further                          int64 // samples of records beyond the first of each
	Empty                            int64 // records with an array of no readings
	Backfilled, Unreadable           int64 // records of a backfill that no outcome counts; of these, those that cannot be read
	Aborted, Control                 int64 // input records that were skipped
	Evicted                          int64 // keys
	Early                            int64 // records released before the watermark reached them
	Fields                           FieldCounts
	Skipped                          Tally // records that are left out, by reason
	Rejected                         Tally // values that are missing because of valid or missing_if, by field
	Suspects                         Suspects
	Outcomes                         state.Counts
	Changes                          Changes
	Shadow                           Changes // of anomalies in shadow mode
	Marked                           Changes // of these in Changes, of anomalies like labelled false alarms
	Rises                            Tally   // of thresholds, tenfold, by detector
}

func (c *Counts) add(d *Counts) {
	c.Consumed += d.Consumed
	c.Further += d.Further
	c.Empty += d.Empty
	c.Bytes += d.Bytes
	c.Dead += d.Dead
	c.Forwarded += d.Forwarded
	c.Backfilled += d.Backfilled
	c.Unreadable += d.Unreadable
	c.Aborted += d.Aborted
	c.Control += d.Control
	c.Evicted += d.Evicted
	c.Early += d.Early
	for i := range c.Suspects {
		c.Suspects[i] += d.Suspects[i]
	}
	for i := range c.Outcomes {
		c.Outcomes[i] += d.Outcomes[i]
	}
	c.Skipped.add(d.Skipped)
	c.Rejected.add(d.Rejected)
	for field, n := range d.Fields {
		c.Fields.Add(field, n)
	}
	c.Rises.add(d.Rises)
	for name, n := range d.Changes {
		c.Changes.Add(name, n)
	}
	for name, n := range d.Shadow {
		c.Shadow.Add(name, n)
	}
	for name, n := range d.Marked {
		c.Marked.Add(name, n)
	}
}

// Tally has counts by name.
type Tally map[string]int64

// Add counts n more of a name.
func (t *Tally) Add(name string, n int64) {
	if *t == nil {
		*t = Tally{}
	}
	(*t)[name] += n
}

func (t *Tally) add(more Tally) {
	for name, n := range more {
		t.Add(name, n)
	}
}

// FieldCount counts values of a counter that began again, and intervals that were closed, with samples and without.
type FieldCount struct{ Resets, Closed, Empty int64 }

// FieldCounts counts by field.
type FieldCounts map[string]FieldCount

// Add counts more of a field.
func (c *FieldCounts) Add(field string, more FieldCount) {
	if *c == nil {
		*c = FieldCounts{}
	}
	n := (*c)[field]
	(*c)[field] = FieldCount{n.Resets + more.Resets, n.Closed + more.Closed, n.Empty + more.Empty}
}

// Suspects are counts of a state: held, accepted, rejected.
type Suspects [3]int64

// ChangeKinds are the kinds of anomaly.Change.
const ChangeKinds = 3

// Changes counts changes of anomalies by detector and kind.
type Changes map[string][ChangeKinds]int64

// Add counts further changes of a detector.
func (c *Changes) Add(detector string, n [ChangeKinds]int64) {
	if *c == nil {
		*c = Changes{}
	}
	have := (*c)[detector]
	for i := range n {
		have[i] += n[i]
	}
	(*c)[detector] = have
}

// RecentAnomaly is a change of an anomaly as the status page shows it.
type RecentAnomaly struct {
	Time     time.Time // event time of the change
	Kind     string
	Key      string
	Detector string
	Severity int
	Band     string
}

// MaxRecent bounds the changes that are kept for the status page.
const MaxRecent = 20

// recentAnomalies keeps the last committed changes.
type recentAnomalies struct {
	mu   sync.Mutex
	list []RecentAnomaly // oldest first
}

func (r *recentAnomalies) add(list []RecentAnomaly) {
	if len(list) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, list...)
	if over := len(r.list) - MaxRecent; over > 0 {
		r.list = slices.Delete(r.list, 0, over)
	}
}

// RecentAnomalies lists the last changes that were committed, newest first.
func (m *Metrics) RecentAnomalies() []RecentAnomaly {
	m.recent.mu.Lock()
	defer m.recent.mu.Unlock()
	list := slices.Clone(m.recent.list)
	slices.Reverse(list)
	return list
}
