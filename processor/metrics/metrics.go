// Package metrics counts what the worker does: one table of Prometheus metrics, which
// docs/metrics.md documents. It receives the numbers of partitions and cycles as Work,
// CycleStats and PartitionStatus, and does not depend on the types behind them. A FailureLog counts failures for the log.
package metrics

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"odradek/processor/kafka"
	"odradek/processor/state"
	"odradek/schemas/output"
	"odradek/schemas/registry"
)

// Metrics are the worker's own numbers, in a registry of their own. Counters
// move when a cycle is committed, never before, so that a record that is rolled
// back and read again counts once; decode_errors_total and the latencies of
// restores are the exceptions. docs/metrics.md lists them all.
//
// Everything consumed is accounted for: of every partition, summed over the life of
// the process,
//
//	consumed + further_samples + held_assigned = scored + warming_up + missing + filtered + late +
//	                           duplicate + aggregated + dead_lettered + forwarded + held + held_revoked +
//	                           held_evicted + backfilled
//
// where further_samples are the samples of a record beyond its first, and held is what waits for its turn in event time now.
//
// A nil *Metrics counts nothing.
type Metrics struct {
	Registry *prometheus.Registry

	consumed, consumedBytes, further                               *prometheus.CounterVec // topic, partition
	scored, warmingUp, missing, filtered, late, duplicate          *prometheus.CounterVec
	deadLettered, forwarded, heldAssigned, heldRevoked, lostOffset *prometheus.CounterVec
	heldEvicted, skipAborted, control, Evictions, early            *prometheus.CounterVec
	suspects, suspectsRejected, suspectsLost                       *prometheus.CounterVec
	backfilled, unreadable                                         *prometheus.CounterVec
	aggregated                                                     *prometheus.CounterVec
	resets, intervals, emptyIntervals                              *prometheus.CounterVec // topic, field

	decodeErrors  *prometheus.CounterVec // topic, reason
	skipped       *prometheus.CounterVec // topic, reason
	rejected      *prometheus.CounterVec // topic, field
	Transactions  *prometheus.CounterVec // outcome
	commitErrors  *prometheus.CounterVec // class
	rebalances    *prometheus.CounterVec // kind
	anomalies     *prometheus.CounterVec // detector, kind
	shadow        *prometheus.CounterVec // detector, kind
	marked        *prometheus.CounterVec // detector, kind
	rises         *prometheus.CounterVec // detector
	outputRecords *prometheus.CounterVec // output
	executorInfo  *prometheus.GaugeVec   // executor
	buildInfo     *prometheus.GaugeVec   // version, goversion
	settings      *prometheus.GaugeVec   // hash

	settingsLoaded, settingsTime *prometheus.GaugeVec
	cycleLimit, backpressure     *prometheus.GaugeVec

	cycleRecords, cycleBytes prometheus.Histogram

	scoresPublished, changelogRecords, changelogBytes, tasks prometheus.Counter
	batchesResent                                            prometheus.Counter

	recent recentAnomalies

	eventToScore, ingestToScore, commitDuration, restoreDuration, executeDuration *latencyHistogram

	mu         sync.Mutex
	paces      map[string]pace // by group
	partitions map[kafka.TP]*PartitionMetrics
	status     func() []PartitionStatus
	ready      func() error
	budget     int64
	registry   func() registry.Stats
	executor   func() ExecutorStats
	rate       meter
}

// PartitionMetrics are one partition's counters, resolved once.
type PartitionMetrics struct {
	Consumed, ConsumedBytes, Further                               prometheus.Counter
	Scored, WarmingUp, Missing, Filtered, Late, Duplicate          prometheus.Counter
	DeadLettered, Forwarded, HeldAssigned, HeldRevoked, LostOffset prometheus.Counter
	HeldEvicted, Aborted, Control, Evictions, Early                prometheus.Counter
	Suspects, SuspectsRejected, SuspectsLost                       prometheus.Counter
	Backfilled, BackfillUnreadable                                 prometheus.Counter
	Aggregated                                                     prometheus.Counter

	rate meter

	mu        sync.Mutex
	held      int64 // as of the last commit
	assigned  bool
	eventTime int64 // us; newest event time among the scores looked at
	ends      endTimes
	floor     int64    // replay floor as of the last commit
	next      int64    // committed offset as of the last commit
	commits   endTimes // of next, to tell how old the floor is
}

// New makes the metrics and registers them with Go's and the process's.
func New(outputs ...string) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(), partitions: map[kafka.TP]*PartitionMetrics{}, paces: map[string]pace{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, labels)
		m.Registry.MustRegister(v)
		return v
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: metricPrefix + name, Help: help}, labels)
		m.Registry.MustRegister(v)
		return v
	}
	plain := func(name, help string) prometheus.Counter {
		v := prometheus.NewCounter(prometheus.CounterOpts{Name: metricPrefix + name, Help: help})
		m.Registry.MustRegister(v)
		return v
	}
	sizes := func(name, help string, first float64) prometheus.Histogram {
		v := prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricPrefix + name, Help: help,
			Buckets: prometheus.ExponentialBuckets(first, 4, 11)})
		m.Registry.MustRegister(v)
		return v
	}
	latency := func(name, help string) *latencyHistogram {
		v := newLatencyHistogram(metricPrefix+name, help)
		m.Registry.MustRegister(v)
		return v
	}

	m.consumed = counter("records_consumed_total", "Input records of committed cycles.", "topic", "partition")
	m.consumedBytes = counter("consumed_bytes_total", "Bytes of key and value of consumed records.", "topic", "partition")
	m.further = counter("records_further_samples_total",
		"Samples of consumed records beyond the first of each (series_fields, readings_field).", "topic",
		"partition")
	m.scored = counter("records_scored_total", "Records that got a score from at least one detector.", "topic", "partition")
	m.warmingUp = counter("records_warming_up_total", "Records of series with too little history for a score.", "topic", "partition")
	m.missing = counter("records_missing_total",
		"Records without a value that every detector needs, left out by missing=skip, or without a reading.", "topic", "partition")
	m.filtered = counter("records_filtered_total", "Records whose series no detector scores.", "topic", "partition")
	m.late = counter("records_late_total",
		"Records later than the lateness allows (with 0: older than the newest of their series), sent to the late topic.", "topic",
		"partition")
	m.duplicate = counter("records_duplicate_total", "Records dropped by duplicates=drop.", "topic", "partition")
	m.aggregated = counter("records_aggregated_total", "Records that became part of an interval (every).", "topic", "partition")
	m.intervals = counter("intervals_closed_total", "Intervals with records that were closed (every).", "topic", "field")
	m.emptyIntervals = counter("intervals_empty_total", "Intervals without a record of their series (every).", "topic", "field")
	m.deadLettered = counter("records_dead_lettered_total", "Records sent to the dead-letter topic.", "topic", "partition")
	m.forwarded = counter("records_forwarded_total", "Records copied to the internal topic of re-keying.", "topic", "partition")
	m.heldAssigned = counter("records_held_assigned_total",
		"Records that were held for order in the state of a partition when it was assigned.", "topic", "partition")
	m.heldRevoked = counter("records_held_revoked_total",
		"Records that were held for order when a partition was handed over.", "topic", "partition")
	m.heldEvicted = counter("records_held_evicted_total",
		"Records that were held for order when their series was evicted.", "topic", "partition")
	m.early = counter("records_released_early_total",
		"Records that were held for order and released by max_held, before the lateness had passed.", "topic", "partition")
	m.resets = counter("value_resets_total", "Values of counters that began again: their rate is missing.", "topic", "field")
	m.skipAborted = counter("aborted_records_skipped_total",
		"Input records of aborted transactions that were skipped.", "topic", "partition")
	m.control = counter("control_records_skipped_total", "Transaction markers in the input that were skipped.", "topic", "partition")
	m.Evictions = counter("state_evictions_total",
		"Series evicted from the state by state_bytes, max_keys or the TTL.", "topic", "partition")
	m.lostOffset = counter("lost_offsets_total",
		"Offsets that retention deleted before they were read, or that were read and then lost in an unclean leader election.", "topic",
		"partition")
	m.backfilled = counter("records_backfilled_total",
		"Records from before the start of a new partition that filled windows and histories (warmup_from).", "topic", "partition")
	m.unreadable = counter("backfill_unreadable_total", "Backfilled records that could not be read; they are no dead letters.", "topic",
		"partition")
	m.suspects = counter("suspects_total",
		"Records that were held because their event time is further past the newest of their partition than max_jump.", "topic",
		"partition")
	m.suspectsRejected = counter("suspects_rejected_total",
		"Suspects that the next records disagreed with: dead letters.", "topic", "partition")
	m.suspectsLost = counter("suspects_lost_total",
		"Suspects that retention deleted before the next owner of the partition could read them again.", "topic", "partition")

	m.skipped = counter("records_skipped_total", "Records that are left out, by reason: tombstone, filtered, unmapped.", "topic", "reason")
	m.rejected = counter("values_rejected_total",
		"Values that are missing because of valid or missing_if, or because they are no numbers in an array of readings.", "topic", "field")
	m.decodeErrors = counter("decode_errors_total",
		"Records that could not be read, by reason; one that is read again after a rollback counts again.", "topic", "reason")
	m.Transactions = counter("transactions_total", "Commit cycles by outcome: committed, aborted.", "outcome")
	m.commitErrors = counter("commit_errors_total", "Failed commit cycles by class of error.", "class")
	m.rebalances = counter("rebalances_total", "Partitions assigned, revoked or lost, counted by event.", "kind")
	m.anomalies = counter("anomalies_total", "Changes of anomalies published by committed cycles: open, update, close.", "detector", "kind")
	m.shadow = counter("shadow_anomalies_total", "The same of detectors in shadow mode, published to a topic of their own.",
		"detector", "kind")
	m.marked = counter("marked_anomalies_total", "Anomalies of anomalies_total that are like labelled false alarms.", "detector", "kind")
	m.rises = counter("threshold_rises_total", "Thresholds of series that have risen tenfold within their history of scores.", "detector")
	m.executorInfo = gauge("executor_info", "1 for the executor in use.", "executor")
	m.buildInfo = gauge("build_info", "1 for this build.", "version", "goversion")
	m.settings = gauge("settings_info", "1 for the settings in effect, by a hash of those that workers of a group share.", "hash")
	m.settingsLoaded = gauge("settings_last_reload_successful", "Whether the last change of the settings could be taken up.")
	m.settingsTime = gauge("settings_last_reload_success_timestamp_seconds", "When settings were last taken up, at the start or later.")

	m.batchesResent = plain("batches_resent_total",
		"Batches of output or state that a broker could not take when they came, so that they were sent again.")
	m.outputRecords = counter("output_records_total", "Records written to an output topic by committed cycles.", "output")
	for _, name := range outputs {
		m.outputRecords.WithLabelValues(name)
	}
	m.scoresPublished = plain("scores_published_total", "Records written to the scores topic by committed cycles.")
	m.changelogRecords = plain("changelog_records_total", "Records written to changelogs by committed cycles.")
	m.changelogBytes = plain("changelog_bytes_total", "Bytes written to changelogs by committed cycles, before compression.")

	m.tasks = plain("executor_tasks_total",
		"Detector tasks executed in batches, also in a restore and in cycles that were rolled back.")

	m.cycleRecords = sizes("cycle_records", "Input records of a committed cycle.", 1)
	m.cycleBytes = sizes("cycle_bytes", "Bytes written by a committed cycle.", 256)

	m.cycleLimit = gauge("cycle_limit_bytes", "Size at which a cycle is full, by the brokers' pace; 65,536 is the smallest.")
	m.backpressure = gauge("backpressure", "1 if the lag has grown for a minute though cycles are as small as they get.")

	m.eventToScore = latency("event_to_score_seconds", "Event time of a scored record to its score's commit; sampled.")
	m.ingestToScore = latency("ingest_to_score_seconds", "Receipt of a chunk of records to the commit of its results.")
	m.commitDuration = latency("commit_duration_seconds", "Time of a commit: produce, offsets and end of transaction.")
	m.executeDuration = latency("execute_duration_seconds", "Time of a batch of tasks in the executor.")
	m.restoreDuration = latency("restore_duration_seconds", "Time to restore a partition's state.")

	m.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		(*statusCollector)(m))
	return m
}

const metricPrefix = "odradek_"

// Watch takes the gauges of the assigned partitions from status at each scrape.
func (m *Metrics) Watch(status func() []PartitionStatus) {
	m.mu.Lock()
	m.status = status
	m.mu.Unlock()
}

// SetBudget sets the gauge of Config.StateBytes; 0: there is none.
func (m *Metrics) SetBudget(bytes int64) {
	m.mu.Lock()
	m.budget = bytes
	m.mu.Unlock()
}

// WatchReady takes from notReady at each scrape whether the worker does its work.
func (m *Metrics) WatchReady(notReady func() error) {
	m.mu.Lock()
	m.ready = notReady
	m.mu.Unlock()
}

// WatchRegistry takes the schema registry's counters from stats at each scrape.
func (m *Metrics) WatchRegistry(stats func() registry.Stats) {
	m.mu.Lock()
	m.registry = stats
	m.mu.Unlock()
}

// SetInfo sets the info metrics.
func (m *Metrics) SetInfo(version, goVersion, executor string) {
	m.buildInfo.WithLabelValues(version, goVersion).Set(1)
	m.executorInfo.WithLabelValues(executor).Set(1)
}

// SettingsLoaded notes that settings with a hash are in effect from now on.
func (m *Metrics) SettingsLoaded(hash string, at time.Time) {
	m.settings.Reset()
	m.settings.WithLabelValues(hash).Set(1)
	m.settingsLoaded.WithLabelValues().Set(1)
	m.settingsTime.WithLabelValues().Set(float64(at.UnixMilli()) / 1e3)
}

// SettingsRefused notes that changed settings were not taken up.
func (m *Metrics) SettingsRefused() { m.settingsLoaded.WithLabelValues().Set(0) }

// Partition returns the counters of a partition. They outlive its assignment,
// so that a partition that comes back continues counting.
func (m *Metrics) Partition(tp kafka.TP) *PartitionMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	pm := m.partitions[tp]
	if pm == nil {
		counter := func(v *prometheus.CounterVec) prometheus.Counter {
			return v.WithLabelValues(tp.Topic, strconv.Itoa(int(tp.Partition)))
		}
		pm = &PartitionMetrics{
			Consumed: counter(m.consumed), ConsumedBytes: counter(m.consumedBytes), Further: counter(m.further),
			Scored: counter(m.scored), WarmingUp: counter(m.warmingUp), Missing: counter(m.missing), Filtered: counter(m.filtered),
			Late: counter(m.late), Duplicate: counter(m.duplicate), DeadLettered: counter(m.deadLettered), Forwarded: counter(m.forwarded),
			HeldAssigned: counter(m.heldAssigned), HeldRevoked: counter(m.heldRevoked), LostOffset: counter(m.lostOffset),
			HeldEvicted: counter(m.heldEvicted), Aborted: counter(m.skipAborted), Control: counter(m.control),
			Evictions: counter(m.Evictions), Early: counter(m.early),
			Suspects: counter(m.suspects), SuspectsRejected: counter(m.suspectsRejected), SuspectsLost: counter(m.suspectsLost),
			Backfilled: counter(m.backfilled), BackfillUnreadable: counter(m.unreadable),
			Aggregated: counter(m.aggregated),
		}
		m.partitions[tp] = pm
	}
	return pm
}

// Rate returns the records consumed per second, all partitions together, over the
// last ten full seconds.
func (m *Metrics) Rate() float64 { return m.rate.rate(time.Now()) }

// Rate returns the records of the partition consumed per second.
func (pm *PartitionMetrics) Rate() float64 { return pm.rate.rate(time.Now()) }

// EventToScore returns a quantile of the latency from event time to commit.
func (m *Metrics) EventToScore(q float64) time.Duration { return m.eventToScore.quantile(q) }

// IngestToScore returns a quantile of the latency from receipt to commit.
func (m *Metrics) IngestToScore(q float64) time.Duration { return m.ingestToScore.quantile(q) }

// CycleStats counts what a committed cycle has written.
type CycleStats struct {
	Records, Bytes                   int            // of the input; of all that was written, before compression
	Outputs                          map[string]int // records by output
	ChangelogRecords, ChangelogBytes int
}

// Committed counts a cycle that was committed in the given time.
func (m *Metrics) Committed(s CycleStats, took time.Duration) {
	if m == nil {
		return
	}
	m.Transactions.WithLabelValues("committed").Inc()
	m.cycleRecords.Observe(float64(s.Records))
	m.cycleBytes.Observe(float64(s.Bytes))
	var commit Latency
	commit.Observe(took.Microseconds())
	m.commitDuration.add(&commit)
	for output, n := range s.Outputs {
		m.outputRecords.WithLabelValues(output).Add(float64(n))
	}
	m.scoresPublished.Add(float64(s.Outputs["scores"]))
	m.changelogRecords.Add(float64(s.ChangelogRecords))
	m.changelogBytes.Add(float64(s.ChangelogBytes))
}

// Worked counts a partition's work, which is committed up to the offset next, with the
// replay floor at floor and the log's end at end.
func (m *Metrics) Worked(tp kafka.TP, w *Work, floor, next, end int64) {
	if m == nil {
		return
	}
	now := time.Now()
	pm, n := m.Partition(tp), &w.Counts
	add := func(c prometheus.Counter, n int64) {
		if n > 0 {
			c.Add(float64(n))
		}
	}
	add(pm.Consumed, n.Consumed)
	add(pm.ConsumedBytes, n.Bytes)
	add(pm.Further, n.Further)
	add(pm.DeadLettered, n.Dead)
	add(pm.Forwarded, n.Forwarded)
	add(pm.Scored, n.Outcomes[state.Scored])
	add(pm.WarmingUp, n.Outcomes[state.WarmingUp])
	add(pm.Missing, n.Outcomes[state.Missing]+n.Empty)
	add(pm.Filtered, n.Outcomes[state.Filtered])
	add(pm.Late, n.Outcomes[state.Late])
	add(pm.Duplicate, n.Outcomes[state.Duplicate])
	add(pm.Aggregated, n.Outcomes[state.Aggregated])
	add(pm.HeldEvicted, n.Outcomes[state.Evicted])
	add(pm.Backfilled, n.Backfilled+n.Outcomes[state.Backfilled])
	add(pm.BackfillUnreadable, n.Unreadable)
	add(pm.Aborted, n.Aborted)
	add(pm.Control, n.Control)
	add(pm.Evictions, n.Evicted)
	add(pm.Early, n.Early)
	add(pm.Suspects, n.Suspects[0])
	add(pm.SuspectsRejected, n.Suspects[2])
	tally := func(to *prometheus.CounterVec, counts Tally) {
		for name, n := range counts {
			to.WithLabelValues(tp.Topic, name).Add(float64(n))
		}
	}
	tally(m.skipped, n.Skipped)
	tally(m.rejected, n.Rejected)
	for field, n := range n.Fields {
		for _, c := range []struct {
			counter *prometheus.CounterVec
			n       int64
		}{{m.resets, n.Resets}, {m.intervals, n.Closed}, {m.emptyIntervals, n.Empty}} {
			if c.n > 0 {
				c.counter.WithLabelValues(tp.Topic, field).Add(float64(c.n))
			}
		}
	}
	for detector, n := range n.Rises {
		m.rises.WithLabelValues(detector).Add(float64(n))
	}
	m.changed(w)
	m.rate.add(now, n.Consumed)
	pm.rate.add(now, n.Consumed)

	var newest int64
	var event, ingest Latency
	for _, t := range w.Samples {
		event.Observe(now.UnixMicro() - t)
		newest = max(newest, t)
	}
	m.eventToScore.add(&event)
	if n.Consumed > 0 {
		ingest.ObserveN(now.Sub(w.Fetched).Microseconds(), uint64(n.Consumed))
		m.ingestToScore.add(&ingest)
	}
	pm.mu.Lock()
	pm.held = w.Held // not heldNow: the state may be ahead of what is committed
	pm.eventTime = max(pm.eventTime, newest)
	pm.ends.add(now, end)
	pm.floor, pm.next = floor, next
	pm.commits.add(now, next)
	pm.mu.Unlock()
}

// changed counts the changes of anomalies of a partition's work.
func (m *Metrics) changed(w *Work) {
	count := func(to *prometheus.CounterVec, changes Changes) {
		for detector, counts := range changes {
			for kind, n := range counts {
				if n > 0 {
					to.WithLabelValues(detector, output.AnomalyKinds[kind]).Add(float64(n))
				}
			}
		}
	}
	count(m.anomalies, w.Counts.Changes)
	count(m.shadow, w.Counts.Shadow)
	count(m.marked, w.Counts.Marked)
	m.recent.add(w.Recent)
}

// Resent counts batches of a cycle that were sent again.
func (m *Metrics) Resent(n int64) {
	if m != nil {
		m.batchesResent.Add(float64(n))
	}
}

// pace is how fast brokers take the output of a processor.
type pace struct {
	limit        int // size at which cycles are full
	backpressure bool
}

// Paced sets the size at which the cycles of a group are full, and whether brokers take less than its input brings. Of several
// groups the metrics show the slowest.
func (m *Metrics) Paced(group string, limit int, backpressure bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paces[group] = pace{limit, backpressure}
	on := 0.0
	for _, p := range m.paces {
		limit = min(limit, p.limit)
		if p.backpressure {
			on = 1
		}
	}
	m.cycleLimit.WithLabelValues().Set(float64(limit))
	m.backpressure.WithLabelValues().Set(on)
}

// Aborted counts a cycle whose commit failed or has an unknown outcome.
func (m *Metrics) Aborted(err error) {
	if m == nil {
		return
	}
	m.Transactions.WithLabelValues("aborted").Inc()
	m.commitErrors.WithLabelValues(strings.ReplaceAll(kafka.ClassOf(err).String(), " ", "_")).Inc()
}

// Executed counts a batch of tasks.
func (m *Metrics) Executed(tasks int, took time.Duration) {
	if m == nil {
		return
	}
	var l Latency
	l.Observe(took.Microseconds())
	m.executeDuration.add(&l)
	m.tasks.Add(float64(tasks))
}

// LostSuspects counts suspects that a restore has not found.
func (m *Metrics) LostSuspects(tp kafka.TP, n int) {
	if m != nil {
		m.Partition(tp).SuspectsLost.Add(float64(n))
	}
}

// DeadLetters counts n records that could not be read, before their commit.
func (m *Metrics) DeadLetters(tp kafka.TP, reason string, n int64) {
	if m == nil {
		return
	}
	m.decodeErrors.WithLabelValues(tp.Topic, reason).Add(float64(n))
}

// Restored counts a partition whose state was restored, with its number of held samples.
func (m *Metrics) Restored(tp kafka.TP, held int64, took time.Duration) {
	if m == nil {
		return
	}
	var l Latency
	l.Observe(took.Microseconds())
	m.restoreDuration.add(&l)
	pm := m.Partition(tp)
	pm.mu.Lock()
	defer pm.mu.Unlock()
	if pm.assigned { // restored again: what was counted as held goes out, what is there comes in
		pm.HeldRevoked.Add(float64(pm.held))
	}
	pm.HeldAssigned.Add(float64(held))
	pm.held, pm.assigned, pm.ends, pm.commits = held, true, endTimes{}, endTimes{}
	pm.floor, pm.next = 0, 0
}

// DropPartition ends the counts of a partition that went to another member.
func (m *Metrics) DropPartition(tp kafka.TP) {
	if m == nil {
		return
	}
	pm := m.Partition(tp)
	pm.mu.Lock()
	defer pm.mu.Unlock()
	if pm.assigned {
		pm.HeldRevoked.Add(float64(pm.held))
		pm.held, pm.assigned = 0, false
	}
}

// OffsetLost counts n offsets that were deleted unread.
func (m *Metrics) OffsetLost(tp kafka.TP, n int64) {
	if m == nil {
		return
	}
	m.Partition(tp).LostOffset.Add(float64(max(n, 0)))
}

// Rebalanced counts an event of the group: assigned, revoked or lost.
func (m *Metrics) Rebalanced(kind string) {
	if m == nil {
		return
	}
	m.rebalances.WithLabelValues(kind).Inc()
}

// endTimes records when which end of a partition was seen, about once a
// second, to tell how old the lag is.
type endTimes struct {
	at []endTime
}

type endTime struct {
	t      time.Time
	offset int64
}

const maxEndTimes = 3600

func (e *endTimes) add(now time.Time, end int64) {
	if n := len(e.at); n > 0 && (now.Sub(e.at[n-1].t) < time.Second || e.at[n-1].offset >= end) {
		return
	}
	if len(e.at) >= maxEndTimes { // thin out: half the resolution for twice the time
		for i := range len(e.at) / 2 {
			e.at[i] = e.at[2*i]
		}
		e.at = e.at[:len(e.at)/2]
	}
	e.at = append(e.at, endTime{now, end})
}

// lag returns the time since the record after the committed offset was first seen; 0 without lag. It is at most
// the time since the assignment.
func (e *endTimes) lag(now time.Time, committed, end int64) time.Duration {
	i := 0
	for i < len(e.at) && e.at[i].offset <= committed {
		i++
	}
	e.at = append(e.at[:0], e.at[i:]...)
	switch {
	case end <= committed:
		return 0
	case len(e.at) == 0:
		e.at = append(e.at, endTime{now, end})
		return 0
	}
	return now.Sub(e.at[0].t)
}
